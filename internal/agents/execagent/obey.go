package execagent

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
)

// obey does what a line of the program says.
func (s *session) obey(n int, m *said) error {
	switch m.Type {
	case "status":
		if m.Text == "" {
			return breach(n, "is a status without text")
		}
		return s.progress.tell(s.t, m.Text)
	case "artifact":
		return s.writeArtifact(m)
	case "metadata":
		if m.Metadata == nil {
			return breach(n, "is metadata without a member metadata")
		}
		if err := s.progress.pace(s.ctx); err != nil {
			return err
		}
		return s.t.SetMetadata(m.Metadata)
	case "step":
		return s.runStep(n, m)
	case "receive":
		return s.receive(m)
	case "history":
		return s.history(n, m)
	}
	return s.endTurn(n, m)
}

// endTurn does what a line says that ends the turn.
func (s *session) endTurn(n int, m *said) error {
	switch m.Type {
	case "result":
		return &outcome{s.t.Reply(m.Text, m.Parts...)}
	case "require_input":
		return &outcome{s.t.RequireInput(m.Text, m.Parts...)}
	case "require_auth":
		return &outcome{s.t.RequireAuth(m.Text, m.Parts...)}
	case "reject":
		return &outcome{s.t.Reject(m.Text, m.Parts...)}
	case "fail":
		if m.Text == "" {
			m.Text = "the program " + s.a.name + " failed and did not say why"
		}
		if m.Retry {
			return &outcome{holdfast.Retry(errors.New(m.Text))}
		}
		return &outcome{s.t.Fail(errors.New(m.Text))}
	}
	return breach(n, "has the unknown type %s", a2a.Quote(m.Type))
}

func (s *session) writeArtifact(m *said) error {
	name := m.Name
	if name == "" {
		name = "output"
	}
	parts := m.Parts
	if m.Text != "" {
		parts = append([]a2a.Part{a2a.TextPart{Text: m.Text}}, parts...)
	}
	w := s.t.OpenArtifact(name)
	if m.Description != "" || m.Metadata != nil {
		w.Describe(m.Description, m.Metadata) // heeded with the first chunk only
	}
	if len(parts) > 0 {
		if err := w.WriteParts(parts...); err != nil {
			return err
		}
	}
	if !m.Last {
		return nil
	}
	return w.Close()
}

// runStep answers a step with its record, or lets the program do it and records
// what it says came of it.
func (s *session) runStep(n int, m *said) error {
	const longest = 256
	switch {
	case s.step != "":
		return breach(n, "begins the step %s while the step %s is open", a2a.Quote(m.Name), a2a.Quote(s.step))
	case m.Name == "" || len(m.Name) > longest:
		return breach(n, "is a step whose name has %d bytes, want 1 to %d", len(m.Name), longest)
	}
	ran := false
	result, err := holdfast.Step(s.ctx, s.t, m.Name, func(context.Context) (json.RawMessage, error) {
		ran = true
		s.step = m.Name
		if err := s.send(stepResultLine{Name: m.Name}); err != nil {
			return nil, err
		}
		result, err := s.converse()
		if err == nil {
			s.step = ""
		}
		return result, err
	})
	switch {
	case err != nil:
		return err
	case ran:
		return s.send(stepStoredLine{Name: m.Name})
	}
	return s.send(stepResultLine{Name: m.Name, Done: true, Result: result})
}

// history hands over the newest messages before the one that the program names by its
// place.
func (s *session) history(n int, m *said) error {
	messages := s.t.TaskHistory()
	if m.Before < 0 || m.Before > len(messages) {
		return breach(n, "asks for the history before message %d, want 0 to %d", m.Before, len(messages))
	}
	newest, earlier := page(messages[:m.Before])
	return s.sendContent(historyLine{Messages: newest, Earlier: earlier}, newest)
}

// receive hands over what has arrived or, if the program wants to wait, what
// will arrive next.
func (s *session) receive(m *said) error {
	if s.inbox.arrived != nil {
		return nil // it waits already, and will be answered once
	}
	messages := s.t.Inbox()
	if len(messages) == 0 && m.Wait {
		s.inbox.wait(s.ctx, s.t)
		return nil
	}
	if messages == nil {
		messages = []a2a.Message{}
	}
	return s.sendContent(newMessageLine(messages), messages)
}
