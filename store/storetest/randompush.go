package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/store"
)

// Random calls about webhooks.

// aboutPush makes one of them.
func (r *randomRun) aboutPush() {
	switch r.pick("call about webhooks", 16) {
	case 0, 1:
		r.savePush()
	case 2, 3, 4:
		r.claimLanes()
	case 5, 6, 7:
		r.ackLanes()
	case 8:
		r.renewLanes()
	case 9:
		r.deletePush()
	case 10:
		r.replayPush()
	case 11:
		endpoint, now := r.endpoint(), r.time()
		reads(r, fmt.Sprintf("WakeLanes(%q, %v)", endpoint, now), func(s store.Store) (int, error) {
			return s.WakeLanes(r.ctx, endpoint, now, 100)
		})
	case 12:
		r.listLanes()
	case 13:
		r.listNotes(r.pushQuery())
	case 14:
		r.expirePush()
	default:
		e := store.Endpoint{Name: r.endpoint(), Failures: r.pick("failures", 3), Disabled: r.oneIn("disabled", 3), OpenUntil: r.time(), UpdatedAt: r.time()}
		reads(r, "SaveEndpoint()", func(s store.Store) (struct{}, error) { return struct{}{}, s.SaveEndpoint(r.ctx, e) })
	}
}

func (r *randomRun) hookID() string {
	return rapid.SampledFrom([]string{"p", "q", "P"}).Draw(r.t, "webhook")
}

func (r *randomRun) endpoint() string {
	return rapid.SampledFrom([]string{endpoint, "http://q.example:80"}).Draw(r.t, "endpoint")
}

// place returns a cursor behind some event of the model's task.
func (r *randomRun) place(k store.Key) store.PushCursor {
	n := 0
	if t, err := r.want.Task(r.ctx, k, store.TaskOptions{}); err == nil {
		n = r.pick("place", int(t.Seq)+1)
	}
	return store.PushCursor{Seq: int64(n), Sequence: int64(n / 2), State: r.state()}
}

// newPushes are webhooks for a change of a task.
func (r *randomRun) newPushes(k store.Key) []store.NewPush {
	var all []store.NewPush
	for range r.pick("webhooks", 3) {
		n := store.NewPush{
			ID: r.hookID(), Endpoint: r.endpoint(), Data: hookData(fmt.Sprint(r.made)), LongRunning: r.oneIn("long", 2), Cursor: r.place(k),
		}
		if !slices.ContainsFunc(all, func(o store.NewPush) bool { return o.ID == n.ID }) {
			all = append(all, n)
		}
	}
	return all
}

func (r *randomRun) savePush() {
	k, now := r.key(), r.time()
	c := store.PushConfig{
		Task: k, ID: r.hookID(), Endpoint: r.endpoint(), Data: hookData(fmt.Sprint(r.made)), LongRunning: r.oneIn("long", 2), CreatedAt: r.time(),
	}
	cursor := r.place(k)
	reads(r, fmt.Sprintf("SavePush(%+v, %+v, %v)", c, cursor, now), func(s store.Store) (store.Lane, error) {
		return s.SavePush(r.ctx, c, cursor, now)
	})
}

func (r *randomRun) claimLanes() {
	p := store.LaneClaim{
		Worker: r.worker(), Now: r.time(), Limit: r.pick("limit", 6), Takeover: r.oneIn("takeover", 5),
		Events: 1 + r.pick("events", 4), Bytes: 10 * r.pick("bytes", 3),
	}
	p.Until = p.Now.Add(time.Duration(r.pick("lease", 4)) * 10 * time.Millisecond)
	if r.oneIn("horizon", 4) {
		p.Horizon = 20 * time.Millisecond
	}
	p.AfterOwner = rapid.SampledFrom([]string{"", "a", "aa", "B", "b", "z"}).Draw(r.t, "after")
	if r.oneIn("skip", 4) {
		p.Skip = []string{r.key().Owner}
	}
	got, err := r.got.ClaimLanes(r.ctx, p)
	want, wantErr := r.want.ClaimLanes(r.ctx, p)
	r.same("the error of ClaimLanes()", fmt.Sprint(err), fmt.Sprint(wantErr))
	r.same(fmt.Sprintf("ClaimLanes(%+v)", p), got, want)
	r.claimed = append(r.claimed, want...)
	r.settle(p.Now)
}

