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
	"github.com/holdfast-dev/holdfast/internal/summarize"
)

// maxSentences is the longest summary that can be asked for.
const maxSentences = 100

// What is fetched for one turn: a short message must not cause more.
const (
	maxFetches = 20
	maxFetched = 32 << 20 // bytes
)

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

// unknownOptions returns the members of this turn's data parts that the summarizer
// does not know.
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

// sentencesIn reads the member "sentences" of a data part; 0 means that it has
// none. Other members are ignored, see unknownOptions.
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
	name string
	file a2a.File // nil: text
	text string
}

// sourcesOf lists what messages bring, in order: per message its files in their
// order, after its text if that is a document.
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
			if _, inline := p.File.(a2a.FileWithBytes); !inline {
				remote++
			}
			sources = append(sources, source{name: name, file: p.File})
		}
	}
	if remote > maxFetches {
		return nil, fmt.Errorf("%d files were sent as URIs, at most %d are fetched", remote, maxFetches)
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
	fetched := 0
	for _, s := range sources {
		d, err := read(ctx, t, s, &fetched)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", s.name, err)
		}
		docs = append(docs, d)
	}
	return docs, nil
}

// read extracts the pages of a source. What is fetched for it is added to fetched.
func read(ctx context.Context, t *holdfast.Turn, s source, fetched *int) (document, error) {
	if s.file == nil {
		// Without a name, or an HTML page pasted as text might be read by its looks.
		pages, err := pagesOf(ctx, "", "text/plain", []byte(s.text))
		return document{name: s.name, pages: pages}, err
	}
	d := document{name: s.name, isFile: true}
	_, inline := s.file.(a2a.FileWithBytes)
	if !inline {
		if err := t.Status("fetching " + s.name); err != nil {
			return d, err
		}
	}
	data, mimeType, err := t.ReadFile(ctx, s.file)
	if err != nil {
		return d, err
	}
	if !inline {
		if *fetched += len(data); *fetched > maxFetched {
			return d, fmt.Errorf("the files that were sent as URIs have more than %d bytes together", maxFetched)
		}
		d.digest = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	if err := t.Status("opening " + s.name); err != nil {
		return d, err
	}
	d.pages, err = pagesOf(ctx, s.name, mimeType, data)
	return d, err
}

func pagesOf(ctx context.Context, name, mimeType string, data []byte) ([]summarize.Page, error) {
	pages, err := summarize.Pages(ctx, name, mimeType, data)
	if errors.Is(err, summarize.ErrNoText) || (err != nil && len(data) == 0) {
		return nil, nil
	}
	// The pages are read again by later attempts: they must not share anything.
	return slices.Clip(pages), err
}
