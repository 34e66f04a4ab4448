package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// fixture is one test with a store of its own. Its methods fail the test if a call does not
// have the expected result. It has many methods because each is a step that tests of several
// groups share.
type fixture struct {
	T
	h   Harness
	s   store.Store
	ctx context.Context
}

func newFixture(t T, h Harness) *fixture {
	t.Helper()
	f := &fixture{T: t, h: h, s: h.Open(t), ctx: t.Context()}
	if f.s == nil {
		t.Fatalf("Harness.Open returned no store")
	}
	t.Cleanup(func() {
		suite.Do(f.s.Close()).Check(t, "Close()")
	})
	return f
}

// commit applies changes that must all succeed, and returns the version after the last one.
func (f *fixture) commit(changes ...store.Change) int64 {
	f.Helper()
	var seq int64
	for i, r := range f.commitResults(changes...) {
		if r.Err != nil {
			f.Fatalf("Commit() of change %d of task %q = %v, want nil", i, changes[i].Key.ID, r.Err)
		}
		seq = r.Seq
	}
	return seq
}

// commitResults applies changes and returns their results.
func (f *fixture) commitResults(changes ...store.Change) []store.Result {
	f.Helper()
	results := suite.Call(f.s.Commit(f.ctx, changes...)).Must(f, "Commit()")
	if len(results) != len(changes) {
		f.Fatalf("Commit() of %d changes returned %d results", len(changes), len(results))
	}
	return results
}

// wantRejected applies a change that must be rejected with an error.
func (f *fixture) wantRejected(want error, c store.Change) store.Result {
	f.Helper()
	r := f.commitResults(c)[0]
	if !errors.Is(r.Err, want) {
		f.Errorf("Commit() = %v, want %v", r.Err, want)
	}
	if r.Seq != 0 {
		f.Errorf("Commit() of a rejected change returned Seq %d, want 0", r.Seq)
	}
	if (r.Record != nil) != errors.Is(want, store.ErrDuplicate) {
		f.Errorf("Commit() rejected with %v returned record %v", want, r.Record)
	}
	return r
}

// create commits a queued task with one message and returns its version.
func (f *fixture) create(k store.Key, at time.Time) int64 {
	f.Helper()
	return f.commit(newTask(k, "context", at))
}

func (f *fixture) task(k store.Key) *store.Task {
	f.Helper()
	return f.taskWith(k, store.TaskOptions{})
}

func (f *fixture) taskWith(k store.Key, opts store.TaskOptions) *store.Task {
	f.Helper()
	return suite.Call(f.s.Task(f.ctx, k, opts)).Must(f, "Task(%s)", taskName(k))
}

// events returns the complete log of a task, read in pages.
func (f *fixture) events(k store.Key) []store.Event {
	f.Helper()
	const page = 100
	var log []store.Event
	for {
		events := suite.Call(f.s.Events(f.ctx, k, int64(len(log)), page)).Must(f, "Events(%s)", taskName(k))
		log = append(log, events...)
		if len(events) < page {
			return log
		}
	}
}

func (f *fixture) claim(p store.ClaimParams) []*store.Task {
	f.Helper()
	tasks := suite.Call(f.s.Claim(f.ctx, p)).Must(f, "Claim()")
	if len(tasks) > p.Limit {
		f.Errorf("Claim() with limit %d returned %d tasks", p.Limit, len(tasks))
	}
	return tasks
}

func (f *fixture) list(q store.Query) store.Page {
	f.Helper()
	return suite.Call(f.s.Tasks(f.ctx, q)).Must(f, "Tasks()")
}

func (f *fixture) steps(k store.Key, turn int) []store.Step {
	f.Helper()
	return suite.Call(f.s.Steps(f.ctx, k, turn)).Must(f, "Steps(%s, %d)", taskName(k), turn)
}

// context returns a context with the ids of up to 100 of its newest tasks.
func (f *fixture) context(owner, id string) store.Context {
	f.Helper()
	return suite.Call(f.s.Context(f.ctx, owner, id, 100)).Must(f, "Context(%q, %q)", owner, id)
}

func (f *fixture) record(owner, key string) store.IdempotencyRecord {
	f.Helper()
	return suite.Call(f.s.Idempotency(f.ctx, owner, key)).Must(f, "Idempotency(%q, %q)", owner, key)
}

func (f *fixture) backlog() store.Backlog {
	f.Helper()
	return suite.Call(f.s.Backlog(f.ctx)).Must(f, "Backlog()")
}

// wantNoTask checks that no read finds the task.
func (f *fixture) wantNoTask(k store.Key) {
	f.Helper()
	suite.Call(f.s.Task(f.ctx, k, store.TaskOptions{})).Fails(f, store.ErrNotFound, "Task(%s)", taskName(k))
	suite.Call(f.s.Events(f.ctx, k, 0, 10)).Fails(f, store.ErrNotFound, "Events(%s)", taskName(k))
}

// wantNoRecord checks that no record of an idempotency key exists.
func (f *fixture) wantNoRecord(owner, key string) {
	f.Helper()
	suite.Call(f.s.Idempotency(f.ctx, owner, key)).Fails(f, store.ErrNotFound, "Idempotency(%q, %q)", owner, key)
}

