package storetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// modelLane is a webhook with its lane. Its Tail is not set.
type modelLane struct {
	store.Lane
	deleted  bool
	attempts []store.DeliveryAttempt
	letters  []store.DeadLetter
}

func (t *modelTask) lane(id string) *modelLane {
	for _, l := range t.lanes {
		if l.Webhook.ID == id {
			return l
		}
	}
	return nil
}

// lane returns a webhook, even a deleted one, with its task, or nil.
func (m *model) lane(k store.Key, id string) (*modelTask, *modelLane) {
	t := m.tasks[k]
	if t == nil {
		return nil, nil
	}
	return t, t.lane(id)
}

func (t *modelTask) removeLane(l *modelLane) {
	t.lanes = slices.DeleteFunc(t.lanes, func(o *modelLane) bool { return o == l })
}

// laneView returns the lane as reads return it.
func (t *modelTask) laneView(l *modelLane) store.Lane {
	v := l.Lane
	v.Tail, v.Webhook.Data = int64(len(t.log)), bytes.Clone(v.Webhook.Data)
	return v
}

func (t *modelTask) pending(l *modelLane) bool {
	v := t.laneView(l)
	return !l.deleted && v.Pending()
}

func (l *modelLane) heldBy(by store.LaneLease) bool {
	return l.Worker != "" && l.Worker == by.Worker && l.Fence == by.Fence
}

// moveTails makes lanes due that had nothing to send when the log had length from.
func (t *modelTask) moveTails(from int) {
	for _, l := range t.lanes {
		if len(t.log) > from && l.Cursor.Seq >= int64(from) {
			l.DueAt = t.log[len(t.log)-1].Time
		}
	}
}

// revokedFrom reports whether the lease was revoked and is unreleased.
func (l *modelLane) revokedFrom(by store.LaneLease) bool {
	return l.Worker == "" && !l.LeaseUntil.IsZero() && l.Fence == by.Fence+1
}

func (l *modelLane) revokeLease() {
	if l.Worker != "" || l.LeaseUntil.IsZero() {
		l.Fence++
	}
	l.Worker = ""
}

func (l *modelLane) reset(now time.Time) {
	l.revokeLease()
	l.State, l.Reason, l.DueAt, l.Attempt, l.FailedAt = store.LaneActive, "", now, 0, time.Time{}
	l.UpdatedAt = now
}

func (t *modelTask) saveWebhook(c store.Webhook, cursor store.WebhookCursor, now time.Time) *modelLane {
	now = store.Time(now)
	c.Data, c.CreatedAt = bytes.Clone(c.Data), store.Time(c.CreatedAt)
	l := t.lane(c.ID)
	if l != nil && !l.deleted {
		c.CreatedAt = l.Webhook.CreatedAt
		l.Webhook = c
		l.reset(now)
		return l
	}
	fence, until := now.UnixMilli(), time.Time{}
	if l != nil {
		l.revokeLease()
		fence, until = l.Fence, l.LeaseUntil
		t.removeLane(l)
	}
	l = &modelLane{Lane: store.Lane{
		Webhook: c, Cursor: cursor, State: store.LaneActive, DueAt: now, UpdatedAt: now, Fence: fence, LeaseUntil: until,
	}}
	t.lanes = append(t.lanes, l)
	return l
}

// saveWebhooks saves the webhooks of a change.
func (t *modelTask) saveWebhooks(all []store.NewWebhook) {
	for _, n := range all {
		now := t.log[len(t.log)-1].Time
		t.saveWebhook(store.Webhook{
			Task: t.key, ID: n.ID, Endpoint: n.Endpoint, Data: n.Data, LongRunning: n.LongRunning, CreatedAt: now,
		}, n.Cursor, now)
	}
}

func (m *model) SaveWebhook(ctx context.Context, c store.Webhook, cursor store.WebhookCursor, now time.Time) (store.Lane, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return store.Lane{}, err
	}
	t := m.tasks[c.Task]
	if t == nil {
		return store.Lane{}, store.ErrNotFound
	}
	defer m.notifyWatchers()
	return t.laneView(t.saveWebhook(c, cursor, now)), nil
}

