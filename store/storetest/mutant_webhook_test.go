package storetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// webhookMutants are the ways to break the webhooks of a store.
var webhookMutants = map[string]func(*mutant){
	"ignores the webhooks of changes": func(m *mutant) { m.change = func(c *store.Change) { c.Webhooks = nil } },
	"ignores the cursors of webhooks": func(m *mutant) {
		m.change = forEachWebhook(func(n *store.NewWebhook) { n.Cursor = store.WebhookCursor{} })
	},
	"adds one webhook per change": func(m *mutant) {
		m.change = func(c *store.Change) { c.Webhooks = c.Webhooks[:min(1, len(c.Webhooks))] }
	},
	"ignores LongRunning": func(m *mutant) {
		m.change = forEachWebhook(func(n *store.NewWebhook) { n.LongRunning = false })
	},

	"claims lanes before they are due":             onClaimLanes(func(p *store.LaneClaim) { p.Now = p.Now.Add(time.Millisecond) }),
	"claims one lane more than the limit":          onClaimLanes(func(p *store.LaneClaim) { p.Limit++ }),
	"always claims leased lanes":                   onClaimLanes(func(p *store.LaneClaim) { p.Takeover = true }),
	"ignores Takeover of lanes":                    onClaimLanes(func(p *store.LaneClaim) { p.Takeover = false }),
	"ignores the horizon of lanes":                 onClaimLanes(func(p *store.LaneClaim) { p.Horizon = 0 }),
	"ignores AfterOwner of lanes":                  onClaimLanes(func(p *store.LaneClaim) { p.AfterOwner = "" }),
	"ignores Skip of lanes":                        onClaimLanes(func(p *store.LaneClaim) { p.Skip = nil }),
	"reads one event more than the limit":          onClaimLanes(func(p *store.LaneClaim) { p.Events++ }),
	"reads events of any size":                     onClaimLanes(func(p *store.LaneClaim) { p.Bytes = 0 }),
	"leases lanes for a millisecond too long":      onClaimLanes(func(p *store.LaneClaim) { p.Until = p.Until.Add(time.Millisecond) }),
	"makes lanes in backoff due":                   func(m *mutant) { m.afterCommit = forEachLane(func(l *modelLane) { l.DueAt = at(0) }) },
	"revokes leases with each event":               func(m *mutant) { m.afterCommit = forEachLane(func(l *modelLane) { l.Worker = "" }) },
	"starts fences at 1":                           func(m *mutant) { m.afterCommit = forEachLane(func(l *modelLane) { l.Fence %= start.UnixMilli() / 10 }) },
	"accepts acknowledgements under any lease":     func(m *mutant) { m.ack = acceptAnyLease },
	"accepts acknowledgements of deleted webhooks": func(m *mutant) { m.ack = undelete },
	"reports no lost lanes":                        func(m *mutant) { m.hidesLostLanes = true },
	"ignores KeepLease":                            onAckLanes(func(a *store.LaneAck) { a.KeepLease = false }),
	"keeps every lease":                            onAckLanes(func(a *store.LaneAck) { a.KeepLease = true }),
	"loses delivery attempts":                      onAckLanes(func(a *store.LaneAck) { a.Attempts = nil }),
	"loses dead letters":                           onAckLanes(func(a *store.LaneAck) { a.Dead = nil }),
	"loses the state of lanes":                     onAckLanes(func(a *store.LaneAck) { a.State = store.LaneActive }),
	"moves FailedAt with every failure":            onAckLanes(func(a *store.LaneAck) { a.FailedAt = a.At }),
	"counts each acknowledgement as one event":     onAckLanes(func(a *store.LaneAck) { a.Delivered = min(1, a.Delivered) }),

	"keeps the lease of a replaced webhook":    func(m *mutant) { m.afterSaveWebhook = (*modelLane).keepLease },
	"keeps the lease of a replayed lane":       func(m *mutant) { m.afterReplay = (*modelLane).keepLease },
	"releases the lease of a replaced webhook": func(m *mutant) { m.afterSaveWebhook = func(l, _ *modelLane) { l.LeaseUntil = time.Time{} } },
	"releases the lease of a replayed lane":    func(m *mutant) { m.afterReplay = func(l, _ *modelLane) { l.LeaseUntil = time.Time{} } },
	"ignores the release of revoked leases": func(m *mutant) {
		m.ack = func(m *model, a *store.LaneAck) { a.KeepLease = a.KeepLease || m.leaseRevoked(a) }
	},
	"releases revoked leases with KeepLease": func(m *mutant) {
		m.ack = func(m *model, a *store.LaneAck) { a.KeepLease = a.KeepLease && !m.leaseRevoked(a) }
	},
	"keeps dead letters of replayed events":                func(m *mutant) { m.afterReplay = func(l, was *modelLane) { l.letters = was.letters } },
	"replays forward":                                      func(m *mutant) { m.replaysForward = true },
	"returns the requested cursor of a replay":             func(m *mutant) { m.returnsRequestedCursor = true },
	"keeps the state of a replayed lane":                   func(m *mutant) { m.afterReplay = func(l, was *modelLane) { l.State = was.State } },
	"keeps the due time of a replaced webhook":             func(m *mutant) { m.afterSaveWebhook = func(l, was *modelLane) { l.DueAt = was.DueAt } },
	"resets the cursor of a replaced webhook":              func(m *mutant) { m.afterSaveWebhook = func(l, _ *modelLane) { l.Cursor = store.WebhookCursor{} } },
	"changes CreatedAt of a replaced webhook":              func(m *mutant) { m.afterSaveWebhook = func(l, _ *modelLane) { l.Webhook.CreatedAt = l.UpdatedAt } },
	"loses the deliveries of a replaced webhook":           func(m *mutant) { m.afterSaveWebhook = func(l, _ *modelLane) { l.attempts, l.Delivered = nil, 0 } },
	"deletes busy webhooks":                                func(m *mutant) { m.deleteAt = at(1 << 40) },
	"never deletes leased webhooks":                        func(m *mutant) { m.deleteAt = at(-1 << 40) },
	"wakes one lane more than the limit":                   func(m *mutant) { m.extraWoken = 1 },
	"expires attempts too early":                           onExpireWebhooks(func(p *store.WebhookExpiry) { p.Attempts = addMillisecond(p.Attempts) }),
	"expires dead letters too early":                       onExpireWebhooks(func(p *store.WebhookExpiry) { p.Dead = addMillisecond(p.Dead) }),
	"expires webhooks too early":                           onExpireWebhooks(func(p *store.WebhookExpiry) { p.Finished = addMillisecond(p.Finished) }),
	"expires long-running webhooks like others":            onExpireWebhooks(func(p *store.WebhookExpiry) { p.LongRunning = p.Finished }),
	"removes no endpoints":                                 func(m *mutant) { m.keepsEndpoints = true },
	"counts pending lanes as dead letters":                 func(m *mutant) { m.countsPendingAsDead = true },
	"lists deliveries of every webhook":                    onWebhookQuery(func(q *store.WebhookQuery) { q.ID = "" }),
	"lists deliveries of every task":                       onWebhookQuery(func(q *store.WebhookQuery) { q.TaskID = "" }),
	"lists deliveries of every event":                      onWebhookQuery(func(q *store.WebhookQuery) { q.Sequence = 0 }),
	"ignores the cursor of deliveries":                     onWebhookQuery(func(q *store.WebhookQuery) { q.Cursor = "" }),
	"lists deliveries with equal times in ascending order": func(m *mutant) { m.listsOldestFirst = true },
	"ignores the states of a list of lanes":                onLaneQuery(func(q *store.LaneQuery) { q.States = nil }),
	"ignores the owner of a list of lanes":                 onLaneQuery(func(q *store.LaneQuery) { q.Owner = "" }),
	"ignores After of a list of lanes":                     onLaneQuery(func(q *store.LaneQuery) { q.After = nil }),
	"returns its own memory for webhook data":              func(m *mutant) { m.sharesData = true },
	"never calls watchers":                                 func(m *mutant) { m.ignoresWatchers = true },
	"returns deleted webhooks that are leased":             func(m *mutant) { m.afterCommit = forEachLane(func(l *modelLane) { l.deleted = false }) },
	"ignores the time of a deletion":                       func(m *mutant) { m.deleteAt = start },
}

