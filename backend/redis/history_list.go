package redis

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
)

// The index of an owner has an entry for each session, with the time in milliseconds when it was
// last written. It is written before the session: by an append of a store that has not written it
// for indexWindow. So a session that exists has an entry, and its last append is earlier than
// that time plus indexWindow. Readers order sessions by their own times. They remove entries
// without a session and correct times that are too late, but only those older than indexGrace,
// when no append can be in progress that relies on them.
const (
	indexWindow = time.Minute
	indexGrace  = 10 * time.Minute
	// indexMemory is the number of sessions whose time of indexing a store remembers.
	indexMemory = 1 << 16
	// indexBatch is the number of entries that a reader reads at a time.
	indexBatch = 200
	// indexSample is the number of random entries that are checked whenever one is written, so that
	// the index of an owner that nobody lists does not only grow.
	indexSample = 2
)

// index ensures that the index has an entry for a session that is going to be written.
func (h *History) index(ctx context.Context, k history.Key, now int64) error {
	session := h.sessionKeys(k)[0]
	h.mu.Lock()
	at, known := h.indexed[session]
	h.mu.Unlock()
	if known && now < at+indexWindow.Milliseconds() {
		return nil
	}
	key := h.s.indexKey(k.Owner)
	replies, err := h.s.read(ctx, key, command{"zadd", key, "gt", now, member(k.Agent, k.Session)}, command{"zrandmember", key, indexSample, "withscores"})
	if err != nil {
		return err
	}
	h.mu.Lock()
	if len(h.indexed) >= indexMemory {
		clear(h.indexed)
	}
	h.indexed[session] = now
	h.mu.Unlock()
	_, err = h.load(ctx, k.Owner, "", parseEntries(replies[1], now-indexGrace.Milliseconds()))
	return err
}

// entry is an entry of the index.
type entry struct {
	member string
	at     int64
}

// parseEntries returns the entries of a reply with times, or those before a time if it is not 0.
func parseEntries(reply any, before int64) (entries []entry) {
	v, _ := reply.([]any)
	for i := 0; i+1 < len(v); i += 2 {
		name, _ := v[i].(string)
		score, _ := v[i+1].(string)
		at, err := strconv.ParseFloat(score, 64)
		if err == nil && (before == 0 || int64(at) < before) {
			entries = append(entries, entry{name, int64(at)})
		}
	}
	return entries
}

// load returns the sessions of entries that exist, of one agent unless it is "". It corrects old
// entries that are wrong.
func (h *History) load(ctx context.Context, owner, agent string, entries []entry) (sessions []history.Session, err error) {
	old := h.now() - indexGrace.Milliseconds()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, e := range entries {
		k := history.Key{Owner: owner}
		if k.Agent, k.Session = parseMember(e.member); agent != "" && k.Agent != agent {
			continue
		}
		wg.Go(func() {
			t, _, found, failed := h.readTotals(ctx, k)
			if failed == nil && e.at < old {
				failed = h.correct(ctx, owner, e, t.UpdatedAt, found)
			}
			mu.Lock()
			defer mu.Unlock()
			if err = cmp.Or(err, failed); failed == nil && found {
				sessions = append(sessions, t.Session)
			}
		})
	}
	wg.Wait()
	return sessions, err
}

// correct corrects an entry of a session that does not exist or whose time is too late, unless the
// entry has changed.
func (h *History) correct(ctx context.Context, owner string, e entry, updated time.Time, exists bool) error {
	to := ""
	if exists {
		if e.at <= updated.UnixMilli() {
			return nil
		}
		to = strconv.FormatInt(updated.UnixMilli(), 10)
	}
	key := h.s.indexKey(owner)
	_, err := h.s.client.run(ctx, key, func(int) []command {
		return []command{{"evalsha", scriptIndex, 1, key, e.member, e.at, to}}
	})
	return err
}

// Sessions implements [history.SessionLister]. It reads the sessions that were written in the last
// minutes, and those around the page.
func (h *History) Sessions(ctx context.Context, q history.SessionQuery) (page history.SessionPage, err error) {
	if err := q.Complete(); err != nil {
		return page, err
	}
	l := sessionList{h: h, q: q, found: make(map[history.Key]history.Session), stop: math.MinInt64}
	recent := h.now() - 2*indexGrace.Milliseconds() // entries may be too late without having been corrected
	if q.Next == nil {
		err = l.scan(ctx, math.MaxInt64, math.MinInt64)
	} else if err = l.scan(ctx, math.MaxInt64, recent); err == nil {
		err = l.scan(ctx, min(q.Next.UpdatedAt.UnixMilli(), recent), math.MinInt64)
	}
	if err != nil {
		return page, wrapError(err, "sessions")
	}
	page.Sessions = slices.SortedFunc(maps.Values(l.found), compareSessions)
	if len(page.Sessions) > q.Limit {
		page.Sessions = page.Sessions[:q.Limit]
		last := &page.Sessions[q.Limit-1]
		page.Next = &history.SessionCursor{UpdatedAt: last.UpdatedAt, Agent: last.Key.Agent, Session: last.Key.Session}
	}
	return page, nil
}

