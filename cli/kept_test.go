package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphs"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
)

// keepCmd is the script command "keep DIR OWNER", which stores data of each kind that agents keep.
func keepCmd(ts *testscript.TestScript, _ bool, args []string) {
	s, err := sqlite.Open(context.Background(), sqlite.Config{Dir: ts.MkAbs(args[0])})
	ts.Check(err)
	defer func() { ts.Check(s.Close()) }()
	ts.Check(keepData(context.Background(), s, args[1]))
}

// keepData stores data of each kind that agents keep.
func keepData(ctx context.Context, s store.Store, owner string) error {
	c := engine.Contracts{}.WithParts(s, nil)
	for _, step := range []func(context.Context, engine.Contracts, store.Store, string) error{keepTranscripts, keepFacts, keepGraphs, keepBlobs, keepRecords} {
		if err := step(ctx, c, s, owner); err != nil {
			return err
		}
	}
	return nil
}

func keepTranscripts(ctx context.Context, c engine.Contracts, _ store.Store, owner string) error {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for _, k := range []history.Key{{Owner: owner, Agent: "travel", Session: "trip"}, {Owner: owner, Agent: "shop", Session: "cart-1"}, {Owner: owner, Agent: "travel", Session: "cart-1"}} {
		for i := range 30 {
			m := history.Message{Role: "user", Body: json.RawMessage(fmt.Sprintf(`"message %d of %s"`, i+1, k.Session)), CreatedAt: at.Add(time.Duration(i) * time.Minute)}
			if i%3 == 1 {
				m.Role, m.ToolCalls = "assistant", []string{fmt.Sprint("call-", i)}
			}
			if _, err := transcripts.In(c.Stores).Append(ctx, k, history.AppendParams{Messages: []history.Message{m}, Run: fmt.Sprint("run-", i/10)}); err != nil {
				return err
			}
		}
		if _, err := transcripts.In(c.Stores).ClearRun(ctx, k, "run-1", 1); err != nil {
			return err
		}
	}
	return nil
}

func keepFacts(ctx context.Context, c engine.Contracts, _ store.Store, owner string) error {
	for _, f := range [][3]string{
		{"travel", "users/ravi", "Ravi prefers a window seat"},
		{"travel", "users/ravi", "Ravi lives in Lisbon"},
		{"travel", "default", "Trains to Porto leave every hour"},
		{"shop", "default", "Deliveries need a signature"},
	} {
		scope := memory.Scope{Owner: owner, Agent: f[0], Namespace: f[1]}
		id, err := facts.In(c.Stores).Save(ctx, scope, f[2], memory.SaveParams{Key: strings.Fields(f[2])[1], Metadata: map[string]any{"source": "chat"}, Entities: strings.Fields(f[2])[:1]})
		if err != nil {
			return err
		}
		if strings.Contains(f[2], "Lisbon") {
			if _, err := facts.In(c.Stores).Supersede(ctx, scope, id, time.Time{}, memory.UpdateParams{Content: "Ravi lives in Porto", Entities: []string{"Ravi", "Porto"}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func keepGraphs(ctx context.Context, c engine.Contracts, _ store.Store, owner string) error {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := graphs.In(c.Stores).Write(ctx, graph.Key{Owner: owner}, graph.Batch{
		Entities: []graph.Entity{
			{ID: "ravi", Label: "Person", Properties: map[string]any{"name": "Ravi", "age": 41}},
			{ID: "ada", Label: "Person", Properties: map[string]any{"name": "Ada"}},
			{ID: "x", Label: "Project", Properties: map[string]any{"name": "Project X"}},
		},
		Relationships: []graph.Relationship{
			{ID: "ravi-x", Source: "ravi", Type: "works_on", Target: "x", ValidFrom: from, Properties: map[string]any{"role": "lead"}},
			{ID: "ada-x", Source: "ada", Type: "works_on", Target: "x", ValidFrom: from},
			{ID: "ravi-ada", Source: "ravi", Type: "knows", Target: "ada"},
		},
	})
	if err == nil {
		_, err = graphs.In(c.Stores).Write(ctx, graph.Key{Owner: owner}, graph.Batch{Ends: []graph.End{{ID: "ada-x", At: from.AddDate(0, 1, 0)}}})
	}
	if err == nil {
		_, err = graphs.In(c.Stores).AddEntities(ctx, graph.Key{Owner: owner, Graph: "places"}, []graph.Entity{{ID: "porto", Label: "City"}})
	}
	return err
}

func keepBlobs(ctx context.Context, c engine.Contracts, _ store.Store, owner string) error {
	for i, size := range []int{5, 300 << 10} {
		p := blob.PutParams{Owner: owner, Name: fmt.Sprintf("file-%d.txt", i), ContentType: "text/plain"}
		if i == 1 {
			p.Holder = "trip"
		}
		if _, err := blobs.In(c.Stores).Put(ctx, strings.NewReader(strings.Repeat("x", size)), p); err != nil {
			return err
		}
	}
	return nil
}

func keepRecords(ctx context.Context, _ engine.Contracts, s store.Store, owner string) error {
	records := store.NewUpdater(s)
	states, err := memory.NewShortTerm(memory.ShortTermConfig{Records: records})
	if err != nil {
		return err
	}
	if _, err := states.Set(ctx, memory.Key{Owner: owner, Agent: "travel", Session: "trip"}, map[string]any{"language": "pt"}, memory.AnyVersion); err != nil {
		return err
	}
	boards, err := board.New(board.Config{Records: records})
	if err != nil {
		return err
	}
	b, err := boards.Create(ctx, board.CreateParams{Owner: owner, Conversation: "trip", Agent: "travel", Label: "Plan", Titles: []string{"book", "pack"}})
	if err == nil {
		_, err = boards.SetStatus(ctx, b.Key(), "1", board.InProgress, "calling")
	}
	return err
}

// createStore creates an empty SQLite store.
func createStore(t *testing.T, dir string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
