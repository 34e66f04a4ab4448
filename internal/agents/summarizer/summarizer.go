// Package summarizer is the built-in agent: it picks the sentences of documents
// that say most about them.
//
// # Concepts
//
// A turn's messages bring documents: of each message first its text parts, which
// together are one document, then its files in their order, those sent by URI
// fetched by [holdfast.Turn.ReadFile]. Beside a file,
// a text of less than three sentences is taken as a note that goes with it, not
// as a document. {"sentences": 5} in a data part, of this turn or an earlier one,
// sets how many sentences each document gets.
//
// Every document is read before the first is analysed, so that a message with a
// bad one is rejected as a whole. Then pages are analysed in durable steps, each
// told as progress, and the summary is streamed as the artifact "summary": one
// text line per sentence, a chunk each, under the document's name when there are
// several; last comes a data part with what was counted.
//
// # Durability
//
// A step takes as many pages as fit into 64 KiB of text and 100 ms of time, at
// least one: so an interruption costs at most that much work, or one page, and
// a document of thousands of small pages does not make thousands of commits. A
// later attempt reads the document again, which is cheap and gives the same
// pages, takes recorded analyses from the store and goes on behind them,
// saying at which page. A file that is fetched again may have become another one,
// which is analysed from its start: its steps are named after its digest. With
// [Config.PageDelay] every page is a step.
package summarizer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/summarize"
)

// Config sets how the agent works. The zero value is ready to use.
type Config struct {
	// PageDelay is a pause before each page. It serves demonstrations and fault
	// tests, in which a document must take long enough to be interrupted, and
	// makes every page a durable step of its own. Default none.
	PageDelay time.Duration
}

// New returns the handler.
func New(cfg Config) holdfast.Handler { return &agent{cfg: cfg} }

type agent struct{ cfg Config }

// Handle summarizes the documents of one turn.
func (a *agent) Handle(ctx context.Context, t *holdfast.Turn) error {
	wanted, err := requestedSentences(t)
	if err != nil {
		return t.Reject(err.Error())
	}
	if names := unknownOptions(t); len(names) > 0 {
		if err := t.Status(fmt.Sprintf(`ignoring unknown options %s: the only option is {"sentences": 1 to %d}`, strings.Join(names, ", "), maxSentences)); err != nil {
			return err
		}
	}
	sources, err := sourcesOf(t.Messages())
	if err != nil {
		return t.Reject(err.Error())
	}
	docs, err := readAll(ctx, t, sources)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if a2a.CodeOf(err) == a2a.CodeUnavailable {
			return err // is tried again
		}
		return t.Reject(err.Error())
	}
	for i := range docs {
		if err := a.analyze(ctx, t, docs, i); err != nil {
			return err
		}
	}
	if ask := question(docs); ask != "" {
		return t.RequireInput(ask)
	}
	return deliver(ctx, t, docs, wanted)
}

// question says what is missing; it is empty when there is enough to summarize,
// which is two sentences.
func question(docs []document) string {
	const send = "Send the text to summarize, or a file (plain text, Markdown, HTML or PDF)."
	sentences, candidates := 0, 0
	for _, d := range docs {
		sentences += d.sentences()
		for _, a := range d.analyses {
			candidates += len(a.Candidates)
		}
	}
	switch {
	case candidates > 0 && sentences > 1:
		return ""
	case candidates > 0:
		return "A single sentence is its own summary. Send a longer text, or a file (plain text, Markdown, HTML or PDF)."
	}
	for _, d := range docs {
		if d.isFile {
			return fmt.Sprintf("There is nothing to summarize: %s has no text in it. %s", d.name, send)
		}
	}
	return "There is nothing to summarize. " + send
}

// document is one thing to summarize.
type document struct {
	name     string
	isFile   bool
	digest   string // of what was fetched, "" of what was sent
	pages    []summarize.Page
	analyses []summarize.PageAnalysis
}

// mark tells a document that was fetched from others in the names of steps.
func (d *document) mark() string {
	if d.digest == "" {
		return ""
	}
	return " " + d.digest[:16]
}

