package historysql

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// Messages implements history.Provider.
func (h *History) Messages(ctx context.Context, k history.Key, limit, offset int) (messages []history.Message, err error) {
	if err := historydriver.CheckRange(k, limit, offset); err != nil {
		return nil, err
	}
	most := int64(limit)
	if most == 0 {
		most = maxSeq
	}
	err = h.db.Read(ctx, func(q sqlkit.Querier) (err error) {
		messages, err = queryMessages(q, sqlHistoryRange, args(k, h.now().UnixMilli(), most, offset)...)
		return err
	})
	return messages, err
}

// fit returns the number of messages that fit into a page.
func fit(messages []history.Message) int {
	var size historydriver.PageBytes
	for i := range messages {
		if !size.Add(len(messages[i].Body)) {
			return i
		}
	}
	return len(messages)
}

// Page implements history.Provider.
func (h *History) Page(ctx context.Context, k history.Key, q history.Query) (page history.Page, err error) {
	if err := historydriver.CompleteQuery(k, &q); err != nil {
		return page, err
	}
	err = h.db.Read(ctx, func(on sqlkit.Querier) (err error) {
		page, err = readPage(on, k, q, h.now().UnixMilli())
		return err
	})
	return page, err
}

func readPage(on sqlkit.Querier, k history.Key, q history.Query, now int64) (page history.Page, err error) {
	text, outlines := sqlHistoryOldest, sqlHistoryOldestOutlines
	if q.Newest {
		text, outlines = sqlHistoryNewest, sqlHistoryNewestOutlines
	}
	if q.Before == 0 {
		q.Before = maxSeq
	}
	if q.KeepToolPairs {
		// The outlines determine the size of the page.
		all, err := queryOutlines(on, outlines, args(k, now, q.After, q.Before, q.Limit+historydriver.PageRead)...)
		if err != nil {
			return page, err
		}
		if q.Newest {
			slices.Reverse(all)
		}
		q.Limit = historydriver.PageSize(all, q.Limit, q.Newest)
	}
	page.Messages, err = queryMessages(on, text, args(k, now, q.After, q.Before, q.Limit+1, history.MaxPageBytes)...)
	n := min(q.Limit, fit(page.Messages))
	page.More = n < len(page.Messages)
	page.Messages = page.Messages[:n]
	if q.Newest {
		slices.Reverse(page.Messages)
	}
	return page, err
}

// Count implements history.Provider.
func (h *History) Count(ctx context.Context, k history.Key) (n int64, err error) {
	if err := historydriver.CheckKey(k); err != nil {
		return 0, err
	}
	err = h.db.Read(ctx, func(q sqlkit.Querier) error {
		n = 0
		_, err := sqlkit.QueryOne(q, sqlHistoryCount, func(r sqlkit.Row) { n = r.Int(0) }, args(k, h.now().UnixMilli())...)
		return err
	})
	return n, err
}

// Session implements history.SessionLister.
func (h *History) Session(ctx context.Context, k history.Key) (s history.Session, err error) {
	if err := historydriver.CheckKey(k); err != nil {
		return s, err
	}
	found := false
	err = h.db.Read(ctx, func(q sqlkit.Querier) (err error) {
		found, err = sqlkit.QueryOne(q, sqlHistorySession, func(r sqlkit.Row) { s = scanSession(r) }, args(k)...)
		return err
	})
	if err == nil && (!found || expired(&s, h.now().UnixMilli())) {
		return history.Session{}, history.ErrNotFound
	}
	return s, err
}

// Sessions implements history.SessionLister.
func (h *History) Sessions(ctx context.Context, q history.SessionQuery) (page history.SessionPage, err error) {
	if err := historydriver.CompleteSessions(&q); err != nil {
		return page, err
	}
	text, after := sqlHistorySessions, history.SessionCursor{UpdatedAt: time.UnixMilli(maxSeq)}
	if q.Next != nil {
		after = *q.Next
	}
	if q.Agent != "" {
		text, after.Agent = sqlHistoryAgentSessions, q.Agent
	}
	err = h.db.Read(ctx, func(on sqlkit.Querier) error {
		page.Sessions = nil
		return on.Query(text, func(r sqlkit.Row) error {
			page.Sessions = append(page.Sessions, scanSession(r))
			return nil
		}, q.Owner, after.UpdatedAt.UnixMilli(), after.Agent, after.Session, h.now().UnixMilli(), q.Limit+1)
	})
	if len(page.Sessions) > q.Limit {
		page.Sessions = page.Sessions[:q.Limit]
		last := &page.Sessions[q.Limit-1]
		page.Next = &history.SessionCursor{UpdatedAt: last.UpdatedAt, Agent: last.Key.Agent, Session: last.Key.Session}
	}
	return page, err
}