// settle removes the deleted webhooks whose lease has ended: claims may do so, or
// leave it to the next call of DeletePush.
func (r *randomRun) settle(now time.Time) {
	var over []store.PushConfig
	r.want.(*model).eachLane(func(_ *modelTask, l *modelLane) {
		if l.deleted && !l.LeaseUntil.After(now) {
			over = append(over, l.Config)
		}
	})
	for _, c := range over {
		for _, s := range []store.Store{r.got, r.want} {
			if busy, err := s.DeletePush(r.ctx, c.Task, c.ID, now); busy || err != nil && !errors.Is(err, store.ErrNotFound) {
				r.t.Fatalf("DeletePush(%s, %q) after the lease has ended = %t, %v", name(c.Task), c.ID, busy, err)
			}
		}
	}
}

// lease returns a lane that was claimed, most often not long ago, or made up.
func (r *randomRun) lease() store.ClaimedLane {
	if n := len(r.claimed); n > 0 && !r.oneIn("made up", 6) {
		return r.claimed[n-1-r.pick("recent", min(n, 6))]
	}
	return store.ClaimedLane{Lane: store.Lane{Config: hook(r.key(), r.hookID()), Worker: r.worker(), Fence: int64(r.pick("fence", 4))}}
}

func (r *randomRun) renewLanes() {
	var leases []store.LaneLease
	for range 1 + r.pick("leases", 3) {
		if lease := leaseOf(r.lease().Lane); !slices.ContainsFunc(leases, func(o store.LaneLease) bool { return o.Task == lease.Task && o.ID == lease.ID }) {
			leases = append(leases, lease)
		}
	}
	until := r.time()
	reads(r, fmt.Sprintf("RenewLanes(%v, %+v)", until, leases), func(s store.Store) ([]store.LaneLease, error) {
		lost, err := s.RenewLanes(r.ctx, until, leases)
		slices.SortFunc(lost, compareLeases)
		return lost, err
	})
}

func (r *randomRun) ackLanes() {
	var acks []store.LaneAck
	for range 1 + r.pick("acks", 3) {
		a := r.laneAck()
		if !slices.ContainsFunc(acks, func(o store.LaneAck) bool { return o.Lease.Task == a.Lease.Task && o.Lease.ID == a.Lease.ID }) {
			acks = append(acks, a)
		}
	}
	reads(r, fmt.Sprintf("AckLanes(%+v)", acks), func(s store.Store) ([]store.LaneLease, error) {
		lost, err := s.AckLanes(r.ctx, acks...)
		slices.SortFunc(lost, compareLeases)
		return lost, err
	})
}

// laneAck goes on from where the lane is, if it is held still: no event is dealt with
// twice.
func (r *randomRun) laneAck() store.LaneAck {
	l := r.lease()
	if _, is := r.want.(*model).lane(l.Config.Task, l.Config.ID); is != nil && is.held(leaseOf(l.Lane)) {
		l.Cursor = is.Cursor
		l.Events = slices.DeleteFunc(slices.Clone(l.Events), func(e store.Event) bool { return e.Seq <= is.Cursor.Seq })
	}
	n := r.pick("dealt with", len(l.Events)+1)
	a := delivered(l, n, r.pick("ms", 8)*10)
	a.Hold, a.DueAt, a.Delivered = r.oneIn("hold", 3), r.time(), r.pick("delivered", n+1)
	a.State = rapid.SampledFrom([]store.LaneState{store.LaneActive, store.LaneActive, store.LaneParked, store.LaneDisabled}).Draw(r.t, "lane state")
	if r.oneIn("failed", 2) {
		a.Attempt, a.FailedAt, a.Reason = 1+r.pick("attempt", 3), r.time(), "why"
	}
	for i := range n {
		if r.oneIn("dead", 3) {
			d := letter(l.Config.Task, l.Config.ID, l.Events[i].Seq, 0)
			d.At = r.time()
			a.Dead = append(a.Dead, d)
		}
	}
	for range r.pick("attempts", 3) {
		r.made++ // no two are alike
		tried := attempt(l.Config.Task, l.Config.ID, l.Cursor.Seq+1, r.made, 0)
		tried.At = r.time()
		a.Attempts = append(a.Attempts, tried)
	}
	return a
}

func (r *randomRun) deletePush() {
	k, id, now := r.key(), r.hookID(), r.time()
	reads(r, fmt.Sprintf("DeletePush(%s, %q, %v)", name(k), id, now), func(s store.Store) (bool, error) {
		return s.DeletePush(r.ctx, k, id, now)
	})
}

