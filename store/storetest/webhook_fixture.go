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
	"github.com/holdfast-dev/holdfast/store/suite"
)

// endpoint is the default endpoint of webhooks.
const endpoint = "https://hooks.example:443"

// testWebhook returns a webhook of a task.
func testWebhook(k store.Key, id string) store.Webhook {
	return store.Webhook{Task: k, ID: id, Endpoint: endpoint, Data: webhookData(id), CreatedAt: at(1)}
}

func webhookData(id string) []byte {
	return fmt.Appendf(nil, `{"url": "https://hooks.example/%s"}`, id)
}

// testWebhooks returns webhooks that start before the first event.
func testWebhooks(ids ...string) []store.NewWebhook {
	var all []store.NewWebhook
	for _, id := range ids {
		all = append(all, store.NewWebhook{ID: id, Endpoint: endpoint, Data: webhookData(id)})
	}
	return all
}

// createTaskWithWebhooks creates an idle task with n events, at 0, 1, ... ms, and webhooks that
// start before the first event.
func (f *fixture) createTaskWithWebhooks(k store.Key, n int, ids ...string) {
	f.Helper()
	f.commit(taskWithWebhooks(k, n, ids...))
}

func taskWithWebhooks(k store.Key, n int, ids ...string) store.Change {
	c := store.Change{Key: k, Create: &store.Create{ContextID: "context"}, Queue: idle(), Webhooks: testWebhooks(ids...)}
	for i := range n {
		c.Events = append(c.Events, deliverableEvent(i))
	}
	return c
}

// deliverableEvent returns an event at ms that receivers get.
func deliverableEvent(ms int) store.Event {
	return agentMessage(at(ms), a2a.StateWorking, fmt.Sprint("m", ms))
}

// appendEvents appends events to a task.
func (f *fixture) appendEvents(k store.Key, events ...store.Event) {
	f.Helper()
	f.commit(changeAt(k, f.task(k).Seq, events...))
}

// newLane returns the lane of a webhook that was saved at ms.
func newLane(c store.Webhook, cursor store.WebhookCursor, tail int64, ms int) store.Lane {
	return store.Lane{
		Webhook: c, Cursor: cursor, Tail: tail, State: store.LaneActive, DueAt: at(ms), UpdatedAt: at(ms),
		Fence: at(ms).UnixMilli(),
	}
}

// committedWebhook returns the webhook that a commit at ms creates.
func committedWebhook(k store.Key, id string, ms int) store.Webhook {
	c := testWebhook(k, id)
	c.CreatedAt = at(ms)
	return c
}

// cursorAt returns the cursor after n events made by deliverableEvent.
func cursorAt(n int) store.WebhookCursor {
	c := store.WebhookCursor{Seq: int64(n), Sequence: int64(n)}
	if n > 0 {
		c.State = a2a.StateWorking
	}
	return c
}

func (f *fixture) saveWebhook(c store.Webhook, cursor store.WebhookCursor, ms int) store.Lane {
	f.Helper()
	return suite.Call(f.s.SaveWebhook(f.ctx, c, cursor, at(ms))).Must(f, "SaveWebhook(%q of %s)", c.ID, taskName(c.Task))
}

// lanes reads a page of lanes, by default of up to 1000.
func (f *fixture) lanes(q store.LaneQuery) store.LanePage {
	f.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	return suite.Call(f.s.Lanes(f.ctx, q)).Must(f, "Lanes(%+v)", q)
}

func laneQueryOf(k store.Key, id string) store.LaneQuery {
	return store.LaneQuery{Owner: k.Owner, TaskID: k.ID, ID: id}
}

func (f *fixture) lane(k store.Key, id string) store.Lane {
	f.Helper()
	page := f.lanes(laneQueryOf(k, id))
	if len(page.Lanes) != 1 || page.More {
		f.Fatalf("Lanes() of webhook %q of %s = %d lanes, want 1", id, taskName(k), len(page.Lanes))
	}
	return page.Lanes[0]
}

