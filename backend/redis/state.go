package redis

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
)

// ShortTerm stores session states: package memory documents its methods.
type ShortTerm struct {
	*memory.ShortTermRecords
	s   *Store
	cfg memory.ShortTermConfig
}

var (
	_ memory.ShortTerm   = (*ShortTerm)(nil)
	_ memory.OnceUpdater = (*ShortTerm)(nil)
)

// stateGrace is the time between the expiry of a state and its removal by the server. Until then its
// versions are not used again.
const stateGrace = 2 * time.Hour

// onceAge is the minimum time for which idempotency keys of states are stored.
const onceAge = 24 * time.Hour

// ShortTerm returns the states of sessions. The field Records of cfg is ignored.
func (s *Store) ShortTerm(cfg memory.ShortTermConfig) (*ShortTerm, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t := &ShortTerm{s: s, cfg: cfg}
	var err error
	t.ShortTermRecords, err = t.with("")
	return t, err
}

// with returns the states with an idempotency key for changes.
func (t *ShortTerm) with(once string) (*memory.ShortTermRecords, error) {
	cfg := t.cfg
	cfg.Records = &stateRecords{s: t.s, now: cfg.Now, once: once, onceAge: max(onceAge, cfg.TTL)}
	return memory.NewShortTerm(cfg)
}

// checked returns the states with an idempotency key that must not be empty.
func (t *ShortTerm) checked(once string) (*memory.ShortTermRecords, error) {
	if err := memorydriver.CheckOnce(once); err != nil {
		return nil, err
	}
	return t.with(once)
}

// SetOnce implements [memory.OnceUpdater].
func (t *ShortTerm) SetOnce(ctx context.Context, key memory.Key, values map[string]any, version int64, once string) (memory.State, error) {
	r, err := t.checked(once)
	if err != nil {
		return memory.State{}, err
	}
	return r.Set(ctx, key, values, version)
}

// UpdateOnce implements [memory.OnceUpdater].
func (t *ShortTerm) UpdateOnce(ctx context.Context, key memory.Key, patch map[string]any, version int64, once string) (memory.State, error) {
	r, err := t.checked(once)
	if err != nil {
		return memory.State{}, err
	}
	return r.Update(ctx, key, patch, version)
}

// ClearOnce implements [memory.OnceUpdater].
func (t *ShortTerm) ClearOnce(ctx context.Context, key memory.Key, once string) error {
	r, err := t.checked(once)
	if err != nil {
		return err
	}
	return r.Clear(ctx, key)
}
