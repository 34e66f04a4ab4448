package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// endpoint is where webhooks of the tests go.
const endpoint = "https://hooks.example:443"

// hook is a webhook of a task.
func hook(k store.Key, id string) store.PushConfig {
	return store.PushConfig{Task: k, ID: id, Endpoint: endpoint, Data: hookData(id), CreatedAt: at(1)}
}

func hookData(id string) []byte { return fmt.Appendf(nil, `{"url": "https://hooks.example/%s"}`, id) }

// newHooks are webhooks that begin before the first event.
func newHooks(ids ...string) []store.NewPush {
	var all []store.NewPush
	for _, id := range ids {
		all = append(all, store.NewPush{ID: id, Endpoint: endpoint, Data: hookData(id)})
	}
	return all
}

// hooked creates an idle task of n events, at 0, 1, ... ms, with webhooks that begin
// before the first.
func (f *fixture) hooked(k store.Key, n int, ids ...string) {
	f.Helper()
	f.commit(hookedTask(k, n, ids...))
}

func hookedTask(k store.Key, n int, ids ...string) store.Change {
	c := store.Change{Key: k, Create: &store.Create{ContextID: "context"}, Run: idle(), Push: newHooks(ids...)}
	for i := range n {
		c.Events = append(c.Events, event(i))
	}
	return c
}

// event is an event at some ms, of which receivers are told.
func event(ms int) store.Event { return said(at(ms), a2a.StateWorking, fmt.Sprint("m", ms)) }

// add appends events to a task.
func (f *fixture) add(k store.Key, events ...store.Event) {
	f.Helper()
	f.commit(next(k, f.task(k).Seq, events...))
}

// newLane is the lane of a webhook that was saved at some ms.
func newLane(c store.PushConfig, cursor store.PushCursor, tail int64, ms int) store.Lane {
	return store.Lane{
		Config: c, Cursor: cursor, Tail: tail, State: store.LaneActive, DueAt: at(ms), UpdatedAt: at(ms),
		Fence: at(ms).UnixMilli(),
	}
}

// committedHook is the webhook as it is when it was committed at some ms.
func committedHook(k store.Key, id string, ms int) store.PushConfig {
	c := hook(k, id)
	c.CreatedAt = at(ms)
	return c
}

// place is the cursor behind n events made by event.
func place(n int) store.PushCursor {
	c := store.PushCursor{Seq: int64(n), Sequence: int64(n)}
	if n > 0 {
		c.State = a2a.StateWorking
	}
	return c
}

func (f *fixture) savePush(c store.PushConfig, cursor store.PushCursor, ms int) store.Lane {
	f.Helper()
	l, err := f.s.SavePush(f.ctx, c, cursor, at(ms))
	if err != nil {
		f.Fatalf("SavePush(%q of %s) = %v, want a lane", c.ID, name(c.Task), err)
	}
	return l
}

// lanes reads a page of lanes; by default all.
func (f *fixture) lanes(q store.LaneQuery) store.LanePage {
	f.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	page, err := f.s.Lanes(f.ctx, q)
	if err != nil {
		f.Fatalf("Lanes(%+v) = %v, want a page", q, err)
	}
	return page
}

func ofHook(k store.Key, id string) store.LaneQuery {
	return store.LaneQuery{Owner: k.Owner, TaskID: k.ID, ID: id}
}

func (f *fixture) lane(k store.Key, id string) store.Lane {
	f.Helper()
	page := f.lanes(ofHook(k, id))
	if len(page.Lanes) != 1 || page.More {
		f.Fatalf("Lanes() of webhook %q of %s = %d, want it", id, name(k), len(page.Lanes))
	}
	return page.Lanes[0]
}

// noLane checks that nothing is to be found of a webhook.
func (f *fixture) noLane(k store.Key, id string) {
	f.Helper()
	f.equal(fmt.Sprintf("Lanes() of webhook %q of %s", id, name(k)), f.lanes(ofHook(k, id)), store.LanePage{})
	q := store.PushQuery{Owner: k.Owner, TaskID: k.ID, ID: id}
	f.equal("DeadLetters()", f.letters(q), []store.DeadLetter{})
	f.equal("PushAttempts()", f.attempts(q), []store.PushAttempt{})
}

// laneClaim is a claim at some ms for a minute, of up to 100 events each.
func laneClaim(worker string, ms, limit int) store.LaneClaim {
	return store.LaneClaim{Worker: worker, Now: at(ms), Until: at(ms).Add(time.Minute), Limit: limit, Events: 100}
}

func (f *fixture) claimLanes(p store.LaneClaim) []store.ClaimedLane {
	f.Helper()
	lanes, err := f.s.ClaimLanes(f.ctx, p)
	if err != nil {
		f.Fatalf("ClaimLanes() = %v, want lanes", err)
	}
	if len(lanes) > p.Limit {
		f.Errorf("ClaimLanes() of at most %d lanes returned %d", p.Limit, len(lanes))
	}
	return lanes
}

