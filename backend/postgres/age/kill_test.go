//go:build services

package age

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// graphChildVariable makes the test binary a replica that writes graphs: a URL and a schema.
const graphChildVariable = "HOLDFAST_TEST_WRITES_GRAPHS"

var copiedKey = graph.Key{Owner: "o"}

// randomBatch returns a batch that changes labels, properties and relationships of a few entities, which
// other writers change too, and deletes one.
func randomBatch(r *rand.Rand) (b graph.Batch) {
	name := func() string { return fmt.Sprint("e", r.IntN(12)) }
	used := make(map[string]bool)
	for range 4 {
		id := name()
		if used[id] {
			continue
		}
		used[id] = true
		b.Entities = append(b.Entities, graph.Entity{ID: id, Label: []string{"A", "B"}[r.IntN(2)], Properties: map[string]any{"n": r.IntN(100)}})
	}
	for range 3 {
		source, target := b.Entities[r.IntN(len(b.Entities))].ID, b.Entities[r.IntN(len(b.Entities))].ID
		if id := source + "-" + target; !used[id] {
			used[id] = true
			b.Relationships = append(b.Relationships, graph.Relationship{ID: id, Source: source, Target: target, Type: "to", Properties: map[string]any{"n": r.IntN(100)}})
		}
	}
	if id := name(); !used[id] {
		b.DeleteEntities = []string{id}
	}
	return b
}

// writeGraphs writes batches on three goroutines until it is killed, and prints a line for each.
func writeGraphs(arg string) error {
	url, schema, _ := strings.Cut(arg, " ")
	s, err := Open(bg, Config{Postgres: postgres.Config{URL: url, Schema: schema, PoolMax: 6}, Copy: true})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(i)))
			for errs[i] == nil {
				_, errs[i] = s.Graph(nil).Write(bg, copiedKey, randomBatch(r))
				fmt.Println("written")
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// checkCopy compares a graph with its copy in AGE.
func checkCopy(t *testing.T, a *Graphs) {
	t.Helper()
	var want, got []string
	line := func(v ...any) string {
		text, err := json.Marshal(v)
		must(t, err)
		return string(text)
	}
	entities, err := a.FindEntities(t.Context(), copiedKey, graph.FindParams{Limit: graph.MaxLimit})
	must(t, err)
	for _, e := range entities {
		e.Properties["id"] = e.ID
		want = append(want, line(e.Label, e.Properties))
	}
	relationships, err := a.FindRelationships(t.Context(), copiedKey, graph.FindRelationshipParams{Limit: graph.MaxLimit})
	must(t, err)
	for _, r := range relationships {
		want = append(want, line(r.Type, r.Source, r.Target, r.Properties["n"]))
	}
	for _, query := range []string{`MATCH (n) RETURN labels(n)[0], properties(n)`, `MATCH (a)-[r]->(b) RETURN type(r), a.id, b.id, r.n`} {
		found, err := a.QueryCypher(t.Context(), copiedKey, graph.CypherParams{Query: query})
		must(t, err)
		for _, row := range found.Rows {
			got = append(got, line(row...))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the copy has %v, the graph %v", got, want)
	}
	if len(relationships) == 0 {
		t.Error("the graph has no relationships")
	}
}

// Two replicas write to one graph until they are killed, one after the other.
func TestCopiesInAGEAreEqualAfterKill(t *testing.T) {
	t.Parallel()
	cfg := withAGE(storetest.Wrap(t))
	s := open(storetest.Wrap(t), cfg)
	a, c := s.Graph(nil).(*Graphs), connect(t, cfg.Postgres.URL)
	kills := 3
	if testing.Short() {
		kills = 1
	}
	for n := range kills {
		var replicas [2]*exec.Cmd
		for i := range replicas {
			replicas[i] = exec.CommandContext(t.Context(), os.Args[0])
			replicas[i].Env = append(os.Environ(), graphChildVariable+"="+cfg.Postgres.URL+" "+cfg.Postgres.Schema)
			replicas[i].Stderr = os.Stderr
			out, err := replicas[i].StdoutPipe()
			must(t, err)
			must(t, replicas[i].Start())
			_, err = out.Read(make([]byte, 1))
			must(t, err)
			go func() {
				for buffer := make([]byte, 1024); err == nil; _, err = out.Read(buffer) {
				}
			}()
		}
		for _, replica := range replicas {
			time.Sleep(time.Duration(150+71*n) * time.Millisecond) // between writes and within them
			must(t, replica.Process.Kill())
			_ = replica.Wait()
		}
		await.True(t, "the transactions of the replicas have ended", func() bool {
			n := 0
			must(t, c.QueryRow(bg, `SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND pid <> pg_backend_pid() AND (query LIKE '%' || $1 || '%' OR query LIKE '%' || $2 || '%')`, cfg.Postgres.Schema, a.Name(copiedKey)).Scan(&n))
			return n == 0
		})
		checkCopy(t, a)
	}
}

// The connection is cut at many places of the answers to a write.
func TestCopiesInAGEAreEqualAfterLostConnections(t *testing.T) {
	t.Parallel()
	cfg := withAGE(storetest.Wrap(t))
	direct := open(storetest.Wrap(t), cfg)
	p, proxied := pgtest.NewProxy(t, cfg.Postgres.URL)
	cfg.Postgres.URL, cfg.Postgres.CommandTimeout = proxied, 10*time.Second
	s := open(storetest.Wrap(t), cfg)
	a, r := s.Graph(nil).(*Graphs), rand.New(rand.NewPCG(1, 2))
	cuts := 40
	if testing.Short() {
		cuts = 10
	}
	for n := range cuts {
		p.CutAfter(1 + n*37%2000)
		_, err := a.Write(t.Context(), copiedKey, randomBatch(r))
		p.Disarm()
		must(t, err)
	}
	checkCopy(t, direct.Graph(nil).(*Graphs))
	if p.Cuts() < cuts/2 {
		t.Errorf("%d connections were cut, want at least %d", p.Cuts(), cuts/2)
	}
}