func (m *model) DeleteWebhook(ctx context.Context, k store.Key, id string, now time.Time) (bool, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return false, err
	}
	t, l := m.lane(k, id)
	if l == nil {
		return false, store.ErrNotFound
	}
	if !l.LeaseUntil.After(now) {
		t.removeLane(l)
		return false, nil
	}
	l.deleted = true
	return true, nil
}

func (m *model) ReplayWebhook(ctx context.Context, k store.Key, id string, cursor store.WebhookCursor, now time.Time) (store.WebhookCursor, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return store.WebhookCursor{}, err
	}
	_, l := m.lane(k, id)
	if l == nil || l.deleted {
		return store.WebhookCursor{}, store.ErrNotFound
	}
	if l.Cursor.Seq < cursor.Seq {
		cursor = l.Cursor
	}
	l.Cursor = cursor
	l.letters = slices.DeleteFunc(l.letters, func(d store.DeadLetter) bool { return d.Seq > cursor.Seq })
	l.reset(store.Time(now))
	m.notifyWatchers()
	return cursor, nil
}

func (m *model) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (int, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return 0, err
	}
	now = store.Time(now)
	var waiting []*modelLane
	m.eachLane(func(t *modelTask, l *modelLane) {
		if t.pending(l) && l.LeaseUntil.IsZero() && l.Webhook.Endpoint == endpoint && l.DueAt.After(now) {
			waiting = append(waiting, l)
		}
	})
	slices.SortFunc(waiting, func(a, b *modelLane) int { return cmp.Or(a.DueAt.Compare(b.DueAt), compareLanes(a, b)) })
	waiting = waiting[:min(limit, len(waiting))]
	for _, l := range waiting {
		l.DueAt = now
	}
	m.notifyWatchers()
	return len(waiting), nil
}

// eachLane calls f with all lanes, including deleted ones.
func (m *model) eachLane(f func(*modelTask, *modelLane)) {
	for _, t := range m.tasks {
		for _, l := range t.lanes {
			f(t, l)
		}
	}
}

func compareLanes(a, b *modelLane) int {
	return cmp.Or(compareKeys(a.Webhook.Task, b.Webhook.Task), strings.Compare(a.Webhook.ID, b.Webhook.ID))
}

func (m *model) Lanes(ctx context.Context, q store.LaneQuery) (store.LanePage, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return store.LanePage{}, err
	}
	var page store.LanePage
	m.eachLane(func(t *modelTask, l *modelLane) {
		k, id := l.Webhook.Task, l.Webhook.ID
		after := q.After == nil || cmp.Or(compareKeys(k, q.After.Task), strings.Compare(id, q.After.ID)) > 0
		if after && !l.deleted && (q.Owner == "" || q.Owner == k.Owner) && (q.TaskID == "" || q.TaskID == k.ID) &&
			(q.ID == "" || q.ID == id) && (len(q.States) == 0 || slices.Contains(q.States, l.State)) {
			page.Lanes = append(page.Lanes, t.laneView(l))
		}
	})
	slices.SortFunc(page.Lanes, func(a, b store.Lane) int {
		return cmp.Or(compareKeys(a.Webhook.Task, b.Webhook.Task), strings.Compare(a.Webhook.ID, b.Webhook.ID))
	})
	if page.More = len(page.Lanes) > q.Limit; page.More {
		page.Lanes = page.Lanes[:q.Limit]
	}
	return page, nil
}

func (m *model) DeadLetters(ctx context.Context, q store.WebhookQuery) (store.DeadLetterPage, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return store.DeadLetterPage{}, err
	}
	var all []store.DeadLetter
	m.eachLane(func(_ *modelTask, l *modelLane) {
		for _, d := range l.letters {
			if !l.deleted && matchesWebhookQuery(q, d.Task, d.WebhookID, d.Sequence) {
				all = append(all, d)
			}
		}
	})
	page, next, err := deliveryPageOf(all, q, compareLetters)
	return store.DeadLetterPage{Letters: page, Next: next}, err
}

func (m *model) DeliveryAttempts(ctx context.Context, q store.WebhookQuery) (store.DeliveryAttemptPage, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return store.DeliveryAttemptPage{}, err
	}
	var all []store.DeliveryAttempt
	m.eachLane(func(_ *modelTask, l *modelLane) {
		for _, a := range l.attempts {
			if !l.deleted && matchesWebhookQuery(q, a.Task, a.WebhookID, a.Sequence) {
				all = append(all, a)
			}
		}
	})
	page, next, err := deliveryPageOf(all, q, compareAttempts)
	return store.DeliveryAttemptPage{Attempts: page, Next: next}, err
}

