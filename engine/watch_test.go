package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

// notificationBus notifies the replicas of a shared store of each other's commits.
type notificationBus struct {
	mu          sync.Mutex
	subscribers map[*replica]chan store.Notification
}

func newNotificationBus() *notificationBus {
	return &notificationBus{subscribers: make(map[*replica]chan store.Notification)}
}

// wantSubscribers waits until n replicas receive notifications.
func (p *notificationBus) wantSubscribers(t *testing.T, n int) {
	t.Helper()
	await.True(t, "all stores are watched", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.subscribers) == n })
}

// replica is one process's view of the shared store.
type replica struct {
	sharedStore
	bus         *notificationBus
	clockOffset time.Duration // offset of the store's clock from the wall clock
	idle        bool          // it claims nothing
}

func (r *replica) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	if r.idle {
		return nil, nil
	}
	return r.sharedStore.Claim(ctx, p)
}

func (p *notificationBus) newReplica(s store.Store) *replica {
	return &replica{sharedStore: sharedStore{s}, bus: p}
}

func (r *replica) Now() time.Time { return time.Now().Add(r.clockOffset).Round(0) }

// Watch calls f with one notification after another, like real stores.
func (r *replica) Watch(ctx context.Context, f func(store.Notification)) error {
	notices := make(chan store.Notification, 1000)
	r.bus.mu.Lock()
	r.bus.subscribers[r] = notices
	r.bus.mu.Unlock()
	defer func() {
		r.bus.mu.Lock()
		delete(r.bus.subscribers, r)
		r.bus.mu.Unlock()
	}()
	for {
		select {
		case n := <-notices:
			f(n)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *replica) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	results, err := r.sharedStore.Commit(ctx, changes...)
	n := store.Notification{Work: true}
	for _, c := range changes {
		n.Tasks = append(n.Tasks, c.Key)
	}
	r.publish(n)
	return results, err
}

func (r *replica) publish(n store.Notification) {
	r.bus.mu.Lock()
	defer r.bus.mu.Unlock()
	for other, notices := range r.bus.subscribers {
		if other != r {
			notices <- n
		}
	}
}

// withoutPolling returns a config that polls so rarely that only notifications have an effect.
func withoutPolling(s store.Store, h engine.Handler) engine.Config {
	return engine.Config{Store: s, Handler: h, Turns: engine.Turns{Poll: time.Hour, Lease: time.Hour}}
}

func TestReplicasNotifyEachOther(t *testing.T) {
	t.Parallel()
	shared, p := inmem.New(), newNotificationBus()
	started, ended := make(chan struct{}, 1), make(chan error, 1)
	e1 := start(t, withoutPolling(p.newReplica(shared), func(ctx context.Context, turn *engine.Turn) error {
		started <- struct{}{}
		if turn.Messages()[0].Text() == "wait" {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		}
		messages, err := turn.Receive(ctx)
		if err != nil {
			return err
		}
		return turn.Reply(messages[0].Parts...)
	}))
	second := p.newReplica(shared)
	second.idle = true
	e2 := start(t, withoutPolling(second, func(context.Context, *engine.Turn) error { return errors.New("ran at the wrong replica") }))
	p.wantSubscribers(t, 2)

	task := send(t, e1, message("converse"))
	<-started
	following, followed := make(chan struct{}), make(chan a2a.TaskState, 1)
	go func() {
		var last a2a.TaskState
		for u, err := range e2.Follow(t.Context(), alice, task.Key.ID, nil) {
			if err != nil {
				t.Error(err)
				break
			}
			if u.Event != nil {
				last = u.Event.State
			} else {
				close(following)
			}
		}
		followed <- last
	}()
	receive(t, following)
	reply := message("continue")
	reply.Message.TaskID = task.Key.ID
	send(t, e2, reply) // joins the inbox of the run on the other replica
	if state := receive(t, followed); state != a2a.StateCompleted {
		t.Errorf("the follower's last state = %s, want completed", state)
	}

	task = send(t, e1, message("wait"))
	<-started
	if _, err := e2.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{}); err != nil {
		t.Fatal(err)
	}
	if cause := receive(t, ended); !errors.Is(cause, engine.ErrCanceled) {
		t.Errorf("the handler's context ended with %v, want ErrCanceled", cause)
	}

	task = send(t, e1, message("wait"))
	<-started
	if _, err := shared.Claim(t.Context(), store.ClaimParams{Worker: "thief", Limit: 1, Takeover: true, Now: time.Now(), Until: time.Now().Add(time.Hour), Event: store.Event{State: a2a.StateWorking}}); err != nil {
		t.Fatal(err)
	}
	second.publish(store.Notification{Lost: true})
	if cause := receive(t, ended); !errors.Is(cause, engine.ErrLeaseLost) {
		t.Errorf("the handler's context ended with %v, want ErrLeaseLost", cause)
	}
	if got, err := e2.Task(t.Context(), alice, task.Key.ID, nil); err != nil || got.Queue.Lease.Worker != "thief" {
		t.Errorf("Task() = %+v, %v; want the thief's", got, err)
	}
}

func TestStoreClockIsUsed(t *testing.T) {
	t.Parallel()
	s := newNotificationBus().newReplica(inmem.New())
	s.clockOffset = -48 * time.Hour
	e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error { return turn.Reply() }})
	task := waitFinal(t, e, send(t, e, message("a")).Key.ID)
	if difference := time.Until(task.Status.Timestamp.Add(48 * time.Hour)).Abs(); difference > time.Minute {
		t.Errorf("status time %s differs from the store's time by %s", task.Status.Timestamp, difference)
	}
}

func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(await.Limit):
		t.Fatal("no value received")
	}
	return v
}