func (r *randomRun) replayPush() {
	k, id, now := r.key(), r.hookID(), r.time()
	cursor := r.place(k)
	reads(r, fmt.Sprintf("ReplayPush(%s, %q, %+v, %v)", name(k), id, cursor, now), func(s store.Store) (store.PushCursor, error) {
		return s.ReplayPush(r.ctx, k, id, cursor, now)
	})
}

// expirePush removes all that is old or nothing: what a limit leaves is open, and so
// is whether what is left of a deleted webhook counts.
func (r *randomRun) expirePush() {
	p := store.PushExpiry{Attempts: r.time(), Dead: r.time(), Finished: r.time(), LongRunning: r.time()}
	got, err := r.got.ExpirePush(r.ctx, p, 1000)
	want, wantErr := r.want.ExpirePush(r.ctx, p, 1000)
	r.same("the error of ExpirePush()", fmt.Sprint(err), fmt.Sprint(wantErr))
	hidden := false
	r.want.(*model).eachLane(func(_ *modelTask, l *modelLane) { hidden = hidden || l.deleted })
	if !hidden {
		r.same(fmt.Sprintf("ExpirePush(%+v)", p), got, want)
	}
}

func (r *randomRun) listLanes() {
	q := store.LaneQuery{Limit: 1 + r.pick("limit", 4)}
	if r.oneIn("of an owner", 2) {
		q.Owner = r.key().Owner
		if r.oneIn("of a task", 2) {
			q.TaskID = r.key().ID
		}
	}
	for range r.pick("states", 3) {
		q.States = append(q.States, rapid.SampledFrom([]store.LaneState{store.LaneActive, store.LaneParked, store.LaneDisabled}).Draw(r.t, "lane state"))
	}
	for {
		want, err := r.want.Lanes(r.ctx, q)
		if err != nil {
			r.t.Fatalf("Lanes() of the model = %v", err)
		}
		reads(r, fmt.Sprintf("Lanes(%+v)", q), func(s store.Store) (store.LanePage, error) { return s.Lanes(r.ctx, q) })
		if !want.More {
			return
		}
		q.After = ptr(leaseOf(want.Lanes[len(want.Lanes)-1]))
	}
}

func (r *randomRun) pushQuery() store.PushQuery {
	q := store.PushQuery{Limit: 1 + r.pick("limit", 4), Sequence: int64(r.pick("sequence", 3))}
	if r.oneIn("of an owner", 2) {
		q.Owner = r.key().Owner
		if r.oneIn("of a task", 2) {
			q.TaskID = r.key().ID
		}
	}
	return q
}

// listNotes reads dead letters and attempts to their end.
func (r *randomRun) listNotes(q store.PushQuery) {
	reads(r, fmt.Sprintf("DeadLetters(%+v)", q), func(s store.Store) ([]store.DeadLetter, error) {
		return allNotes(q, func(q store.PushQuery) ([]store.DeadLetter, string, error) {
			page, err := s.DeadLetters(r.ctx, q)
			return page.Letters, page.Next, err
		})
	})
	reads(r, fmt.Sprintf("PushAttempts(%+v)", q), func(s store.Store) ([]store.PushAttempt, error) {
		return allNotes(q, func(q store.PushQuery) ([]store.PushAttempt, string, error) {
			page, err := s.PushAttempts(r.ctx, q)
			return page.Attempts, page.Next, err
		})
	})
}

func allNotes[V any](q store.PushQuery, read func(store.PushQuery) ([]V, string, error)) ([]V, error) {
	var all []V
	for range 1000 {
		page, next, err := read(q)
		if all = append(all, page...); err != nil || next == "" {
			return all, err
		}
		q.Cursor = next
	}
	return nil, errors.New("the pages have no end")
}

// comparePush compares all webhooks that the two stores hold.
func (r *randomRun) comparePush() {
	reads(r, "Lanes()", func(s store.Store) (store.LanePage, error) { return s.Lanes(r.ctx, store.LaneQuery{Limit: 1000}) })
	r.listNotes(store.PushQuery{Limit: 1000})
	reads(r, "PushBacklog()", func(s store.Store) (store.PushBacklog, error) { return s.PushBacklog(r.ctx) })
	reads(r, "Endpoints()", func(s store.Store) ([]store.Endpoint, error) {
		all, err := s.Endpoints(r.ctx)
		slices.SortFunc(all, func(a, b store.Endpoint) int { return strings.Compare(a.Name, b.Name) })
		return all, err
	})
}
