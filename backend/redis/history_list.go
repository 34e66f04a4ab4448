package redis

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// index ensures that the index has an entry for a session that is going to be changed.
func (h *History) index(ctx context.Context, k history.Key, now int64) error {
	old, err := h.entries.write(ctx, k.Owner, member(k.Agent, k.Session), now)
	if err == nil && len(old) > 0 {
		_, err = h.load(ctx, k.Owner, "", old)
	}
	return err
}

// load returns the sessions of entries that exist; if agent is not "", only the agent's sessions. It
// corrects old entries that are wrong. A damaged session has the time of its entry.
func (h *History) load(ctx context.Context, owner, agent string, entries []entry) (sessions []history.Session, err error) {
	now := h.now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, e := range entries {
		k := history.Key{Owner: owner}
		if k.Agent, k.Session = parseMember(e.name); agent != "" && k.Agent != agent {
			continue
		}
		wg.Go(func() {
			t, _, found, failed := h.readTotals(ctx, k)
			switch {
			case errors.Is(failed, errTotals): // listed, so that it can be cleared
				t.Session = history.Session{Key: k, CreatedAt: fromMillis(e.at), UpdatedAt: fromMillis(e.at)}
				failed, found = nil, true
			case failed != nil || !e.old(now):
			case !found:
				failed = h.entries.correct(ctx, owner, e, 0)
			case e.at > t.UpdatedAt.UnixMilli():
				failed = h.entries.correct(ctx, owner, e, t.UpdatedAt.UnixMilli())
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

// Sessions implements [history.SessionLister]. It reads the sessions that were written in the last
// minutes, and those around the page.
func (h *History) Sessions(ctx context.Context, q history.SessionQuery) (page history.SessionPage, err error) {
	if err := historydriver.CompleteSessions(&q); err != nil {
		return page, err
	}
	l := sessionList{h: h, q: q, found: make(map[history.Key]history.Session)}
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

// compareSessions orders sessions as in a page: the latest change first.
func compareSessions(a, b history.Session) int {
	return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(b.Key.Agent, a.Key.Agent), strings.Compare(b.Key.Session, a.Key.Session))
}

// sessionList collects sessions for a page.
type sessionList struct {
	h     *History
	q     history.SessionQuery
	found map[history.Key]history.Session // sessions after the cursor
}

// scan reads the entries with times from newest down to oldest. It ends when no further entry can
// belong to the page.
func (l *sessionList) scan(ctx context.Context, newest, oldest int64) error {
	key := l.h.s.indexKey(kindIndex, l.q.Owner)
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
		entries := parseEntries(replies[0])
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

// complete reports whether the page is complete while only entries with times up to at are unread.
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
	match, err := historydriver.CompleteSearch(&q)
	if err != nil {
		return page, err
	}
	scope, err := h.scope(ctx, &q)
	if err != nil {
		return page, wrapError(err, "search")
	}
	scanned, bodies := 0, historydriver.PageBytes(0)
	for _, k := range scope {
		before := int64(0)
		if n := q.Next; n != nil && n.Agent == k.Agent && n.Session == k.Session {
			if before = n.Seq; before <= 1 {
				continue
			}
		}
		for size := readFirst; ; {
			count := min(size, history.SearchScan-scanned)
			if count == 0 {
				return page, nil
			}
			t, replies, found, err := h.readTotals(ctx, k, h.rangeOf(k, 0, before, count, true))
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
			size = min(searchBatch, t.batch())
			for _, m := range messages {
				matches := match.Match(history.Text(m.Body))
				if matches && !bodies.Add(len(m.Body)) {
					return page, nil
				}
				scanned++
				before = m.Seq
				page.Next = &history.SearchCursor{Agent: k.Agent, Session: k.Session, Seq: m.Seq}
				if !matches {
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

// searchBatch is the maximum number of messages that a search reads at a time.
const searchBatch = 500

// scope returns the sessions of a search in descending order, from its cursor. Some may not exist.
func (h *History) scope(ctx context.Context, q *history.SearchQuery) (scope []history.Key, err error) {
	if q.Session != "" {
		return []history.Key{{Owner: q.Owner, Agent: q.Agent, Session: q.Session}}, nil
	}
	entries, err := h.entries.all(ctx, q.Owner)
	for _, e := range slices.Backward(entries) {
		agent, session := parseMember(e.name)
		if q.Agent != "" && agent != q.Agent || q.Next != nil && e.name > member(q.Next.Agent, q.Next.Session) {
			continue
		}
		scope = append(scope, history.Key{Owner: q.Owner, Agent: agent, Session: session})
	}
	return scope, err
}