func forEachWebhook(f func(*store.NewWebhook)) func(*store.Change) {
	return func(c *store.Change) {
		c.Webhooks = slices.Clone(c.Webhooks)
		for i := range c.Webhooks {
			f(&c.Webhooks[i])
		}
	}
}

func onClaimLanes(f func(*store.LaneClaim)) func(*mutant) { return func(m *mutant) { m.claimLane = f } }

func onAckLanes(f func(*store.LaneAck)) func(*mutant) {
	return func(m *mutant) { m.ack = func(_ *model, a *store.LaneAck) { f(a) } }
}

func onExpireWebhooks(f func(*store.WebhookExpiry)) func(*mutant) {
	return func(m *mutant) { m.expire = f }
}

func onWebhookQuery(f func(*store.WebhookQuery)) func(*mutant) {
	return func(m *mutant) { m.deliveryQuery = f }
}

func onLaneQuery(f func(*store.LaneQuery)) func(*mutant) { return func(m *mutant) { m.laneQuery = f } }

func forEachLane(f func(*modelLane)) func(*model) {
	return func(m *model) { m.eachLane(func(_ *modelTask, l *modelLane) { f(l) }) }
}

// keepLease restores the lease that a lane had.
func (l *modelLane) keepLease(was *modelLane) {
	l.Worker, l.Fence, l.LeaseUntil = was.Worker, was.Fence, was.LeaseUntil
}

