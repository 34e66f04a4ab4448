package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// Limits of a command that reads messages of a session: the number of messages, a smaller number for the
// first command, because it does not know their size, and the approximate number of bytes.
const (
	readBatch  = 1000
	readFirst  = 16
	readApprox = 4 << 20
)

// errRevised: messages of the session were removed while it was read.
var errRevised = errors.New("messages were removed meanwhile")

// errTotals: the totals of a session are damaged.
var errTotals = errors.New("totals are not those of a session")

// totals are the fields of the hash of a session.
type totals struct {
	history.Session
	lastSeq int64
	rev     string // changes with each removal of messages
}

// batch returns the number of messages that one command reads, by their average size.
func (t *totals) batch() int {
	return int(max(1, min(readBatch, readApprox*t.Messages/max(t.Bytes, 1))))
}

// readTotals reads the totals of a session and executes more commands in the same round trip. found is
// false if the session does not exist or has expired.
func (h *History) readTotals(ctx context.Context, k history.Key, more ...command) (t totals, replies []any, found bool, err error) {
	key := h.sessionKeys(k)[0]
	replies, err = h.s.read(ctx, key, append([]command{{"hmget", key, "totals", "created", "rev"}}, more...)...)
	if err != nil {
		return t, nil, false, err
	}
	v, _ := replies[0].([]any)
	if len(v) != 3 || v[0] == nil {
		return t, nil, false, nil
	}
	text, _ := v[0].(string)
	created, _ := v[1].(string)
	n := make([]int64, 0, 9) // see session.lua
	for _, field := range strings.Fields(text + " " + created) {
		number, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return t, nil, false, damaged(fmt.Errorf("%w: %w", errTotals, err))
		}
		n = append(n, number)
	}
	if len(n) != 9 {
		return t, nil, false, damaged(errTotals)
	}
	t = totals{lastSeq: n[0], Session: history.Session{
		Key: k, Newest: n[1], Messages: n[2], Bytes: n[3], CreatedAt: fromMillis(n[8]), UpdatedAt: fromMillis(n[4]),
	}}
	t.rev, _ = v[2].(string)
	if n[5] > 0 {
		t.ExpiresAt = fromMillis(n[5])
		if n[5] <= h.now() {
			return t, nil, false, nil
		}
	}
	return t, replies[1:], true, nil
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// rangeOf returns the command that reads up to limit messages between two sequences.
func (h *History) rangeOf(k history.Key, after, before int64, limit int, newest bool) command {
	start, end := "-", "+"
	if after > 0 {
		start = "(" + strconv.FormatInt(after, 10)
	}
	if before > 0 {
		end = strconv.FormatInt(before-1, 10)
	}
	stream := h.sessionKeys(k)[1]
	if newest {
		return command{"xrevrange", stream, end, start, "count", limit}
	}
	return command{"xrange", stream, start, end, "count", limit}
}

// Messages implements [history.Provider]. It reads large results in batches, and starts again if
// messages are removed meanwhile.
func (h *History) Messages(ctx context.Context, k history.Key, limit, offset int) (messages []history.Message, err error) {
	if err := historydriver.CheckRange(k, limit, offset); err != nil {
		return nil, err
	}
	for err = errRevised; errors.Is(err, errRevised); {
		messages, err = h.readRange(ctx, k, limit, offset)
	}
	return messages, wrapError(err, "messages")
}