// wantNoLane checks that no read finds anything of a webhook.
func (f *fixture) wantNoLane(k store.Key, id string) {
	f.Helper()
	f.equal(fmt.Sprintf("Lanes() of webhook %q of %s", id, taskName(k)), f.lanes(laneQueryOf(k, id)), store.LanePage{})
	q := store.WebhookQuery{Owner: k.Owner, TaskID: k.ID, ID: id}
	f.equal("DeadLetters()", f.deadLetters(q), []store.DeadLetter{})
	f.equal("DeliveryAttempts()", f.deliveryAttempts(q), []store.DeliveryAttempt{})
}

// laneClaim returns the parameters of a claim at ms, with leases of one minute and up to 100
// events per lane.
func laneClaim(worker string, ms, limit int) store.LaneClaim {
	return store.LaneClaim{Worker: worker, Now: at(ms), Until: at(ms).Add(time.Minute), Limit: limit, Events: 100}
}

func (f *fixture) claimLanes(p store.LaneClaim) []store.ClaimedLane {
	f.Helper()
	lanes := suite.Call(f.s.ClaimLanes(f.ctx, p)).Must(f, "ClaimLanes()")
	if len(lanes) > p.Limit {
		f.Errorf("ClaimLanes() with limit %d returned %d lanes", p.Limit, len(lanes))
	}
	return lanes
}

// claimLane claims the only due lane.
func (f *fixture) claimLane(worker string, ms int) store.ClaimedLane {
	f.Helper()
	lanes := suite.Len(f, f.claimLanes(laneClaim(worker, ms, 9)), 1, "ClaimLanes() at %d ms", ms)
	return lanes[0]
}

// wantNoDueLane checks that no lane is due at ms.
func (f *fixture) wantNoDueLane(ms int) {
	f.Helper()
	if got := f.claimLanes(laneClaim("idler", ms, 9)); len(got) != 0 {
		f.Fatalf("ClaimLanes() at %d ms = %v, want nothing", ms, laneNames(got))
	}
}

// laneNames returns "owner/task/webhook" for each lane.
func laneNames(lanes []store.ClaimedLane) []string {
	names := make([]string, len(lanes))
	for i := range lanes {
		names[i] = laneName(&lanes[i].Lane)
	}
	return names
}

func laneName(l *store.Lane) string {
	c := &l.Webhook
	return c.Task.Owner + "/" + c.Task.ID + "/" + c.ID
}

// leaseOf returns the current lease of a lane.
func leaseOf(l store.Lane) store.LaneLease {
	return store.LaneLease{Task: l.Webhook.Task, ID: l.Webhook.ID, Worker: l.Worker, Fence: l.Fence}
}

func compareLeases(a, b store.LaneLease) int {
	return cmp.Or(compareKeys(a.Task, b.Task), strings.Compare(a.ID, b.ID), cmp.Compare(a.Fence, b.Fence), strings.Compare(a.Worker, b.Worker))
}

// ackDelivered returns the acknowledgement that delivers the first n events of a claimed lane
// and releases it.
func ackDelivered(l store.ClaimedLane, n, ms int) store.LaneAck {
	a := store.LaneAck{
		Lease: leaseOf(l.Lane), At: at(ms), Cursor: l.Cursor, State: store.LaneActive, DueAt: at(ms), Delivered: n,
	}
	for i := range n {
		a.Cursor, _ = a.Cursor.Next(&l.Events[i])
	}
	return a
}

// ackFailed returns the acknowledgement of a failed attempt, with the next attempt at due.
func ackFailed(l store.ClaimedLane, ms, due int) store.LaneAck {
	a := ackDelivered(l, 0, ms)
	a.DueAt, a.Attempt, a.FailedAt = at(due), l.Attempt+1, l.FailedAt
	if a.FailedAt.IsZero() {
		a.FailedAt = at(ms)
	}
	return a
}

