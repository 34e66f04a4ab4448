package storetest

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

func (f *faulty) SavePush(ctx context.Context, c store.PushConfig, cursor store.PushCursor, now time.Time) (store.Lane, error) {
	return call(f, "SavePush", nil, func() (store.Lane, error) { return f.inner.SavePush(ctx, c, cursor, now) })
}

func (f *faulty) Lanes(ctx context.Context, q store.LaneQuery) (store.LanePage, error) {
	return call(f, "Lanes", nil, func() (store.LanePage, error) { return f.inner.Lanes(ctx, q) })
}

func (f *faulty) DeletePush(ctx context.Context, task store.Key, id string, now time.Time) (bool, error) {
	return call(f, "DeletePush", nil, func() (bool, error) { return f.inner.DeletePush(ctx, task, id, now) })
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

func (f *faulty) ReplayPush(ctx context.Context, task store.Key, id string, cursor store.PushCursor, now time.Time) (store.PushCursor, error) {
	return call(f, "ReplayPush", nil, func() (store.PushCursor, error) { return f.inner.ReplayPush(ctx, task, id, cursor, now) })
}

func (f *faulty) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (int, error) {
	return call(f, "WakeLanes", nil, func() (int, error) { return f.inner.WakeLanes(ctx, endpoint, now, limit) })
}

func (f *faulty) DeadLetters(ctx context.Context, q store.PushQuery) (store.DeadLetterPage, error) {
	return call(f, "DeadLetters", nil, func() (store.DeadLetterPage, error) { return f.inner.DeadLetters(ctx, q) })
}

func (f *faulty) PushAttempts(ctx context.Context, q store.PushQuery) (store.PushAttemptPage, error) {
	return call(f, "PushAttempts", nil, func() (store.PushAttemptPage, error) { return f.inner.PushAttempts(ctx, q) })
}

func (f *faulty) Endpoints(ctx context.Context) ([]store.Endpoint, error) {
	return call(f, "Endpoints", nil, func() ([]store.Endpoint, error) { return f.inner.Endpoints(ctx) })
}

func (f *faulty) SaveEndpoint(ctx context.Context, e store.Endpoint) error {
	_, err := call(f, "SaveEndpoint", nil, func() (struct{}, error) { return struct{}{}, f.inner.SaveEndpoint(ctx, e) })
	return err
}

func (f *faulty) ExpirePush(ctx context.Context, p store.PushExpiry, limit int) (int, error) {
	return call(f, "ExpirePush", nil, func() (int, error) { return f.inner.ExpirePush(ctx, p, limit) })
}

func (f *faulty) PushBacklog(ctx context.Context) (store.PushBacklog, error) {
	return call(f, "PushBacklog", nil, func() (store.PushBacklog, error) { return f.inner.PushBacklog(ctx) })
}

// WatchLanes cannot fail.
func (f *faulty) WatchLanes(g func()) (stop func()) { return f.inner.WatchLanes(g) }