// compareSessions orders sessions as a page has them.
func compareSessions(a, b history.Session) int {
	return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(b.Key.Agent, a.Key.Agent), strings.Compare(b.Key.Session, a.Key.Session))
}

// sessionList collects sessions for a page.
type sessionList struct {
	h     *History
	q     history.SessionQuery
	found map[history.Key]history.Session // that belong after the cursor
	stop  int64
}

// scan reads the entries with times from newest down to oldest. It ends when no further entry can
// belong to the page.
func (l *sessionList) scan(ctx context.Context, newest, oldest int64) error {
	key := l.h.s.indexKey(l.q.Owner)
	low, high := "-inf", "+inf"
	if oldest != math.MinInt64 {
		low = strconv.FormatInt(oldest, 10)
	}
	for skip := 0; ; {
		if newest != math.MaxInt64 {
			high = strconv.FormatInt(newest, 10)
		}
		replies, err := l.h.s.read(ctx, key, command{"zrevrangebyscore", key, high, low, "withscores", "limit", skip, indexBatch})
		if err != nil {
			return err
		}
		entries := parseEntries(replies[0], 0)
		sessions, err := l.h.load(ctx, l.q.Owner, l.q.Agent, entries)
		if err != nil {
			return err
		}
		for _, s := range sessions {
			if n := l.q.Next; n == nil || compareSessions(s, history.Session{Key: history.Key{Agent: n.Agent, Session: n.Session}, UpdatedAt: n.UpdatedAt}) > 0 {
				l.found[s.Key] = s
			}
		}
		if len(entries) < indexBatch || oldest == math.MinInt64 && l.complete(entries[len(entries)-1].at) {
			return nil
		}
		last := entries[len(entries)-1].at
		if last != newest {
			newest, skip = last, 0
		}
		for _, e := range entries {
			if e.at == last {
				skip++
			}
		}
	}
}

// complete reports whether the page is complete, although there are entries with a time up to at.
func (l *sessionList) complete(at int64) bool {
	certain := 0
	for _, s := range l.found {
		if s.UpdatedAt.UnixMilli() >= at+indexWindow.Milliseconds() {
			certain++
		}
	}
	return certain > l.q.Limit
}

// Search implements [history.Searcher]. A search of several sessions reads the whole index of the
// owner.
func (h *History) Search(ctx context.Context, q history.SearchQuery) (page history.SearchPage, err error) {
	match, err := q.Complete()
	if err != nil {
		return page, err
	}
	scope, err := h.scope(ctx, &q)
	if err != nil {
		return page, wrapError(err, "search")
	}
	scanned := 0
	for _, k := range scope {
		before := int64(0)
		if n := q.Next; n != nil && n.Agent == k.Agent && n.Session == k.Session {
			if before = n.Seq; before <= 1 {
				continue
			}
		}
		for {
			count := min(searchBatch, history.SearchScan-scanned)
			if count == 0 {
				return page, nil
			}
			_, replies, found, err := h.readTotals(ctx, k, h.rangeOf(k, 0, before, count, true))
			if err != nil {
				return page, wrapError(err, "search")
			}
			if !found {
				break
			}
			messages, err := parseMessages(replies[0])
			if err != nil {
				return page, err
			}
			for _, m := range messages {
				scanned++
				before = m.Seq
				page.Next = &history.SearchCursor{Agent: k.Agent, Session: k.Session, Seq: m.Seq}
				if !match.Match(history.Text(m.Body)) {
					continue
				}
				if page.Hits = append(page.Hits, history.Hit{Key: k, Message: m}); len(page.Hits) == q.Limit {
					return page, nil
				}
			}
			if len(messages) < count || before <= 1 {
				break
			}
		}
	}
	page.Next = nil
	return page, nil
}

// searchBatch is the number of messages that a search reads at a time.
const searchBatch = 500

// scope returns the sessions of a search in descending order, from its cursor. Some may not exist.
func (h *History) scope(ctx context.Context, q *history.SearchQuery) (scope []history.Key, err error) {
	if q.Session != "" {
		return []history.Key{{Owner: q.Owner, Agent: q.Agent, Session: q.Session}}, nil
	}
	key := h.s.indexKey(q.Owner)
	members := make(map[string]bool)
	for cursor := "0"; ; {
		replies, err := h.s.read(ctx, key, command{"zscan", key, cursor, "count", 1000})
		if err != nil {
			return nil, err
		}
		v, _ := replies[0].([]any)
		if len(v) != 2 {
			return nil, nil
		}
		for _, e := range parseEntries(v[1], 0) {
			members[e.member] = true
		}
		if cursor, _ = v[0].(string); cursor == "0" {
			break
		}
	}
	for _, m := range slices.Backward(slices.Sorted(maps.Keys(members))) {
		agent, session := parseMember(m)
		if q.Agent != "" && agent != q.Agent || q.Next != nil && m > member(q.Next.Agent, q.Next.Session) {
			continue
		}
		scope = append(scope, history.Key{Owner: q.Owner, Agent: agent, Session: session})
	}
	return scope, nil
}
