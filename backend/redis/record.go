package redis

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// stateRecords implements [store.RecordUpdater] for states. A record is a hash. A change compares
// its version; it usually knows the record from an earlier change, so that it takes one round trip.
type stateRecords struct {
	s       *Store
	now     func() time.Time
	once    string // idempotency key of changes, "" for none
	onceAge time.Duration
}

func (r *stateRecords) key(k store.RecordKey) string {
	return r.s.sessionKey(kindState, k.Owner, k.Namespace, k.Key)
}

func (r *stateRecords) onceKey(k store.RecordKey) string { return r.key(k) + ":o:" + r.once }

// ReadRecord implements [store.RecordUpdater].
func (r *stateRecords) ReadRecord(ctx context.Context, k store.RecordKey) (store.Record, error) {
	rec, _, err := r.read(ctx, k)
	return rec, wrapError(err, "read state")
}

// read returns a record, and whether a change with the idempotency key was made.
func (r *stateRecords) read(ctx context.Context, k store.RecordKey) (rec store.Record, repeated bool, err error) {
	key := r.key(k)
	commands := []command{{"hmget", key, "version", "value", "expires"}}
	if r.once != "" {
		commands = append(commands, command{"exists", r.onceKey(k)})
	}
	replies, err := r.s.read(ctx, key, commands...)
	if err != nil {
		return rec, false, err
	}
	rec, err = parseRecord(k, replies[0])
	return rec, r.once != "" && replies[1] == int64(1), err
}

// parseRecord returns a record from its version, value and time of expiry.
func parseRecord(k store.RecordKey, reply any) (store.Record, error) {
	rec := store.Record{Key: k}
	v, _ := reply.([]any)
	if len(v) != 3 || v[0] == nil {
		return rec, nil
	}
	version, _ := v[0].(string)
	value, _ := v[1].(string)
	expires, _ := v[2].(string)
	var err error
	if rec.Version, err = strconv.ParseInt(version, 10, 64); err != nil {
		return rec, err
	}
	at, err := strconv.ParseInt(expires, 10, 64)
	if at > 0 {
		rec.Expires = fromMillis(at)
	}
	rec.Value = []byte(value)
	return rec, err
}

// Records implements [store.RecordUpdater]. States are listed by [ShortTerm.States].
func (r *stateRecords) Records(context.Context, store.RecordQuery) (store.RecordPage, error) {
	return store.RecordPage{}, a2a.Errorf(a2a.CodeUnsupported, "redis: states are no records of a store")
}

// index ensures that the index has an entry for a state that is going to be changed.
func (r *stateRecords) index(ctx context.Context, k store.RecordKey) error {
	old, err := r.s.stateEntries.write(ctx, k.Owner, k.Key, r.now().UnixMilli())
	for _, e := range old {
		if err == nil {
			_, err = r.check(ctx, k.Owner, e)
		}
	}
	return err
}

// check reports whether the state of an entry of the index exists. It removes an old entry if not.
func (r *stateRecords) check(ctx context.Context, owner string, e entry) (exists bool, err error) {
	now := r.now()
	rec, _, err := r.read(ctx, store.RecordKey{Owner: owner, Namespace: memory.StateNamespace, Key: e.name})
	exists = len(rec.Value) > 0 && !rec.Expired(now)
	if err == nil && !exists && e.old(now.UnixMilli()) {
		err = r.s.stateEntries.correct(ctx, owner, e, 0)
	}
	return exists, err
}

// UpdateRecord implements [store.RecordUpdater].
func (r *stateRecords) UpdateRecord(ctx context.Context, k store.RecordKey, update store.RecordUpdate) (store.Record, error) {
	rec, err := r.update(ctx, k, update)
	return rec, wrapError(err, "change state")
}

// update changes a record. This store makes its changes of a record one after another. After a
// conflict with another store, it decides again with the record that the other store has written.
func (r *stateRecords) update(ctx context.Context, k store.RecordKey, update store.RecordUpdate) (store.Record, error) {
	ctx, cancel := r.s.client.limit(ctx)
	defer cancel()
	key := r.key(k)
	release, err := r.s.locks.acquire(ctx, key+":update")
	if err != nil {
		return store.Record{}, err
	}
	defer release()
	rec, known := r.s.states.get(key, k)
	for {
		if !known {
			var repeated bool
			if rec, repeated, err = r.read(ctx, k); err != nil || repeated {
				return rec, err
			}
		}
		c, err := update(rec)
		if (err != nil || c == nil) && known {
			known = false // decide with the current record
			continue
		}
		if c == nil && r.once != "" { // uses the key although the state does not change
			c = &store.RecordChange{Expires: r.now()}
		}
		if err != nil || c == nil {
			return rec, err
		}
		if err := r.index(ctx, k); err != nil {
			return rec, err
		}
		changed, done, err := r.save(ctx, rec, c)
		if err != nil || done {
			return changed, err
		}
		rec, known = changed, true
	}
}

// save stores a change of a record. done is false if another store has changed the record, which is
// then returned.
func (r *stateRecords) save(ctx context.Context, rec store.Record, c *store.RecordChange) (changed store.Record, done bool, err error) {
	key := r.key(rec.Key)
	r.s.states.put(key, store.Record{})
	keys, onceAge, keep, expires := []string{key}, int64(0), int64(0), int64(0)
	if r.once != "" {
		keys, onceAge = append(keys, r.onceKey(rec.Key)), r.onceAge.Milliseconds()
	}
	if !c.Expires.IsZero() {
		expires = c.Expires.UnixMilli()
		keep = max(c.Expires.Sub(r.now()), 0).Milliseconds() + stateGrace.Milliseconds()
	}
	reply, err := r.s.change(ctx, scriptState, keys, rec.Version, c.Value, expires, keep, onceAge)
	if err != nil {
		return store.Record{}, false, err
	}
	v, _ := reply.([]any)
	if len(v) > 1 && v[0] == "changed" {
		changed = rec.After(c)
		version, _ := v[1].(string)
		changed.Version, err = strconv.ParseInt(version, 10, 64)
		r.s.states.put(key, changed)
		return changed, true, err
	}
	if changed, err = parseRecord(rec.Key, v[1:]); err == nil {
		r.s.states.put(key, changed)
	}
	return changed, v[0] == "repeated", err
}

// Limits of the states that a store remembers.
const (
	cachedStates = 1024
	cachedBytes  = 16 << 20
	cachedAge    = time.Minute
)

// stateCache has the records of states that a store has changed last.
type stateCache struct {
	mu    sync.Mutex
	of    map[string]cachedState
	bytes int
}

type cachedState struct {
	store.Record
	at time.Time
}

func newStateCache() *stateCache { return &stateCache{of: make(map[string]cachedState)} }

func (c *stateCache) get(name string, k store.RecordKey) (store.Record, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.of[name]
	if !ok || time.Since(s.at) > cachedAge {
		return store.Record{Key: k}, false
	}
	return s.Record, true
}

// put remembers a record, or forgets it if its version is 0.
func (c *stateCache) put(name string, r store.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += len(r.Value) - len(c.of[name].Value)
	if r.Version == 0 {
		delete(c.of, name)
		return
	}
	c.of[name] = cachedState{r, time.Now()}
	for other, s := range c.of {
		if len(c.of) <= cachedStates && c.bytes <= cachedBytes {
			return
		}
		if other != name {
			delete(c.of, other)
			c.bytes -= len(s.Value)
		}
	}
}