// wantNoContext checks that no read finds the context.
func (f *fixture) wantNoContext(owner, id string) {
	f.Helper()
	suite.Call(f.s.Context(f.ctx, owner, id, 1)).Fails(f, store.ErrNotFound, "Context(%q, %q)", owner, id)
}

// equal compares the result of a call with the expected one.
func (f *fixture) equal(label string, got, want any) {
	f.Helper()
	if d := diff(got, want); d != "" {
		f.Errorf("%s: unexpected result (-got +want):\n%s", label, d)
	}
}

// Values used by the tests.

const (
	owner       = "did:example:alice"
	otherOwner  = "did:example:bob"
	worker      = "worker-1"
	otherWorker = "worker-2"
)

// start is the time at which the tests start. It has the precision of stores.
var start = time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)

// at returns the time ms milliseconds after start.
func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func key(id string) store.Key { return store.Key{Owner: owner, ID: id} }

func taskName(k store.Key) string {
	return fmt.Sprintf("%s of %s", a2a.Quote(k.ID), a2a.Quote(k.Owner))
}

func message(role a2a.Role, id, text string) *a2a.Message {
	return &a2a.Message{ID: id, Role: role, Parts: []a2a.Part{a2a.TextPart{Text: text}}}
}

// clientMessage returns an event with a message of the client.
func clientMessage(t time.Time, id string) store.Event {
	return store.Event{Time: t, State: a2a.StateSubmitted, Received: message(a2a.RoleUser, id, "text of "+id)}
}

// sender returns a principal with facts.
func sender(name string) *a2a.Principal {
	return &a2a.Principal{
		ID: owner, Name: name, Scopes: []a2a.Scope{}, Level: a2a.TrustAnalyst, Schemes: []string{"oidc"}, Roles: []string{"role"}, Permissions: []string{"tasks.*"},
		DID: "did:example:1", Client: "client", Issuer: "issuer", Proof: a2a.ProofDID, Actor: "actor", Credential: "hash", Expires: at(99),
	}
}

// statusEvent returns an event with a state and no message.
func statusEvent(t time.Time, s a2a.TaskState) store.Event { return store.Event{Time: t, State: s} }

// agentMessage returns an event with a state and a message of the agent.
func agentMessage(t time.Time, s a2a.TaskState, id string) store.Event {
	return store.Event{Time: t, State: s, Message: message(a2a.RoleAgent, id, "text of "+id)}
}

// chunkEvent returns an event with a chunk of a text artifact.
func chunkEvent(t time.Time, id, text string, appends bool) store.Event {
	return store.Event{
		Time: t, State: a2a.StateWorking, Append: appends,
		Artifact: &a2a.Artifact{ID: id, Parts: []a2a.Part{a2a.TextPart{Text: text}}},
	}
}

func queued() *store.QueueEntry { return &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1} }

func idle() *store.QueueEntry { return &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1} }

// leased returns a queue entry with the first lease of a worker.
func leased(worker string, until time.Time) *store.QueueEntry {
	return &store.QueueEntry{Phase: store.PhaseLeased, Turn: 1, Attempt: 1, Lease: store.Lease{Worker: worker, Fence: 1, Until: until}}
}

// newTask returns the change that creates a queued task with one message.
func newTask(k store.Key, contextID string, t time.Time) store.Change {
	return store.Change{Key: k, Create: &store.Create{ContextID: contextID}, Events: []store.Event{clientMessage(t, "m1")}, Queue: queued()}
}

// changeAt returns a change of a task at a version.
func changeAt(k store.Key, version int64, events ...store.Event) store.Change {
	return store.Change{Key: k, Version: version, Events: events}
}

// changeUnder returns a change under a lease.
func changeUnder(k store.Key, worker string, fence int64, events ...store.Event) store.Change {
	return store.Change{Key: k, Lease: &store.HeldLease{Key: k, Worker: worker, Fence: fence}, Events: events}
}

// withKey adds an idempotency record to a change.
func withKey(c store.Change, k string, t time.Time) store.Change {
	c.Idempotency = &store.IdempotencyRecord{Owner: c.Key.Owner, Key: k, Hash: [32]byte{1, 2, 255}, TaskID: c.Key.ID, CreatedAt: t}
	return c
}

// claimAt returns the parameters of a claim with leases of one minute.
func claimAt(worker string, now time.Time, limit int) store.ClaimParams {
	return store.ClaimParams{
		Worker: worker, Now: now, Until: now.Add(time.Minute), Limit: limit,
		Event: statusEvent(now, a2a.StateWorking),
	}
}

// fold returns the task with the given events and queue entry.
func fold(k store.Key, contextID string, run store.QueueEntry, events ...store.Event) *store.Task {
	t := &store.Task{Key: k, ContextID: contextID, Queue: run}
	t.Apply(withSeqs(events)...)
	return t
}

// withSeqs returns events with their sequences in a log.
func withSeqs(events []store.Event) []store.Event {
	log := make([]store.Event, len(events))
	for i, e := range events {
		e.Seq = int64(i + 1)
		log[i] = e
	}
	return log
}

func ids(tasks []*store.Task) []string {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.Key.ID
	}
	return ids
}

func ptr[V any](v V) *V { return &v }