// Search implements history.Searcher.
func (h *History) Search(ctx context.Context, q history.SearchQuery) (page history.SearchPage, err error) {
	match, err := historydriver.CompleteSearch(&q)
	if err != nil {
		return page, err
	}
	s := search{SearchQuery: q, match: match, now: h.now().UnixMilli()}
	err = h.db.Read(ctx, func(on sqlkit.Querier) (err error) {
		page, err = s.run(on)
		return err
	})
	return page, err
}

// searchBatch is the number of messages that one statement of a search examines.
const searchBatch = 500

// afterNames is greater than every name, see history.MaxName.
var afterNames = strings.Repeat("\U0010ffff", history.MaxName/4+1)

type search struct {
	history.SearchQuery
	match *historydriver.Matcher
	now   int64
}

func (s *search) run(on sqlkit.Querier) (page history.SearchPage, err error) {
	at := history.SearchCursor{Agent: afterNames, Session: afterNames, Seq: maxSeq}
	if s.Next != nil {
		at = *s.Next
	}
	text := sqlHistorySearchOwner
	if s.Agent != "" {
		text, at.Agent = sqlHistorySearchAgent, s.Agent
	}
	if s.Session != "" {
		text, at.Session = sqlHistorySearchSession, s.Session
	}
	pattern := "%" + s.match.Contained() + "%" // without special characters
	var size historydriver.PageBytes
	for scanned := 0; scanned < history.SearchScan; scanned += searchBatch {
		n, full := 0, false
		err := on.Query(text, func(r sqlkit.Row) error {
			n++
			if full {
				return nil
			}
			examined := history.SearchCursor{Agent: r.Text(7), Session: r.Text(8), Seq: r.Int(0)}
			if r.Null(6) {
				at = examined
				return nil
			}
			m, err := scanMessage(r)
			if err == nil && s.match.Match(history.Text(m.Body)) {
				if full = !size.Add(len(m.Body)); full {
					return nil
				}
				page.Hits = append(page.Hits, history.Hit{Key: history.Key{Owner: s.Owner, Agent: examined.Agent, Session: examined.Session}, Message: m})
				full = len(page.Hits) == s.Limit
			}
			at = examined
			return err
		}, s.Owner, at.Agent, at.Session, at.Seq, searchBatch, pattern, s.now)
		if err != nil {
			return page, err
		}
		if full {
			break
		}
		if n < searchBatch {
			return page, nil
		}
	}
	page.Next = &at
	return page, nil
}

func queryMessages(q sqlkit.Querier, text string, values ...any) (messages []history.Message, err error) {
	err = q.Query(text, func(r sqlkit.Row) error {
		m, err := scanMessage(r)
		messages = append(messages, m)
		return err
	}, values...)
	return messages, err
}

func queryOutlines(q sqlkit.Querier, text string, values ...any) (outlines []historydriver.Outline, err error) {
	err = q.Query(text, func(r sqlkit.Row) (err error) {
		o := historydriver.Outline{Seq: r.Int(0), CreatedAt: sqlkit.Time(r.Int(1)), Bytes: r.Int(4)}
		o.ToolCalls, o.ToolResults, err = scanIDs(r, 2)
		outlines = append(outlines, o)
		return err
	}, values...)
	return outlines, err
}

func scanMessage(r sqlkit.Row) (m history.Message, err error) {
	m = history.Message{Seq: r.Int(0), Run: r.Text(1), Role: r.Text(2), CreatedAt: sqlkit.Time(r.Int(3)), Body: r.Bytes(6)}
	m.ToolCalls, m.ToolResults, err = scanIDs(r, 4)
	return m, err
}

// scanIDs returns the ids of tool calls and results in column i and the next one.
func scanIDs(r sqlkit.Row, i int) (calls, results []string, err error) {
	if calls, err = decodeIDs(r.Text(i)); err == nil {
		results, err = decodeIDs(r.Text(i + 1))
	}
	if err != nil {
		return nil, nil, a2a.Wrap(a2a.CodeInternal, err, "history: stored ids of tool calls are damaged")
	}
	return calls, results, nil
}

func scanSession(r sqlkit.Row) history.Session {
	s := history.Session{
		Key: history.Key{Owner: r.Text(0), Agent: r.Text(1), Session: r.Text(2)}, Messages: r.Int(3), Bytes: r.Int(4), Newest: r.Int(5),
		CreatedAt: sqlkit.Time(r.Int(6)), UpdatedAt: sqlkit.Time(r.Int(7)),
	}
	if at := r.Int(8); at != 0 {
		s.ExpiresAt = sqlkit.Time(at)
	}
	return s
}

func expired(s *history.Session, now int64) bool {
	return !s.ExpiresAt.IsZero() && s.ExpiresAt.UnixMilli() <= now
}
