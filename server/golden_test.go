package server_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
)

var convertUpdate = flag.Bool("update", false, "rewrite the golden transcripts")

// transcriptHandler is the handler of the golden transcripts. The first word of the message selects
// its behavior.
func transcriptHandler(ctx context.Context, turn *engine.Turn) error {
	text := turn.Messages()[0].Text()
	switch {
	case turn.Number() > 1:
		return turn.Reply(a2a.TextPart{Text: "thank you"})
	case strings.HasPrefix(text, "ask"):
		return turn.RequireInput(a2a.TextPart{Text: "which one?"})
	case strings.HasPrefix(text, "wait"):
		<-ctx.Done()
		return ctx.Err()
	case strings.HasPrefix(text, "fail"):
		return fmt.Errorf("cannot do %q", text)
	case strings.HasPrefix(text, "reject"):
		return turn.Reject(a2a.TextPart{Text: "will not do it"})
	}
	w := turn.Artifact("result")
	for _, chunk := range []string{"one ", "two"} {
		if _, err := w.WriteString(chunk); err != nil {
			return err
		}
		if err := turn.Flush(); err != nil {
			return err
		}
	}
	data := a2a.Artifact{Name: "data", Parts: []a2a.Part{
		a2a.DataPart{Data: map[string]any{"n": 5}},
		a2a.FilePart{File: a2a.FileWithBytes{Name: "a.txt", MimeType: "text/plain", Bytes: []byte("hello")}},
	}}
	if err := turn.AddArtifact(data); err != nil {
		return err
	}
	return turn.Reply(a2a.TextPart{Text: "done"})
}

var (
	uuidForm = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timeForm = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
	// tokenForm matches a page token with its member name.
	tokenForm = regexp.MustCompile(`("(?:nextPageToken|next_page_token)":")([^"]+)`)
	keyForm   = regexp.MustCompile(`(whsec|whpk)_[A-Za-z0-9+/]+=*`)
)

// placeholders replaces IDs and page tokens with numbered placeholders, in the order in which they
// first appear, and back.
type placeholders struct{ ids, tokens []string }

func (n *placeholders) mask(text string) string {
	text = timeForm.ReplaceAllString(text, "<time>")
	text = keyForm.ReplaceAllString(text, "<$1>")
	text = tokenForm.ReplaceAllStringFunc(text, func(member string) string {
		parts := tokenForm.FindStringSubmatch(member)
		return parts[1] + placeholder(&n.tokens, "token", parts[2])
	})
	return uuidForm.ReplaceAllStringFunc(text, func(id string) string { return placeholder(&n.ids, "id", id) })
}

// placeholder returns the placeholder of value, adding value to the list if it is new.
func placeholder(known *[]string, kind, value string) string {
	i := slices.Index(*known, value)
	if i < 0 {
		i = len(*known)
		*known = append(*known, value)
	}
	return fmt.Sprintf("<%s%d>", kind, i+1)
}

func (n *placeholders) unmask(text string) string {
	for i, id := range n.ids {
		text = strings.ReplaceAll(text, fmt.Sprintf("<id%d>", i+1), id)
	}
	for i, token := range n.tokens {
		text = strings.ReplaceAll(text, fmt.Sprintf("<token%d>", i+1), token)
	}
	return text
}

// A transcript has requests, responses and comments. A request is a line that starts with
// "> ", preceded by a line that starts with "H " for each header. The lines of a response
// start with "< ", and the lines of a comment with "#". The server requires a token if any
// request has one.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.transcript")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts (%v)", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			st := newStore()
			on := withWebhook(t, st)
			got := playTranscript(startOn(t, st, transcriptHandler, func(c *server.Config) {
				if strings.Contains(string(want), "H Authorization: ") {
					twoTokens(c)
				}
				if strings.HasPrefix(filepath.Base(file), "webhook") {
					on(c)
				}
			}), string(want))
			if *convertUpdate {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s differs (go test ./server -run Transcripts -update rewrites it):\n%s", file, firstDifference(got, string(want)))
			}
		})
	}
}

// playTranscript sends the requests of a transcript and returns it with the actual responses.
func playTranscript(e *env, text string) string {
	var out strings.Builder
	var n placeholders
	h := headers{"X-Request-Id", "golden"}
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if kind == "<" {
			continue
		}
		out.WriteString(line)
		switch kind {
		case "H":
			name, value, _ := strings.Cut(rest, ": ")
			h = append(h, name, value)
		case ">":
			got := e.do("POST", "/", n.unmask(rest), h)
			fmt.Fprintf(&out, "< %d %s\n", got.Status, got.Header.Get("Content-Type"))
			for answer := range strings.Lines(n.mask(string(got.Body))) {
				if answer = strings.TrimRight(answer, "\n"); answer != "" {
					fmt.Fprintf(&out, "< %s\n", answer)
				}
			}
			h = headers{"X-Request-Id", "golden"}
		}
	}
	return out.String()
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			return fmt.Sprintf("line %d\ngot  %s\nwant %s", i+1, g[i], strings.Join(w[i:min(len(w), i+1)], ""))
		}
	}
	return "the responses end early"
}
