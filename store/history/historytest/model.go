package historytest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// model is a simple implementation of all interfaces of package history. It shares no code with
// stores but the checks of params.
type model struct {
	mu       sync.Mutex
	now      func() time.Time
	sessions map[history.Key]*modelSession
	// pageBytes and searchBytes limit the bodies of pages and of results of searches.
	pageBytes, searchBytes int
}

type modelSession struct {
	history.Session
	messages []modelMessage
	last     int64
	ttl      time.Duration
	fences   map[string]int64
}

type modelMessage struct {
	history.Message
	key   string
	until int64 // last sequence of the append with the key
}

func newModel(now func() time.Time) *model {
	return &model{now: now, sessions: make(map[history.Key]*modelSession), pageBytes: history.MaxPageBytes, searchBytes: history.MaxPageBytes}
}

// session returns a session that has not expired, or nil. If create is set it creates it.
func (m *model) session(k history.Key, create bool) *modelSession {
	s := m.sessions[k]
	if s != nil && !s.ExpiresAt.IsZero() && !m.now().Before(s.ExpiresAt) {
		s = nil
	}
	if s == nil && create {
		s = &modelSession{Session: history.Session{Key: k, CreatedAt: m.now(), UpdatedAt: m.now()}, fences: make(map[string]int64)}
		m.sessions[k] = s
	}
	return s
}

// newest returns the sequence of the newest message.
func (m *model) newest(k history.Key) (newest int64) {
	if s := m.session(k, false); s != nil {
		for i := range s.messages {
			newest = s.messages[i].Seq
		}
	}
	return newest
}

