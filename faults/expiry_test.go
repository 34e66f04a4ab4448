//go:build faults

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/faults/check"
	"github.com/holdfast-dev/holdfast/internal/await"
)

func TestServersAreKilledWhileTasksExpire(t *testing.T) {
	parallel(t)
	onBoth(t, func(f *fleet) {
		f.r.read = nil // the task may be deleted when an event is delivered again
		unreachable := newReceiver(f.t)
		unreachable.close()
		kept := f.sendKept(unreachable)
		ctx, cancel := context.WithCancel(f.t.Context())
		defer cancel()
		var load sync.WaitGroup
		for n := range 6 {
			load.Go(func() { f.sendExpiring(ctx, n) })
		}
		random, removed := seed(f.t), make(map[*process]int64)
		for range 4 * long(f.t) {
			i := f.removing(removed)
			time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
			f.kill(i)
			f.start(i)
		}
		cancel()
		load.Wait()
		f.awaitExpired()
		f.wantKept(kept)
		f.wantOnly(kept)
		f.t.Logf("%d sends, %d of them acknowledged", len(f.sends.sent), f.sends.answered())
	}, "-lease", "1s", "-retention", "completed=1s,contexts=1s")
}

// sendKept starts tasks that must not expire, because they do not finish or have undelivered
// webhook events, and returns their states.
func (f *fleet) sendKept(unreachable *receiver) map[string]a2a.TaskState {
	f.t.Helper()
	kept := make(map[string]a2a.TaskState)
	send := func(text string, c *a2a.MessageSendConfiguration, state a2a.TaskState) {
		s := sentTask{message: withIDs(text), config: c}
		if err := s.send(f.any); err != nil {
			f.t.Fatal(err)
		}
		kept[s.id] = state
	}
	for range 4 {
		send("ask", f.r.inline(), a2a.StateInputRequired)
		send("until the test ends", f.r.inline(), a2a.StateWorking)
		send("work 1ms", unreachable.inline(), a2a.StateCompleted)
	}
	return kept
}

// sendExpiring sends tasks with webhooks that finish at once, until ctx is done.
func (f *fleet) sendExpiring(ctx context.Context, n int) {
	texts := []string{"steps 2 1ms", "chunks 3 1ms", "work 1ms"}
	for i := n; ctx.Err() == nil; i++ {
		s := sentTask{message: withIDs(texts[i%len(texts)]), config: f.r.inline()}
		_ = s.send(f.any) // a server may be down
		f.sends.add(s)
		time.Sleep(10 * time.Millisecond)
	}
}

// removing waits until a server has removed more tasks than before, and returns its index.
func (f *fleet) removing(removed map[*process]int64) (server int) {
	f.t.Helper()
	await.Success(f.t, func() error {
		for i, p := range f.replicas {
			var health struct{ Expired struct{ Tasks int64 } }
			p.getJSON("health", &health)
			before, now := removed[p], health.Expired.Tasks
			if removed[p] = now; now > before {
				server = i
				return nil
			}
		}
		return errors.New("no server removes tasks")
	})
	return server
}

// awaitExpired waits until all tasks of the load and their contexts are removed, and checks that
// all events of acknowledged tasks had arrived.
func (f *fleet) awaitExpired() {
	f.t.Helper()
	end := time.Now().Add(await.Limit)
	each(f.sends.sent, func(s sentTask) {
		var last error
		for {
			_, err := f.any.client.Task(f.t.Context(), a2a.TaskQueryParams{ID: s.message.TaskID})
			if last = wantGone(err, a2a.CodeTaskNotFound, s.message.TaskID); last == nil {
				_, err = f.any.client.GetContext(f.t.Context(), a2a.ContextQueryParams{ContextID: s.message.ContextID})
				last = wantGone(err, a2a.CodeContextNotFound, s.message.ContextID)
			}
			if last == nil || time.Now().After(end) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if last != nil {
			f.t.Errorf("task %s: %v", s.message.TaskID, last)
		}
		if s.id != "" && !f.r.hasFinal(s.id) {
			f.t.Errorf("task %s is gone and its last event was not delivered", s.id)
		}
	})
}

func wantGone(err error, code a2a.Code, id string) error {
	if err == nil {
		return errors.New("it still exists")
	}
	if a2a.CodeOf(err) != code || !strings.Contains(err.Error(), fmt.Sprintf("%q not found", id)) {
		return fmt.Errorf("error = %w (%s), want %s: %q not found", err, a2a.CodeOf(err), code, id)
	}
	return nil
}

// hasFinal reports whether the last event of a task has arrived.
func (r *receiver) hasFinal(task string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, e := range r.events {
		if name.task == task && e.envelope.Final {
			return true
		}
	}
	return false
}

// wantKept checks that tasks and webhooks were kept.
func (f *fleet) wantKept(kept map[string]a2a.TaskState) {
	f.t.Helper()
	for id, state := range kept {
		wantState(f.t, f.any.task(id), state)
		hooks, err := f.any.client.ListWebhooks(f.t.Context(), id)
		if err != nil || len(hooks) != 1 {
			f.t.Fatalf("webhooks of task %s = %+v, %v, want one", id, hooks, err)
		}
		if pending := hooks[0].Config.Delivery.Pending; pending != (state == a2a.StateCompleted) {
			f.t.Errorf("webhook of task %s, which is %s, has pending events: %t", id, state, pending)
		}
	}
}

// wantOnly stops the servers and checks that the tables contain only the given tasks.
func (f *fleet) wantOnly(kept map[string]a2a.TaskState) {
	f.t.Helper()
	for i := range f.replicas {
		f.kill(i)
	}
	var report *check.Report
	if f.cluster == nil {
		report = f.site.prove()
	} else {
		var err error
		if report, err = check.Postgres(context.Background(), f.cluster.db, f.cluster.schema); err != nil {
			f.t.Fatalf("the store is not sound: %v", err)
		}
	}
	ids := slices.Sorted(maps.Keys(report.States))
	if want := slices.Sorted(maps.Keys(kept)); !slices.Equal(ids, want) {
		f.t.Errorf("tasks in the tables = %v, want %v", ids, want)
	}
	if len(report.Lanes) != len(kept) {
		f.t.Errorf("%d webhooks in the tables, want %d", len(report.Lanes), len(kept))
	}
}
