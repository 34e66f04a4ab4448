package storetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// pushMutants are the ways to be wrong about webhooks.
var pushMutants = map[string]func(*mutant){
	"forgets the webhooks of changes": func(m *mutant) { m.change = func(c *store.Change) { c.Push = nil } },
	"begins webhooks before all":      func(m *mutant) { m.change = eachPush(func(n *store.NewPush) { n.Cursor = store.PushCursor{} }) },
	"brings webhooks one by one":      func(m *mutant) { m.change = func(c *store.Change) { c.Push = c.Push[:min(1, len(c.Push))] } },
	"forgets that a webhook is long-running": func(m *mutant) {
		m.change = eachPush(func(n *store.NewPush) { n.LongRunning = false })
	},

	"claims lanes before they are due":         claiming(func(p *store.LaneClaim) { p.Now = p.Now.Add(time.Millisecond) }),
	"claims a lane too many":                   claiming(func(p *store.LaneClaim) { p.Limit++ }),
	"always takes lanes over":                  claiming(func(p *store.LaneClaim) { p.Takeover = true }),
	"never takes lanes over":                   claiming(func(p *store.LaneClaim) { p.Takeover = false }),
	"waits for lanes due beyond the horizon":   claiming(func(p *store.LaneClaim) { p.Horizon = 0 }),
	"ignores whose lane was claimed last":      claiming(func(p *store.LaneClaim) { p.AfterOwner = "" }),
	"passes nobody over":                       claiming(func(p *store.LaneClaim) { p.Skip = nil }),
	"reads an event too many":                  claiming(func(p *store.LaneClaim) { p.Events++ }),
	"reads events of any size":                 claiming(func(p *store.LaneClaim) { p.Bytes = 0 }),
	"leases lanes for a millisecond too long":  claiming(func(p *store.LaneClaim) { p.Until = p.Until.Add(time.Millisecond) }),
	"makes a lane that backs off due":          func(m *mutant) { m.committed = eachLane(func(l *modelLane) { l.DueAt = at(0) }) },
	"takes leases away with each event":        func(m *mutant) { m.committed = eachLane(func(l *modelLane) { l.Worker = "" }) },
	"numbers leases from 1":                    func(m *mutant) { m.committed = eachLane(func(l *modelLane) { l.Fence %= start.UnixMilli() / 10 }) },
	"acknowledges under any lease":             func(m *mutant) { m.ack = anyLease },
	"acknowledges what is deleted":             func(m *mutant) { m.ack = undelete },
	"tells of no lane that was lost":           func(m *mutant) { m.silentLanes = true },
	"holds no lane":                            acking(func(a *store.LaneAck) { a.Hold = false }),
	"holds every lane":                         acking(func(a *store.LaneAck) { a.Hold = true }),
	"forgets attempts":                         acking(func(a *store.LaneAck) { a.Attempts = nil }),
	"forgets dead letters":                     acking(func(a *store.LaneAck) { a.Dead = nil }),
	"forgets that a lane is parked":            acking(func(a *store.LaneAck) { a.State = store.LaneActive }),
	"forgets when it failed first":             acking(func(a *store.LaneAck) { a.FailedAt = a.At }),
	"counts each acknowledgement as one event": acking(func(a *store.LaneAck) { a.Delivered = min(1, a.Delivered) }),

	"keeps the lease of a webhook that is replaced":   func(m *mutant) { m.savedPush = (*modelLane).keepLease },
	"keeps the lease of a lane that is set back":      func(m *mutant) { m.replayed = (*modelLane).keepLease },
	"lets a webhook be claimed that was replaced":     func(m *mutant) { m.savedPush = func(l, _ *modelLane) { l.LeaseUntil = time.Time{} } },
	"lets a lane be claimed that was set back":        func(m *mutant) { m.replayed = func(l, _ *modelLane) { l.LeaseUntil = time.Time{} } },
	"waits for leases that were taken and given up":   func(m *mutant) { m.ack = func(m *model, a *store.LaneAck) { a.Hold = a.Hold || m.lost(a) } },
	"waits for no lease that was taken and is held":   func(m *mutant) { m.ack = func(m *model, a *store.LaneAck) { a.Hold = a.Hold && !m.lost(a) } },
	"keeps dead letters that are to be sent again":    func(m *mutant) { m.replayed = func(l, was *modelLane) { l.letters = was.letters } },
	"sets lanes forward":                              func(m *mutant) { m.forward = true },
	"tells where a lane was to be set":                func(m *mutant) { m.asAsked = true },
	"keeps a lane parked that is set back":            func(m *mutant) { m.replayed = func(l, was *modelLane) { l.State = was.State } },
	"keeps a replaced webhook waiting":                func(m *mutant) { m.savedPush = func(l, was *modelLane) { l.DueAt = was.DueAt } },
	"goes back when a webhook is replaced":            func(m *mutant) { m.savedPush = func(l, _ *modelLane) { l.Cursor = store.PushCursor{} } },
	"makes a replaced webhook new":                    func(m *mutant) { m.savedPush = func(l, _ *modelLane) { l.Config.CreatedAt = l.UpdatedAt } },
	"forgets what a replaced webhook has told":        func(m *mutant) { m.savedPush = func(l, _ *modelLane) { l.attempts, l.Delivered = nil, 0 } },
	"deletes webhooks that are busy":                  func(m *mutant) { m.deleteAt = at(1 << 40) },
	"never deletes webhooks that were held":           func(m *mutant) { m.deleteAt = at(-1 << 40) },
	"wakes a lane too many":                           func(m *mutant) { m.woken = 1 },
	"expires attempts too early":                      expiring(func(p *store.PushExpiry) { p.Attempts = shifted(p.Attempts) }),
	"expires dead letters too early":                  expiring(func(p *store.PushExpiry) { p.Dead = shifted(p.Dead) }),
	"expires webhooks too early":                      expiring(func(p *store.PushExpiry) { p.Finished = shifted(p.Finished) }),
	"keeps long-running webhooks no longer":           expiring(func(p *store.PushExpiry) { p.LongRunning = p.Finished }),
	"keeps every endpoint":                            func(m *mutant) { m.keepsEndpoints = true },
	"counts what is pending as dead":                  func(m *mutant) { m.miscounts = true },
	"lists the notes of every webhook":                noting(func(q *store.PushQuery) { q.ID = "" }),
	"lists the notes of every task":                   noting(func(q *store.PushQuery) { q.TaskID = "" }),
	"lists the notes of every event":                  noting(func(q *store.PushQuery) { q.Sequence = 0 }),
	"lists notes from the newest on":                  noting(func(q *store.PushQuery) { q.Cursor = "" }),
	"lists what was noted at once from its first on":  func(m *mutant) { m.firstFirst = true },
	"lists lanes of any state":                        listing(func(q *store.LaneQuery) { q.States = nil }),
	"lists lanes of everybody":                        listing(func(q *store.LaneQuery) { q.Owner = "" }),
	"lists lanes from the first on":                   listing(func(q *store.LaneQuery) { q.After = nil }),
	"hands out the data that it keeps of webhooks":    func(m *mutant) { m.sharesData = true },
	"tells nobody of lanes that are due":              func(m *mutant) { m.silentWatch = true },
	"finds webhooks that are deleted and held":        func(m *mutant) { m.committed = eachLane(func(l *modelLane) { l.deleted = false }) },
	"removes what is deleted without its lease ended": func(m *mutant) { m.deleteAt = start },
}