// deliveryAttempt returns attempt n to send the event with a sequence, made at ms.
func deliveryAttempt(k store.Key, id string, seq int64, n, ms int) store.DeliveryAttempt {
	return store.DeliveryAttempt{
		Task: k, WebhookID: id, Seq: seq, Sequence: seq, Attempt: n, At: at(ms), Duration: 17 * time.Millisecond,
		Status: 503, Outcome: "refused", Address: "192.0.2.1:443", Detail: "detail of " + id,
	}
}

// deadLetter returns the dead letter of the event with a sequence, made at ms.
func deadLetter(k store.Key, id string, seq int64, ms int) store.DeadLetter {
	return store.DeadLetter{
		Task: k, WebhookID: id, Cursor: cursorAt(int(seq) - 1), Seq: seq, Sequence: seq, Attempts: 3, Status: 410,
		Reason: "reason of " + id, At: at(ms),
	}
}

// ackDeadLetters returns the acknowledgement that makes dead letters of the first n events of a
// claimed lane, with one attempt each, and releases it.
func ackDeadLetters(l store.ClaimedLane, n, ms int) store.LaneAck {
	a := ackDelivered(l, n, ms)
	a.Delivered = 0
	for i := range n {
		seq := l.Events[i].Seq
		a.Attempts = append(a.Attempts, deliveryAttempt(l.Webhook.Task, l.Webhook.ID, seq, 1, ms))
		a.Dead = append(a.Dead, deadLetter(l.Webhook.Task, l.Webhook.ID, seq, ms))
	}
	return a
}

// ackLanes acknowledges claimed lanes and returns the lost leases, sorted.
func (f *fixture) ackLanes(acks ...store.LaneAck) []store.LaneLease {
	f.Helper()
	lost := suite.Call(f.s.AckLanes(f.ctx, acks...)).Must(f, "AckLanes()")
	slices.SortFunc(lost, compareLeases)
	return lost
}

// ack acknowledges claimed lanes, all of which the worker must hold.
func (f *fixture) ack(acks ...store.LaneAck) {
	f.Helper()
	f.equal("lost leases of AckLanes()", f.ackLanes(acks...), []store.LaneLease{})
}

// wantLeaseLost checks that a lease is lost: RenewLanes and AckLanes report it and do not
// change the lane. Only releasing a revoked lease clears its LeaseUntil.
func (f *fixture) wantLeaseLost(l store.ClaimedLane, ms int) {
	f.Helper()
	k, id := l.Webhook.Task, l.Webhook.ID
	q := store.WebhookQuery{Owner: k.Owner, TaskID: k.ID, ID: id}
	before, letters, attempts := f.lanes(laneQueryOf(k, id)), f.deadLetters(q), f.deliveryAttempts(q)
	lease := []store.LaneLease{leaseOf(l.Lane)}
	f.equal("RenewLanes() of a lost lease", f.renewLanes(ms+100_000, lease...), lease)
	hold := ackDeadLetters(l, 1, ms)
	hold.KeepLease = true
	f.equal("AckLanes() of a lost lease", f.ackLanes(hold), lease)
	f.equal("Lanes() after a lease was lost", f.lanes(laneQueryOf(k, id)), before)
	f.equal("AckLanes() of a lost lease", f.ackLanes(ackDeadLetters(l, 1, ms)), lease)
	for i := range before.Lanes {
		if b := &before.Lanes[i]; b.Worker == "" && b.Fence == l.Fence+1 {
			b.LeaseUntil = time.Time{}
		}
	}
	f.equal("Lanes() after a lost lease was released", f.lanes(laneQueryOf(k, id)), before)
	f.equal("DeadLetters() after a lease was lost", f.deadLetters(q), letters)
	f.equal("DeliveryAttempts() after a lease was lost", f.deliveryAttempts(q), attempts)
}

