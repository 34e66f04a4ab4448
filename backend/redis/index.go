package redis

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// index has the names of the sessions of each owner, in a sorted set with the time in milliseconds
// when an entry was last written. Before a store changes a session, it writes the session's entry,
// unless it wrote the entry less than indexWindow ago. So a session that exists has an entry, and its
// last change is earlier than the time of the entry plus indexWindow. Readers check the sessions
// themselves. They remove entries without a session and correct times that are too late, but only in
// entries older than indexGrace, because no change in progress relies on these.
type index struct {
	s    *Store
	kind string

	mu      sync.Mutex
	written map[string]int64 // when this store has last written an entry, in milliseconds
}

const (
	indexWindow = time.Minute
	indexGrace  = 10 * time.Minute
	// indexMemory is the number of entries for which a store remembers the time of writing.
	indexMemory = 1 << 16
	// indexBatch is the number of entries that a reader reads at a time.
	indexBatch = 200
	// indexSample is the number of random entries that are checked whenever one is written, so that
	// the index of an owner that nobody lists does not only grow.
	indexSample = 2
)

func newIndex(s *Store, kind string) *index {
	return &index{s: s, kind: kind, written: make(map[string]int64)}
}

// entry is an entry of the index.
type entry struct {
	name string
	at   int64
}

// old reports whether an entry that is wrong may be corrected.
func (e entry) old(now int64) bool { return e.at < now-indexGrace.Milliseconds() }

// write ensures that the index has an entry for a session that is going to be changed. It returns
// old entries that the caller must check.
func (x *index) write(ctx context.Context, owner, name string, now int64) (old []entry, err error) {
	key := x.s.indexKey(x.kind, owner)
	memory := key + name
	x.mu.Lock()
	at, known := x.written[memory]
	x.mu.Unlock()
	if known && now < at+indexWindow.Milliseconds() {
		return nil, nil
	}
	replies, err := x.s.read(ctx, key, command{"zadd", key, "gt", now, name}, command{"zrandmember", key, indexSample, "withscores"})
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	if len(x.written) >= indexMemory {
		clear(x.written)
	}
	x.written[memory] = now
	x.mu.Unlock()
	return slices.DeleteFunc(parseEntries(replies[1]), func(e entry) bool { return !e.old(now) }), nil
}

// parseEntries returns the entries of a reply with times.
func parseEntries(reply any) (entries []entry) {
	v, _ := reply.([]any)
	for i := 0; i+1 < len(v); i += 2 {
		name, _ := v[i].(string)
		score, _ := v[i+1].(string)
		if at, err := strconv.ParseFloat(score, 64); err == nil {
			entries = append(entries, entry{name, int64(at)})
		}
	}
	return entries
}

// correct changes the time of an entry, or removes the entry if to is 0, unless it has changed.
func (x *index) correct(ctx context.Context, owner string, e entry, to int64) error {
	key, text := x.s.indexKey(x.kind, owner), ""
	if to != 0 {
		text = strconv.FormatInt(to, 10)
	}
	_, err := x.s.client.run(ctx, key, func(int) []command { return []command{{"evalsha", scriptIndex, 1, key, e.name, e.at, text}} })
	return err
}

// all returns the entries of an owner, by name in the order of their bytes.
func (x *index) all(ctx context.Context, owner string) ([]entry, error) {
	key := x.s.indexKey(x.kind, owner)
	found := make(map[string]int64)
	for cursor := "0"; ; {
		replies, err := x.s.read(ctx, key, command{"zscan", key, cursor, "count", 1000})
		if err != nil {
			return nil, err
		}
		v, _ := replies[0].([]any)
		if len(v) != 2 {
			return nil, errNoAnswer
		}
		for _, e := range parseEntries(v[1]) {
			found[e.name] = e.at
		}
		if cursor, _ = v[0].(string); cursor == "0" {
			break
		}
	}
	entries := make([]entry, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		entries = append(entries, entry{name, found[name]})
	}
	return entries, nil
}
