package engine

import (
	"context"
	"encoding/json"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
)

// Transcript is the transcript of a turn's session: messages as JSON that the agent keeps, such as
// its conversation with a model. It belongs to the task's owner and context and to the agent. Tasks
// of the same context share it; see package history.
//
// Append, Clear and ClearTask are committed with the next commit of the turn, at the latest with its
// end, and exactly once. Reads see them, and commit them before. As for [State], every attempt must
// make the same calls in the same order, and a later attempt gets the results of those that are
// committed. If the transcript is not in the agent's database, a write is made at once, and a
// repeated attempt does not repeat it.
//
// The transcript ends when it got no message for the age [RetainTranscripts] of [Retention].
type Transcript struct{ t *Turn }

// Transcript returns the transcript of the turn's session.
func (t *Turn) Transcript() *Transcript { return &Transcript{t} }

func (s *Transcript) key() history.Key { return s.t.r.e.cfg.transcript(s.t.Owner(), s.t.ContextID()) }

// write makes a write of messages, nil if it has none. own returns its effect.
func (s *Transcript) write(ctx context.Context, op string, messages []history.Message, own func(history.Transactional) (store.Effect, error),
	direct func(ctx context.Context, h history.Provider, once string) error,
) error {
	c := &s.t.r.e.cfg
	if c.Contracts.History == nil {
		return unsupported("transcripts (history)")
	}
	var effect func(ctx context.Context) (store.Effect, error)
	if c.own.history != nil {
		effect = func(context.Context) (store.Effect, error) { return own(c.own.history) }
	}
	size := 0
	for i := range messages {
		size += len(messages[i].Body)
	}
	return s.t.write(ctx, contractWrite{op: op, args: []any{messages}, size: size, effect: effect, direct: func(ctx context.Context, once string) error {
		return direct(ctx, c.Contracts.History, once)
	}})
}

// Append adds messages, all or none. Their Seq and Run are ignored: Run is the id of the task. A
// message without CreatedAt gets the time of the call.
func (s *Transcript) Append(ctx context.Context, messages ...history.Message) error {
	p := history.AppendParams{Messages: messages, Run: s.t.TaskID(), TTL: s.t.r.e.cfg.transcriptTTL()}.Copy()
	for i := range p.Messages {
		if m := &p.Messages[i]; m.CreatedAt.IsZero() {
			m.CreatedAt = store.Time(s.t.r.e.cfg.clock())
		}
	}
	return s.write(ctx, "transcript.append", messages,
		func(h history.Transactional) (store.Effect, error) { return h.AppendEffect(s.key(), p) },
		func(ctx context.Context, h history.Provider, once string) error {
			p.IdempotencyKey, p.Fence = once, s.t.r.lease.Fence
			_, err := h.Append(ctx, s.key(), p)
			return err
		})
}

// AppendText adds a message with a text as its body, encoded as a JSON string.
func (s *Transcript) AppendText(ctx context.Context, role, text string) error {
	body, err := json.Marshal(text)
	if err != nil {
		return err
	}
	return s.Append(ctx, history.Message{Role: role, Body: body})
}

// Clear removes the transcript.
func (s *Transcript) Clear(ctx context.Context) error {
	return s.write(ctx, "transcript.clear", nil,
		func(h history.Transactional) (store.Effect, error) { return h.ClearEffect(s.key()) },
		func(ctx context.Context, h history.Provider, _ string) error { return h.Clear(ctx, s.key()) })
}

// ClearTask removes the messages that this task has written.
func (s *Transcript) ClearTask(ctx context.Context) error {
	return s.write(ctx, "transcript.clearTask", nil,
		func(h history.Transactional) (store.Effect, error) { return h.ClearRunEffect(s.key(), s.t.TaskID(), 0) },
		func(ctx context.Context, h history.Provider, _ string) error {
			_, err := h.ClearRun(ctx, s.key(), s.t.TaskID(), s.t.r.lease.Fence)
			return err
		})
}

// storedMessage is a message as a result of a call. JSON would change the spelling of Body.
type storedMessage struct {
	history.Message
	Body []byte
}

// query reads messages and returns them with More of a page.
func (s *Transcript) query(ctx context.Context, op string, read func(ctx context.Context, h history.Provider) (history.Page, error)) (history.Page, error) {
	h := s.t.r.e.cfg.Contracts.History
	if h == nil {
		return history.Page{}, unsupported("transcripts (history)")
	}
	var stored struct {
		Messages []storedMessage
		More     bool
	}
	err := s.t.onContract(ctx, contractCall{kind: queryCall, op: op, result: &stored, do: func(ctx context.Context, _ *recordCall, _ string) error {
		page, err := read(ctx, h)
		for _, m := range page.Messages {
			stored.Messages = append(stored.Messages, storedMessage{m, m.Body})
		}
		stored.More = page.More
		return err
	}})
	if err != nil {
		return history.Page{}, err
	}
	page := history.Page{More: stored.More}
	for _, m := range stored.Messages {
		m.Message.Body = m.Body
		page.Messages = append(page.Messages, m.Message)
	}
	return page, nil
}

// Page returns the messages that q selects, oldest first.
func (s *Transcript) Page(ctx context.Context, q history.Query) (history.Page, error) {
	return s.query(ctx, "transcript.page", func(ctx context.Context, h history.Provider) (history.Page, error) { return h.Page(ctx, s.key(), q) })
}

// Tail returns the newest messages, up to a limit and [history.MaxPageBytes], oldest first. Calls of
// tools and their results are kept together; see [history.Query].
func (s *Transcript) Tail(ctx context.Context, limit int) ([]history.Message, error) {
	q := history.Tail(limit)
	q.KeepToolPairs = true
	page, err := s.Page(ctx, q)
	return page.Messages, err
}

// Messages returns up to limit messages, whatever their size, oldest first, after skipping offset of
// them. It returns less than limit only at the end. Limit 0 means all.
func (s *Transcript) Messages(ctx context.Context, limit, offset int) ([]history.Message, error) {
	page, err := s.query(ctx, "transcript.messages", func(ctx context.Context, h history.Provider) (page history.Page, err error) {
		page.Messages, err = h.Messages(ctx, s.key(), limit, offset)
		return page, err
	})
	return page.Messages, err
}

// Count returns the number of messages.
func (s *Transcript) Count(ctx context.Context) (n int64, err error) {
	h := s.t.r.e.cfg.Contracts.History
	if h == nil {
		return 0, unsupported("transcripts (history)")
	}
	err = s.t.onContract(ctx, contractCall{kind: queryCall, op: "transcript.count", result: &n, do: func(ctx context.Context, _ *recordCall, _ string) (err error) {
		n, err = h.Count(ctx, s.key())
		return err
	}})
	return n, err
}
