package summarizer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/summarizer"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/store/board"
)

const lighthouse = "The lighthouse was built in 1821. It stands on a cliff above the bay. " +
	"For a century its keepers lit the lamp by hand every evening. In 1923 the lamp was made electric, and the keepers left. " +
	"Today the lighthouse is a museum, and the lamp is lit by hand once a year. Visitors climb two hundred steps to the gallery."

func TestQuestionsAreAnsweredFromWhatWasRead(t *testing.T) {
	t.Parallel()
	r := newRunner(t, summarizer.Config{Remember: true})
	read := r.SendMessage(a2a.Message{Role: a2a.RoleUser, Parts: []a2a.Part{file("lighthouse.txt", "text/plain", lighthouse), file("agents.txt", "text/plain", article)}})
	if read.State != a2a.StateCompleted {
		t.Fatalf("reading = %s (%s), want completed", read.State, read.Message)
	}
	ask := func(contextID, text string) string {
		t.Helper()
		task := r.SendMessage(a2a.Message{Role: a2a.RoleUser, ContextID: contextID, Parts: []a2a.Part{a2a.TextPart{Text: text}}})
		if task.State != a2a.StateCompleted {
			t.Fatalf("%q = %s (%s), want completed", text, task.State, task.Message)
		}
		return task.Message
	}
	for question, want := range map[string]string{
		"When was the lighthouse built?":             "1821. It stands",
		"electric lamp":                              "1923",
		"What about kepers?":                         "its keepers lit",
		"What happens when a durable process dies?":  "another process claims",
		"Where is the capital of Mongolia situated?": "Nothing about that is in agents.txt, lighthouse.txt.",
	} {
		if got := ask(read.ContextID, question); !strings.Contains(got, want) {
			t.Errorf("%q = %q, want %q", question, got, want)
		}
	}
	if got := ask("", "How many steps are climbed?"); !strings.Contains(got, "two hundred steps to the gallery. (lighthouse.txt, page 1)") {
		t.Errorf("in another context = %q, want a passage of lighthouse.txt", got)
	}
	ask(read.ContextID, "Which year was the lighthouse built?")
	if got := ask(read.ContextID, "And how?"); !strings.Contains(got, "1821") {
		t.Errorf("a question that continues another = %q, want the passage of the other", got)
	}
	state := r.State(read.ContextID).Values["documents"].(map[string]any)
	if doc := state["agents.txt"].(map[string]any); doc["passages"] != 3.0 || doc["text"] == "" {
		t.Errorf("state of agents.txt = %v, want 3 passages and the ref of the text", doc)
	}
	boards := r.Boards(read.ContextID)
	if len(boards) != 1 || len(boards[0].Tasks) != 2 || boards[0].Tasks[1].Status != board.Succeeded {
		t.Errorf("boards = %+v, want one with two tasks that succeeded", boards)
	}
}

// topics is an embedder that returns the topics of a text as its embedding.
type topics struct{}

func (topics) Name() string { return "topics" }

func (topics) Embed(_ context.Context, texts []string) ([][]float32, error) {
	all := make([][]float32, len(texts))
	for i, text := range texts {
		all[i] = []float32{0, 0, 0.01}
		for word, topic := range map[string]int{"lamp": 0, "beacon": 0, "shines": 0, "museum": 1, "gallery": 1, "exhibition": 1} {
			all[i][topic] += float32(strings.Count(strings.ToLower(text), word))
		}
	}
	return all, nil
}

func TestQuestionsAreAnsweredByMeaning(t *testing.T) {
	t.Parallel()
	var hc holdfast.Config
	cfg := summarizer.Config{Remember: true}
	cfg.Describe(&hc)
	hc.Contracts.Embedder = topics{}
	r := holdfasttest.New(t, summarizer.New(cfg), hc)
	read := r.SendMessage(a2a.Message{Role: a2a.RoleUser, Parts: []a2a.Part{file("lighthouse.txt", "text/plain", lighthouse)}})
	for question, want := range map[string]string{
		"Which beacon shines?":    "lit the lamp by hand",
		"Any exhibition?":         "museum",
		"Who sailed to Mongolia?": "Nothing about that is in lighthouse.txt.",
	} {
		task := r.SendMessage(a2a.Message{Role: a2a.RoleUser, ContextID: read.ContextID, Parts: []a2a.Part{a2a.TextPart{Text: question}}})
		if task.State != a2a.StateCompleted || !strings.Contains(task.Message, want) {
			t.Errorf("%q = %s, %q, want %q", question, task.State, task.Message, want)
		}
	}
}

func TestInterruptedDocumentIsRememberedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pages = 12
		r := newRunner(t, summarizer.Config{Remember: true, PageDelay: 20 * time.Millisecond})
		m := holdfasttest.Message(file("long.txt", "text/plain", document(pages)), file("short.txt", "text/plain", article))
		task := r.Submit(m)
		for _, page := range []int{2, 7, 11} {
			waitFor(t, r, task.ID, fmt.Sprintf("long.txt: reading page %d of %d", page, pages))
			r.Restart()
		}
		waitFor(t, r, task.ID, "short.txt: reading page 1 of 1")
		r.Restart()
		if done := r.Wait(task.ID); done.State != a2a.StateCompleted {
			t.Fatalf("task = %s (%s), want completed", done.State, done.Message)
		}
		if facts := r.Facts("documents"); len(facts) != pages+3 {
			t.Errorf("%d facts, want a passage of each page and 3 of the article", len(facts))
		}
		blobs := r.Blobs()
		if len(blobs) != 2 || blobs[0].Name != "long.txt" || len(blobs[0].Holders) != 1 {
			t.Errorf("blobs = %+v, want the text of each document, held by the task", blobs)
		}
		if got := r.Transcript(task.ContextID); len(got) != 2 || got[0].Role != "user" || got[1].Role != "agent" {
			t.Errorf("transcript = %+v, want the message and the answer", got)
		}
		boards := r.Boards(task.ContextID)
		if len(boards) != 1 || boards[0].Tasks[0].Status != board.Succeeded || boards[0].Tasks[1].Status != board.Succeeded {
			t.Errorf("boards = %+v, want one board with tasks that succeeded", boards)
		}
	})
}