func matchesWebhookQuery(q store.WebhookQuery, k store.Key, id string, sequence int64) bool {
	return (q.Owner == "" || q.Owner == k.Owner) && (q.TaskID == "" || q.TaskID == k.ID) && (q.ID == "" || q.ID == id) &&
		(q.Sequence == 0 || q.Sequence == sequence)
}

func (m *model) Endpoints(ctx context.Context) ([]store.Endpoint, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	var all []store.Endpoint
	for _, e := range m.endpoints {
		all = append(all, e)
	}
	return all, nil
}

func (m *model) SaveEndpoint(ctx context.Context, e store.Endpoint) error {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return err
	}
	e.FailedAt, e.OpenUntil, e.UpdatedAt = store.Time(e.FailedAt), store.Time(e.OpenUntil), store.Time(e.UpdatedAt)
	m.endpoints[e.Name] = e
	if e.Failures == 0 && !e.Disabled {
		delete(m.endpoints, e.Name)
	}
	return nil
}

func (m *model) ExpireWebhooks(ctx context.Context, p store.WebhookExpiry, limit int) (int, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return 0, err
	}
	attempts, dead, lanes := 0, 0, 0
	m.eachLane(func(_ *modelTask, l *modelLane) {
		l.attempts = slices.DeleteFunc(l.attempts, func(a store.DeliveryAttempt) bool {
			old := !l.deleted && attempts < limit && a.At.Before(p.Attempts)
			if old {
				attempts++
			}
			return old
		})
		l.letters = slices.DeleteFunc(l.letters, func(d store.DeadLetter) bool {
			old := dead < limit && d.At.Before(p.Dead)
			if old {
				dead++
			}
			return old
		})
	})
	for _, t := range m.tasks {
		t.lanes = slices.DeleteFunc(t.lanes, func(l *modelLane) bool {
			before := p.Finished
			if l.Webhook.LongRunning {
				before = p.LongRunning
			}
			old := lanes < limit && !l.deleted && !t.pending(l) && len(l.letters) == 0 && !isUnfinished(t) && l.UpdatedAt.Before(before)
			if old {
				lanes++
			}
			return old
		})
	}
	return attempts + dead + lanes, nil
}

func (m *model) WebhookBacklog(ctx context.Context) (store.WebhookBacklog, error) {
	defer m.mu.Unlock()
	var b store.WebhookBacklog
	if err := m.startCall(ctx); err != nil {
		return b, err
	}
	m.eachLane(func(t *modelTask, l *modelLane) {
		if l.deleted {
			return
		}
		if t.pending(l) {
			b.Pending++
		}
		switch l.State {
		case store.LaneParked:
			b.Parked++
		case store.LaneDisabled:
			b.Disabled++
		case store.LaneActive:
		}
		b.Dead += len(l.letters)
	})
	return b, nil
}

func (m *model) WatchLanes(f func()) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers = append(m.watchers, &f)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watchers = slices.DeleteFunc(m.watchers, func(g *func()) bool { return g == &f })
	}
}

// notifyWatchers calls the watchers, even if no lane became due.
func (m *model) notifyWatchers() {
	for _, f := range m.watchers {
		(*f)()
	}
}

// deliveryPageOf returns a page of delivery attempts or dead letters, in order. The cursor is
// the last element of the previous page.
func deliveryPageOf[V any](all []V, q store.WebhookQuery, compare func(a, b V) int) (page []V, next string, err error) {
	slices.SortFunc(all, compare)
	if q.Cursor != "" {
		var last V
		if err := json.Unmarshal([]byte(q.Cursor), &last); err != nil {
			return nil, "", fmt.Errorf("malformed cursor: %w", err)
		}
		all = slices.DeleteFunc(all, func(v V) bool { return compare(v, last) <= 0 })
	}
	if len(all) <= q.Limit {
		return all, "", nil
	}
	raw, err := json.Marshal(all[q.Limit-1])
	return all[:q.Limit], string(raw), err
}
