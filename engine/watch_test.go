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
	"github.com/holdfast-dev/holdfast/store"
)

// party lets the replicas of a shared store hear of each other's commits.
type party struct {
	mu    sync.Mutex
	hears map[*replica]chan store.Notice
}

func newParty() *party { return &party{hears: make(map[*replica]chan store.Notice)} }

// watching waits until n replicas receive notices.
func (p *party) watching(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.hears) == n })
}

// replica is one process's view of the shared store.
type replica struct {
	replicas
	party *party
	ahead time.Duration // of the wall clock: the store's own
	idle  bool          // it claims nothing: all work is for the others
}

func (r *replica) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	if r.idle {
		return nil, nil
	}
	return r.replicas.Claim(ctx, p)
}

func (p *party) join(s store.Store) *replica {
	return &replica{replicas: replicas{s}, party: p}
}

func (r *replica) Now() time.Time { return time.Now().Add(r.ahead).Round(0) }

// Watch calls f with one notice after the other, as stores do.
func (r *replica) Watch(ctx context.Context, f func(store.Notice)) error {
	notices := make(chan store.Notice, 1000)
	r.party.mu.Lock()
	r.party.hears[r] = notices
	r.party.mu.Unlock()
	defer func() {
		r.party.mu.Lock()
		delete(r.party.hears, r)
		r.party.mu.Unlock()
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
	results, err := r.replicas.Commit(ctx, changes...)
	n := store.Notice{Work: true}
	for _, c := range changes {
		n.Tasks = append(n.Tasks, c.Key)
	}
	r.tell(n)
	return results, err
}

func (r *replica) tell(n store.Notice) {
	r.party.mu.Lock()
	defer r.party.mu.Unlock()
	for other, notices := range r.party.hears {
		if other != r {
			notices <- n
		}
	}
}

// patient polls so seldom that only notices can be why something happens.
func patient(s store.Store, h engine.Handler) engine.Config {
	return engine.Config{Store: s, Handler: h, Poll: time.Hour, Lease: time.Hour}
}

func TestReplicasHearOfEachOther(t *testing.T) {
	t.Parallel()
	shared, p := inmem.New(), newParty()
	started, ended := make(chan struct{}, 1), make(chan error, 1)
	e1 := start(t, patient(p.join(shared), func(ctx context.Context, turn *engine.Turn) error {
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
	second := p.join(shared)
	second.idle = true
	e2 := start(t, patient(second, func(context.Context, *engine.Turn) error { return errors.New("ran at the wrong replica") }))
	p.watching(t, 2)

	task := send(t, e1, text("converse"))
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
	reply := text("go on")
	reply.Message.TaskID = task.Key.ID
	send(t, e2, reply) // joins the inbox of the run at the other replica
	if state := receive(t, followed); state != a2a.StateCompleted {
		t.Errorf("the follower's last state = %s, want completed", state)
	}

	task = send(t, e1, text("wait"))
	<-started
	if _, err := e2.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{}); err != nil {
		t.Fatal(err)
	}
	if cause := receive(t, ended); !errors.Is(cause, engine.ErrCanceled) {
		t.Errorf("the handler's context ended with %v, want ErrCanceled", cause)
	}

	task = send(t, e1, text("wait"))
	<-started
	if _, err := shared.Claim(t.Context(), store.ClaimParams{Worker: "thief", Limit: 1, Takeover: true, Now: time.Now(), Until: time.Now().Add(time.Hour), Event: store.Event{State: a2a.StateWorking}}); err != nil {
		t.Fatal(err)
	}
	second.tell(store.Notice{Lost: true})
	if cause := receive(t, ended); !errors.Is(cause, engine.ErrLeaseLost) {
		t.Errorf("the handler's context ended with %v, want ErrLeaseLost", cause)
	}
	if got, err := e2.Task(t.Context(), alice, task.Key.ID, nil); err != nil || got.Run.Lease.Worker != "thief" {
		t.Errorf("Task() = %+v, %v; want the thief's", got, err)
	}
}

func TestTheStoresClockIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	s := newParty().join(inmem.New())
	s.ahead = -48 * time.Hour
	e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error { return turn.Reply() }})
	task := settled(t, e, send(t, e, text("a")).Key.ID)
	if off := time.Until(task.Status.Timestamp.Add(48 * time.Hour)).Abs(); off > time.Minute {
		t.Errorf("the status is of %s, which is %s from the store's time", task.Status.Timestamp, off)
	}
}

func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(waitLimit):
		t.Fatal("nothing happened")
	}
	return v
}