// renewLanes extends leases and returns the lost ones, sorted.
func (f *fixture) renewLanes(until int, leases ...store.LaneLease) []store.LaneLease {
	f.Helper()
	lost := suite.Call(f.s.RenewLanes(f.ctx, at(until), leases)).Must(f, "RenewLanes()")
	slices.SortFunc(lost, compareLeases)
	return lost
}

// deleteWebhook deletes a webhook and checks whether it is busy.
func (f *fixture) deleteWebhook(k store.Key, id string, ms int, want bool) {
	f.Helper()
	suite.Call(f.s.DeleteWebhook(f.ctx, k, id, at(ms))).Want(f, want, "DeleteWebhook(%s, %q) at %d ms", taskName(k), id, ms)
	f.wantNoLane(k, id)
}

// wantNoWebhook checks that DeleteWebhook finds no webhook.
func (f *fixture) wantNoWebhook(k store.Key, id string, ms int) {
	f.Helper()
	if busy, err := f.s.DeleteWebhook(f.ctx, k, id, at(ms)); busy || !errors.Is(err, store.ErrNotFound) {
		f.Errorf("DeleteWebhook(%s, %q) = %t, %v, want ErrNotFound", taskName(k), id, busy, err)
	}
}

// replay moves a lane back and returns its new cursor.
func (f *fixture) replay(k store.Key, id string, cursor store.WebhookCursor, ms int) store.WebhookCursor {
	f.Helper()
	got := suite.Call(f.s.ReplayWebhook(f.ctx, k, id, cursor, at(ms))).Must(f, "ReplayWebhook(%s, %q)", taskName(k), id)
	f.equal("ReplayWebhook()", got, f.lane(k, id).Cursor)
	return got
}

func (f *fixture) wakeLanes(endpoint string, ms, limit int) int {
	f.Helper()
	return suite.Call(f.s.WakeLanes(f.ctx, endpoint, at(ms), limit)).Must(f, "WakeLanes()")
}

// deadLetters reads all pages of dead letters.
func (f *fixture) deadLetters(q store.WebhookQuery) []store.DeadLetter {
	f.Helper()
	return allPages(f, "DeadLetters()", q, func(q store.WebhookQuery) ([]store.DeadLetter, string, error) {
		page, err := f.s.DeadLetters(f.ctx, q)
		return page.Letters, page.Next, err
	})
}

// deliveryAttempts reads all pages of delivery attempts.
func (f *fixture) deliveryAttempts(q store.WebhookQuery) []store.DeliveryAttempt {
	f.Helper()
	return allPages(f, "DeliveryAttempts()", q, func(q store.WebhookQuery) ([]store.DeliveryAttempt, string, error) {
		page, err := f.s.DeliveryAttempts(f.ctx, q)
		return page.Attempts, page.Next, err
	})
}

// allPages reads all pages of a query, of 100 elements by default.
func allPages[V any](f *fixture, label string, q store.WebhookQuery, read func(store.WebhookQuery) ([]V, string, error)) []V {
	f.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	var all []V
	for range 1000 {
		page, next, err := read(q)
		if err != nil {
			f.Fatalf("%s with %+v = %v, want a page", label, q, err)
		}
		all = append(all, page...)
		if next == "" {
			if len(page) > q.Limit {
				f.Errorf("%s with limit %d = %d", label, q.Limit, len(page))
			}
			return all
		}
		suite.Equal(f, len(page), q.Limit, "%s with limit %d", label, q.Limit)
		q.Cursor = next
	}
	f.Fatalf("%s with %+v has more than 1000 pages", label, q)
	return nil
}

func (f *fixture) webhookBacklog() store.WebhookBacklog {
	f.Helper()
	return suite.Call(f.s.WebhookBacklog(f.ctx)).Must(f, "WebhookBacklog()")
}

func (f *fixture) endpoints() []store.Endpoint {
	f.Helper()
	return suite.Call(f.s.Endpoints(f.ctx)).Must(f, "Endpoints()")
}
