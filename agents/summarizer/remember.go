package summarizer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/summarizer/summarize"
	"github.com/holdfast-dev/holdfast/internal/keywords"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
)

// With Config.Remember the agent keeps this of what it reads:
//
//   - passages of each document as facts of the namespace "documents", for all later contexts of
//     the caller;
//   - the text of each document as a blob;
//   - the documents of the context, with the refs of their blobs, in the state of the session;
//   - the progress of the turn on a board;
//   - questions and answers in the transcript.
const (
	namespace = "documents"
	// passageSentences is the number of sentences of a passage.
	passageSentences = 3
	// maxPassages is the maximum number of passages of a document. Later pages are not remembered.
	maxPassages = 2000
	maxAnswers  = 3
	// A passage matches if its score by words, by trigrams or by meaning is at least this.
	leastLexical, leastTrigram, leastSemantic = 0.2, 0.3, 0.5
	// followUps is the number of earlier messages in which a question without keywords is continued.
	followUps = 10
)

// question returns the text of a turn that asks about documents instead of containing one: a text
// of one or two sentences without files, which ends with a question mark or follows a document.
func question(ctx context.Context, t *holdfast.Turn) (string, map[string]any, error) {
	state, err := t.State().Get(ctx)
	if err != nil {
		return "", nil, err
	}
	known, _ := state.Values["documents"].(map[string]any)
	var texts []string
	for _, m := range t.Messages() {
		if len(m.Files()) > 0 {
			return "", known, nil
		}
		texts = append(texts, joinedText(m))
	}
	text := strings.TrimSpace(strings.Join(texts, "\n"))
	if text == "" || !isNote(text) || !strings.HasSuffix(text, "?") && len(known) == 0 {
		return "", known, nil
	}
	return text, known, nil
}

