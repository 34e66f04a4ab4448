package execagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// turnLine is the first line that a program reads. Type and text are the first members, so
// that a shell script can extract the text.
type turnLine struct {
	_         struct{}       `wire:"const=type:turn"`
	Text      string         `json:"text"`
	TaskID    string         `json:"taskId"`
	ContextID string         `json:"contextId"`
	Owner     string         `json:"owner"`
	Principal a2a.Principal  `json:"principal"`
	Turn      int            `json:"turn"`
	Attempt   int            `json:"attempt"`
	Messages  []a2a.Message  `json:"messages"`
	History   []a2a.Message  `json:"history"`
	Earlier   int            `json:"earlier"` // number of messages before History
	Metadata  map[string]any `json:"metadata"`
}

// historyLine is the response to a history request.
type historyLine struct {
	_        struct{}      `wire:"const=type:history"`
	Messages []a2a.Message `json:"messages"`
	Earlier  int           `json:"earlier"` // number of messages before these
}

// messageLine is the response to a receive request.
type messageLine struct {
	_         struct{}       `wire:"const=type:message"`
	Text      string         `json:"text"`
	Messages  []a2a.Message  `json:"messages"`
	Principal *a2a.Principal `json:"principal,omitempty"` // the sender of the newest message; nil without messages
}

// stepResultLine is the response to a step request.
type stepResultLine struct {
	_      struct{}        `wire:"const=type:step_result"`
	Name   string          `json:"name"`
	Done   bool            `json:"done"`
	Result json.RawMessage `json:"result,omitempty"`
}

// stepStoredLine is the response to a step_done request.
type stepStoredLine struct {
	_    struct{} `wire:"const=type:step_stored"`
	Name string   `json:"name"`
}

// cancelLine is the last line for a program that must end.
type cancelLine struct {
	_      struct{} `wire:"const=type:cancel"`
	Reason string   `json:"reason"`
}

// programLine is a line of the program, with the members of all types.
type programLine struct {
	Type        string          `json:"type" wire:"required"`
	Text        string          `json:"text" wire:"text"`
	Parts       []a2a.Part      `json:"parts"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Last        bool            `json:"last"`
	Metadata    map[string]any  `json:"metadata"`
	Result      json.RawMessage `json:"result"`
	Wait        bool            `json:"wait"`
	Retry       bool            `json:"retry"`
	Before      int             `json:"before"`
}

func newTurnLine(ctx context.Context, t *holdfast.Turn) turnLine {
	history, earlier := page(t.TaskHistory())
	loadFiles(ctx, t, history)
	return turnLine{
		Text: t.Text(), TaskID: t.TaskID(), ContextID: t.ContextID(), Owner: t.Owner(), Principal: t.Principal(), Turn: t.Number(), Attempt: t.Attempt(),
		Messages: t.Messages(), History: history, Earlier: earlier, Metadata: t.Metadata(),
	}
}

// Limits of a page of the history. It always has at least one message.
const (
	pageMessages = 100
	pageBytes    = 1 << 20
)

// page returns the newest messages that fit into one line, and the number of messages before
// them.
func page(messages []a2a.Message) (newest []a2a.Message, earlier int) {
	first, size := len(messages), 0
	for first > 0 && len(messages)-first < pageMessages {
		if size += sizeOf(messages[first-1 : first]); size > pageBytes && first < len(messages) {
			break
		}
		first--
	}
	return append([]a2a.Message{}, messages[first:]...), first
}

// sizeOf returns the approximate size of messages in bytes.
func sizeOf(messages []a2a.Message) (size int) {
	for i := range messages {
		size += store.PartsSize(messages[i].Parts)
	}
	return size
}

// newMessageLine returns a line with messages that a turn has received, and their combined text.
func newMessageLine(t *holdfast.Turn, messages []a2a.Message) messageLine {
	var texts []string
	for _, m := range messages {
		if text := m.Text(); text != "" {
			texts = append(texts, text)
		}
	}
	line := messageLine{Text: strings.Join(texts, "\n"), Messages: messages}
	if len(messages) > 0 {
		p := t.Principal()
		line.Principal = &p
	}
	return line
}

// violation is an error of a program that does not follow the protocol.
type violation struct{ text string }

func (v *violation) Error() string { return v.text }

func violationf(line int, format string, args ...any) error {
	return &violation{text: fmt.Sprintf("line %d of the program's output ", line) + fmt.Sprintf(format, args...)}
}

// parse decodes line n of the program.
func parse(n int, raw []byte) (*programLine, error) {
	var m programLine
	err := wire.UnmarshalStrict(raw, &m)
	if err == nil {
		return &m, nil
	}
	var w *wire.Error
	if errors.As(err, &w) && !w.Syntax && (w.Path != "" || len(raw) > 0 && raw[0] == '{') {
		return nil, violationf(n, "is invalid: %s: %s", err, quoted(raw))
	}
	return nil, violationf(n, "is not a JSON object: %s (see docs/exec.md, or use --exec-plain for programs that print plain text)", quoted(raw))
}

// quoted returns the start of a line for a message, quoted and without control characters.
func quoted(line []byte) string {
	const longest = 120
	cut := ""
	if len(line) > longest {
		line, cut = line[:longest], "..."
	}
	return strconv.Quote(strings.ToValidUTF8(string(line), "\uFFFD")) + cut
}

// printable returns the start of a text as one line without control characters.
func printable(s string) string {
	const longest = 300
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.TrimSpace(s)
	if runes := []rune(s); len(runes) > longest {
		s = string(runes[:longest]) + "..."
	}
	return s
}
