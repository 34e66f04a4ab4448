package execagent

import (
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

// turnLine is the first line that a program gets. Type and text come first, in
// this order, so that a shell script can cut the text out.
type turnLine struct {
	_         struct{}       `wire:"const=type:turn"`
	Text      string         `json:"text"`
	TaskID    string         `json:"taskId"`
	ContextID string         `json:"contextId"`
	Owner     string         `json:"owner"`
	Turn      int            `json:"turn"`
	Attempt   int            `json:"attempt"`
	Messages  []a2a.Message  `json:"messages"`
	History   []a2a.Message  `json:"history"`
	Earlier   int            `json:"earlier"` // messages before History
	Metadata  map[string]any `json:"metadata"`
}

// historyLine answers a history.
type historyLine struct {
	_        struct{}      `wire:"const=type:history"`
	Messages []a2a.Message `json:"messages"`
	Earlier  int           `json:"earlier"` // messages before these
}

// messageLine answers a receive.
type messageLine struct {
	_        struct{}      `wire:"const=type:message"`
	Text     string        `json:"text"`
	Messages []a2a.Message `json:"messages"`
}

// stepResultLine answers a step.
type stepResultLine struct {
	_      struct{}        `wire:"const=type:step_result"`
	Name   string          `json:"name"`
	Done   bool            `json:"done"`
	Result json.RawMessage `json:"result,omitempty"`
}

// stepStoredLine answers a step_done.
type stepStoredLine struct {
	_    struct{} `wire:"const=type:step_stored"`
	Name string   `json:"name"`
}

// cancelLine is the last line of a program that is to end.
type cancelLine struct {
	_      struct{} `wire:"const=type:cancel"`
	Reason string   `json:"reason"`
}

// said is a line of the program: any type, with the members of all.
type said struct {
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

func newTurnLine(t *holdfast.Turn) turnLine {
	history, earlier := page(t.TaskHistory())
	return turnLine{
		Text: t.Text(), TaskID: t.TaskID(), ContextID: t.ContextID(), Owner: t.Owner(), Turn: t.Number(), Attempt: t.Attempt(),
		Messages: t.Messages(), History: history, Earlier: earlier, Metadata: t.Metadata(),
	}
}

// What a page of the history holds, beside its newest message.
const (
	pageMessages = 100
	pageBytes    = 1 << 20
)

// page returns the newest of messages, as many as one line may hold, and how many come before
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

// sizeOf is roughly how many bytes messages take.
func sizeOf(messages []a2a.Message) (size int) {
	for i := range messages {
		size += store.PartsSize(messages[i].Parts)
	}
	return size
}

// newMessageLine has the text of all messages, as turnLine has.
func newMessageLine(messages []a2a.Message) messageLine {
	var texts []string
	for _, m := range messages {
		if text := m.Text(); text != "" {
			texts = append(texts, text)
		}
	}
	return messageLine{Text: strings.Join(texts, "\n"), Messages: messages}
}

// violation is a breach of the protocol. The program is not asked for more.
type violation struct{ text string }

func (v *violation) Error() string { return v.text }

func breach(line int, format string, args ...any) error {
	return &violation{text: fmt.Sprintf("line %d of the program's output ", line) + fmt.Sprintf(format, args...)}
}

// parse reads a line of the program.
func parse(n int, raw []byte) (*said, error) {
	var m said
	err := wire.UnmarshalStrict(raw, &m)
	if err == nil {
		return &m, nil
	}
	var w *wire.Error
	if errors.As(err, &w) && !w.Syntax && (w.Path != "" || len(raw) > 0 && raw[0] == '{') {
		return nil, breach(n, "is not understood: %s: %s", err, quoted(raw))
	}
	return nil, breach(n, "is not a JSON object: %s (docs/exec.md tells what a program may print; with --exec-plain it may print anything)", quoted(raw))
}

// quoted is a line for a message: short and printable.
func quoted(line []byte) string {
	const longest = 120
	cut := ""
	if len(line) > longest {
		line, cut = line[:longest], "..."
	}
	return strconv.Quote(strings.ToValidUTF8(string(line), "\uFFFD")) + cut
}

// printable makes one short line of a text, without control characters.
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
