package summarizer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/summarize"
)

// maxSentences is the longest summary that can be asked for.
const maxSentences = 100

// requestedSentences returns the length asked for, 0 when none was. The newest
// data part with a length counts; those of earlier turns were checked when they
// came.
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

// sentencesIn reads the member "sentences" of a data part; 0 means that it has
// none. Other members are none of our business.
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
	refuse := fmt.Errorf(`sentences must be a whole number from 1 to %d, got %s`, maxSentences, clip(string(raw)))
	switch value.(type) {
	case float64, float32, json.Number, int, int64:
	default:
		return 0, refuse
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n != math.Trunc(n) || n < 1 || n > maxSentences {
		return 0, refuse
	}
	return int(n), nil
}

// source is a document as it was sent.
type source struct {
	name, mimeType string
	isFile         bool
	bytes          []byte
}

// sourcesOf lists what messages bring, in order: per message its files in their
// order, after its text if that is a document.
func sourcesOf(messages []a2a.Message) ([]source, error) {
	var sources []source
	unnamed := 0
	for _, m := range messages {
		files := m.Files()
		if text := joinedText(m); text != "" && (len(files) == 0 || !isNote(text)) {
			sources = append(sources, source{name: "text", mimeType: "text/plain", bytes: []byte(text)})
		}
		for _, p := range files {
			name, mimeType := p.File.Info()
			if name = clip(name); name == "" {
				unnamed++
				name = fmt.Sprintf("file %d", unnamed)
			}
			switch f := p.File.(type) {
			case a2a.FileWithBytes:
				sources = append(sources, source{name: name, mimeType: mimeType, isFile: true, bytes: f.Bytes})
			default:
				return nil, fmt.Errorf("%s was sent as a URI: files by URI aren't fetched in this version, send the bytes inline", name)
			}
		}
	}
	return sources, nil
}

// joinedText joins a message's text parts as paragraphs.
func joinedText(m a2a.Message) string {
	var texts []string
	for _, p := range m.Parts {
		if t, ok := p.(a2a.TextPart); ok && strings.TrimSpace(t.Text) != "" {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// isNote reports whether a text beside files is too short to be a document, such
// as "Please summarize this."
func isNote(text string) bool {
	const longest, fewest = 1000, 3
	return len(text) < longest && len(summarize.Sentences(summarize.Page{Number: 1, Text: text})) < fewest
}

// readAll extracts the pages of every source. An error says which one cannot be
// read, and why.
func readAll(ctx context.Context, t *holdfast.Turn, sources []source) ([]document, error) {
	docs := make([]document, 0, len(sources))
	for _, s := range sources {
		if s.isFile {
			if err := t.Status("opening " + s.name); err != nil {
				return nil, err
			}
		}
		pages, err := pagesOf(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", s.name, err)
		}
		docs = append(docs, document{name: s.name, isFile: s.isFile, pages: pages})
	}
	return docs, nil
}

func pagesOf(ctx context.Context, s source) ([]summarize.Page, error) {
	name := s.name
	if !s.isFile {
		name = "" // or an HTML page pasted as text might be read by its looks
	}
	pages, err := summarize.Pages(ctx, name, s.mimeType, s.bytes)
	if errors.Is(err, summarize.ErrNoText) || (err != nil && len(s.bytes) == 0) {
		return nil, nil
	}
	// The pages are read again by later attempts: they must not share anything.
	return slices.Clip(pages), err
}
