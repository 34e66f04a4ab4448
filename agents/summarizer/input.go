package summarizer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/summarizer/summarize"
	"github.com/holdfast-dev/holdfast/engine"
)

// maxSentences is the maximum length of a summary.
const maxSentences = 100

// Limits for fetched files of one turn, because a short message can name many.
const (
	maxFetches = 20
	maxFetched = 32 << 20 // bytes
)

// requestedSentences returns the requested number of sentences, 0 if there is none. The
// newest data part with a number applies. Data parts of earlier turns are already validated.
func requestedSentences(t *holdfast.Turn) (int, error) {
	wanted := 0
	for _, m := range t.TaskHistory() {
		if m.Role != a2a.RoleUser {
			continue
		}
		for _, p := range m.Data() {
			if n, err := sentencesIn(p.Data); err == nil && n > 0 {
				wanted = n
			}
		}
	}
	for _, p := range t.Data() {
		n, err := sentencesIn(p.Data)
		if err != nil {
			return 0, err
		}
		if n > 0 {
			wanted = n
		}
	}
	return wanted, nil
}

// unknownOptions returns the unknown member names of this turn's data parts.
func unknownOptions(t *holdfast.Turn) (names []string) {
	for _, p := range t.Data() {
		object, _ := p.Data.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if name != "sentences" {
				names = append(names, a2a.Quote(name))
			}
		}
	}
	return names
}

// sentencesIn returns the member "sentences" of a data part, 0 if it has none. It ignores
// other members; see unknownOptions.
func sentencesIn(data any) (int, error) {
	object, ok := data.(map[string]any)
	if !ok || object["sentences"] == nil {
		return 0, nil
	}
	value := object["sentences"]
	raw, err := json.Marshal(value)
	if err != nil {
		raw = []byte("?")
	}
	invalid := fmt.Errorf(`sentences must be a whole number from 1 to %d, got %s`, maxSentences, clip(string(raw)))
	switch value.(type) {
	case float64, float32, json.Number, int, int64:
	default:
		return 0, invalid
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n != math.Trunc(n) || n < 1 || n > maxSentences {
		return 0, invalid
	}
	return int(n), nil
}

// source is a document of a message.
type source struct {
	name string
	file a2a.File // nil: text
	text string
}

// sourcesOf returns the documents of messages in order: for each message its text, if that is
// a document, and its files.
func sourcesOf(messages []a2a.Message) ([]source, error) {
	var sources []source
	unnamed, remote := 0, 0
	for _, m := range messages {
		files := m.Files()
		if text := joinedText(m); text != "" && (len(files) == 0 || !isNote(text)) {
			sources = append(sources, source{name: "text", text: text})
		}
		for _, p := range files {
			name, _ := p.File.Info()
			if name = clip(name); name == "" {
				unnamed++
				name = fmt.Sprintf("file %d", unnamed)
			}
			if isRemote(p.File) {
				remote++
			}
			sources = append(sources, source{name: name, file: p.File})
		}
	}
	if remote > maxFetches {
		return nil, fmt.Errorf("the message names %d files by URI, want at most %d", remote, maxFetches)
	}
	return sources, nil
}

// isRemote reports whether a file is fetched from a URI of the client.
func isRemote(f a2a.File) bool {
	_, uri := f.(a2a.FileWithURI)
	return uri && !engine.IsReference(f)
}

// joinedText returns a message's text parts as paragraphs.
func joinedText(m a2a.Message) string {
	var texts []string
	for _, p := range m.Parts {
		if t, ok := p.(a2a.TextPart); ok && strings.TrimSpace(t.Text) != "" {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// isNote reports whether a text sent with files is too short to be a document, such as
// "Please summarize this."
func isNote(text string) bool {
	const longest, fewest = 1000, 3
	return len(text) < longest && len(summarize.Sentences(summarize.Page{Number: 1, Text: text})) < fewest
}

// readAll extracts the pages of every source. The error names the source that failed.
func (a *agent) readAll(ctx context.Context, t *holdfast.Turn, sources []source) ([]document, error) {
	docs := make([]document, 0, len(sources))
	fetched := 0
	for _, s := range sources {
		d, err := a.read(ctx, t, s, &fetched)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", s.name, err)
		}
		docs = append(docs, d)
	}
	return docs, nil
}

// read extracts the pages of a source. It adds the number of fetched bytes to fetched.
func (a *agent) read(ctx context.Context, t *holdfast.Turn, s source, fetched *int) (document, error) {
	if s.file == nil {
		// Without a name, so that the format is not detected from the content.
		d := document{name: s.name}
		err := a.open(ctx, t, &d, "", "text/plain", []byte(s.text))
		return d, err
	}
	d := document{name: s.name, isFile: true}
	remote := isRemote(s.file)
	if remote {
		if err := t.Status("fetching " + s.name); err != nil {
			return d, err
		}
	}
	data, mimeType, err := t.ReadFile(ctx, s.file)
	if err != nil {
		return d, err
	}
	if remote {
		if *fetched += len(data); *fetched > maxFetched {
			return d, fmt.Errorf("the files named by URI exceed %d bytes in total", maxFetched)
		}
		d.digest = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	if err := t.Status("opening " + s.name); err != nil {
		return d, err
	}
	err = a.open(ctx, t, &d, s.name, mimeType, data)
	return d, err
}

// open sets the pages of a document. Memory for them is held until the end of the turn.
func (a *agent) open(ctx context.Context, t *holdfast.Turn, d *document, name, mimeType string, data []byte) error {
	release, err := t.Reserve(ctx, summarize.MemoryOfPages(data))
	if err != nil {
		return err
	}
	defer release()
	wait := a.compute(ctx, len(data), func() { d.pages, err = a.cfg.Reader.Pages(ctx, name, mimeType, data) })
	switch {
	case wait != nil:
		return wait
	case errors.Is(err, summarize.ErrNoText), err != nil && len(data) == 0:
		return nil
	case err != nil:
		return err
	}
	for _, p := range d.pages {
		d.size += len(p.Text)
	}
	_, err = t.Reserve(ctx, int64(d.size))
	return err
}
