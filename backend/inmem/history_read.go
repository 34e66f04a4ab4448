package inmem

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// view calls f with a session, unless it does not exist. Stored messages do not change, so results
// are copied after view returned.
func (h *historyStore) view(ctx context.Context, k history.Key, f func(t *transcript)) error {
	defer h.mu.RUnlock()
	if err := h.read(ctx); err != nil {
		return err
	}
	if t := h.transcript(k, h.now()); t != nil {
		f(t)
	}
	return nil
}

func copyHistoryMessages(messages []*historyMessage) []history.Message {
	copies := make([]history.Message, len(messages))
	for i, m := range messages {
		copies[i] = copyHistoryMessage(&m.Message)
	}
	return copies
}

// after returns the position of the first message after a sequence.
func (t *transcript) after(seq int64) int {
	i, _ := slices.BinarySearchFunc(t.messages, seq, func(m *historyMessage, seq int64) int { return cmp.Compare(m.Seq, seq+1) })
	return i
}

// Messages implements [history.Provider].
func (h *historyStore) Messages(ctx context.Context, k history.Key, limit, offset int) ([]history.Message, error) {
	if err := historydriver.CheckRange(k, limit, offset); err != nil {
		return nil, err
	}
	var found []*historyMessage
	err := h.view(ctx, k, func(t *transcript) {
		found = t.messages[min(offset, len(t.messages)):]
		if limit > 0 && limit < len(found) {
			found = found[:limit]
		}
		found = slices.Clone(found)
	})
	return copyHistoryMessages(found), err
}

// Page implements [history.Provider].
func (h *historyStore) Page(ctx context.Context, k history.Key, q history.Query) (page history.Page, err error) {
	if err := historydriver.CompleteQuery(k, &q); err != nil {
		return page, err
	}
	var found []*historyMessage
	err = h.view(ctx, k, func(t *transcript) {
		all := t.messages[t.after(q.After):]
		if q.Before > 0 {
			all = all[:max(0, len(all)-(len(t.messages)-t.after(q.Before-1)))]
		}
		n := 0
		if !q.KeepToolPairs {
			n = historydriver.Fit(outlines(window(all, q.Limit, q.Newest)), q.Newest)
		} else {
			n = historydriver.PageSize(outlines(window(all, q.Limit+historydriver.PageRead, q.Newest)), q.Limit, q.Newest)
		}
		page.More = n < len(all)
		found = slices.Clone(window(all, n, q.Newest))
	})
	page.Messages = copyHistoryMessages(found)
	return page, err
}

// window returns the n oldest or newest messages.
func window(all []*historyMessage, n int, newest bool) []*historyMessage {
	if n = min(n, len(all)); newest {
		return all[len(all)-n:]
	}
	return all[:n]
}

func outlines(messages []*historyMessage) []historydriver.Outline {
	all := make([]historydriver.Outline, len(messages))
	for i, m := range messages {
		all[i] = historydriver.OutlineOf(&m.Message)
	}
	return all
}

// Count implements [history.Provider].
func (h *historyStore) Count(ctx context.Context, k history.Key) (n int64, err error) {
	if err := historydriver.CheckKey(k); err != nil {
		return 0, err
	}
	err = h.view(ctx, k, func(t *transcript) { n = t.Messages })
	return n, err
}

// Session implements [history.SessionLister].
func (h *historyStore) Session(ctx context.Context, k history.Key) (s history.Session, err error) {
	if err := historydriver.CheckKey(k); err != nil {
		return s, err
	}
	err = h.view(ctx, k, func(t *transcript) { s = t.Session })
	if err == nil && s.Key == (history.Key{}) {
		err = history.ErrNotFound
	}
	return s, err
}

// Sessions implements [history.SessionLister].
func (h *historyStore) Sessions(ctx context.Context, q history.SessionQuery) (page history.SessionPage, err error) {
	if err := historydriver.CompleteSessions(&q); err != nil {
		return page, err
	}
	defer h.mu.RUnlock()
	if err := h.read(ctx); err != nil {
		return page, err
	}
	now := h.now()
	w := walk[*transcript]{after: math.MinInt64, before: math.MaxInt64, match: func(t *transcript) bool {
		return (q.Agent == "" || q.Agent == t.Key.Agent) && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
	}}
	if o := h.owners[q.Owner]; o != nil {
		w.indexes = append(w.indexes, o)
	}
	if n := q.Next; n != nil {
		end := entry[*transcript]{n.UpdatedAt.UnixMilli(), &transcript{Session: history.Session{Key: history.Key{Owner: q.Owner, Agent: n.Agent, Session: n.Session}}}}
		w.skip = func(e entry[*transcript]) bool { return e.compare(end) >= 0 }
	}
	found, more := w.page(0, q.Limit)
	for _, t := range found {
		page.Sessions = append(page.Sessions, t.Session)
	}
	if more {
		last := found[len(found)-1]
		page.Next = &history.SessionCursor{UpdatedAt: last.UpdatedAt, Agent: last.Key.Agent, Session: last.Key.Session}
	}
	return page, nil
}

// Search implements [history.Searcher].
func (h *historyStore) Search(ctx context.Context, q history.SearchQuery) (page history.SearchPage, err error) {
	match, err := historydriver.CompleteSearch(&q)
	if err != nil {
		return page, err
	}
	defer h.mu.RUnlock()
	if err := h.read(ctx); err != nil {
		return page, err
	}
	scanned, size := 0, historydriver.PageBytes(0)
	for _, t := range h.scope(&q, h.now()) {
		found := t.messages
		if n := q.Next; n != nil && n.Agent == t.Key.Agent && n.Session == t.Key.Session {
			found = found[:t.after(n.Seq-1)]
		}
		for _, m := range slices.Backward(found) {
			if scanned == history.SearchScan || len(page.Hits) == q.Limit {
				return page, nil
			}
			matches := match.Match(m.text)
			if matches && !size.Add(len(m.Body)) {
				return page, nil
			}
			scanned++
			page.Next = &history.SearchCursor{Agent: t.Key.Agent, Session: t.Key.Session, Seq: m.Seq}
			if matches {
				page.Hits = append(page.Hits, history.Hit{Key: t.Key, Message: copyHistoryMessage(&m.Message)})
			}
		}
	}
	page.Next = nil
	return page, nil
}

// scope returns the sessions of a search in descending order, from its cursor.
func (h *historyStore) scope(q *history.SearchQuery, now time.Time) (scope []*transcript) {
	if q.Session != "" {
		if t := h.transcript(history.Key{Owner: q.Owner, Agent: q.Agent, Session: q.Session}, now); t != nil {
			scope = append(scope, t)
		}
		return scope
	}
	o := h.owners[q.Owner]
	if o == nil {
		return nil
	}
	for e := range o.ascend(nil) {
		t := e.rec
		after := q.Next == nil || compareKeys(t.Key, history.Key{Owner: q.Owner, Agent: q.Next.Agent, Session: q.Next.Session}) <= 0
		if after && (q.Agent == "" || q.Agent == t.Key.Agent) && h.transcript(t.Key, now) != nil {
			scope = append(scope, t)
		}
	}
	slices.SortFunc(scope, func(a, b *transcript) int { return compareKeys(b.Key, a.Key) })
	return scope
}
