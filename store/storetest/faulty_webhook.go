package storetest

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

func (f *faulty) SaveWebhook(ctx context.Context, c store.Webhook, cursor store.WebhookCursor, now time.Time) (store.Lane, error) {
	return call(f, "SaveWebhook", nil, func() (store.Lane, error) { return f.inner.SaveWebhook(ctx, c, cursor, now) })
}

func (f *faulty) Lanes(ctx context.Context, q store.LaneQuery) (store.LanePage, error) {
	return call(f, "Lanes", nil, func() (store.LanePage, error) { return f.inner.Lanes(ctx, q) })
}

func (f *faulty) DeleteWebhook(ctx context.Context, task store.Key, id string, now time.Time) (bool, error) {
	return call(f, "DeleteWebhook", nil, func() (bool, error) { return f.inner.DeleteWebhook(ctx, task, id, now) })
}

func (f *faulty) ClaimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	return call(f, "ClaimLanes", nil, func() ([]store.ClaimedLane, error) { return f.inner.ClaimLanes(ctx, p) })
}

func (f *faulty) RenewLanes(ctx context.Context, until time.Time, leases []store.LaneLease) ([]store.LaneLease, error) {
	return call(f, "RenewLanes", nil, func() ([]store.LaneLease, error) { return f.inner.RenewLanes(ctx, until, leases) })
}

func (f *faulty) AckLanes(ctx context.Context, acks ...store.LaneAck) ([]store.LaneLease, error) {
	return call(f, "AckLanes", nil, func() ([]store.LaneLease, error) { return f.inner.AckLanes(ctx, acks...) })
}

func (f *faulty) ReplayWebhook(ctx context.Context, task store.Key, id string, cursor store.WebhookCursor, now time.Time) (store.WebhookCursor, error) {
	return call(f, "ReplayWebhook", nil, func() (store.WebhookCursor, error) { return f.inner.ReplayWebhook(ctx, task, id, cursor, now) })
}

func (f *faulty) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (int, error) {
	return call(f, "WakeLanes", nil, func() (int, error) { return f.inner.WakeLanes(ctx, endpoint, now, limit) })
}

func (f *faulty) DeadLetters(ctx context.Context, q store.WebhookQuery) (store.DeadLetterPage, error) {
	return call(f, "DeadLetters", nil, func() (store.DeadLetterPage, error) { return f.inner.DeadLetters(ctx, q) })
}

func (f *faulty) DeliveryAttempts(ctx context.Context, q store.WebhookQuery) (store.DeliveryAttemptPage, error) {
	return call(f, "DeliveryAttempts", nil, func() (store.DeliveryAttemptPage, error) { return f.inner.DeliveryAttempts(ctx, q) })
}

func (f *faulty) Endpoints(ctx context.Context) ([]store.Endpoint, error) {
	return call(f, "Endpoints", nil, func() ([]store.Endpoint, error) { return f.inner.Endpoints(ctx) })
}

func (f *faulty) SaveEndpoint(ctx context.Context, e store.Endpoint) error {
	_, err := call(f, "SaveEndpoint", nil, func() (struct{}, error) { return struct{}{}, f.inner.SaveEndpoint(ctx, e) })
	return err
}

func (f *faulty) ExpireWebhooks(ctx context.Context, p store.WebhookExpiry, limit int) (int, error) {
	return call(f, "ExpireWebhooks", nil, func() (int, error) { return f.inner.ExpireWebhooks(ctx, p, limit) })
}

func (f *faulty) WebhookBacklog(ctx context.Context) (store.WebhookBacklog, error) {
	return call(f, "WebhookBacklog", nil, func() (store.WebhookBacklog, error) { return f.inner.WebhookBacklog(ctx) })
}

// WatchLanes forwards the call without consulting the plan.
func (f *faulty) WatchLanes(g func()) (stop func()) { return f.inner.WatchLanes(g) }
