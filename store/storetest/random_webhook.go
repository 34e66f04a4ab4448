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

// callWebhooks makes one random call about webhooks.
func (r *randomRun) callWebhooks() {
	switch r.pick("call about webhooks", 16) {
	case 0, 1:
		r.saveWebhook()
	case 2, 3, 4:
		r.claimLanes()
	case 5, 6, 7:
		r.ackLanes()
	case 8:
		r.renewLanes()
	case 9:
		r.deleteWebhook()
	case 10:
		r.replayWebhook()
	case 11:
		endpoint, now := r.endpoint(), r.time()
		compareCalls(r, fmt.Sprintf("WakeLanes(%q, %v)", endpoint, now), func(s store.Store) (int, error) {
			return s.WakeLanes(r.ctx, endpoint, now, 100)
		})
	case 12:
		r.listLanes()
	case 13:
		r.listDeliveries(r.webhookQuery())
	case 14:
		r.expireWebhooks()
	default:
		e := store.Endpoint{Name: r.endpoint(), Failures: r.pick("failures", 3), Disabled: r.oneIn("disabled", 3), OpenUntil: r.time(), UpdatedAt: r.time()}
		compareCalls(r, "SaveEndpoint()", func(s store.Store) (struct{}, error) { return struct{}{}, s.SaveEndpoint(r.ctx, e) })
	}
}

func (r *randomRun) webhookID() string {
	return rapid.SampledFrom([]string{"p", "q", "P"}).Draw(r.t, "webhook")
}

func (r *randomRun) endpoint() string {
	return rapid.SampledFrom([]string{endpoint, "http://q.example:80"}).Draw(r.t, "endpoint")
}

// cursor returns a cursor after a random event of the model's task.
func (r *randomRun) cursor(k store.Key) store.WebhookCursor {
	n := 0
	if t, err := r.want.Task(r.ctx, k, store.TaskOptions{}); err == nil {
		n = r.pick("place", int(t.Seq)+1)
	}
	return store.WebhookCursor{Seq: int64(n), Sequence: int64(n / 2), State: r.state()}
}

// newWebhooks returns webhooks for a change of a task.
func (r *randomRun) newWebhooks(k store.Key) []store.NewWebhook {
	var all []store.NewWebhook
	for range r.pick("webhooks", 3) {
		n := store.NewWebhook{
			ID: r.webhookID(), Endpoint: r.endpoint(), Data: webhookData(fmt.Sprint(r.counter)), LongRunning: r.oneIn("long", 2), Cursor: r.cursor(k),
		}
		if !slices.ContainsFunc(all, func(o store.NewWebhook) bool { return o.ID == n.ID }) {
			all = append(all, n)
		}
	}
	return all
}

