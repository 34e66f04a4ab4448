//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/faults/check"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// fleet is one server on SQLite or three on PostgreSQL, and the receiver of their webhooks.
type fleet struct {
	t *testing.T
	r *receiver
	// any sends each request to the next running server in turn.
	any      *process
	replicas []*process
	site     *site
	cluster  *cluster // nil if there is one server

	// pace is the pause of each sender of load after a message.
	pace  time.Duration
	sends acknowledged
	mu    sync.Mutex
	late  []laneName // webhooks that a server acknowledged after their tasks had started
}

// webhookArgs are flags that allow the address of the receiver, and short leases so that servers
// detect the end of another quickly. A machine that pauses for a second or two loses neither a
// lease nor an attempt.
func webhookArgs(more ...string) []string {
	return append([]string{
		"-webhook-allow", "127.0.0.1/32", "-webhook-timeout", "5s", "-webhook-lease", "5s", "-webhook-per-minute", "1000000",
		"-lease", "5s", "-attempts", "100", "-concurrency", "32",
	}, more...)
}

// onBoth runs a test on SQLite and on PostgreSQL.
func onBoth(t *testing.T, test func(f *fleet), args ...string) {
	t.Run("sqlite", func(t *testing.T) {
		parallel(t)
		test(onSQLite(t, args...))
	})
	t.Run("postgres", func(t *testing.T) {
		parallel(t)
		test(onPostgres(t, pgtest.URL(t), args...))
	})
}

func onSQLite(t *testing.T, args ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, r: newReceiver(t), site: newSite(t, webhookArgs(args...)...)}
	f.replicas = []*process{f.site.start()}
	f.any = f.replicas[0]
	f.r.read = f.read
	return f
}

func onPostgres(t *testing.T, db string, args ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, r: newReceiver(t)}
	f.cluster = newCluster(t, db, webhookArgs(args...)...)
	f.site, f.replicas, f.any = f.cluster.site, f.cluster.replicas, f.cluster.any
	f.r.read = f.read
	return f
}

func (f *fleet) read(ctx context.Context, id string) (*a2a.Task, error) {
	return f.any.client.Task(ctx, a2a.TaskQueryParams{ID: id})
}

func (f *fleet) kill(i int) { f.replicas[i].kill() }

func (f *fleet) start(i int) {
	f.t.Helper()
	if f.cluster != nil {
		f.cluster.start(i, f.cluster.db)
		return
	}
	f.replicas[i] = f.site.start()
}

// prove stops the servers, and checks the data that they and the receiver have.
func (f *fleet) prove(ids map[string]bool) *check.Report {
	f.t.Helper()
	var report *check.Report
	if f.cluster != nil {
		report = f.cluster.prove(ids)
	} else {
		f.kill(0)
		report = f.site.prove()
	}
	stored := make(map[laneName]bool)
	for _, l := range report.Lanes {
		stored[laneName{l.Webhook.Task.ID, l.Webhook.ID}] = true
	}
	for _, s := range f.sends.sent {
		if hook := s.config.PushNotificationConfig.ID; s.id != "" && !stored[laneName{s.id, hook}] && !f.r.isDeleted(hook) {
			f.t.Errorf("webhook %s of task %s was acknowledged and is lost", hook, s.id)
		}
	}
	for _, name := range f.late {
		if !stored[name] && !f.r.isDeleted(name.hook) {
			f.t.Errorf("webhook %s of task %s was acknowledged and is lost", name.hook, name.task)
		}
	}
	f.r.prove(report)
	f.r.summary()
	return report
}

// wantNoneDead asserts that there are no dead letters.
func wantNoneDead(t *testing.T, report *check.Report) {
	t.Helper()
	for _, l := range report.Lanes {
		if len(l.Dead) > 0 {
			t.Errorf("webhook %s of task %s has %d dead letters: %v", l.Webhook.ID, l.Webhook.Task.ID, len(l.Dead), l.Dead)
		}
	}
}

// hooked are texts of tasks with webhooks: they write chunks, run steps or ask for input.
var hooked = []string{"chunks 8 10ms", "steps 3 20ms", "ask", "work 50ms", "chunks 20 2ms"}

// load sends tasks with webhooks until ctx is done, or a number of tasks per sender. It registers
// more webhooks for some of them while they run.
func (f *fleet) load(ctx context.Context, senders, most int, texts ...string) {
	var wg sync.WaitGroup
	for n := range senders {
		wg.Go(func() {
			for i := n; ctx.Err() == nil && i-n < most; i++ {
				s := sentTask{message: withIDs(texts[i%len(texts)]), config: f.r.inline()}
				err := s.send(f.any)
				f.sends.add(s)
				if err == nil {
					f.more(ctx, &s, i)
				}
				time.Sleep(max(f.pace, 20*time.Millisecond))
			}
		})
	}
	wg.Wait()
}

// more registers another webhook for one in three tasks. If the task waits for input, it sends a
// message, which registers one more.
func (f *fleet) more(ctx context.Context, s *sentTask, i int) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if i%3 == 0 {
		if id, err := f.r.register(ctx, f.any, s.id); err == nil {
			f.mu.Lock()
			f.late = append(f.late, laneName{s.id, id})
			f.mu.Unlock()
		}
	}
	if s.message.Text() == "ask" {
		m := client.Text("steps 2 5ms")
		m.TaskID = s.id
		c := f.r.add()
		f.r.note(c.ID, func(h *hook) { h.after = m.ID })
		_, _ = f.any.client.Send(ctx, client.SendParams{Message: m, Configuration: &a2a.MessageSendConfiguration{PushNotificationConfig: c}})
	}
}

// ids repeats all sent messages, so that each is known to be accepted, waits for the tasks to
// end, and returns their ids.
func (f *fleet) ids() map[string]bool {
	f.t.Helper()
	ids := f.sends.repeatAll(f.any)
	ctx, cancel := context.WithTimeout(f.t.Context(), await.Limit)
	defer cancel()
	each(keys(ids), func(id string) {
		if err := follow(ctx, f.any.client, id); err != nil {
			f.t.Errorf("follow task %s: %v", id, err)
		}
	})
	return ids
}

func keys(set map[string]bool) (list []string) {
	for key := range set {
		list = append(list, key)
	}
	return list
}

// drained waits until the webhooks of the tasks have no undelivered events, and returns the time
// that this took.
func (f *fleet) drained(ids map[string]bool, within time.Duration) time.Duration {
	f.t.Helper()
	started := time.Now()
	each(keys(ids), func(id string) {
		var last error
		for {
			hooks, err := f.any.client.ListWebhooks(f.t.Context(), id)
			if last = err; err == nil {
				for _, h := range hooks {
					if h.Config.Delivery.Pending {
						last = fmt.Errorf("webhook %s of task %s: %+v", h.Config.ID, id, *h.Config.Delivery)
					}
				}
			}
			if last == nil || time.Since(started) > within {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if last != nil {
			f.t.Errorf("after %s: %v", within, last)
		}
	})
	return time.Since(started)
}

// finish waits until all events are delivered, and checks the result.
func (f *fleet) finish(ids map[string]bool, within time.Duration) *check.Report {
	f.t.Helper()
	took := f.drained(ids, within)
	f.t.Logf("%d tasks; nothing is pending %s after the last ended", len(ids), took.Round(time.Millisecond))
	f.r.learnAll(f.any)
	return f.prove(ids)
}