func eachPush(f func(*store.NewPush)) func(*store.Change) {
	return func(c *store.Change) {
		c.Push = slices.Clone(c.Push)
		for i := range c.Push {
			f(&c.Push[i])
		}
	}
}

func claiming(f func(*store.LaneClaim)) func(*mutant) { return func(m *mutant) { m.claimLane = f } }

func acking(f func(*store.LaneAck)) func(*mutant) {
	return func(m *mutant) { m.ack = func(_ *model, a *store.LaneAck) { f(a) } }
}

func expiring(f func(*store.PushExpiry)) func(*mutant) { return func(m *mutant) { m.expire = f } }

func noting(f func(*store.PushQuery)) func(*mutant) { return func(m *mutant) { m.notes = f } }

func listing(f func(*store.LaneQuery)) func(*mutant) { return func(m *mutant) { m.laneQuery = f } }

func eachLane(f func(*modelLane)) func(*model) {
	return func(m *model) { m.eachLane(func(_ *modelTask, l *modelLane) { f(l) }) }
}

// keepLease gives a lane the lease that it had.
func (l *modelLane) keepLease(was *modelLane) {
	l.Worker, l.Fence, l.LeaseUntil = was.Worker, was.Fence, was.LeaseUntil
}

func anyLease(m *model, a *store.LaneAck) {
	if _, l := m.lane(a.Lease.Task, a.Lease.ID); l != nil {
		l.Worker, l.Fence = a.Lease.Worker, a.Lease.Fence
	}
}

// lost reports whether the lease of an acknowledgement was taken away, or its webhook deleted.
func (m *model) lost(a *store.LaneAck) bool {
	_, l := m.lane(a.Lease.Task, a.Lease.ID)
	return l != nil && (l.deleted || l.taken(a.Lease))
}

func undelete(m *model, a *store.LaneAck) {
	if _, l := m.lane(a.Lease.Task, a.Lease.ID); l != nil {
		l.deleted = false
	}
}

// pushMutant is what a mutant does wrong about webhooks.
type pushMutant struct {
	committed      func(*model)
	claimLane      func(*store.LaneClaim)
	ack            func(*model, *store.LaneAck)
	savedPush      func(l, was *modelLane)
	replayed       func(l, was *modelLane)
	forward        bool
	asAsked        bool
	deleteAt       time.Time
	woken          int
	expire         func(*store.PushExpiry)
	notes          func(*store.PushQuery)
	laneQuery      func(*store.LaneQuery)
	firstFirst     bool
	silentLanes    bool
	silentWatch    bool
	keepsEndpoints bool
	miscounts      bool
	sharesData     bool
}

func (m *mutant) model() *model { return m.Store.(*model) }

