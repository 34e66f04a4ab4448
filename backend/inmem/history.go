package inmem

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// historyStore has the transcripts of all owners, guarded by the lock of the database.
type historyStore struct {
	*database
	now      func() time.Time
	sessions map[history.Key]*transcript
	owners   map[string]*index[*transcript] // by the time of the last append
	expiry   index[*transcript]             // sessions that expire, by that time
}

var (
	_ history.Provider      = (*historyStore)(nil)
	_ history.Editor        = (*historyStore)(nil)
	_ history.Pruner        = (*historyStore)(nil)
	_ history.Searcher      = (*historyStore)(nil)
	_ history.SessionLister = (*historyStore)(nil)
	_ history.Transactional = (*historyStore)(nil)
)

// transcript is a session. Stored messages are never modified.
type transcript struct {
	history.Session
	messages []*historyMessage // by sequence
	lastSeq  int64
	ttl      time.Duration
	fences   map[string]int64           // by run
	keys     map[string]*historyMessage // first messages of appends, by idempotency key
}

// historyMessage is a message with its text for searches. The first message of an append has its
// idempotency key and the last sequence.
type historyMessage struct {
	history.Message
	text    string
	key     string
	keyLast int64
}

func (t *transcript) compare(u *transcript) int { return compareKeys(t.Key, u.Key) }

func compareKeys(a, b history.Key) int {
	return cmp.Or(strings.Compare(a.Owner, b.Owner), strings.Compare(a.Agent, b.Agent), strings.Compare(a.Session, b.Session))
}

// History returns the transcripts in memory. They implement all interfaces of package history.
func (s *Store) History() history.Provider { return s.history }

func newHistoryStore(db *database, now func() time.Time) *historyStore {
	return &historyStore{database: db, now: now, sessions: make(map[history.Key]*transcript), owners: make(map[string]*index[*transcript])}
}

// transcript returns a session that has not expired, or nil.
func (h *historyStore) transcript(k history.Key, now time.Time) *transcript {
	if t := h.sessions[k]; t != nil && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt)) {
		return t
	}
	return nil
}

// create returns a new session without messages in place of one that has expired.
func (h *historyStore) create(k history.Key, now time.Time, ttl time.Duration) *transcript {
	h.remove(h.sessions[k])
	t := &transcript{Session: history.Session{Key: k, CreatedAt: now, UpdatedAt: now}, fences: make(map[string]int64), keys: make(map[string]*historyMessage)}
	h.sessions[k] = t
	h.addToIndexes(t)
	h.touch(t, now, ttl)
	return t
}

func (h *historyStore) addToIndexes(t *transcript) {
	o := h.owners[t.Key.Owner]
	if o == nil {
		o = new(index[*transcript])
		h.owners[t.Key.Owner] = o
	}
	o.add(t.UpdatedAt.UnixMilli(), t)
	if !t.ExpiresAt.IsZero() {
		h.expiry.add(t.ExpiresAt.UnixMilli(), t)
	}
}

func (h *historyStore) removeFromIndexes(t *transcript) {
	o := h.owners[t.Key.Owner]
	if o.remove(t.UpdatedAt.UnixMilli(), t); o.len == 0 {
		delete(h.owners, t.Key.Owner)
	}
	if !t.ExpiresAt.IsZero() {
		h.expiry.remove(t.ExpiresAt.UnixMilli(), t)
	}
}

// remove removes a session, unless it is nil.
func (h *historyStore) remove(t *transcript) {
	if t != nil {
		h.removeFromIndexes(t)
		delete(h.sessions, t.Key)
	}
}

// touch records an append with a TTL; 0 keeps the TTL of the session.
func (h *historyStore) touch(t *transcript, now time.Time, ttl time.Duration) {
	h.removeFromIndexes(t)
	defer h.addToIndexes(t)
	switch {
	case ttl == history.NoTTL:
		t.ttl = 0
	case ttl != 0:
		t.ttl = ttl.Truncate(time.Millisecond)
	}
	t.UpdatedAt, t.ExpiresAt = now, time.Time{}
	if t.ttl > 0 {
		t.ExpiresAt = now.Add(t.ttl)
	}
}

// removed subtracts a message that is no longer in t.messages, and adds it to p.
func (t *transcript) removed(m *historyMessage, p *history.Pruned) {
	p.Messages++
	p.Bytes += int64(len(m.Body))
	t.Messages--
	t.Bytes -= int64(len(m.Body))
	if t.keys[m.key] == m {
		delete(t.keys, m.key)
	}
	t.Newest = 0
	if n := len(t.messages); n > 0 {
		t.Newest = t.messages[n-1].Seq
	}
}

// raiseFence sets the fence of a run, unless it is 0.
func (t *transcript) raiseFence(run string, fence int64) {
	if fence > 0 {
		t.fences[run] = fence
	}
}

