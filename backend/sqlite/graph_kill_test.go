package sqlite

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
)

// graphBatch identifies a batch: an entity with a relationship to each of its leaves.
type graphBatch struct {
	ID     string
	Leaves int
}

// graphBatches is the graph of all batches.
var graphBatches = graph.Key{Owner: "owner"}

func (b graphBatch) batch() (batch graph.Batch) {
	batch.Entities = []graph.Entity{{ID: b.ID, Label: "Batch", Properties: map[string]any{"leaves": b.Leaves}}}
	for i := range b.Leaves {
		leaf := fmt.Sprint(b.ID, "/", i)
		batch.Entities = append(batch.Entities, graph.Entity{ID: leaf, Label: "Leaf"})
		batch.Relationships = append(batch.Relationships, graph.Relationship{ID: leaf, Source: b.ID, Target: leaf, Type: "has"})
	}
	return batch
}

// childWritesGraph writes batches on 8 goroutines until it is killed, and prints each batch that was
// acknowledged. Each batch ends a relationship of the batch before, and deletes its first leaf.
func childWritesGraph(dir string) error {
	s, err := Open(bg, Config{Dir: dir})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for g := range 8 {
		wg.Go(func() {
			var before *graphBatch
			for n := 0; ; n++ {
				b := graphBatch{fmt.Sprint(os.Getpid(), " ", g, " ", n), 2 + (g*7+n)%40}
				batch := b.batch()
				if before != nil {
					batch.Ends = []graph.End{{ID: before.ID + "/1"}}
					batch.DeleteEntities = []string{before.ID + "/0"}
				}
				if _, err := graphsql.Of(s, nil).Write(bg, graphBatches, batch); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
				before = &b
				mu.Lock()
				_ = json.NewEncoder(os.Stdout).Encode(b)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return nil
}

func TestAcknowledgedGraphsSurviveKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kills := 4
	if testing.Short() {
		kills = 2
	}
	var acknowledged []graphBatch
	for n := range kills {
		acknowledged = append(acknowledged, killWhileWritingGraph(t, dir, time.Duration(60+41*n)*time.Millisecond)...)
		s := open(t, Config{Dir: dir})
		checkGraph(t, graphsql.Of(s, nil), acknowledged)
		must(t, checkIntegrity(s))
		must(t, s.Close())
	}
	t.Logf("%d acknowledged batches, %d kills", len(acknowledged), kills)
}

func killWhileWritingGraph(t *testing.T, dir string, after time.Duration) (acknowledged []graphBatch) {
	t.Helper()
	cmd := child(t.Context(), "graph", dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var kill *time.Timer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var b graphBatch
		if json.Unmarshal(lines.Bytes(), &b) != nil {
			continue // truncated by the kill
		}
		acknowledged = append(acknowledged, b)
		if kill == nil {
			kill = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	if err := cmd.Wait(); err == nil || kill == nil {
		t.Fatalf("writing process was not killed: %v", err)
	}
	return acknowledged
}

// checkGraph checks that each batch is whole, also with its changes of the one before, and that
// acknowledged ones exist.
func checkGraph(t *testing.T, g graph.Store, acknowledged []graphBatch) {
	t.Helper()
	batches := make(map[string]graphBatch)
	for after := ""; ; {
		page, err := g.FindEntities(bg, graphBatches, graph.FindParams{Labels: []string{"Batch"}, After: after, Limit: graph.MaxLimit})
		must(t, err)
		for _, e := range page {
			batches[e.ID] = graphBatch{e.ID, int(e.Properties["leaves"].(float64))}
			after = e.ID
		}
		if len(page) < graph.MaxLimit {
			break
		}
	}
	for _, b := range acknowledged {
		if batches[b.ID] != b {
			t.Errorf("acknowledged batch %+v was found as %+v", b, batches[b.ID])
		}
	}
	for _, b := range batches {
		s, err := g.Neighbors(bg, graphBatches, graph.NeighborParams{IDs: []string{b.ID}, Depth: 1, Walk: graph.Walk{Moment: graph.Moment{AnyTime: true}}})
		must(t, err)
		var pid, writer, n int
		_, err = fmt.Sscan(b.ID, &pid, &writer, &n)
		must(t, err)
		_, changed := batches[fmt.Sprint(pid, " ", writer, " ", n+1)]
		leaves, version := b.Leaves, int64(1)
		if changed {
			leaves, version = leaves-1, 2
		}
		if len(s.Entities) != leaves+1 || len(s.Relationships) != leaves {
			t.Errorf("batch %+v, changed by the next one: %t, has %d entities and %d relationships", b, changed, len(s.Entities), len(s.Relationships))
		}
		r, err := g.Relationships(bg, graphBatches, []string{b.ID + "/1"})
		if err != nil || len(r) != 1 || r[0].Version != version || r[0].ValidTo.IsZero() == changed {
			t.Errorf("batch %+v, changed by the next one: %t, has the relationship %+v, %v", b, changed, r, err)
		}
	}
}
