package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// Rewind implements [history.Editor].
func (h *History) Rewind(ctx context.Context, k history.Key, seq int64) (int64, error) {
	if err := historydriver.CheckRewind(k, seq); err != nil {
		return 0, err
	}
	removed, err := h.remove(ctx, k, "after", seq, fenceText(0), "")
	return removed.Messages, wrapError(err, "rewind")
}

// Prune implements [history.Pruner].
func (h *History) Prune(ctx context.Context, k history.Key, p history.Policy) (removed history.Pruned, err error) {
	if err := historydriver.CheckPolicy(k, p); err != nil {
		return removed, err
	}
	for {
		batch, err := h.pruneBatch(ctx, k, p)
		if errors.Is(err, errRevised) {
			continue
		}
		removed.Messages += batch.Messages
		removed.Bytes += batch.Bytes
		if err != nil || batch.Messages == 0 {
			return removed, wrapError(err, "prune")
		}
	}
}

// pruneBatch removes one batch of the oldest messages. It returns errRevised if messages were
// removed after it has read the batch.
func (h *History) pruneBatch(ctx context.Context, k history.Key, p history.Policy) (batch history.Pruned, err error) {
	t, oldest, seqs, err := h.oldest(ctx, k)
	if err != nil || len(oldest) == 0 {
		return batch, err
	}
	n := historydriver.PruneSize(oldest, history.Pruned{Messages: t.Messages, Bytes: t.Bytes}, p)
	if n == 0 {
		return batch, nil
	}
	return h.remove(ctx, k, "until", seqs[n-1], fenceText(0), t.rev)
}

// oldest returns the outlines of the oldest messages that [historydriver.PruneSize] needs and their sequences, with the
// totals of the session.
func (h *History) oldest(ctx context.Context, k history.Key) (t totals, oldest []historydriver.Outline, seqs []int64, err error) {
	rev, count := "", readFirst
	for len(oldest) < historydriver.PruneRead {
		after := int64(0)
		if len(seqs) > 0 {
			after = seqs[len(seqs)-1]
		}
		count = min(count, historydriver.PruneRead-len(oldest))
		var replies []any
		var found bool
		t, replies, found, err = h.readTotals(ctx, k, h.rangeOf(k, after, 0, count, false))
		switch {
		case err != nil || !found:
			return t, nil, nil, err
		case rev != "" && t.rev != rev:
			return t, nil, nil, errRevised
		}
		batch, err := parseMessages(replies[0])
		if err != nil {
			return t, nil, nil, err
		}
		oldest = append(oldest, outlines(batch)...)
		for i := range batch {
			seqs = append(seqs, batch[i].Seq)
		}
		if len(batch) < count {
			break
		}
		rev, count = t.rev, t.batch()
	}
	return t, oldest, seqs, nil
}

// Fork implements [history.Editor]. It first copies the messages to temporary keys, and then renames
// these keys in one step. The server removes the temporary keys of an interrupted call after grace.
func (h *History) Fork(ctx context.Context, p history.ForkParams) (copied int64, err error) {
	if err := historydriver.CheckFork(&p); err != nil {
		return 0, err
	}
	if err := h.index(ctx, p.To, h.now()); err != nil {
		return 0, wrapError(err, "fork")
	}
	for err = errRevised; errors.Is(err, errRevised); {
		copied, err = h.fork(ctx, &p)
	}
	return copied, wrapError(err, "fork")
}

// fork makes one attempt to copy a session. It returns errRevised if messages of the session are
// removed meanwhile.
func (h *History) fork(ctx context.Context, p *history.ForkParams) (int64, error) {
	if _, _, exists, err := h.readTotals(ctx, p.To); exists || err != nil {
		if err == nil {
			if _, _, found, err := h.readTotals(ctx, p.From); !found || err != nil {
				return 0, errOr(err, history.ErrNotFound)
			}
		}
		return 0, errOr(err, history.ErrExists)
	}
	key := h.sessionKeys(p.To)[0]
	part := strconv.FormatInt(h.s.numbers.Add(1), 10)
	c := forkCopy{h: h, p: p, keys: []string{key + ":f:" + h.s.id + ":" + part, key + ":g:" + h.s.id + ":" + part}, runs: make(runRanges)}
	if err := c.copy(ctx); err != nil {
		return 0, err
	}
	reply, err := h.change(ctx, scriptFork, p.To, c.keys, h.now(), grace.Milliseconds(), p.TTL.Milliseconds(), c.through, c.newest, c.messages, c.bytes)
	switch {
	case err != nil:
		return 0, err
	case reply == "E":
		return 0, history.ErrExists
	}
	return c.messages, nil
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// forkCopy is the copy of a session that a fork makes.
type forkCopy struct {
	h    *History
	p    *history.ForkParams
	keys []string // of the hash and the stream
	runs runRanges

	through, newest, messages, bytes int64
}

func (c *forkCopy) copy(ctx context.Context) error {
	rev, after, count := "", int64(0), readFirst
	for {
		t, replies, found, err := c.h.readTotals(ctx, c.p.From, c.h.rangeOf(c.p.From, after, c.before(), count, false))
		switch {
		case err != nil:
			return err
		case rev != "" && t.rev != rev:
			return errRevised
		case !found:
			return history.ErrNotFound
		}
		if rev == "" {
			rev, c.through = t.rev, t.lastSeq
			if c.p.Through > 0 {
				c.through = min(c.through, c.p.Through)
			}
		}
		batch, err := parseMessages(replies[0])
		if err != nil {
			return err
		}
		full := len(batch) == count
		count = t.batch()
		for len(batch) > 0 && batch[len(batch)-1].Seq > c.through { // appended meanwhile
			batch = batch[:len(batch)-1]
		}
		if len(batch) > 0 {
			if err := c.stage(ctx, batch); err != nil {
				return err
			}
			after = c.newest
		}
		if !full || after >= c.through {
			return nil
		}
	}
}

// before returns the bound of the sequences to copy, 0 if it is not known yet.
func (c *forkCopy) before() int64 {
	switch {
	case c.through > 0:
		return c.through + 1
	case c.p.Through > 0:
		return c.p.Through + 1
	}
	return 0
}

// stage adds messages to the copy.
func (c *forkCopy) stage(ctx context.Context, batch []history.Message) error {
	touched := make(map[string]bool)
	for i := range batch {
		m := &batch[i]
		c.messages++
		c.bytes += int64(len(m.Body))
		c.newest = m.Seq
		if c.runs.add(m.Run, m.Seq); m.Run != "" {
			touched[m.Run] = true
		}
	}
	args := []any{grace.Milliseconds(), c.newest, 2 * len(touched)}
	for run := range touched {
		args = append(args, "r:"+run, fmt.Sprintf("%s %d %d", fenceText(0), c.runs[run].first, c.runs[run].last))
	}
	args = appendCopies(args, batch)
	cmd := append(command{"evalsha", scriptStage, 2, c.keys[0], c.keys[1]}, args...)
	_, err := c.h.s.client.run(ctx, c.keys[0], func(int) []command { return []command{append(command(nil), cmd...)} })
	return err
}