// claimLane claims the one lane that is due.
func (f *fixture) claimLane(worker string, ms int) store.ClaimedLane {
	f.Helper()
	lanes := f.claimLanes(laneClaim(worker, ms, 9))
	if len(lanes) != 1 {
		f.Fatalf("ClaimLanes() at %d ms = %v, want one lane", ms, laneNames(lanes))
	}
	return lanes[0]
}

// notDue checks that no lane is due at some ms.
func (f *fixture) notDue(ms int) {
	f.Helper()
	if got := f.claimLanes(laneClaim("idler", ms, 9)); len(got) != 0 {
		f.Fatalf("ClaimLanes() at %d ms = %v, want nothing", ms, laneNames(got))
	}
}

// laneNames returns "owner/task/webhook" of each lane.
func laneNames(lanes []store.ClaimedLane) []string {
	names := make([]string, len(lanes))
	for i := range lanes {
		names[i] = laneName(&lanes[i].Lane)
	}
	return names
}

func laneName(l *store.Lane) string {
	c := &l.Config
	return c.Task.Owner + "/" + c.Task.ID + "/" + c.ID
}

// leaseOf is the lease that a lane is under.
func leaseOf(l store.Lane) store.LaneLease {
	return store.LaneLease{Task: l.Config.Task, ID: l.Config.ID, Worker: l.Worker, Fence: l.Fence}
}

func compareLeases(a, b store.LaneLease) int {
	return cmp.Or(compareKeys(a.Task, b.Task), strings.Compare(a.ID, b.ID), cmp.Compare(a.Fence, b.Fence), strings.Compare(a.Worker, b.Worker))
}

// delivered is the acknowledgement of the first n events of a claimed lane, which is
// given back.
func delivered(l store.ClaimedLane, n, ms int) store.LaneAck {
	a := store.LaneAck{
		Lease: leaseOf(l.Lane), At: at(ms), Cursor: l.Cursor, State: store.LaneActive, DueAt: at(ms), Delivered: n,
	}
	for i := range n {
		a.Cursor, _ = a.Cursor.Next(&l.Events[i])
	}
	return a
}

// failed is the acknowledgement of a failed attempt, to be made again at due.
func failed(l store.ClaimedLane, ms, due int) store.LaneAck {
	a := delivered(l, 0, ms)
	a.DueAt, a.Attempt, a.FailedAt = at(due), l.Attempt+1, l.FailedAt
	if a.FailedAt.IsZero() {
		a.FailedAt = at(ms)
	}
	return a
}

// attempt is an attempt to send the event of a sequence, at some ms.
func attempt(k store.Key, id string, seq int64, n, ms int) store.PushAttempt {
	return store.PushAttempt{
		Task: k, ConfigID: id, Seq: seq, Sequence: seq, Attempt: n, At: at(ms), Duration: 17 * time.Millisecond,
		Status: 503, Outcome: "refused", Address: "192.0.2.1:443", Detail: "detail of " + id,
	}
}

// letter is the dead letter of an event of a sequence, noted at some ms.
func letter(k store.Key, id string, seq int64, ms int) store.DeadLetter {
	return store.DeadLetter{
		Task: k, ConfigID: id, Cursor: place(int(seq) - 1), Seq: seq, Sequence: seq, Attempts: 3, Status: 410,
		Reason: "reason of " + id, At: at(ms),
	}
}

// noted adds n attempts and dead letters to the acknowledgement of n events.
func noted(l store.ClaimedLane, n, ms int) store.LaneAck {
	a := delivered(l, n, ms)
	a.Delivered = 0
	for i := range n {
		seq := l.Events[i].Seq
		a.Attempts = append(a.Attempts, attempt(l.Config.Task, l.Config.ID, seq, 1, ms))
		a.Dead = append(a.Dead, letter(l.Config.Task, l.Config.ID, seq, ms))
	}
	return a
}

// lost acknowledges claimed lanes and returns the leases that were lost, sorted.
func (f *fixture) lost(acks ...store.LaneAck) []store.LaneLease {
	f.Helper()
	lost, err := f.s.AckLanes(f.ctx, acks...)
	if err != nil {
		f.Fatalf("AckLanes() = %v, want no error", err)
	}
	slices.SortFunc(lost, compareLeases)
	return lost
}

// ack acknowledges claimed lanes, which have to be held.
func (f *fixture) ack(acks ...store.LaneAck) {
	f.Helper()
	f.equal("lost leases of AckLanes()", f.lost(acks...), []store.LaneLease{})
}