// locked changes the model between calls.
func (m *mutant) locked(f func(*model)) {
	model := m.model()
	model.mu.Lock()
	defer model.mu.Unlock()
	f(model)
}

func (m *mutant) ClaimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	if m.claimLane != nil {
		m.claimLane(&p)
	}
	return m.Store.ClaimLanes(ctx, p)
}

func (m *mutant) RenewLanes(ctx context.Context, until time.Time, leases []store.LaneLease) ([]store.LaneLease, error) {
	lost, err := m.Store.RenewLanes(ctx, until, leases)
	if m.silentLanes {
		lost = nil
	}
	return lost, err
}

func (m *mutant) AckLanes(ctx context.Context, acks ...store.LaneAck) ([]store.LaneLease, error) {
	acks = slices.Clone(acks)
	for i := range acks {
		if m.ack != nil {
			m.locked(func(model *model) { m.ack(model, &acks[i]) })
		}
	}
	lost, err := m.Store.AckLanes(ctx, acks...)
	if m.silentLanes {
		lost = nil
	}
	return lost, err
}

// changeLane makes a call that changes a lane and then changes it once more.
func (m *mutant) changeLane(k store.Key, id string, call func() error, then func(l, was *modelLane)) error {
	var was *modelLane
	m.locked(func(model *model) {
		if _, l := model.lane(k, id); l != nil {
			before := *l
			before.letters = slices.Clone(l.letters)
			was = &before
		}
	})
	err := call()
	if then != nil && was != nil && err == nil {
		m.locked(func(model *model) {
			_, l := model.lane(k, id)
			then(l, was)
		})
	}
	return err
}

func (m *mutant) SavePush(ctx context.Context, c store.PushConfig, cursor store.PushCursor, now time.Time) (store.Lane, error) {
	var l store.Lane
	err := m.changeLane(c.Task, c.ID, func() (err error) {
		l, err = m.Store.SavePush(ctx, c, cursor, now)
		return err
	}, m.savedPush)
	return l, err
}

func (m *mutant) ReplayPush(ctx context.Context, k store.Key, id string, cursor store.PushCursor, now time.Time) (at store.PushCursor, err error) {
	replayed := m.replayed
	if m.forward {
		replayed = func(l, _ *modelLane) { l.Cursor, at = cursor, cursor }
	}
	err = m.changeLane(k, id, func() (err error) {
		at, err = m.Store.ReplayPush(ctx, k, id, cursor, now)
		return err
	}, replayed)
	if m.asAsked && err == nil {
		at = cursor
	}
	return at, err
}

func (m *mutant) DeletePush(ctx context.Context, k store.Key, id string, now time.Time) (bool, error) {
	if !m.deleteAt.IsZero() {
		now = m.deleteAt
	}
	return m.Store.DeletePush(ctx, k, id, now)
}

func (m *mutant) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (int, error) {
	return m.Store.WakeLanes(ctx, endpoint, now, limit+m.woken)
}

func (m *mutant) ExpirePush(ctx context.Context, p store.PushExpiry, limit int) (int, error) {
	if m.expire != nil {
		m.expire(&p)
	}
	return m.Store.ExpirePush(ctx, p, limit)
}

func (m *mutant) DeadLetters(ctx context.Context, q store.PushQuery) (store.DeadLetterPage, error) {
	if m.notes != nil {
		m.notes(&q)
	}
	page, err := m.Store.DeadLetters(ctx, q)
	if m.firstFirst {
		slices.SortStableFunc(page.Letters, func(a, b store.DeadLetter) int {
			return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Sequence, b.Sequence))
		})
	}
	return page, err
}

func (m *mutant) PushAttempts(ctx context.Context, q store.PushQuery) (store.PushAttemptPage, error) {
	if m.notes != nil {
		m.notes(&q)
	}
	page, err := m.Store.PushAttempts(ctx, q)
	if m.firstFirst {
		slices.SortStableFunc(page.Attempts, func(a, b store.PushAttempt) int {
			return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Sequence, b.Sequence))
		})
	}
	return page, err
}

func (m *mutant) Lanes(ctx context.Context, q store.LaneQuery) (store.LanePage, error) {
	if m.laneQuery != nil {
		m.laneQuery(&q)
	}
	page, err := m.Store.Lanes(ctx, q)
	if m.sharesData {
		m.locked(func(model *model) {
			for i := range page.Lanes {
				c := &page.Lanes[i].Config
				_, l := model.lane(c.Task, c.ID)
				c.Data = l.Config.Data
			}
		})
	}
	return page, err
}

func (m *mutant) SaveEndpoint(ctx context.Context, e store.Endpoint) error {
	if m.keepsEndpoints {
		e.Failures = max(1, e.Failures)
	}
	return m.Store.SaveEndpoint(ctx, e)
}

func (m *mutant) PushBacklog(ctx context.Context) (store.PushBacklog, error) {
	b, err := m.Store.PushBacklog(ctx)
	if m.miscounts {
		b.Dead += b.Pending
	}
	return b, err
}

func (m *mutant) WatchLanes(f func()) func() {
	if m.silentWatch {
		return func() {}
	}
	return m.Store.WatchLanes(f)
}
