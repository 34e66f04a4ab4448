//go:build faults

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/faults/check"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// as returns the servers with a client that has the token of an owner.
func (f *fleet) as(owner string) *process {
	f.t.Helper()
	through := httpClient
	url := "http://" + f.site.addr + "/"
	if f.cluster != nil {
		through, url = &http.Client{Transport: f.cluster.lb}, "http://"+f.cluster.addrs[0]+"/"
	}
	c, err := client.New(client.Config{URL: url, Token: owner, HTTPClient: through, Reconnects: 200})
	if err != nil {
		f.t.Fatal(err)
	}
	return &process{t: f.t, client: c, log: new(processLog)}
}

// sendAs creates a task of an owner with a webhook.
func (f *fleet) sendAs(p *process, text string, c *a2a.MessageSendConfiguration) error {
	event, err := p.client.Send(f.t.Context(), client.SendParams{Message: client.Text(text), Configuration: c})
	if err == nil && event.(*a2a.Task).ID == "" {
		err = errors.New("no task")
	}
	return err
}

// TestHealthyWebhookIsNotDelayedByOthers delivers to a healthy endpoint while others keep their requests. No attempt to
// the dead endpoint ends before the test does, nor the flood, so an event that waited for one of them would not arrive.
func TestHealthyWebhookIsNotDelayedByOthers(t *testing.T) {
	parallel(t)
	onBoth(t, func(f *fleet) {
		healthy, flooding, dead := f.as("healthy"), f.as("flooding"), f.as("dead")
		flooded, silence := newReceiver(f.t), newReceiver(f.t)
		over, end := context.WithCancel(f.t.Context())
		defer end() // before the receivers wait for their requests
		silence.policy = func(*delivery) answer {
			<-over.Done()
			return answer{cut: true}
		}
		var ends atomic.Int32
		flooded.policy = func(d *delivery) answer {
			if d.Final && ends.Add(1) <= 3 { // some tasks keep a slot of the endpoint
				<-over.Done()
			}
			return answer{pause: 10 * time.Millisecond}
		}
		measure := func() []time.Duration {
			hooks := make(map[string]bool)
			for range 25 * long(f.t) {
				c := f.r.inline()
				hooks[c.PushNotificationConfig.ID] = true
				if err := f.sendAs(healthy, "chunks 5 2ms", c); err != nil {
					f.t.Fatal(err)
				}
				time.Sleep(40 * time.Millisecond)
			}
			var all []time.Duration
			await.Success(f.t, func() error {
				if all = f.r.latencies(hooks); len(all) < 12*len(hooks) {
					return fmt.Errorf("%d tasks have delivered %d events", len(hooks), len(all))
				}
				return nil
			})
			return all
		}
		many := func(p *process, text string, r *receiver) {
			for range 300 * long(f.t) {
				if err := f.sendAs(p, text, r.inline()); err != nil {
					f.t.Errorf("send: %v", err)
				}
			}
		}
		alone := measure() // the endpoint has succeeded, so it does not wait for those that have not
		many(dead, "work 1ms", silence)
		await.True(f.t, "the dead endpoint has requests", func() bool { return silence.inProgress() > 0 })
		besideDead := measure()
		var wg sync.WaitGroup
		wg.Go(func() { many(flooding, "chunks 10 0ms", flooded) })
		await.True(f.t, "the flood is delivered", func() bool { _, n, _ := flooded.count(); return n > 0 })
		besideFlood := measure()
		wg.Wait()
		_, deadEvents, _ := silence.count()
		_, flood, _ := flooded.count()
		f.t.Logf("events of a healthy webhook arrive after p50 %s p99 %s alone, p50 %s p99 %s with a dead endpoint, p50 %s p99 %s with that and a flood (%d events)",
			part(alone, 0.5), part(alone, 0.99), part(besideDead, 0.5), part(besideDead, 0.99), part(besideFlood, 0.5), part(besideFlood, 0.99), flood)
		if deadEvents > 0 || silence.inProgress() == 0 {
			f.t.Errorf("the dead endpoint accepted %d events and has %d requests, want none and some", deadEvents, silence.inProgress())
		}
	}, "-owner", "healthy", "-owner", "flooding", "-owner", "dead", "-webhook-timeout", "20m", "-webhook-lease", "1h")
}