func acceptAnyLease(m *model, a *store.LaneAck) {
	if _, l := m.lane(a.Lease.Task, a.Lease.ID); l != nil {
		l.Worker, l.Fence = a.Lease.Worker, a.Lease.Fence
	}
}

// leaseRevoked reports whether the lease of an acknowledgement was revoked, or its webhook
// deleted.
func (m *model) leaseRevoked(a *store.LaneAck) bool {
	_, l := m.lane(a.Lease.Task, a.Lease.ID)
	return l != nil && (l.deleted || l.revokedFrom(a.Lease))
}

func undelete(m *model, a *store.LaneAck) {
	if _, l := m.lane(a.Lease.Task, a.Lease.ID); l != nil {
		l.deleted = false
	}
}

// webhookMutant contains the changes of a mutant to calls about webhooks.
type webhookMutant struct {
	afterCommit            func(*model)
	claimLane              func(*store.LaneClaim)
	ack                    func(*model, *store.LaneAck)
	afterSaveWebhook       func(l, was *modelLane)
	afterReplay            func(l, was *modelLane)
	replaysForward         bool
	returnsRequestedCursor bool
	deleteAt               time.Time
	extraWoken             int
	expire                 func(*store.WebhookExpiry)
	deliveryQuery          func(*store.WebhookQuery)
	laneQuery              func(*store.LaneQuery)
	listsOldestFirst       bool
	hidesLostLanes         bool
	ignoresWatchers        bool
	keepsEndpoints         bool
	countsPendingAsDead    bool
	sharesData             bool
}

func (m *mutant) model() *model { return m.Store.(*model) }

// withModel changes the model between calls.
func (m *mutant) withModel(f func(*model)) {
	model := m.model()
	model.mu.Lock()
	defer model.mu.Unlock()
	f(model)
}

func (m *mutant) ClaimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	suite.Mutate(m.claimLane, &p)
	return m.Store.ClaimLanes(ctx, p)
}

func (m *mutant) RenewLanes(ctx context.Context, until time.Time, leases []store.LaneLease) ([]store.LaneLease, error) {
	lost, err := m.Store.RenewLanes(ctx, until, leases)
	if m.hidesLostLanes {
		lost = nil
	}
	return lost, err
}

func (m *mutant) AckLanes(ctx context.Context, acks ...store.LaneAck) ([]store.LaneLease, error) {
	acks = slices.Clone(acks)
	for i := range acks {
		if m.ack != nil {
			m.withModel(func(model *model) { m.ack(model, &acks[i]) })
		}
	}
	lost, err := m.Store.AckLanes(ctx, acks...)
	if m.hidesLostLanes {
		lost = nil
	}
	return lost, err
}