func (m *model) Append(ctx context.Context, k history.Key, p history.AppendParams) (history.AppendResult, error) {
	if err := cmp.Or(ctx.Err(), historydriver.CheckAppend(k, &p)); err != nil {
		return history.AppendResult{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.session(k, false); s != nil {
		if p.Fence < s.fences[p.Run] {
			return history.AppendResult{}, history.ErrFenced
		}
		for _, old := range s.messages {
			if p.IdempotencyKey != "" && old.key == p.IdempotencyKey {
				s.fences[p.Run] = p.Fence
				return history.AppendResult{First: old.Seq, Last: old.until, Repeated: true}, nil
			}
		}
	}
	if newest := m.newest(k); p.Expected != nil && *p.Expected != newest {
		return history.AppendResult{}, &history.ConflictError{Expected: *p.Expected, Newest: newest}
	}
	s := m.session(k, true)
	s.fences[p.Run] = p.Fence
	result := history.AppendResult{First: s.last + 1, Last: s.last + int64(len(p.Messages))}
	for _, sent := range p.Messages {
		s.last++
		added := modelMessage{Message: copyMessage(sent)}
		added.Seq, added.Run = s.last, p.Run
		if added.CreatedAt.IsZero() {
			added.CreatedAt = m.now()
		}
		added.CreatedAt = added.CreatedAt.UTC().Truncate(time.Millisecond)
		if s.last == result.First {
			added.key, added.until = p.IdempotencyKey, result.Last
		}
		s.messages = append(s.messages, added)
	}
	if p.TTL != 0 {
		s.ttl = max(0, p.TTL)
	}
	s.UpdatedAt, s.ExpiresAt = m.now(), time.Time{}
	if s.ttl > 0 {
		s.ExpiresAt = m.now().Add(s.ttl)
	}
	return result, nil
}

func copyMessage(m history.Message) history.Message {
	m.Body, m.ToolCalls, m.ToolResults = slices.Clone(m.Body), slices.Clone(m.ToolCalls), slices.Clone(m.ToolResults)
	return m
}

// matching returns the messages of a session that match.
func (m *model) matching(k history.Key, match func(history.Message) bool) (found []history.Message) {
	if s := m.session(k, false); s != nil {
		for _, old := range s.messages {
			if match(old.Message) {
				found = append(found, copyMessage(old.Message))
			}
		}
	}
	return found
}

func all(history.Message) bool { return true }

func (m *model) Messages(ctx context.Context, k history.Key, limit, offset int) ([]history.Message, error) {
	if err := cmp.Or(ctx.Err(), historydriver.CheckRange(k, limit, offset)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.matching(k, all)
	found = found[min(offset, len(found)):]
	if limit > 0 {
		found = found[:min(limit, len(found))]
	}
	return found, nil
}

func bytesOf(messages []history.Message) (n int) {
	for i := range messages {
		n += len(messages[i].Body)
	}
	return n
}

func (m *model) Page(ctx context.Context, k history.Key, q history.Query) (history.Page, error) {
	if err := cmp.Or(ctx.Err(), historydriver.CompleteQuery(k, &q)); err != nil {
		return history.Page{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.matching(k, func(m history.Message) bool { return m.Seq > q.After && (q.Before == 0 || m.Seq < q.Before) })
	size := min(q.Limit, len(found))
	part := func(size int) (page, rest []history.Message) {
		if q.Newest {
			return found[len(found)-size:], found[:len(found)-size]
		}
		return found[:size], found[size:]
	}
	fits := func(size int) bool {
		page, _ := part(size)
		return size <= 1 || bytesOf(page) <= m.pageBytes
	}
	for !fits(size) {
		size--
	}
	if largest := size; q.KeepToolPairs {
		splits := func(size int) bool {
			first, last := part(size)
			if q.Newest {
				first, last = last, first
			}
			return splitsPair(first, last)
		}
		for size > 0 && splits(size) {
			size--
		}
		if size == 0 && len(found) > 0 {
			for size = largest + 1; fits(size) && splits(size); size++ {
			}
			if !fits(size) {
				size = largest
			}
		}
	}
	page, rest := part(size)
	return history.Page{Messages: page, More: len(rest) > 0}, nil
}

// splitsPair reports whether a result in last belongs to a call in first.
func splitsPair(first, last []history.Message) bool {
	for i := range last {
		for _, id := range last[i].ToolResults {
			if callOf(slices.Concat(first, last[:i]), id, len(first)) {
				return true
			}
		}
	}
	return false
}

// callOf reports whether the newest of the messages with a call is one of the first n.
func callOf(messages []history.Message, id string, n int) bool {
	for i, m := range slices.Backward(messages) {
		if len(messages)-i > history.MaxToolSpan {
			return false
		}
		if slices.Contains(m.ToolCalls, id) {
			return i < n
		}
	}
	return false
}

func (m *model) Count(ctx context.Context, k history.Key) (int64, error) {
	found, err := m.Messages(ctx, k, 0, 0)
	return int64(len(found)), err
}

func (m *model) Clear(ctx context.Context, k history.Key) error {
	if err := cmp.Or(ctx.Err(), historydriver.CheckKey(k)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, k)
	return nil
}

// drop removes the messages of a session that match.
func (m *model) drop(k history.Key, match func(history.Message) bool) (p history.Pruned) {
	for _, gone := range m.matching(k, match) {
		p.Messages++
		p.Bytes += int64(len(gone.Body))
	}
	if s := m.session(k, false); s != nil {
		s.messages = slices.DeleteFunc(s.messages, func(old modelMessage) bool { return match(old.Message) })
	}
	return p
}

func (m *model) ClearRun(ctx context.Context, k history.Key, run string, fence int64) (int64, error) {
	if err := cmp.Or(ctx.Err(), historydriver.CheckRun(k, run, fence)); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.session(k, fence > 0); s != nil {
		if fence < s.fences[run] {
			return 0, history.ErrFenced
		}
		s.fences[run] = fence
	}
	return m.drop(k, func(m history.Message) bool { return m.Run == run }).Messages, nil
}

func (m *model) Expire(ctx context.Context, now time.Time, limit int) (removed int, err error) {
	if err := cmp.Or(ctx.Err(), historydriver.CheckExpire(limit)); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, s := range m.sessions {
		if removed < limit && !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt) {
			delete(m.sessions, k)
			removed++
		}
	}
	return removed, nil
}

func (m *model) Rewind(ctx context.Context, k history.Key, seq int64) (int64, error) {
	if err := cmp.Or(ctx.Err(), historydriver.CheckRewind(k, seq)); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drop(k, func(m history.Message) bool { return m.Seq > seq }).Messages, nil
}

func (m *model) Fork(ctx context.Context, p history.ForkParams) (int64, error) {
	if err := cmp.Or(ctx.Err(), historydriver.CheckFork(&p)); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	from := m.session(p.From, false)
	switch {
	case from == nil:
		return 0, history.ErrNotFound
	case m.session(p.To, false) != nil:
		return 0, history.ErrExists
	}
	to := m.session(p.To, true)
	if to.last = from.last; p.Through > 0 {
		to.last = min(from.last, p.Through)
	}
	if to.ttl = p.TTL; p.TTL > 0 {
		to.ExpiresAt = m.now().Add(p.TTL)
	}
	for _, old := range m.matching(p.From, func(m history.Message) bool { return m.Seq <= to.last }) {
		to.messages = append(to.messages, modelMessage{Message: old})
	}
	return int64(len(to.messages)), nil
}

// Prune removes the oldest messages that the policy removes: the largest number that splits no pair.
func (m *model) Prune(ctx context.Context, k history.Key, p history.Policy) (history.Pruned, error) {
	if err := cmp.Or(ctx.Err(), historydriver.CheckPolicy(k, p)); err != nil {
		return history.Pruned{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.matching(k, all)
	size := 0
	for i := range found {
		var bytes int64
		for _, left := range found[i:] {
			bytes += int64(len(left.Body))
		}
		if p.MaxMessages > 0 && int64(len(found)-i) > p.MaxMessages || p.MaxBytes > 0 && bytes > p.MaxBytes || found[i].CreatedAt.Before(p.CreatedBefore) {
			size = i + 1
			continue
		}
		break
	}
	for size > 0 && splitsPair(found[:size], found[size:]) {
		size--
	}
	if size == 0 {
		return history.Pruned{}, nil
	}
	return m.drop(k, func(m history.Message) bool { return m.Seq <= found[size-1].Seq }), nil
}