// The rate of claims with a backlog is measured by bench/cmd/compare.
// The bound on memory is four times the usual use, so other tests may run at the same time.
func TestWebhookBacklogUsesLittleMemory(t *testing.T) {
	parallel(t)
	const mib = 1 << 20
	f := onSQLite(t, "-queued", "100000")
	f.r.read = nil
	idle := peakMemory(t, f.replicas[0].cmd.Process.Pid)
	f.r.close()
	tasks, most, text := 1000, int64(220), "chunks 4 0ms"
	if long(t) > 1 {
		tasks, most, text = 2000, 400, "chunks 24 0ms" // some 100,000 events
	}
	f.load(t.Context(), 8, tasks/8, text)
	for _, s := range f.sends.sent {
		if s.id == "" {
			t.Fatal("a message was not taken")
		}
	}
	ids := f.ids()
	waiting := peakMemory(t, f.replicas[0].cmd.Process.Pid)
	started := time.Now()
	f.r.open()
	f.drained(ids, time.Duration(long(t))*await.Limit)
	took := f.r.last().Sub(started)
	_, events, _ := f.r.count()
	after := peakMemory(t, f.replicas[0].cmd.Process.Pid)
	t.Logf("peak memory: %d MiB idle, %d MiB with %d events of %d tasks pending, %d MiB when they were delivered, %s after their endpoint was back",
		idle/mib, waiting/mib, events, tasks, after/mib, took)
	if after > most*mib {
		t.Errorf("a backlog of %d events needs %d MiB, want at most %d", events, after/mib, most)
	}
	wantNoneDead(t, f.prove(ids))
}

// loadDuring applies load with webhooks while hurt injects a fault in the database. No event may
// be lost or delivered out of order.
func (f *fleet) loadDuring(hurt func()) *check.Report {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	f.pace = 100 * time.Millisecond
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		f.load(ctx, 3, 1<<20, hooked...)
	}()
	time.Sleep(300 * time.Millisecond)
	hurt()
	time.Sleep(300 * time.Millisecond)
	cancel()
	<-loaded
	report := f.finish(f.ids(), await.Limit)
	wantNoneDead(f.t, report)
	return report
}

func TestWebhooksWhileConnectionsToTheDatabaseAreTerminated(t *testing.T) {
	parallel(t)
	db := private(t, pgtest.Config{})
	f := onPostgres(t, db.URL(), "-command-timeout", "3s", "-pool-timeout", "2s", "-retry-delay", "100ms")
	f.r.zombies = true // an interrupted commit may take effect after its lease has ended
	f.loadDuring(func() {
		for range 15 * long(t) {
			const text = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`
			if err := execute(t.Context(), f.cluster.db, text); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
}

func TestWebhooksWhileTheDatabaseRestarts(t *testing.T) {
	parallel(t)
	db := private(t, pgtest.Config{Fsync: true})
	f := onPostgres(t, db.URL(), "-command-timeout", "3s", "-pool-timeout", "2s", "-retry-delay", "100ms")
	f.r.zombies = true
	f.loadDuring(func() {
		for round := range 2 * long(t) {
			time.Sleep(500 * time.Millisecond)
			if err := db.Stop(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(500+round%2*2500) * time.Millisecond)
			if err := db.Start(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestWebhooksOnFullDisk(t *testing.T) {
	parallel(t)
	f := &fleet{t: t, r: newReceiver(t), site: newSite(t, webhookArgs()...)}
	d := f.site.startOnSmallDisk("40m")
	f.replicas, f.any = []*process{d.process}, d.process
	f.pace = 50 * time.Millisecond
	f.load(t.Context(), 2, 5, "chunks 50 20ms", "steps 10 50ms")
	requests, _, _ := f.r.count()
	free := d.fill()
	taken := d.sendUntilRefused(1)
	time.Sleep(1500 * time.Millisecond) // the delivery cannot be recorded
	free()
	ids := f.ids()
	for _, id := range taken {
		wantState(t, d.awaitEnd(id), a2a.StateCompleted)
	}
	took := f.drained(ids, await.Limit)
	after, _, again := f.r.count()
	t.Logf("%d requests before the disk was full, %d since, %d of them again; nothing is pending %s after there was space", requests, after-requests, again, took)
	f.r.learnAll(f.any)
	f.proveOnDisk(d)
}

// proveOnDisk is prove for a disk that exists only as long as its server.
func (f *fleet) proveOnDisk(d *smallDisk) {
	f.t.Helper()
	f.site.proveOnDisk(d)
	report, err := check.Dir(context.Background(), f.site.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	f.r.prove(report)
	f.r.summary()
	wantNoneDead(f.t, report)
}

func TestWebhooksWhileDatabaseDiskIsFull(t *testing.T) {
	parallel(t)
	db, disk := onDisk(t, "160m")
	f := onPostgres(t, db.URL(), shortTimeouts...)
	f.r.zombies = true
	ids := make(map[string]bool)
	d := &smallDisk{&process{t: t}, disk, true}
	report := func() *check.Report {
		f.load(t.Context(), 3, 4, "chunks 50 20ms", "steps 10 50ms")
		free := d.fill()
		codes := f.cluster.sendWhileFull(3*time.Second, ids)
		free()
		t.Logf("answers while the disk was full: %v", codes)
		if err := execute(t.Context(), f.cluster.db, "SELECT 1"); err != nil {
			t.Logf("the database does not live on: %v", err)
			_ = db.Stop()
			if err := db.Start(); err != nil {
				t.Fatal(err)
			}
		}
		listed := f.ids()
		f.cluster.awaitAll(ids)
		for id := range ids {
			listed[id] = true
		}
		return f.finish(listed, await.Limit)
	}()
	wantNoneDead(t, report)
}