// last is the number of the last page.
func (d *document) last() int {
	if len(d.pages) == 0 {
		return 0
	}
	return d.pages[len(d.pages)-1].Number
}

func (d *document) sentences() int {
	n := 0
	for _, a := range d.analyses {
		n += a.Sentences
	}
	return n
}

// counts is what the data part at the end of the summary says.
type counts struct {
	Name      string `json:"name"`
	Pages     int    `json:"pages"`
	Sentences int    `json:"sentences"`
	Chosen    int    `json:"chosen"`
}

// deliver ranks, streams the summary and completes the task.
func deliver(ctx context.Context, t *holdfast.Turn, docs []document, wanted int) error {
	w := t.Artifact("summary")
	w.Describe("The sentences that say most, in the order of the text.", nil)
	var all []counts
	var sum counts
	for i := range docs {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		c, err := deliverOne(w, &docs[i], wanted, len(docs) > 1, i > 0)
		if err != nil {
			return err
		}
		all = append(all, c)
		sum.Pages, sum.Sentences, sum.Chosen = sum.Pages+c.Pages, sum.Sentences+c.Sentences, sum.Chosen+c.Chosen
	}
	if err := w.WriteParts(a2a.DataPart{Data: map[string]any{
		"pages": sum.Pages, "sentences": sum.Sentences, "chosen": sum.Chosen, "documents": plain(all),
	}}); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return t.Reply(fmt.Sprintf("Chose %s of %d on %s.", plural(sum.Chosen, "sentence"), sum.Sentences, plural(sum.Pages, "page")))
}

// deliverOne writes one document's part of the summary, a chunk per line.
func deliverOne(w *holdfast.ArtifactWriter, d *document, wanted int, titled, further bool) (counts, error) {
	c := counts{Name: d.name, Pages: len(d.pages), Sentences: d.sentences()}
	if wanted == 0 {
		wanted = summarize.DefaultSentences(c.Sentences)
	}
	chosen := summarize.Summarize(d.analyses, wanted)
	c.Chosen = len(chosen)
	var lines []string
	if titled {
		lines = append(lines, d.name+":")
	}
	for _, s := range chosen {
		lines = append(lines, s.Text)
	}
	if len(chosen) == 0 {
		lines = append(lines, "(nothing to summarize)")
	}
	for i, line := range lines {
		switch {
		case i > 0:
			line = "\n" + line
		case further:
			line = "\n\n" + line
		}
		if _, err := w.WriteString(line); err != nil {
			return c, err
		}
	}
	return c, nil
}

func plain(all []counts) []any {
	out := make([]any, len(all))
	for i, c := range all {
		out[i] = map[string]any{"name": c.Name, "pages": c.Pages, "sentences": c.Sentences, "chosen": c.Chosen}
	}
	return out
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Describe fills in what the agent card says.
func Describe(cfg *holdfast.Config) {
	const text = "Picks the sentences of a document that say most about it. Deterministic, in any language; no model is asked."
	modes := append(summarize.SupportedTypes(), "application/json")
	cfg.Name = "summarizer"
	cfg.Description = text
	cfg.Skills = []a2a.AgentSkill{{
		ID: "summarize", Name: "Summarize documents",
		Description: text + ` Takes text, and plain text, Markdown, HTML and PDF files, inline or by URI. A data part {"sentences": 5} sets the length, 1 to ` + fmt.Sprint(maxSentences) + ".",
		Tags:        []string{"summary", "text", "documents", "pdf", "extractive"},
		Examples:    []string{"Paste an article to get its main sentences.", "Attach a PDF report with the data part {\"sentences\": 10}."},
		InputModes:  modes,
		OutputModes: []string{"text/plain", "application/json"},
	}}
	cfg.InputModes = modes
	cfg.OutputModes = []string{"text/plain", "application/json"}
}

// clip shortens a name for a message.
func clip(s string) string {
	const longest = 80
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if runes := []rune(s); len(runes) > longest {
		s = string(runes[:longest]) + "…"
	}
	return s
}