// Append implements [history.Provider].
func (h *historyStore) Append(ctx context.Context, k history.Key, p history.AppendParams) (history.AppendResult, error) {
	if err := historydriver.CheckAppend(k, &p); err != nil {
		return history.AppendResult{}, err
	}
	added := newHistoryMessages(&p)
	defer h.mu.Unlock()
	if err := h.write(ctx); err != nil {
		return history.AppendResult{}, err
	}
	return h.append(k, &p, added)
}

// append appends messages. The caller holds the lock.
func (h *historyStore) append(k history.Key, p *history.AppendParams, added []*historyMessage) (history.AppendResult, error) {
	now := store.Time(h.now())
	t := h.transcript(k, now)
	if t == nil {
		if p.Expected != nil && *p.Expected != 0 {
			return history.AppendResult{}, &history.ConflictError{Expected: *p.Expected}
		}
		t = h.create(k, now, 0)
	}
	if p.Fence < t.fences[p.Run] {
		return history.AppendResult{}, history.ErrFenced
	}
	if m := t.keys[p.IdempotencyKey]; m != nil {
		t.raiseFence(p.Run, p.Fence)
		return history.AppendResult{First: m.Seq, Last: m.keyLast, Repeated: true}, nil
	}
	if p.Expected != nil && *p.Expected != t.Newest {
		return history.AppendResult{}, &history.ConflictError{Expected: *p.Expected, Newest: t.Newest}
	}
	t.raiseFence(p.Run, p.Fence)
	result := history.AppendResult{First: t.lastSeq + 1, Last: t.lastSeq + int64(len(added))}
	t.append(added, result, p.IdempotencyKey, now)
	h.touch(t, now, p.TTL)
	return result, nil
}

// newHistoryMessages returns copies of the messages of an append, without sequences.
func newHistoryMessages(p *history.AppendParams) []*historyMessage {
	added := make([]*historyMessage, len(p.Messages))
	for i := range p.Messages {
		m := copyHistoryMessage(&p.Messages[i])
		m.Run = p.Run
		added[i] = &historyMessage{Message: m, text: history.Text(m.Body)}
	}
	return added
}

func (t *transcript) append(added []*historyMessage, result history.AppendResult, key string, now time.Time) {
	for i, m := range added {
		m.Seq = result.First + int64(i)
		if m.CreatedAt = store.Time(m.CreatedAt); m.CreatedAt.IsZero() {
			m.CreatedAt = now
		}
		t.Bytes += int64(len(m.Body))
	}
	if key != "" {
		added[0].key, added[0].keyLast = key, result.Last
		t.keys[key] = added[0]
	}
	t.messages = append(t.messages, added...)
	t.lastSeq, t.Newest, t.Messages = result.Last, result.Last, int64(len(t.messages))
}

func copyHistoryMessage(m *history.Message) history.Message {
	c := *m
	c.Body = slices.Clone(m.Body)
	c.ToolCalls = cloneIDs(m.ToolCalls)
	c.ToolResults = cloneIDs(m.ToolResults)
	return c
}

// cloneIDs returns a copy of ids, nil if there are none.
func cloneIDs(ids []string) []string { return append([]string(nil), ids...) }

// Clear implements [history.Provider].
func (h *historyStore) Clear(ctx context.Context, k history.Key) error {
	if err := historydriver.CheckKey(k); err != nil {
		return err
	}
	defer h.mu.Unlock()
	if err := h.write(ctx); err != nil {
		return err
	}
	h.remove(h.sessions[k])
	return nil
}

// ClearRun implements [history.Provider].
func (h *historyStore) ClearRun(ctx context.Context, k history.Key, run string, fence int64) (int64, error) {
	if err := historydriver.CheckRun(k, run, fence); err != nil {
		return 0, err
	}
	defer h.mu.Unlock()
	if err := h.write(ctx); err != nil {
		return 0, err
	}
	return h.clearRun(k, run, fence)
}

// clearRun removes the messages of a run. The caller holds the lock.
func (h *historyStore) clearRun(k history.Key, run string, fence int64) (int64, error) {
	now := store.Time(h.now())
	t := h.transcript(k, now)
	if t == nil {
		if fence == 0 {
			return 0, nil
		}
		t = h.create(k, now, 0)
	}
	if fence < t.fences[run] {
		return 0, history.ErrFenced
	}
	t.raiseFence(run, fence)
	var p history.Pruned
	old := t.messages
	t.messages = nil
	for _, m := range old {
		if m.Run != run {
			t.messages = append(t.messages, m)
		}
	}
	for _, m := range old {
		if m.Run == run {
			t.removed(m, &p)
		}
	}
	return p.Messages, nil
}

// Expire implements [history.Provider].
func (h *historyStore) Expire(ctx context.Context, now time.Time, limit int) (removed int, err error) {
	if err := historydriver.CheckExpire(limit); err != nil {
		return 0, err
	}
	defer h.mu.Unlock()
	if err := h.write(ctx); err != nil {
		return 0, err
	}
	for removed < limit && h.expiry.len > 0 {
		first := h.expiry.chunks[0][0]
		if first.at > now.UnixMilli() {
			break
		}
		h.remove(first.rec)
		removed++
	}
	return removed, nil
}