// answer replies with the passages that match a question best.
func answer(ctx context.Context, t *holdfast.Turn, question string, known map[string]any) error {
	words := keywords.Of(question)
	if len(words) == 0 { // a question such as "And when?", which continues the one before
		earlier, err := t.Transcript().Tail(ctx, followUps)
		if err != nil {
			return err
		}
		words = lastKeywords(earlier)
	}
	found, err := recall(ctx, t, words)
	if err != nil {
		return err
	}
	text := answerText(found, known)
	if err := note(ctx, t, question, text); err != nil {
		return err
	}
	if len(found) > 0 {
		w := t.Artifact("answer")
		w.Describe("The passages that match the question best, with their documents and pages.", nil)
		if _, err := w.WriteString(text); err != nil {
			return err
		}
		if err := w.WriteParts(a2a.DataPart{Data: map[string]any{"passages": citations(found)}}); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	return t.Reply(text)
}

// recall returns the passages that match keywords: by words and, if the agent has an embedder, by
// meaning.
func recall(ctx context.Context, t *holdfast.Turn, words []string) ([]memory.Memory, error) {
	if len(words) == 0 {
		return nil, nil
	}
	found, err := t.Recall(ctx, strings.Join(words, " "), facts.RecallParams{Namespace: namespace, Limit: maxAnswers})
	return slices.DeleteFunc(found, func(m memory.Memory) bool {
		return m.Scores.Lexical < leastLexical && m.Scores.Trigram < leastTrigram && m.Scores.Semantic < leastSemantic
	}), err
}

// lastKeywords returns the keywords of the newest message of the client that has some.
func lastKeywords(messages []history.Message) []string {
	for _, m := range slices.Backward(messages) {
		if words := keywords.Of(history.Text(m.Body)); m.Role == string(a2a.RoleUser) && len(words) > 0 {
			return words
		}
	}
	return nil
}

func answerText(found []memory.Memory, known map[string]any) string {
	var lines []string
	for _, m := range found {
		lines = append(lines, fmt.Sprintf("%s (%s, page %v)", m.Content, m.Metadata["document"], m.Metadata["page"]))
	}
	switch {
	case len(lines) > 0:
		return strings.Join(lines, "\n\n")
	case len(known) > 0:
		return fmt.Sprintf("Nothing about that is in %s.", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return "Nothing about that is in the documents that I have read. Send one."
}

func citations(found []memory.Memory) []any {
	all := make([]any, len(found))
	for i, m := range found {
		all[i] = map[string]any{"document": m.Metadata["document"], "page": m.Metadata["page"], "score": m.Score, "fact": m.ID}
	}
	return all
}

// note adds a message of the client and the agent's answer to the transcript.
func note(ctx context.Context, t *holdfast.Turn, message, answer string) error {
	if err := t.Transcript().AppendText(ctx, string(a2a.RoleUser), message); err != nil {
		return err
	}
	return t.Transcript().AppendText(ctx, string(a2a.RoleAgent), answer)
}

// readPlanned summarizes and remembers documents, and reports the progress on a board.
func (a *agent) readPlanned(ctx context.Context, t *holdfast.Turn, docs []document, wanted int) error {
	b, err := plan(ctx, t, docs)
	if err != nil {
		return err
	}
	for i := range docs {
		if _, err := t.Board().SetStatus(ctx, b.ID, b.Tasks[i].ID, board.InProgress, ""); err != nil {
			return err
		}
		if err := a.summarize(ctx, t, docs, i, wanted); err != nil {
			return err
		}
		if err := remember(ctx, t, &docs[i], i); err != nil {
			return err
		}
		if _, err := t.Board().SetStatus(ctx, b.ID, b.Tasks[i].ID, board.Succeeded, ""); err != nil {
			return err
		}
	}
	return nil
}

func names(docs []document) []string {
	all := make([]string, len(docs))
	for i := range docs {
		all[i] = docs[i].name
	}
	return all
}

// plan replaces the board of the context with one that has a task per document.
func plan(ctx context.Context, t *holdfast.Turn, docs []document) (board.Board, error) {
	old, err := t.Board().Root(ctx)
	if err == nil {
		err = t.Board().Delete(ctx, old.ID)
	}
	if err != nil && !errors.Is(err, board.ErrNotFound) {
		return board.Board{}, err
	}
	return t.Board().Create(ctx, boards.Params{Label: "Documents to read"}, names(docs)...)
}

// remember keeps document i, as one step. The name of the step identifies the content, so a
// fetched file that has changed between attempts is remembered as it is now.
func remember(ctx context.Context, t *holdfast.Turn, d *document, i int) error {
	_, err := holdfast.Step(ctx, t, fmt.Sprintf("remember document %d%s", i+1, d.stepSuffix()), func(ctx context.Context) (int, error) {
		text := d.text()
		info, err := t.Blobs().Put(ctx, strings.NewReader(text), blobs.Params{ContentType: "text/plain; charset=utf-8", Name: d.name, Size: int64(len(text))})
		if err != nil {
			return 0, err
		}
		all := passages(d)
		if len(all) == maxPassages {
			if err := t.Status(fmt.Sprintf("%s: remembering the first %d passages, up to page %d", d.name, maxPassages, all[len(all)-1].page)); err != nil {
				return 0, err
			}
		}
		for _, p := range all {
			sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q", d.name, p.page, p.text))
			err := t.Remember(ctx, p.text, facts.RememberParams{
				Namespace: namespace, Key: hex.EncodeToString(sum[:]),
				Metadata: map[string]any{"document": d.name, "page": p.page},
			})
			if err != nil {
				return 0, err
			}
		}
		return len(all), t.State().Update(ctx, map[string]any{"documents": map[string]any{
			d.name: map[string]any{"pages": len(d.pages), "sentences": d.sentences, "passages": len(all), "text": info.Ref},
		}})
	})
	return err
}

// text returns the text of the document, with a form feed after each page but the last.
func (d *document) text() string {
	texts := make([]string, len(d.pages))
	for i, p := range d.pages {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\f")
}

// passage is consecutive sentences of a page.
type passage struct {
	page int
	text string
}

func passages(d *document) (all []passage) {
	for _, p := range d.pages {
		for group := range slices.Chunk(summarize.Sentences(p), passageSentences) {
			if len(all) == maxPassages {
				return all
			}
			texts := make([]string, len(group))
			for i, s := range group {
				texts[i] = s.Text
			}
			all = append(all, passage{p.Number, strings.Join(texts, " ")})
		}
	}
	return all
}
