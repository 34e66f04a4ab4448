package inmem

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

var _ history.Restorer = (*historyStore)(nil)

// Restore implements [history.Restorer].
func (h *historyStore) Restore(ctx context.Context, s history.Session, messages []history.Message) error {
	if err := historydriver.CheckRestore(&s, messages); err != nil {
		return err
	}
	defer h.mu.Unlock()
	if err := h.write(ctx); err != nil {
		return err
	}
	now := store.Time(h.now())
	if !s.ExpiresAt.IsZero() && !s.ExpiresAt.After(now) {
		return nil
	}
	t := h.transcript(s.Key, now)
	if t == nil {
		t = h.create(s.Key, store.Time(s.CreatedAt), 0)
	}
	if first := messages[0].Seq; t.lastSeq >= first {
		return &history.ConflictError{Expected: first - 1, Newest: t.lastSeq}
	}
	for i := range messages {
		m := copyHistoryMessage(&messages[i])
		m.CreatedAt = store.Time(m.CreatedAt)
		t.messages = append(t.messages, &historyMessage{Message: m, text: history.Text(m.Body)})
		t.lastSeq, t.Newest = m.Seq, m.Seq
		t.Messages++
		t.Bytes += int64(len(m.Body))
	}
	h.removeFromIndexes(t)
	t.ttl, t.UpdatedAt, t.ExpiresAt = s.TTL(), store.Time(s.UpdatedAt), store.Time(s.ExpiresAt)
	h.addToIndexes(t)
	return nil
}
