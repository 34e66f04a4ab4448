package historytest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

func (m *model) Session(ctx context.Context, k history.Key) (history.Session, error) {
	if err := cmp.Or(ctx.Err(), historydriver.CheckKey(k)); err != nil {
		return history.Session{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.session(k, false)
	if s == nil {
		return history.Session{}, history.ErrNotFound
	}
	info := s.Session
	for _, old := range s.messages {
		info.Messages++
		info.Bytes += int64(len(old.Body))
		info.Newest = old.Seq
	}
	return info, nil
}

func (m *model) Sessions(ctx context.Context, q history.SessionQuery) (page history.SessionPage, err error) {
	if err := cmp.Or(ctx.Err(), historydriver.CompleteSessions(&q)); err != nil {
		return page, err
	}
	for k := range m.keys(q.Owner, q.Agent, "") {
		s, err := m.Session(ctx, k)
		if err != nil {
			return page, err
		}
		if n := q.Next; n == nil || compareSessions(&s, &history.Session{Key: history.Key{Agent: n.Agent, Session: n.Session}, UpdatedAt: n.UpdatedAt}) > 0 {
			page.Sessions = append(page.Sessions, s)
		}
	}
	slices.SortFunc(page.Sessions, func(a, b history.Session) int { return compareSessions(&a, &b) })
	if len(page.Sessions) > q.Limit {
		page.Sessions = page.Sessions[:q.Limit]
		last := page.Sessions[q.Limit-1]
		page.Next = &history.SessionCursor{UpdatedAt: last.UpdatedAt, Agent: last.Key.Agent, Session: last.Key.Session}
	}
	return page, nil
}

// keys returns the sessions of a scope that have not expired.
func (m *model) keys(owner, agent, session string) map[history.Key]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := make(map[history.Key]bool)
	for k := range m.sessions {
		if k.Owner == owner && (agent == "" || agent == k.Agent) && (session == "" || session == k.Session) && m.session(k, false) != nil {
			keys[k] = true
		}
	}
	return keys
}

// compareSessions compares sessions in the order of lists.
func compareSessions(a, b *history.Session) int {
	return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(b.Key.Agent, a.Key.Agent), strings.Compare(b.Key.Session, a.Key.Session))
}

// Search reads all messages of the scope.
func (m *model) Search(ctx context.Context, q history.SearchQuery) (page history.SearchPage, err error) {
	if _, err := historydriver.CompleteSearch(&q); cmp.Or(ctx.Err(), err) != nil {
		return page, cmp.Or(ctx.Err(), err)
	}
	for k := range m.keys(q.Owner, q.Agent, q.Session) {
		found, _ := m.Messages(ctx, k, 0, 0)
		for _, m := range found {
			if matches(foldText(strings.Join(values(m.Body), " ")), foldText(q.Text), q.Words) {
				page.Hits = append(page.Hits, history.Hit{Key: k, Message: m})
			}
		}
	}
	order := func(a, b history.Hit) int {
		return cmp.Or(strings.Compare(b.Key.Agent, a.Key.Agent), strings.Compare(b.Key.Session, a.Key.Session), cmp.Compare(b.Message.Seq, a.Message.Seq))
	}
	slices.SortFunc(page.Hits, order)
	if n := q.Next; n != nil {
		after := history.Hit{Key: history.Key{Agent: n.Agent, Session: n.Session}, Message: history.Message{Seq: n.Seq}}
		page.Hits = slices.DeleteFunc(page.Hits, func(h history.Hit) bool { return order(h, after) <= 0 })
	}
	size, bytes := 0, 0
	for ; size < min(q.Limit, len(page.Hits)); size++ {
		if bytes += len(page.Hits[size].Message.Body); size > 0 && bytes > m.searchBytes {
			break
		}
	}
	if size < len(page.Hits) {
		page.Hits = page.Hits[:size]
		last := page.Hits[size-1]
		page.Next = &history.SearchCursor{Agent: last.Key.Agent, Session: last.Key.Session, Seq: last.Message.Seq}
	}
	return page, nil
}

// values returns the strings in a JSON document, in their order and without names of members.
func values(body []byte) (found []string) {
	d := json.NewDecoder(bytes.NewReader(body))
	var read func()
	read = func() {
		token, _ := d.Token()
		switch token := token.(type) {
		case string:
			found = append(found, token)
		case json.Delim:
			for d.More() {
				if token == '{' {
					_, _ = d.Token()
				}
				read()
			}
			_, _ = d.Token()
		}
	}
	read()
	return found
}

func foldText(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

func matches(text, query string, words bool) bool {
	if !words {
		return strings.Contains(text, query)
	}
	split := func(text string) []string {
		return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsNumber(r) })
	}
	for _, word := range split(query) {
		if !slices.Contains(split(text), word) {
			return false
		}
	}
	return true
}
