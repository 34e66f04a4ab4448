package inmem

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// drop removes the first n messages, or with a negative n the last ones.
func (t *transcript) drop(n int) (p history.Pruned) {
	gone := t.messages
	if n >= 0 {
		gone, t.messages = gone[:n], gone[n:]
	} else {
		gone, t.messages = gone[len(gone)+n:], gone[:len(gone)+n]
	}
	for _, m := range gone {
		t.removed(m, &p)
	}
	clear(gone) // t.messages shares the array
	return p
}

// Rewind implements [history.Editor].
func (h *historyStore) Rewind(ctx context.Context, k history.Key, seq int64) (removed int64, err error) {
	if err := historydriver.CheckRewind(k, seq); err != nil {
		return 0, err
	}
	defer h.mu.Unlock()
	if err := h.write(ctx); err != nil {
		return 0, err
	}
	if t := h.transcript(k, h.now()); t != nil && seq < t.Newest {
		removed = t.drop(t.after(seq) - len(t.messages)).Messages
	}
	return removed, nil
}

// Fork implements [history.Editor].
func (h *historyStore) Fork(ctx context.Context, p history.ForkParams) (int64, error) {
	if err := historydriver.CheckFork(&p); err != nil {
		return 0, err
	}
	defer h.mu.Unlock()
	if err := h.write(ctx); err != nil {
		return 0, err
	}
	now := store.Time(h.now())
	from := h.transcript(p.From, now)
	switch {
	case from == nil:
		return 0, history.ErrNotFound
	case h.transcript(p.To, now) != nil:
		return 0, history.ErrExists
	}
	t := h.create(p.To, now, p.TTL)
	t.lastSeq = from.lastSeq
	if p.Through > 0 {
		t.lastSeq = min(t.lastSeq, p.Through)
	}
	for _, m := range from.messages[:from.after(t.lastSeq)] {
		t.messages = append(t.messages, &historyMessage{Message: m.Message, text: m.text})
		t.Bytes += int64(len(m.Body))
		t.Newest = m.Seq
	}
	t.Messages = int64(len(t.messages))
	return t.Messages, nil
}

// Prune implements [history.Pruner].
func (h *historyStore) Prune(ctx context.Context, k history.Key, p history.Policy) (removed history.Pruned, err error) {
	if err := historydriver.CheckPolicy(k, p); err != nil {
		return removed, err
	}
	defer h.mu.Unlock()
	if err := h.write(ctx); err != nil {
		return removed, err
	}
	t := h.transcript(k, h.now())
	for t != nil {
		n := historydriver.PruneSize(outlines(window(t.messages, historydriver.PruneRead, false)), history.Pruned{Messages: t.Messages, Bytes: t.Bytes}, p)
		if n == 0 {
			break
		}
		batch := t.drop(n)
		removed.Messages += batch.Messages
		removed.Bytes += batch.Bytes
	}
	return removed, nil
}
