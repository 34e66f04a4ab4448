package transcripts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

const (
	typeSession = "session"
	typeMessage = "message"
)

// Limits of the messages that are restored at once.
const (
	restoreMessages = 500
	restoreBytes    = 2 << 20
)

type sessionLine struct {
	_         struct{}  `wire:"const=type:session,required"`
	Agent     string    `json:"agent" wire:"required"`
	Session   string    `json:"session" wire:"required"`
	CreatedAt time.Time `json:"createdAt" wire:"required"`
	UpdatedAt time.Time `json:"updatedAt" wire:"required"`
	ExpiresAt time.Time `json:"expiresAt,omitempty"`
}

func (l *sessionLine) session(owner string) history.Session {
	return history.Session{
		Key:       history.Key{Owner: owner, Agent: l.Agent, Session: l.Session},
		CreatedAt: store.Time(l.CreatedAt), UpdatedAt: store.Time(l.UpdatedAt), ExpiresAt: store.Time(l.ExpiresAt),
	}
}

type messageLine struct {
	_         struct{}  `wire:"const=type:message,required"`
	Seq       int64     `json:"seq" wire:"required"`
	Run       string    `json:"run,omitempty"`
	Role      string    `json:"role,omitempty"`
	CreatedAt time.Time `json:"createdAt" wire:"required"`
	// Body is the message, or Bytes if it has line breaks.
	Body        json.RawMessage `json:"body,omitempty"`
	Bytes       []byte          `json:"bodyBase64,omitempty"`
	ToolCalls   []string        `json:"toolCalls,omitempty"`
	ToolResults []string        `json:"toolResults,omitempty"`
}

func lineOf(m *history.Message) *messageLine {
	l := &messageLine{Seq: m.Seq, Run: m.Run, Role: m.Role, CreatedAt: m.CreatedAt, ToolCalls: m.ToolCalls, ToolResults: m.ToolResults}
	if bytes.ContainsAny(m.Body, "\n\r") {
		l.Bytes = m.Body
	} else {
		l.Body = m.Body
	}
	return l
}

func (l *messageLine) message() history.Message {
	m := history.Message{Seq: l.Seq, Run: l.Run, Role: l.Role, CreatedAt: store.Time(l.CreatedAt), Body: l.Body, ToolCalls: l.ToolCalls, ToolResults: l.ToolResults}
	if len(l.Bytes) > 0 {
		m.Body = l.Bytes
	}
	return m
}

func (t *transcripts) Export(ctx context.Context, owner string, line func(typ string, v any) error) error {
	lister, err := t.lister()
	if err != nil {
		return err
	}
	for q := (history.SessionQuery{Owner: owner, Limit: page}); ; {
		found, err := lister.Sessions(ctx, q)
		if err != nil {
			return err
		}
		for i := range found.Sessions {
			if err := t.exportSession(ctx, &found.Sessions[i], line); err != nil {
				return fmt.Errorf("session %s: %w", found.Sessions[i].Key.Session, err)
			}
		}
		if q.Next = found.Next; q.Next == nil {
			return nil
		}
	}
}

// exportSession writes a session with its messages, if it has any.
func (t *transcripts) exportSession(ctx context.Context, s *history.Session, line func(typ string, v any) error) error {
	started := false
	for m, err := range history.All(ctx, t.Provider, s.Key, 0) {
		if err != nil {
			return err
		}
		if !started {
			started = true
			if err := line(typeSession, &sessionLine{Agent: s.Key.Agent, Session: s.Key.Session, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, ExpiresAt: s.ExpiresAt}); err != nil {
				return err
			}
		}
		if err := line(typeMessage, lineOf(&m)); err != nil {
			return err
		}
	}
	return nil
}

// scanner implements [contract.Scanner]. Its items are sessions and messages of the last session.
type scanner struct {
	owner   string
	session history.Session
	last    int64 // the sequence of the last message
}

func (s *scanner) Scan(typ string, raw []byte) (any, error) {
	if typ == typeSession {
		var l sessionLine
		if err := wire.Unmarshal(raw, &l); err != nil {
			return nil, err
		}
		s.session, s.last = l.session(s.owner), 0
		return s.session, historydriver.CheckKey(s.session.Key)
	}
	var l messageLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	m := l.message()
	if m.Seq <= s.last {
		return nil, a2a.Errorf(a2a.CodeInvalid, "message %d follows message %d", m.Seq, s.last)
	}
	s.last = m.Seq
	return m, historydriver.CheckRestore(&s.session, []history.Message{m})
}

