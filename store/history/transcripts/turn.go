package transcripts

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// Transcript is the transcript of a turn's session: messages as JSON that the agent keeps, such as
// its conversation with a model. It belongs to the task's owner and context and to the agent. Tasks
// of the same context share it; see package history.
//
// Append, Clear and ClearTask are committed with the next commit of the turn, at the latest with its end, and exactly
// once. Reads commit them first, and find them. Every attempt must make the same calls in the same order, and a later
// attempt gets the results of committed calls. If the transcript is not in the agent's database, a write is made at
// once, and a repeated attempt does not repeat it.
//
// The transcript expires when it got no message for the age [Retention] of the server's retention.
type Transcript struct{ t contract.Turn }

// For returns the transcript of a turn's session.
func For(t contract.Turn) *Transcript { return &Transcript{t} }

func (s *Transcript) key() history.Key { return keyOf(s.t.Session()) }

// store returns the agent's transcripts. It also returns the transcripts of the agent's own store, if
// they can be written with the task.
func (s *Transcript) store() (p history.Provider, own history.Transactional, err error) {
	return contract.ForTurn[history.Provider, history.Transactional](s.t, Kind)
}

// write makes a write. messages are its arguments, nil if it has none. own returns its effect.
func (s *Transcript) write(ctx context.Context, op string, messages []history.Message, own func(history.Transactional) (store.Effect, error),
	direct func(ctx context.Context, h history.Provider, once string) error,
) error {
	p, o, err := s.store()
	if err != nil {
		return err
	}
	call := contract.Call{Op: op, Args: []any{messages}}
	if o != nil {
		call.Effect = func(context.Context, string) (store.Effect, int, error) {
			size := 0
			for i := range messages {
				size += len(messages[i].Body)
			}
			e, err := own(o)
			return e, size, err
		}
	} else {
		call.Direct = func(ctx context.Context, once string) error {
			err := direct(ctx, p, once)
			if errors.Is(err, history.ErrFenced) {
				return contract.ErrFenced
			}
			return err
		}
	}
	return s.t.Call(ctx, call)
}

// Append adds messages, all or none. Their Seq and Run are ignored: Run is the id of the task. A
// message without CreatedAt gets the time of the call.
func (s *Transcript) Append(ctx context.Context, messages ...history.Message) error {
	ttl := s.t.Age(Retention)
	if ttl == 0 {
		ttl = history.NoTTL
	}
	p := historydriver.CopyAppend(history.AppendParams{Messages: messages, Run: s.t.TaskID(), TTL: ttl})
	for i := range p.Messages {
		if m := &p.Messages[i]; m.CreatedAt.IsZero() {
			m.CreatedAt = store.Time(s.t.Now())
		}
	}
	return s.write(ctx, "transcript.append", messages,
		func(h history.Transactional) (store.Effect, error) { return h.AppendEffect(s.key(), p) },
		func(ctx context.Context, h history.Provider, once string) error {
			p.IdempotencyKey, p.Fence = once, s.t.Fence()
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
			_, err := h.ClearRun(ctx, s.key(), s.t.TaskID(), s.t.Fence())
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
	h, _, err := s.store()
	if err != nil {
		return history.Page{}, err
	}
	var stored struct {
		Messages []storedMessage
		More     bool
	}
	err = s.t.Call(ctx, contract.Call{Op: op, Result: &stored, Read: func(ctx context.Context) error {
		page, err := read(ctx, h)
		stored.Messages = nil
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
	h, _, err := s.store()
	if err != nil {
		return 0, err
	}
	err = s.t.Call(ctx, contract.Call{Op: "transcript.count", Result: &n, Read: func(ctx context.Context) (err error) {
		n, err = h.Count(ctx, s.key())
		return err
	}})
	return n, err
}
