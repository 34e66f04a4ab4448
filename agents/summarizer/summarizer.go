// Package summarizer is the default built-in agent: it selects the most significant sentences
// of documents.
//
// # Concepts
//
// Each message of a turn contributes documents: its text parts, which form one document, and
// its files in order. Files by URI are fetched by [holdfast.Turn.ReadFile]. If a message has
// files, a text of fewer than three sentences is treated as a note instead of a document.
// {"sentences": 5} in a data part of this turn or an earlier one sets the number of sentences
// per document.
//
// All documents are read before the first is analyzed, so that a message with an invalid
// document is rejected as a whole. Pages are then analyzed in durable steps that report
// progress. The summary is streamed as the artifact "summary": one line of text and one chunk
// per sentence, under the name of the document if there are several, followed by a data part
// with counts.
//
// # Durability
//
// A step has at least one page and up to 64 KiB of text, and ends after 100 ms. An
// interruption therefore repeats at most that much work, and a document of thousands of small
// pages does not cause thousands of commits. A later attempt reads the document again, which
// is cheap and results in the same pages, uses the stored analyses and reports at which page
// it resumes. A fetched file may have changed between attempts. Its steps are named after its
// digest, so a changed file is analyzed from the start. With [Config.PageDelay] every page is
// a separate step.
//
// # Memory
//
// With [Config.Remember] the agent keeps what it reads, each once, whatever interrupts it: passages
// as facts, for all later contexts of the caller; the text as a blob; the documents of the context in
// the state of the session; the progress of the turn on a board; messages and answers in the transcript.
// It then answers a question with the passages that match it best, and names their documents and
// pages. A question is a text of one or two sentences, without files, that ends with a question mark
// or follows a document of the same context. The search is by words, without a model, and by meaning too if
// the agent has an embedder.
package summarizer

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/summarizer/summarize"
	"github.com/holdfast-dev/holdfast/engine"
)

// Config configures the agent. The zero value is ready to use.
type Config struct {
	// PageDelay is a delay before each page, and makes every page a separate step. It is for
	// demonstrations and fault tests, in which a document must take long enough to be
	// interrupted. Default none.
	PageDelay time.Duration
	// Remember makes the agent keep what it reads, and answer questions from it. Default: it keeps
	// nothing besides its tasks.
	Remember bool
	// Reader reads the documents.
	Reader summarize.Reader
}