func (*scanner) End() error { return nil }

func (t *transcripts) Import(p *contract.ImportParams) (contract.Importer, error) {
	lister, ok := t.Provider.(history.SessionLister)
	if !ok {
		return nil, Kind.NoTarget()
	}
	restorer, _ := t.Provider.(history.Restorer)
	return &importer{ImportParams: p, transcripts: t, lister: lister, restorer: restorer}, nil
}

// importer collects messages of one session.
type importer struct {
	contract.Immediate
	*contract.ImportParams
	transcripts *transcripts
	lister      history.SessionLister
	restorer    history.Restorer // nil if the store assigns the sequences of messages

	session history.Session
	// newest is the sequence of the newest message that the session had before the import, 0 if the
	// session did not exist. known are existing messages to compare next.
	newest  int64
	known   []history.Message
	skip    bool // the session is not imported, or differs
	pending []history.Message
	size    int // of pending, in bytes
}

func (m *importer) Add(ctx context.Context, item any) error {
	switch item := item.(type) {
	case history.Session:
		return m.addSession(ctx, item)
	default:
		return m.addMessage(ctx, item.(history.Message))
	}
}

func (m *importer) addSession(ctx context.Context, s history.Session) error {
	if err := m.Flush(ctx); err != nil {
		return err
	}
	s.Key.Owner = m.Owner
	m.session, m.newest, m.known, m.skip = s, 0, nil, false
	existing, err := m.lister.Session(ctx, s.Key)
	switch {
	case errors.Is(err, history.ErrNotFound):
		if m.Write {
			m.Added(countSessions, 1)
		}
		return nil
	case err != nil:
		return err
	}
	if m.newest = existing.Newest; m.restorer == nil {
		m.skip = true
		m.Note("session %s of agent %s exists and was left as it is", a2a.Quote(s.Key.Session), a2a.Quote(s.Key.Agent))
	}
	return nil
}

func (m *importer) addMessage(ctx context.Context, msg history.Message) error {
	switch {
	case m.skip:
		return nil
	case msg.Seq <= m.newest:
		return m.compare(ctx, msg)
	case !m.Write:
		return nil
	}
	m.pending = append(m.pending, msg)
	if m.size += len(msg.Body); len(m.pending) < restoreMessages && m.size < restoreBytes {
		return nil
	}
	return m.Flush(ctx)
}

// compare reports a conflict if the existing session differs from the document's.
func (m *importer) compare(ctx context.Context, msg history.Message) error {
	if len(m.known) == 0 {
		found, err := m.transcripts.Page(ctx, m.session.Key, history.After(msg.Seq-1, page))
		if err != nil {
			return err
		}
		m.known = found.Messages
	}
	if len(m.known) > 0 {
		known := m.known[0]
		m.known = m.known[1:]
		if contract.Equal(lineOf(&known), lineOf(&msg)) {
			return nil
		}
	}
	m.skip = true
	return m.Conflict("session %s of agent %s exists and differs from the document at message %d",
		a2a.Quote(m.session.Key.Session), a2a.Quote(m.session.Key.Agent), msg.Seq)
}

// Flush adds the collected messages to their session.
func (m *importer) Flush(ctx context.Context) error {
	messages := m.pending
	if len(messages) == 0 {
		return nil
	}
	m.pending, m.size = nil, 0
	var err error
	if m.restorer != nil {
		err = m.restorer.Restore(ctx, m.session, messages)
	} else {
		err = m.appendAll(ctx, messages)
	}
	if err != nil {
		return fmt.Errorf("session %s: %w", m.session.Key.Session, err)
	}
	m.Added(countMessages, int64(len(messages)))
	return nil
}

// appendAll adds messages to a session of a store that assigns their sequences.
func (m *importer) appendAll(ctx context.Context, messages []history.Message) error {
	renumbered := false
	err := historydriver.Batches(messages, func(part []history.Message) error {
		ttl := m.session.TTL()
		if ttl == 0 {
			ttl = history.NoTTL
		}
		r, err := m.transcripts.Append(ctx, m.session.Key, history.AppendParams{Messages: part, Run: part[0].Run, TTL: ttl})
		renumbered = renumbered || err == nil && r.First != part[0].Seq
		return err
	})
	if renumbered {
		m.Note("messages of session %s of agent %s have other sequences than in the document", a2a.Quote(m.session.Key.Session), a2a.Quote(m.session.Key.Agent))
	}
	return err
}