// changeLane makes a call that changes a lane, and then changes the lane again.
func (m *mutant) changeLane(k store.Key, id string, call func() error, then func(l, was *modelLane)) error {
	var was *modelLane
	m.withModel(func(model *model) {
		if _, l := model.lane(k, id); l != nil {
			before := *l
			before.letters = slices.Clone(l.letters)
			was = &before
		}
	})
	err := call()
	if then != nil && was != nil && err == nil {
		m.withModel(func(model *model) {
			_, l := model.lane(k, id)
			then(l, was)
		})
	}
	return err
}

func (m *mutant) SaveWebhook(ctx context.Context, c store.Webhook, cursor store.WebhookCursor, now time.Time) (store.Lane, error) {
	var l store.Lane
	err := m.changeLane(c.Task, c.ID, func() (err error) {
		l, err = m.Store.SaveWebhook(ctx, c, cursor, now)
		return err
	}, m.afterSaveWebhook)
	return l, err
}

func (m *mutant) ReplayWebhook(ctx context.Context, k store.Key, id string, cursor store.WebhookCursor, now time.Time) (at store.WebhookCursor, err error) {
	replayed := m.afterReplay
	if m.replaysForward {
		replayed = func(l, _ *modelLane) { l.Cursor, at = cursor, cursor }
	}
	err = m.changeLane(k, id, func() (err error) {
		at, err = m.Store.ReplayWebhook(ctx, k, id, cursor, now)
		return err
	}, replayed)
	if m.returnsRequestedCursor && err == nil {
		at = cursor
	}
	return at, err
}

func (m *mutant) DeleteWebhook(ctx context.Context, k store.Key, id string, now time.Time) (bool, error) {
	if !m.deleteAt.IsZero() {
		now = m.deleteAt
	}
	return m.Store.DeleteWebhook(ctx, k, id, now)
}

func (m *mutant) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (int, error) {
	return m.Store.WakeLanes(ctx, endpoint, now, limit+m.extraWoken)
}

func (m *mutant) ExpireWebhooks(ctx context.Context, p store.WebhookExpiry, limit int) (int, error) {
	suite.Mutate(m.expire, &p)
	return m.Store.ExpireWebhooks(ctx, p, limit)
}

func (m *mutant) DeadLetters(ctx context.Context, q store.WebhookQuery) (store.DeadLetterPage, error) {
	suite.Mutate(m.deliveryQuery, &q)
	page, err := m.Store.DeadLetters(ctx, q)
	if m.listsOldestFirst {
		slices.SortStableFunc(page.Letters, func(a, b store.DeadLetter) int {
			return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Sequence, b.Sequence))
		})
	}
	return page, err
}

func (m *mutant) DeliveryAttempts(ctx context.Context, q store.WebhookQuery) (store.DeliveryAttemptPage, error) {
	suite.Mutate(m.deliveryQuery, &q)
	page, err := m.Store.DeliveryAttempts(ctx, q)
	if m.listsOldestFirst {
		slices.SortStableFunc(page.Attempts, func(a, b store.DeliveryAttempt) int {
			return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Sequence, b.Sequence))
		})
	}
	return page, err
}

func (m *mutant) Lanes(ctx context.Context, q store.LaneQuery) (store.LanePage, error) {
	suite.Mutate(m.laneQuery, &q)
	page, err := m.Store.Lanes(ctx, q)
	if m.sharesData {
		m.withModel(func(model *model) {
			for i := range page.Lanes {
				c := &page.Lanes[i].Webhook
				_, l := model.lane(c.Task, c.ID)
				c.Data = l.Webhook.Data
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

func (m *mutant) WebhookBacklog(ctx context.Context) (store.WebhookBacklog, error) {
	b, err := m.Store.WebhookBacklog(ctx)
	if m.countsPendingAsDead {
		b.Dead += b.Pending
	}
	return b, err
}

func (m *mutant) WatchLanes(f func()) func() {
	if m.ignoresWatchers {
		return func() {}
	}
	return m.Store.WatchLanes(f)
}