func (r *randomRun) saveWebhook() {
	k, now := r.key(), r.time()
	c := store.Webhook{
		Task: k, ID: r.webhookID(), Endpoint: r.endpoint(), Data: webhookData(fmt.Sprint(r.counter)), LongRunning: r.oneIn("long", 2), CreatedAt: r.time(),
	}
	cursor := r.cursor(k)
	compareCalls(r, fmt.Sprintf("SaveWebhook(%+v, %+v, %v)", c, cursor, now), func(s store.Store) (store.Lane, error) {
		return s.SaveWebhook(r.ctx, c, cursor, now)
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
	r.claimed = append(r.claimed, compareCalls(r, fmt.Sprintf("ClaimLanes(%+v)", p), func(s store.Store) ([]store.ClaimedLane, error) { return s.ClaimLanes(r.ctx, p) })...)
	r.removeDeletedWebhooks(p.Now)
}

// removeDeletedWebhooks removes deleted webhooks with an expired lease. A store may remove them in
// ClaimLanes or in the next call of DeleteWebhook.
func (r *randomRun) removeDeletedWebhooks(now time.Time) {
	var ended []store.Webhook
	r.want.(*model).eachLane(func(_ *modelTask, l *modelLane) {
		if l.deleted && !l.LeaseUntil.After(now) {
			ended = append(ended, l.Webhook)
		}
	})
	for _, c := range ended {
		for _, s := range []store.Store{r.got, r.want} {
			if busy, err := s.DeleteWebhook(r.ctx, c.Task, c.ID, now); busy || err != nil && !errors.Is(err, store.ErrNotFound) {
				r.t.Fatalf("DeleteWebhook(%s, %q) after the lease ended = %t, %v, want false", taskName(c.Task), c.ID, busy, err)
			}
		}
	}
}

// lease returns a lane that was claimed, preferably recently, or an invented one.
func (r *randomRun) lease() store.ClaimedLane {
	if n := len(r.claimed); n > 0 && !r.oneIn("invented", 6) {
		return r.claimed[n-1-r.pick("recent", min(n, 6))]
	}
	return store.ClaimedLane{Lane: store.Lane{Webhook: testWebhook(r.key(), r.webhookID()), Worker: r.worker(), Fence: int64(r.pick("fence", 4))}}
}

func (r *randomRun) renewLanes() {
	var leases []store.LaneLease
	for range 1 + r.pick("leases", 3) {
		if lease := leaseOf(r.lease().Lane); !slices.ContainsFunc(leases, func(o store.LaneLease) bool { return o.Task == lease.Task && o.ID == lease.ID }) {
			leases = append(leases, lease)
		}
	}
	until := r.time()
	compareCalls(r, fmt.Sprintf("RenewLanes(%v, %+v)", until, leases), func(s store.Store) ([]store.LaneLease, error) {
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
	compareCalls(r, fmt.Sprintf("AckLanes(%+v)", acks), func(s store.Store) ([]store.LaneLease, error) {
		lost, err := s.AckLanes(r.ctx, acks...)
		slices.SortFunc(lost, compareLeases)
		return lost, err
	})
}

// laneAck returns an acknowledgement that continues at the lane's current cursor if the lease
// is valid, so that no event is acknowledged twice.
func (r *randomRun) laneAck() store.LaneAck {
	l := r.lease()
	if _, is := r.want.(*model).lane(l.Webhook.Task, l.Webhook.ID); is != nil && is.heldBy(leaseOf(l.Lane)) {
		l.Cursor = is.Cursor
		l.Events = slices.DeleteFunc(slices.Clone(l.Events), func(e store.Event) bool { return e.Seq <= is.Cursor.Seq })
	}
	n := r.pick("acknowledged", len(l.Events)+1)
	a := ackDelivered(l, n, r.pick("ms", 8)*10)
	a.KeepLease, a.DueAt, a.Delivered = r.oneIn("keep lease", 3), r.time(), r.pick("delivered", n+1)
	a.State = rapid.SampledFrom([]store.LaneState{store.LaneActive, store.LaneActive, store.LaneParked, store.LaneDisabled}).Draw(r.t, "lane state")
	if r.oneIn("failed", 2) {
		a.Attempt, a.FailedAt, a.Reason = 1+r.pick("attempt", 3), r.time(), "why"
	}
	for i := range n {
		if r.oneIn("dead", 3) {
			d := deadLetter(l.Webhook.Task, l.Webhook.ID, l.Events[i].Seq, 0)
			d.At = r.time()
			a.Dead = append(a.Dead, d)
		}
	}
	for range r.pick("attempts", 3) {
		r.counter++ // makes attempts unique
		tried := deliveryAttempt(l.Webhook.Task, l.Webhook.ID, l.Cursor.Seq+1, r.counter, 0)
		tried.At = r.time()
		a.Attempts = append(a.Attempts, tried)
	}
	return a
}

func (r *randomRun) deleteWebhook() {
	k, id, now := r.key(), r.webhookID(), r.time()
	compareCalls(r, fmt.Sprintf("DeleteWebhook(%s, %q, %v)", taskName(k), id, now), func(s store.Store) (bool, error) {
		return s.DeleteWebhook(r.ctx, k, id, now)
	})
}

func (r *randomRun) replayWebhook() {
	k, id, now := r.key(), r.webhookID(), r.time()
	cursor := r.cursor(k)
	compareCalls(r, fmt.Sprintf("ReplayWebhook(%s, %q, %+v, %v)", taskName(k), id, cursor, now), func(s store.Store) (store.WebhookCursor, error) {
		return s.ReplayWebhook(r.ctx, k, id, cursor, now)
	})
}

// expireWebhooks removes everything old, since the contract does not define which records a
// limit selects. It also does not define whether records of a deleted webhook count.
func (r *randomRun) expireWebhooks() {
	p := store.WebhookExpiry{Attempts: r.time(), Dead: r.time(), Finished: r.time(), LongRunning: r.time()}
	got, err := r.got.ExpireWebhooks(r.ctx, p, 1000)
	want, wantErr := r.want.ExpireWebhooks(r.ctx, p, 1000)
	r.wantSame("error of ExpireWebhooks()", fmt.Sprint(err), fmt.Sprint(wantErr))
	hidden := false
	r.want.(*model).eachLane(func(_ *modelTask, l *modelLane) { hidden = hidden || l.deleted })
	if !hidden {
		r.wantSame(fmt.Sprintf("ExpireWebhooks(%+v)", p), got, want)
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
		want := compareCalls(r, fmt.Sprintf("Lanes(%+v)", q), func(s store.Store) (store.LanePage, error) { return s.Lanes(r.ctx, q) })
		if !want.More {
			return
		}
		q.After = ptr(leaseOf(want.Lanes[len(want.Lanes)-1]))
	}
}

func (r *randomRun) webhookQuery() store.WebhookQuery {
	q := store.WebhookQuery{Limit: 1 + r.pick("limit", 4), Sequence: int64(r.pick("sequence", 3))}
	if r.oneIn("of an owner", 2) {
		q.Owner = r.key().Owner
		if r.oneIn("of a task", 2) {
			q.TaskID = r.key().ID
		}
	}
	return q
}

// listDeliveries reads all pages of dead letters and delivery attempts.
func (r *randomRun) listDeliveries(q store.WebhookQuery) {
	compareCalls(r, fmt.Sprintf("DeadLetters(%+v)", q), func(s store.Store) ([]store.DeadLetter, error) {
		return readAllPages(q, func(q store.WebhookQuery) ([]store.DeadLetter, string, error) {
			page, err := s.DeadLetters(r.ctx, q)
			return page.Letters, page.Next, err
		})
	})
	compareCalls(r, fmt.Sprintf("DeliveryAttempts(%+v)", q), func(s store.Store) ([]store.DeliveryAttempt, error) {
		return readAllPages(q, func(q store.WebhookQuery) ([]store.DeliveryAttempt, string, error) {
			page, err := s.DeliveryAttempts(r.ctx, q)
			return page.Attempts, page.Next, err
		})
	})
}

func readAllPages[V any](q store.WebhookQuery, read func(store.WebhookQuery) ([]V, string, error)) ([]V, error) {
	var all []V
	for range 1000 {
		page, next, err := read(q)
		if all = append(all, page...); err != nil || next == "" {
			return all, err
		}
		q.Cursor = next
	}
	return nil, errors.New("more than 1000 pages")
}

// compareWebhooks compares all webhooks of the two stores.
func (r *randomRun) compareWebhooks() {
	compareCalls(r, "Lanes()", func(s store.Store) (store.LanePage, error) { return s.Lanes(r.ctx, store.LaneQuery{Limit: 1000}) })
	r.listDeliveries(store.WebhookQuery{Limit: 1000})
	compareCalls(r, "WebhookBacklog()", func(s store.Store) (store.WebhookBacklog, error) { return s.WebhookBacklog(r.ctx) })
	compareCalls(r, "Endpoints()", func(s store.Store) ([]store.Endpoint, error) {
		all, err := s.Endpoints(r.ctx)
		slices.SortFunc(all, func(a, b store.Endpoint) int { return strings.Compare(a.Name, b.Name) })
		return all, err
	})
}
