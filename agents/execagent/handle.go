package execagent

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
)

// handleLine handles a line of the program.
func (s *session) handleLine(n int, m *programLine) error {
	switch m.Type {
	case "status":
		if m.Text == "" {
			return violationf(n, "has type status but no text")
		}
		return s.progress.report(s.t, m.Text)
	case "artifact":
		return s.writeArtifact(m)
	case "metadata":
		if m.Metadata == nil {
			return violationf(n, "has type metadata but no member metadata")
		}
		if err := s.progress.waitForCredit(s.ctx); err != nil {
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

// endTurn handles a line that ends the turn.
func (s *session) endTurn(n int, m *programLine) error {
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
			m.Text = "the program " + s.a.name + " failed without a reason"
		}
		if m.Retry {
			return &outcome{holdfast.Retry(errors.New(m.Text))}
		}
		return &outcome{s.t.Fail(errors.New(m.Text))}
	}
	return violationf(n, "has unknown type %s", a2a.Quote(m.Type))
}

func (s *session) writeArtifact(m *programLine) error {
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
		w.Describe(m.Description, m.Metadata) // ignored after the first chunk
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

// runStep sends the stored result of a step. If there is none, it lets the program execute
// the step and stores the result that the program sends.
func (s *session) runStep(n int, m *programLine) error {
	const longest = 256
	switch {
	case s.openStep != "":
		return violationf(n, "starts step %s while step %s is open", a2a.Quote(m.Name), a2a.Quote(s.openStep))
	case m.Name == "" || len(m.Name) > longest:
		return violationf(n, "has a step name of %d bytes, want 1 to %d", len(m.Name), longest)
	}
	ran := false
	result, err := holdfast.Step(s.ctx, s.t, m.Name, func(context.Context) (json.RawMessage, error) {
		ran = true
		s.openStep = m.Name
		if err := s.send(stepResultLine{Name: m.Name}); err != nil {
			return nil, err
		}
		result, err := s.handleOutput()
		if err == nil {
			s.openStep = ""
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

// history sends the newest messages before the one with the index m.Before.
func (s *session) history(n int, m *programLine) error {
	messages := s.t.TaskHistory()
	if m.Before < 0 || m.Before > len(messages) {
		return violationf(n, "requests the history before message %d, want 0 to %d", m.Before, len(messages))
	}
	newest, earlier := page(messages[:m.Before])
	loadFiles(s.ctx, s.t, newest)
	return s.sendContent(historyLine{Messages: newest, Earlier: earlier}, newest)
}

// receive sends the messages that have arrived. If there are none and the program wants to
// wait, it sends the next ones when they arrive.
func (s *session) receive(m *programLine) error {
	if s.inbox.arrived != nil {
		return nil // a wait is in progress; it gets one response
	}
	messages := s.t.Inbox()
	if len(messages) == 0 && m.Wait {
		s.inbox.wait(s.ctx, s.t)
		return nil
	}
	if messages == nil {
		messages = []a2a.Message{}
	}
	return s.sendContent(newMessageLine(s.t, messages), messages)
}
