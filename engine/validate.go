package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/store"
)

// checkKey rejects idempotency keys that are not valid ids. An empty key is valid.
func checkKey(key string) error {
	if key == "" {
		return nil
	}
	return a2a.CheckID("Idempotency-Key", key)
}

// checkSend checks the params of message/send without reading the store. webhook reports
// whether webhooks are accepted.
func (s *settings) checkSend(p *a2a.MessageSendParams, webhook bool) error {
	m := &p.Message
	if err := a2a.CheckID("message.messageId", m.ID); err != nil {
		return err
	}
	if m.Role == a2a.RoleAgent {
		return a2a.Invalid("message.role", "is agent, want the role of a client")
	}
	if len(m.Parts) == 0 {
		return a2a.Invalid("message.parts", "must not be empty")
	}
	if n := s.cfg.Limits.Parts; len(m.Parts) > n {
		return a2a.Invalid("message.parts", "has %d parts, want at most %d", len(m.Parts), n)
	}
	if m.TaskID != "" {
		if err := a2a.CheckID("message.taskId", m.TaskID); err != nil {
			return err
		}
	}
	if m.ContextID != "" {
		if err := a2a.CheckID("message.contextId", m.ContextID); err != nil {
			return err
		}
	}
	if n := s.cfg.Limits.References; len(m.ReferenceTaskIDs) > n {
		return a2a.Invalid("message.referenceTaskIds", "has %d ids, want at most %d", len(m.ReferenceTaskIDs), n)
	}
	if err := fileref.CheckReceived("message.parts", m.Parts); err != nil {
		return err
	}
	if err := s.checkInputModes(m.Parts); err != nil {
		return err
	}
	for i, id := range m.ReferenceTaskIDs {
		if err := a2a.CheckID(fmt.Sprintf("message.referenceTaskIds[%d]", i), id); err != nil {
			return err
		}
	}
	if err := s.checkMap("metadata", store.MergePatch(nil, p.Metadata)); err != nil {
		return err
	}
	return s.checkConfiguration(p.Configuration, webhook)
}

func (s *settings) checkConfiguration(c *a2a.MessageSendConfiguration, webhook bool) error {
	if c == nil {
		return nil
	}
	if err := checkHistoryLength("configuration.historyLength", c.HistoryLength); err != nil {
		return err
	}
	if c.PushNotificationConfig != nil && !webhook {
		return a2a.Errorf(a2a.CodePushNotSupported, "push notifications are not supported by this agent")
	}
	if len(c.AcceptedOutputModes) > 0 && len(s.cfg.OutputModes) > 0 && !accepts(c.AcceptedOutputModes, s.cfg.OutputModes) {
		return a2a.Errorf(a2a.CodeContentType, "configuration.acceptedOutputModes: this agent produces %s, which none of the %d accepted media types matches",
			strings.Join(s.cfg.OutputModes, ", "), len(c.AcceptedOutputModes))
	}
	return nil
}

// checkInputModes rejects parts of media types that the handler does not accept. A part without
// a media type is checked by its kind.
func (s *settings) checkInputModes(parts []a2a.Part) error {
	modes := s.cfg.InputModes
	if len(modes) == 0 {
		return nil
	}
	for i, p := range parts {
		if media := partType(p); !slices.Contains(modes, string(p.Kind())) && media != "" && !accepts([]string{media}, modes) {
			return a2a.Errorf(a2a.CodeContentType, "message.parts[%d]: incompatible content types: the part is %s, this agent accepts %s",
				i, a2a.Quote(media), strings.Join(modes, ", "))
		}
	}
	return nil
}

// partType returns the media type of a part, or "" for a file of unknown type.
func partType(p a2a.Part) string {
	switch p := p.(type) {
	case a2a.FilePart:
		_, media := p.File.Info()
		return media
	case a2a.DataPart:
		if media, ok := p.Metadata["contentType"].(string); ok {
			return media
		}
		return "application/json"
	default:
		return "text/*"
	}
}

func checkHistoryLength(field string, n *int) error {
	if n != nil && *n < 0 {
		return a2a.Invalid(field, "is %d, want 0 or more", *n)
	}
	return nil
}

// accepts reports whether a client that accepts the wanted media types accepts one of offered.
// Short forms such as "text" match a whole type.
func accepts(wanted, offered []string) bool {
	for _, w := range wanted {
		w = mediaType(w)
		kind, sub, _ := strings.Cut(w, "/")
		for _, o := range offered {
			o = mediaType(o)
			okind, osub, _ := strings.Cut(o, "/")
			switch {
			case w == "*/*" || w == "*" || o == "*/*" || o == "*" || w == o:
				return true
			case kind == okind && (sub == "" || sub == "*" || osub == "" || osub == "*"):
				return true
			}
		}
	}
	return false
}

func mediaType(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return strings.ToLower(strings.TrimSpace(s))
}

// isUUID reports whether s is a UUID in its canonical form.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)):
			return false
		}
	}
	return true
}
