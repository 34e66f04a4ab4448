package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// History stores transcripts: package history documents its methods.
type History struct {
	s       *Store
	entries *index
}

var (
	_ history.Provider      = (*History)(nil)
	_ history.Editor        = (*History)(nil)
	_ history.Pruner        = (*History)(nil)
	_ history.Searcher      = (*History)(nil)
	_ history.SessionLister = (*History)(nil)
)

// grace is the time between the expiry of a session and the removal of its keys by the server. The
// server keeps the results of changes for this time after a session was cleared.
const grace = 10 * time.Minute

func (h *History) now() int64 { return h.s.cfg.Now().UnixMilli() }

// sessionKeys returns the keys of the hash and the stream of a session.
func (h *History) sessionKeys(k history.Key) []string {
	key := h.s.sessionKey(kindHistory, k.Owner, k.Agent, k.Session)
	return []string{key, key + ":m"}
}

// change runs a script that changes a session and returns its result. extra are further keys.
func (h *History) change(ctx context.Context, sc *script, k history.Key, extra []string, args ...any) (string, error) {
	reply, err := h.s.change(ctx, sc, append(h.sessionKeys(k), extra...), args...)
	if err != nil {
		return "", err
	}
	text, _ := reply.(string)
	return text, nil
}

// Append implements [history.Provider]. If it fails with code unavailable, the messages may have
// been appended.
func (h *History) Append(ctx context.Context, k history.Key, p history.AppendParams) (result history.AppendResult, err error) {
	if err := historydriver.CheckAppend(k, &p); err != nil {
		return result, err
	}
	now := h.now()
	if err := h.index(ctx, k, now); err != nil {
		return result, wrapError(err, "append")
	}
	reply, err := h.change(ctx, scriptAppend, k, nil, appendArgs(&p, now)...)
	if err != nil {
		return result, wrapError(err, "append")
	}
	switch kind, rest, _ := strings.Cut(reply, " "); kind {
	case "F":
		return result, history.ErrFenced
	case "C":
		newest, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return result, damaged(err)
		}
		return result, &history.ConflictError{Expected: *p.Expected, Newest: newest}
	case "R":
		reply, result.Repeated = rest, true
	}
	result.First, result.Last, err = parsePair(reply)
	return result, err
}

// parsePair returns the two numbers of a result.
func parsePair(text string) (a, b int64, err error) {
	first, second, _ := strings.Cut(text, " ")
	if a, err = strconv.ParseInt(first, 10, 64); err == nil {
		b, err = strconv.ParseInt(second, 10, 64)
	}
	if err != nil {
		err = damaged(err)
	}
	return a, b, err
}

func damaged(err error) error {
	return a2a.Wrap(a2a.CodeInternal, fmt.Errorf("redis: %w", err), "history: stored data cannot be read")
}

// appendArgs returns the arguments of append.lua. They share no memory with p, because they may be sent
// after the call has ended.
func appendArgs(p *history.AppendParams, now int64) []any {
	expected, ttl, size := "", "", 0
	if p.Expected != nil {
		expected = strconv.FormatInt(*p.Expected, 10)
	}
	if p.TTL != 0 {
		ttl = strconv.FormatInt(max(p.TTL.Milliseconds(), 0), 10)
	}
	for i := range p.Messages {
		size += len(p.Messages[i].Body)
	}
	args := make([]any, 0, 8+2*len(p.Messages))
	args = append(args, now, grace.Milliseconds(), size, p.Run, fenceText(p.Fence), p.IdempotencyKey, expected, ttl)
	for i := range p.Messages {
		m := &p.Messages[i]
		at, key := now, ""
		if !m.CreatedAt.IsZero() {
			at = store.Time(m.CreatedAt).UnixMilli()
		}
		if i == 0 {
			key = p.IdempotencyKey
		}
		args = append(args, encodeMeta(m, p.Run, at, key), string(m.Body))
	}
	return args
}

// fenceText pads a fence so that it sorts as text.
func fenceText(fence int64) string {
	text := strconv.FormatInt(fence, 10)
	return "0000000000000000000"[len(text):] + text
}

// Clear implements [history.Provider]. It is atomic.
func (h *History) Clear(ctx context.Context, k history.Key) error {
	if err := historydriver.CheckKey(k); err != nil {
		return err
	}
	_, err := h.change(ctx, scriptClear, k, nil, h.now(), grace.Milliseconds())
	return wrapError(err, "clear")
}

// ClearRun implements [history.Provider].
func (h *History) ClearRun(ctx context.Context, k history.Key, run string, fence int64) (int64, error) {
	if err := historydriver.CheckRun(k, run, fence); err != nil {
		return 0, err
	}
	if fence > 0 { // it creates the session
		if err := h.index(ctx, k, h.now()); err != nil {
			return 0, wrapError(err, "clear run")
		}
	}
	removed, err := h.remove(ctx, k, "run", run, fenceText(fence), "")
	return removed.Messages, wrapError(err, "clear run")
}

// remove removes messages; see remove.lua.
func (h *History) remove(ctx context.Context, k history.Key, mode string, what any, fence, rev string) (p history.Pruned, err error) {
	reply, err := h.change(ctx, scriptRemove, k, nil, h.now(), grace.Milliseconds(), mode, what, fence, rev)
	switch {
	case err != nil:
		return p, err
	case reply == "F":
		return p, history.ErrFenced
	case reply == "X":
		return p, errRevised
	}
	p.Messages, p.Bytes, err = parsePair(reply)
	return p, err
}

// Expire implements [history.Provider]. It removes nothing, because the server removes expired
// sessions by itself.
func (h *History) Expire(ctx context.Context, _ time.Time, limit int) (int, error) {
	if err := historydriver.CheckExpire(limit); err != nil {
		return 0, err
	}
	return 0, ctx.Err()
}