// fenced checks that a lease is lost: neither renewed nor acknowledged, and that
// nothing comes of trying, but that the lane may be claimed if it is not held by another.
func (f *fixture) fenced(l store.ClaimedLane, ms int) {
	f.Helper()
	k, id := l.Config.Task, l.Config.ID
	q := store.PushQuery{Owner: k.Owner, TaskID: k.ID, ID: id}
	before, letters, attempts := f.lanes(ofHook(k, id)), f.letters(q), f.attempts(q)
	lease := []store.LaneLease{leaseOf(l.Lane)}
	f.equal("RenewLanes() of a lost lease", f.renewLanes(ms+100_000, lease...), lease)
	hold := noted(l, 1, ms)
	hold.Hold = true
	f.equal("AckLanes() of a lost lease", f.lost(hold), lease)
	f.equal("Lanes() after a lease was lost", f.lanes(ofHook(k, id)), before)
	f.equal("AckLanes() of a lost lease", f.lost(noted(l, 1, ms)), lease)
	for i := range before.Lanes {
		if b := &before.Lanes[i]; b.Worker == "" && b.Fence == l.Fence+1 {
			b.LeaseUntil = time.Time{}
		}
	}
	f.equal("Lanes() after a lease was lost and given up", f.lanes(ofHook(k, id)), before)
	f.equal("DeadLetters() after a lease was lost", f.letters(q), letters)
	f.equal("PushAttempts() after a lease was lost", f.attempts(q), attempts)
}

// renewLanes extends leases until some ms and returns those that were lost, sorted.
func (f *fixture) renewLanes(until int, leases ...store.LaneLease) []store.LaneLease {
	f.Helper()
	lost, err := f.s.RenewLanes(f.ctx, at(until), leases)
	if err != nil {
		f.Fatalf("RenewLanes() = %v, want no error", err)
	}
	slices.SortFunc(lost, compareLeases)
	return lost
}

// deletePush deletes a webhook and checks whether it is busy.
func (f *fixture) deletePush(k store.Key, id string, ms int, want bool) {
	f.Helper()
	busy, err := f.s.DeletePush(f.ctx, k, id, at(ms))
	if err != nil || busy != want {
		f.Errorf("DeletePush(%s, %q) at %d ms = %t, %v, want %t", name(k), id, ms, busy, err, want)
	}
	f.noLane(k, id)
}

// undeletable checks that there is no webhook to delete.
func (f *fixture) undeletable(k store.Key, id string, ms int) {
	f.Helper()
	if busy, err := f.s.DeletePush(f.ctx, k, id, at(ms)); busy || !errors.Is(err, store.ErrNotFound) {
		f.Errorf("DeletePush(%s, %q) = %t, %v, want ErrNotFound", name(k), id, busy, err)
	}
}

// replay sets a lane back and returns where it stands then.
func (f *fixture) replay(k store.Key, id string, cursor store.PushCursor, ms int) store.PushCursor {
	f.Helper()
	got, err := f.s.ReplayPush(f.ctx, k, id, cursor, at(ms))
	if err != nil {
		f.Fatalf("ReplayPush(%s, %q) = %v, want nil", name(k), id, err)
	}
	f.equal("ReplayPush() and the Cursor after it", got, f.lane(k, id).Cursor)
	return got
}

func (f *fixture) wake(endpoint string, ms, limit int) int {
	f.Helper()
	n, err := f.s.WakeLanes(f.ctx, endpoint, at(ms), limit)
	if err != nil {
		f.Fatalf("WakeLanes() = %v, want no error", err)
	}
	return n
}

// letters reads dead letters to their end.
func (f *fixture) letters(q store.PushQuery) []store.DeadLetter {
	f.Helper()
	return toTheEnd(f, "DeadLetters()", q, func(q store.PushQuery) ([]store.DeadLetter, string, error) {
		page, err := f.s.DeadLetters(f.ctx, q)
		return page.Letters, page.Next, err
	})
}

// attempts reads attempts to their end.
func (f *fixture) attempts(q store.PushQuery) []store.PushAttempt {
	f.Helper()
	return toTheEnd(f, "PushAttempts()", q, func(q store.PushQuery) ([]store.PushAttempt, string, error) {
		page, err := f.s.PushAttempts(f.ctx, q)
		return page.Attempts, page.Next, err
	})
}

// toTheEnd reads all pages of a query, of 100 unless it says otherwise.
func toTheEnd[V any](f *fixture, what string, q store.PushQuery, read func(store.PushQuery) ([]V, string, error)) []V {
	f.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	var all []V
	for range 1000 {
		page, next, err := read(q)
		if err != nil {
			f.Fatalf("%s of %+v = %v, want a page", what, q, err)
		}
		all = append(all, page...)
		if next == "" {
			if len(page) > q.Limit {
				f.Errorf("%s of at most %d = %d", what, q.Limit, len(page))
			}
			return all
		}
		if len(page) != q.Limit {
			f.Errorf("%s of at most %d = %d and a next page", what, q.Limit, len(page))
		}
		q.Cursor = next
	}
	f.Fatalf("the pages of %s of %+v have no end", what, q)
	return nil
}

func (f *fixture) pushBacklog() store.PushBacklog {
	f.Helper()
	b, err := f.s.PushBacklog(f.ctx)
	if err != nil {
		f.Fatalf("PushBacklog() = %v, want counts", err)
	}
	return b
}

func (f *fixture) endpoints() []store.Endpoint {
	f.Helper()
	all, err := f.s.Endpoints(f.ctx)
	if err != nil {
		f.Fatalf("Endpoints() = %v, want endpoints", err)
	}
	return all
}