// readRange makes one attempt to read messages, and returns errRevised if messages are removed
// meanwhile. If the sequences of the session have no gaps, it computes the first sequence from the
// offset instead of reading the messages before it.
func (h *History) readRange(ctx context.Context, k history.Key, limit, offset int) (messages []history.Message, err error) {
	if limit == 0 {
		limit = math.MaxInt
	}
	after, rev, batchSize := int64(0), "", readFirst
	if offset > 0 {
		t, replies, found, err := h.readTotals(ctx, k, h.rangeOf(k, 0, 0, 1, false))
		if err != nil || !found || int64(offset) >= t.Messages {
			return nil, err
		}
		first, err := parseMessages(replies[0])
		if err != nil {
			return nil, err
		}
		rev, batchSize = t.rev, t.batch()
		if len(first) == 1 && first[0].Seq+t.Messages-1 == t.Newest {
			after, offset = first[0].Seq+int64(offset)-1, 0
		}
	}
	for len(messages) < limit {
		count := min(batchSize, limit-len(messages))
		if offset > 0 {
			count = batchSize
		}
		t, replies, found, err := h.readTotals(ctx, k, h.rangeOf(k, after, 0, count, false))
		switch {
		case err != nil:
			return nil, err
		case rev != "" && t.rev != rev:
			return nil, errRevised
		case !found:
			return nil, nil
		}
		rev, batchSize = t.rev, t.batch()
		batch, err := parseMessages(replies[0])
		if err != nil {
			return nil, err
		}
		if len(batch) > 0 {
			after = batch[len(batch)-1].Seq
		}
		skip := min(offset, len(batch))
		offset -= skip
		messages = append(messages, batch[skip:][:min(len(batch)-skip, limit-len(messages))]...)
		if len(batch) < count {
			break
		}
	}
	return messages, nil
}

// Page implements [history.Provider]. It reads large pages in batches, and starts again if messages
// are removed meanwhile.
func (h *History) Page(ctx context.Context, k history.Key, q history.Query) (page history.Page, err error) {
	if err := historydriver.CompleteQuery(k, &q); err != nil {
		return page, err
	}
	for err = errRevised; errors.Is(err, errRevised); {
		r := pageReader{h: h, k: k, q: q, batch: readFirst}
		page, err = r.page(ctx)
	}
	return page, wrapError(err, "page")
}

// pageReader reads the messages of a query in batches: the messages that fit into a page, and the outlines
// of others. They are in the order in which they were read, which is descending for the newest ones.
type pageReader struct {
	h *History
	k history.Key
	q history.Query

	fitting  []history.Message
	outlines []historydriver.Outline
	size     historydriver.PageBytes
	batch    int
	rev      string
	ended    bool
}

// page makes one attempt to read a page. It returns errRevised if messages are removed meanwhile.
func (r *pageReader) page(ctx context.Context) (page history.Page, err error) {
	for r.more(r.q.Limit+1) && len(r.fitting) == len(r.outlines) && err == nil {
		err = r.read(ctx, r.q.Limit+1)
	}
	n := min(r.q.Limit, len(r.fitting))
	// Most pages need no messages beyond their limit.
	if r.q.KeepToolPairs && n < len(r.outlines) && (!r.q.Newest || !historydriver.Whole(r.ascending(n))) {
		for r.more(n+historydriver.PageRead) && err == nil {
			err = r.read(ctx, n+historydriver.PageRead)
		}
		n = historydriver.PageSize(r.ascending(len(r.outlines)), n, r.q.Newest)
	}
	if err != nil {
		return page, err
	}
	page.Messages, page.More = r.fitting[:n:n], n < len(r.outlines)
	if r.q.Newest {
		slices.Reverse(page.Messages)
	}
	return page, nil
}

// more reports whether less than count messages were read, and more may exist.
func (r *pageReader) more(count int) bool { return len(r.outlines) < count && !r.ended }

// ascending returns the outlines of the first n messages that were read, in ascending order.
func (r *pageReader) ascending(n int) []historydriver.Outline {
	all := slices.Clone(r.outlines[:n])
	if r.q.Newest {
		slices.Reverse(all)
	}
	return all
}

