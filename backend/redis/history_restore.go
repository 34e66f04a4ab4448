package redis

import (
	"context"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

var _ history.Restorer = (*History)(nil)

// Restore implements [history.Restorer].
func (h *History) Restore(ctx context.Context, s history.Session, messages []history.Message) error {
	if err := historydriver.CheckRestore(&s, messages); err != nil {
		return err
	}
	now, expires, size := h.now(), int64(0), 0
	if !s.ExpiresAt.IsZero() {
		if expires = store.Time(s.ExpiresAt).UnixMilli(); expires <= now {
			return ctx.Err()
		}
	}
	updated := store.Time(s.UpdatedAt).UnixMilli()
	if err := h.index(ctx, s.Key, max(now, updated)); err != nil {
		return wrapError(err, "restore")
	}
	runs := make(runRanges)
	for i := range messages {
		size += len(messages[i].Body)
		runs.add(messages[i].Run, messages[i].Seq)
	}
	args := []any{now, grace.Milliseconds(), store.Time(s.CreatedAt).UnixMilli(), updated, expires, s.TTL().Milliseconds(), size, 3 * len(runs)}
	for run, r := range runs {
		args = append(args, run, r.first, r.last)
	}
	reply, err := h.change(ctx, scriptRestore, s.Key, nil, appendCopies(args, messages)...)
	if err != nil {
		return wrapError(err, "restore")
	}
	if newest, conflict := strings.CutPrefix(reply, "C "); conflict {
		n, err := strconv.ParseInt(newest, 10, 64)
		if err != nil {
			return damaged(err)
		}
		return &history.ConflictError{Expected: messages[0].Seq - 1, Newest: n}
	}
	return nil
}

// runRanges has the first and the last sequence of each run of messages.
type runRanges map[string]runRange

type runRange struct{ first, last int64 }

// add adds a message to its run, "" if it has none. Sequences ascend.
func (r runRanges) add(run string, seq int64) {
	if run == "" {
		return
	}
	of, ok := r[run]
	if !ok {
		of.first = seq
	}
	of.last = seq
	r[run] = of
}

// appendCopies appends the sequence and the fields of messages.
func appendCopies(args []any, messages []history.Message) []any {
	for i := range messages {
		m := &messages[i]
		args = append(args, m.Seq, encodeMeta(m, m.Run, store.Time(m.CreatedAt).UnixMilli(), ""), string(m.Body))
	}
	return args
}
