package engine_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/embedding"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
)

// embedder is a server of embeddings. Texts with one of the words of a group are close.
type embedder struct {
	*httptest.Server
	requests atomic.Int64
	texts    atomic.Int64
	down     atomic.Bool
}

func newEmbedder(t *testing.T) *embedder {
	e := new(embedder)
	groups := [][]string{{"tea", "coffee", "drink"}, {"train", "travel"}}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.requests.Add(1)
		if e.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var in struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		e.texts.Add(int64(len(in.Input)))
		var data []any
		for i, text := range in.Input {
			v := []float32{0.2, 0, 0}
			for g, words := range groups {
				if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) }) {
					v[1+g] = 1
				}
			}
			data = append(data, map[string]any{"index": i, "embedding": v})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *embedder) client(t *testing.T) *embedding.Client {
	c, err := embedding.New(embedding.Config{URL: e.URL, Model: "m", Attempts: 1, CacheBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A turn finds facts by meaning and by entities. A repeated attempt gets the same facts, without
// another embedding.
func TestRecallUsesTheBestMode(t *testing.T) {
	t.Parallel()
	server, s := newEmbedder(t), inmem.New()
	var found [2][]string
	var texts [2]int64
	e := start(t, engine.Config{Store: s, Turns: engine.Turns{RetryDelay: time.Millisecond}, Contracts: engine.Contracts{Embedder: server.client(t)}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		for _, text := range []string{"Ravi likes espresso, a coffee", "the train leaves at nine"} {
			if err := facts.For(turn.Contracts()).Remember(ctx, text, facts.RememberParams{Entities: []string{"Ravi Kumar"}}); err != nil {
				return err
			}
		}
		for _, p := range []struct {
			query string
			mode  memory.Mode
		}{{"which drink?", ""}, {"travel", memory.ModeSemantic}, {"ravi kumar", memory.ModeGraph}} {
			facts, err := facts.For(turn.Contracts()).Recall(ctx, p.query, facts.RecallParams{Mode: p.mode})
			if err != nil {
				return err
			}
			for _, m := range facts {
				found[turn.Attempt()-1] = append(found[turn.Attempt()-1], m.Content)
			}
		}
		texts[turn.Attempt()-1] = server.texts.Load()
		if err := transcripts.For(turn.Contracts()).AppendText(ctx, "user", "recalled"); err != nil { // a change, with which reads are recorded
			return err
		}
		if turn.Attempt() == 1 {
			if err := turn.Flush(); err != nil {
				return err
			}
			return engine.Retry(errAgain)
		}
		return nil
	}})
	if task := sendIn(t, e, newID()); task.Status.State != a2a.StateCompleted {
		t.Fatalf("task is %s: %s", task.Status.State, task.Status.Message.Text())
	}
	want := []string{"Ravi likes espresso, a coffee", "the train leaves at nine", "the train leaves at nine", "Ravi likes espresso, a coffee", "the train leaves at nine", "Ravi likes espresso, a coffee"}
	if !slices.Equal(found[0], want) || !slices.Equal(found[1], want) {
		t.Errorf("first attempt found %q, second %q, want %q", found[0], found[1], want)
	}
	if texts[0] != 4 || texts[1] != 4 {
		t.Errorf("the first attempt embedded %d texts, both %d, want 4: two facts and two queries", texts[0], texts[1])
	}
}

// While the embedder is down, a turn remembers and recalls by words. The agent computes the embedding
// later.
func TestFactsAreEmbeddedLater(t *testing.T) {
	t.Parallel()
	server, s := newEmbedder(t), inmem.New()
	server.down.Store(true)
	client := server.client(t)
	handler := func(ctx context.Context, turn *engine.Turn) error {
		if err := facts.For(turn.Contracts()).Remember(ctx, "Ravi likes coffee", facts.RememberParams{}); err != nil {
			return err
		}
		facts, err := facts.For(turn.Contracts()).Recall(ctx, "coffee", facts.RecallParams{})
		if err == nil && (len(facts) != 1 || facts[0].Scores.Semantic != 0) {
			t.Errorf("Recall() = %+v, want the fact by its words", facts)
		}
		return err
	}
	e := start(t, engine.Config{Store: s, Handler: handler, Contracts: engine.Contracts{Embedder: client}})
	if task := sendIn(t, e, newID()); task.Status.State != a2a.StateCompleted {
		t.Fatalf("task is %s: %s", task.Status.State, task.Status.Message.Text())
	}
	server.down.Store(false)
	// Another process of the agent starts with a pass.
	observed := &observedFacts{memorysql.Of(s, memory.LongTermConfig{Embedder: client}), make(chan int, 1)}
	start(t, engine.Config{Store: s, Handler: handler, Contracts: engine.Contracts{Stores: []contract.Store{facts.Of(observed)}, Embedder: client}})
	if n := <-observed.embedded; n != 1 {
		t.Errorf("the agent embedded %d facts, want 1", n)
	}
	r, err := observed.Search(t.Context(), memory.Scope{Owner: alice.ID, Agent: "agent"}, memory.SearchParams{Query: "a drink", Mode: memory.ModeSemantic})
	if err != nil || len(r.Facts) != 1 || r.Pending != 0 {
		t.Errorf("Search() = %+v, %v, want the fact", r, err)
	}
}

// observedFacts reports the facts that were embedded later.
type observedFacts struct {
	memory.LongTermStore
	embedded chan int
}

func (f *observedFacts) EmbedPending(ctx context.Context, limit int) (int, error) {
	n, err := f.LongTermStore.EmbedPending(ctx, limit)
	if n > 0 {
		f.embedded <- n
	}
	return n, err
}
