package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

var errPush = errors.New("webhooks are not kept yet")

// SavePush implements store.Store.
func (s *Store) SavePush(context.Context, store.PushConfig, store.PushCursor, time.Time) (store.Lane, error) {
	return store.Lane{}, errPush
}

// Lanes implements store.Store.
func (s *Store) Lanes(context.Context, store.LaneQuery) (store.LanePage, error) {
	return store.LanePage{}, errPush
}

// DeletePush implements store.Store.
func (s *Store) DeletePush(context.Context, store.Key, string, time.Time) (bool, error) {
	return false, errPush
}

// ClaimLanes implements store.Store.
func (s *Store) ClaimLanes(context.Context, store.LaneClaim) ([]store.ClaimedLane, error) {
	return nil, errPush
}

// RenewLanes implements store.Store.
func (s *Store) RenewLanes(context.Context, time.Time, []store.LaneLease) ([]store.LaneLease, error) {
	return nil, errPush
}

// AckLanes implements store.Store.
func (s *Store) AckLanes(context.Context, ...store.LaneAck) ([]store.LaneLease, error) {
	return nil, errPush
}

// ReplayPush implements store.Store.
func (s *Store) ReplayPush(context.Context, store.Key, string, store.PushCursor, time.Time) error {
	return errPush
}

// WakeLanes implements store.Store.
func (s *Store) WakeLanes(context.Context, string, time.Time, int) (int, error) { return 0, errPush }

// DeadLetters implements store.Store.
func (s *Store) DeadLetters(context.Context, store.PushQuery) (store.DeadLetterPage, error) {
	return store.DeadLetterPage{}, errPush
}

// PushAttempts implements store.Store.
func (s *Store) PushAttempts(context.Context, store.PushQuery) (store.PushAttemptPage, error) {
	return store.PushAttemptPage{}, errPush
}

// Endpoints implements store.Store.
func (s *Store) Endpoints(context.Context) ([]store.Endpoint, error) { return nil, errPush }

// SaveEndpoint implements store.Store.
func (s *Store) SaveEndpoint(context.Context, store.Endpoint) error { return errPush }

// ExpirePush implements store.Store.
func (s *Store) ExpirePush(context.Context, store.PushExpiry, int) (int, error) { return 0, errPush }

// PushBacklog implements store.Store.
func (s *Store) PushBacklog(context.Context) (store.PushBacklog, error) {
	return store.PushBacklog{}, errPush
}

// WatchLanes implements store.Store.
func (s *Store) WatchLanes(func()) (stop func()) { return func() {} }