// New returns the handler.
func New(cfg Config) holdfast.Handler {
	return &agent{cfg: cfg, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

type agent struct {
	cfg Config
	// slots bounds how many long documents are computed on at once, so that other requests find a
	// free processor.
	slots chan struct{}
}

// Handle summarizes the documents of one turn.
func (a *agent) Handle(ctx context.Context, t *holdfast.Turn) error {
	if a.cfg.Remember {
		switch text, known, err := question(ctx, t); {
		case err != nil:
			return err
		case text != "":
			return answer(ctx, t, text, known)
		}
	}
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
	docs, err := a.readAll(ctx, t, sources)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if code := a2a.CodeOf(err); code == a2a.CodeUnavailable || code == a2a.CodeExhausted {
			return err // the turn is repeated
		}
		return t.Reject(err.Error())
	}
	if err := a.summarizeAll(ctx, t, docs, wanted); err != nil {
		if a2a.CodeOf(err) == a2a.CodeTooLarge {
			return t.Reject(err.Error())
		}
		return err
	}
	if ask := a.missingInput(docs); ask != "" {
		return t.RequireInput(ask)
	}
	text, err := deliver(ctx, t, docs)
	if err != nil {
		return err
	}
	if a.cfg.Remember {
		if err := note(ctx, t, "Summarize "+strings.Join(names(docs), ", ")+".", text); err != nil {
			return err
		}
	}
	return t.Reply(text)
}

// summarizeAll summarizes documents, and remembers them with [Config.Remember].
func (a *agent) summarizeAll(ctx context.Context, t *holdfast.Turn, docs []document, wanted int) error {
	if a.cfg.Remember {
		return a.readPlanned(ctx, t, docs, wanted)
	}
	for i := range docs {
		if err := a.summarize(ctx, t, docs, i, wanted); err != nil {
			return err
		}
	}
	return nil
}

// summarize sets the summary of docs[i].
func (a *agent) summarize(ctx context.Context, t *holdfast.Turn, docs []document, i, wanted int) error {
	d := &docs[i]
	release, err := t.Reserve(ctx, summarize.MemoryOfAnalyses(d.size))
	if err != nil {
		return fmt.Errorf("%s cannot be summarized: %w", d.name, err)
	}
	defer release()
	analyses, err := a.analyze(ctx, t, docs, i)
	if err != nil {
		return err
	}
	for _, one := range analyses {
		d.sentences += one.Sentences
		d.candidates += len(one.Candidates)
	}
	if wanted == 0 {
		wanted = summarize.DefaultSentences(d.sentences)
	}
	return a.compute(ctx, d.size, func() { d.chosen = summarize.Summarize(analyses, wanted) })
}

// compute calls f, which computes on a document of a size in bytes. It waits while long documents
// use all slots.
func (a *agent) compute(ctx context.Context, size int, f func()) error {
	if size > stepText {
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	f()
	runtime.Gosched()
	return nil
}

// missingInput returns a request for the missing input. It is empty if there are at least two
// sentences to summarize.
func (a *agent) missingInput(docs []document) string {
	file := "a file (" + a.cfg.formats() + ")."
	send := "Send the text to summarize, or " + file
	sentences, candidates := 0, 0
	for _, d := range docs {
		sentences += d.sentences
		candidates += d.candidates
	}
	switch {
	case candidates > 0 && sentences > 1:
		return ""
	case candidates > 0:
		return "A single sentence is its own summary. Send a longer text, or " + file
	}
	for _, d := range docs {
		if d.isFile {
			return fmt.Sprintf("There is nothing to summarize: %s has no text in it. %s", d.name, send)
		}
	}
	return "There is nothing to summarize. " + send
}

// document is a document to summarize.
type document struct {
	name   string
	isFile bool
	digest string // digest of a fetched file, "" for content of the message
	pages  []summarize.Page
	size   int // bytes of the pages' text

	// Set by agent.summarize.
	sentences, candidates int
	chosen                []summarize.Sentence
}

// stepSuffix returns a suffix for the names of steps that identifies the content of a fetched file.
func (d *document) stepSuffix() string {
	if d.digest == "" {
		return ""
	}
	return " " + d.digest[:16]
}

// lastPage returns the number of the last page.
func (d *document) lastPage() int {
	if len(d.pages) == 0 {
		return 0
	}
	return d.pages[len(d.pages)-1].Number
}

// counts is the content of the data part at the end of the summary.
type counts struct {
	Name      string `json:"name"`
	Pages     int    `json:"pages"`
	Sentences int    `json:"sentences"`
	Chosen    int    `json:"chosen"`
}

// deliver streams the summary and returns the text of the reply.
func deliver(ctx context.Context, t *holdfast.Turn, docs []document) (string, error) {
	w := t.Artifact("summary")
	w.Describe("The most significant sentences in the order of the text.", nil)
	var all []counts
	var sum counts
	for i := range docs {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		c, err := deliverOne(w, &docs[i], len(docs) > 1, i > 0)
		if err != nil {
			return "", err
		}
		all = append(all, c)
		sum.Pages, sum.Sentences, sum.Chosen = sum.Pages+c.Pages, sum.Sentences+c.Sentences, sum.Chosen+c.Chosen
	}
	if err := w.WriteParts(a2a.DataPart{Data: map[string]any{
		"pages": sum.Pages, "sentences": sum.Sentences, "chosen": sum.Chosen, "documents": countsData(all),
	}}); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return fmt.Sprintf("Chose %s of %d on %s.", plural(sum.Chosen, "sentence"), sum.Sentences, plural(sum.Pages, "page")), nil
}

// deliverOne writes the part of the summary for one document, one chunk per line.
func deliverOne(w *engine.ArtifactWriter, d *document, titled, further bool) (counts, error) {
	c := counts{Name: d.name, Pages: len(d.pages), Sentences: d.sentences, Chosen: len(d.chosen)}
	var lines []string
	if titled {
		lines = append(lines, d.name+":")
	}
	for _, s := range d.chosen {
		lines = append(lines, s.Text)
	}
	if len(d.chosen) == 0 {
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

func countsData(all []counts) []any {
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

// formats lists the formats of documents.
func (c Config) formats() string {
	if c.Reader.PDF == nil {
		return "plain text, Markdown or HTML"
	}
	return "plain text, Markdown, HTML or PDF"
}

// Describe sets the agent card's properties.
func (c Config) Describe(cfg *holdfast.Config) {
	const text = "Selects the most significant sentences of a document. Deterministic, for any language, without a model."
	modes := append(c.Reader.SupportedTypes(), "application/json")
	cfg.Name = "summarizer"
	cfg.Card.Description = text
	cfg.Card.Skills = []a2a.AgentSkill{{
		ID: "summarize", Name: "Summarize documents",
		Description: text + ` Accepts text, and files (` + c.formats() + `), inline or by URI. A data part {"sentences": 5} sets the length, 1 to ` + fmt.Sprint(maxSentences) + ".",
		Tags:        []string{"summary", "text", "documents", "extractive"},
		Examples:    []string{"Paste an article to get its main sentences.", "Attach a report with the data part {\"sentences\": 10}."},
		InputModes:  modes,
		OutputModes: []string{"text/plain", "application/json"},
	}}
	cfg.Card.DefaultInputModes = modes
	cfg.Card.DefaultOutputModes = []string{"text/plain", "application/json"}
	if c.Remember {
		cfg.Card.Skills = append(cfg.Card.Skills, a2a.AgentSkill{
			ID: "answer", Name: "Answer questions about documents",
			Description: "Answers a short text that ends with a question mark, or that follows a document, with the passages that match it best, and names their documents and pages. It searches the documents that the caller has sent, by words and, if a model of embeddings is configured, by meaning.",
			Tags:        []string{"questions", "search", "memory"},
			Examples:    []string{"When was the lighthouse built?"},
		})
	}
}

// clip shortens a name for use in a message.
func clip(s string) string {
	const longest = 80
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > longest {
		s = string(runes[:longest]) + "…"
	}
	return s
}