// read reads the next batch, until count messages were read.
func (r *pageReader) read(ctx context.Context, count int) error {
	count = min(r.batch, count-len(r.outlines))
	t, replies, found, err := r.h.readTotals(ctx, r.k, r.h.rangeOf(r.k, r.q.After, r.q.Before, count, r.q.Newest))
	switch {
	case err != nil:
		return err
	case r.rev != "" && (!found || t.rev != r.rev):
		return errRevised
	case !found:
		r.ended = true
		return nil
	}
	batch, err := parseMessages(replies[0])
	if err != nil {
		return err
	}
	for i := range batch {
		m := &batch[i]
		if len(r.fitting) == len(r.outlines) && r.size.Add(len(m.Body)) {
			r.fitting = append(r.fitting, *m)
		}
		r.outlines = append(r.outlines, historydriver.OutlineOf(m))
		if r.q.Newest {
			r.q.Before = m.Seq
		} else {
			r.q.After = m.Seq
		}
	}
	r.rev, r.batch, r.ended = t.rev, t.batch(), len(batch) < count || r.q.Newest && r.q.Before <= 1
	return nil
}

func outlines(messages []history.Message) []historydriver.Outline {
	all := make([]historydriver.Outline, len(messages))
	for i := range messages {
		all[i] = historydriver.OutlineOf(&messages[i])
	}
	return all
}

// Count implements [history.Provider].
func (h *History) Count(ctx context.Context, k history.Key) (int64, error) {
	if err := historydriver.CheckKey(k); err != nil {
		return 0, err
	}
	t, _, found, err := h.readTotals(ctx, k)
	if err != nil || !found {
		return 0, wrapError(err, "count")
	}
	return t.Messages, nil
}

// Session implements [history.SessionLister].
func (h *History) Session(ctx context.Context, k history.Key) (history.Session, error) {
	if err := historydriver.CheckKey(k); err != nil {
		return history.Session{}, err
	}
	t, _, found, err := h.readTotals(ctx, k)
	switch {
	case err != nil:
		return history.Session{}, wrapError(err, "session")
	case !found:
		return history.Session{}, history.ErrNotFound
	}
	return t.Session, nil
}

// parseMessages returns the messages of a reply of XRANGE.
func parseMessages(reply any) ([]history.Message, error) {
	entries, _ := reply.([]any)
	messages := make([]history.Message, len(entries))
	for i, entry := range entries {
		if err := parseMessage(entry, &messages[i]); err != nil {
			return nil, damaged(err)
		}
	}
	return messages, nil
}

func parseMessage(entry any, m *history.Message) error {
	pair, _ := entry.([]any)
	if len(pair) != 2 {
		return errors.New("entry of a stream has no id and fields")
	}
	id, _ := pair[0].(string)
	id, _, _ = strings.Cut(id, "-")
	var err error
	if m.Seq, err = strconv.ParseInt(id, 10, 64); err != nil {
		return err
	}
	fields, _ := pair[1].([]any)
	if len(fields) != 4 {
		return errors.New("entry of a stream has a wrong number of fields")
	}
	meta, _ := fields[1].(string)
	body, _ := fields[3].(string)
	m.Body = json.RawMessage(body)
	return decodeMeta(meta, m)
}

// encodeMeta returns the field meta of a message: its time, idempotency key, run, role, calls and results, with NUL
// in between.
func encodeMeta(m *history.Message, run string, at int64, key string) string {
	return strings.Join([]string{strconv.FormatInt(at, 10), key, run, m.Role, encodeIDs(m.ToolCalls), encodeIDs(m.ToolResults)}, "\x00")
}

func decodeMeta(meta string, m *history.Message) error {
	parts := strings.Split(meta, "\x00")
	if len(parts) != 6 {
		return errors.New("field meta of a message has a wrong number of parts")
	}
	at, err := strconv.ParseInt(parts[0], 10, 64)
	m.CreatedAt, m.Run, m.Role = fromMillis(at), parts[2], parts[3]
	for i, ids := range []*[]string{&m.ToolCalls, &m.ToolResults} {
		if text := parts[4+i]; text != "" && err == nil {
			err = json.Unmarshal([]byte(text), ids)
		}
	}
	return err
}

// encodeIDs returns ids as a JSON array, or "".
func encodeIDs(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	text, _ := json.Marshal(ids) // strings
	return string(text)
}
