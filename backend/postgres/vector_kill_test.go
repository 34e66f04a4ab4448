//go:build services

package postgres

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// childVariable makes the test binary a replica that writes documents: a URL and a schema.
const childVariable = "HOLDFAST_TEST_WRITES_VECTORS"

const (
	killWriters   = 3
	killDocuments = 20 // of a write
)

// writeVectors upserts documents until it is killed. It prints each acknowledged write: the number of
// its goroutine and of the write.
func writeVectors(arg string) error {
	url, schema, _ := strings.Cut(arg, " ")
	s, err := Open(bg, Config{URL: url, Schema: schema, Vectors: true, PoolMax: 6, indexFrom: 100})
	if err != nil {
		return err
	}
	v := s.Vectors(vector.Config{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	for g := range killWriters {
		wg.Go(func() {
			for n := 0; err == nil; n++ {
				var p vector.WriteParams
				for i := range killDocuments {
					p.Documents = append(p.Documents, vector.Document{ID: fmt.Sprintf("%d-%d-%d", g, n%8, i), Embedding: []float32{1, float32(g), float32(n), float32(i)}, Metadata: map[string]any{"write": n}})
				}
				_, e := v.Upsert(bg, vectorKey, p)
				mu.Lock()
				if err = errors.Join(err, e); err == nil {
					_ = json.NewEncoder(os.Stdout).Encode([2]int{g, n})
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return err
}

func TestAcknowledgedVectorsSurviveKill(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{Vectors: true, indexFrom: 100})
	s := open(storetest.Wrap(t), cfg)
	v := s.Vectors(vector.Config{}).(*vectorStore)
	kills := 3
	if testing.Short() {
		kills = 1
	}
	for n := range kills {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+cfg.URL+" "+cfg.Schema)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		last := make(map[int]int)
		var kill *time.Timer
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var write [2]int
			if json.Unmarshal(lines.Bytes(), &write) != nil {
				continue // truncated by the kill
			}
			last[write[0]] = write[1]
			if kill == nil {
				kill = time.AfterFunc(time.Duration(300+171*n)*time.Millisecond, func() { _ = cmd.Process.Kill() })
			}
		}
		if err := cmd.Wait(); err == nil || kill == nil {
			t.Fatalf("the writing process was not killed: %v", err)
		}
		checkWrites(t, v, last)
		t.Logf("killed after the writes %v", last)
	}
}

// checkWrites checks that each write is whole, that acknowledged ones are stored, and that the
// collection has the right number of documents.
func checkWrites(t *testing.T, v *vectorStore, last map[int]int) {
	t.Helper()
	// The server may still be working on a statement of the killed process.
	await.True(t, "the transactions of the process have ended", func() bool {
		n := 0
		must(t, v.kit.pool.QueryRow(bg, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%' || $1 || '%' AND state <> 'idle' AND pid <> pg_backend_pid()`, v.kit.cfg.Schema).Scan(&n))
		return n == 0
	})
	for g, acknowledged := range last {
		for slot := range 8 {
			ids := make([]string, killDocuments)
			for i := range ids {
				ids[i] = fmt.Sprintf("%d-%d-%d", g, slot, i)
			}
			found, err := v.Get(t.Context(), vectorKey, ids)
			must(t, err)
			var writes []float64
			for _, d := range found {
				writes = append(writes, d.Metadata["write"].(float64))
				if d.Embedding[2] != float32(writes[0]) {
					t.Errorf("document %s of write %g has the embedding of another: %v", d.ID, writes[0], d.Embedding)
				}
			}
			if len(found) != 0 && (len(found) != killDocuments || slices.Min(writes) != slices.Max(writes)) {
				t.Errorf("write %d of %d is not whole: %v", slot, g, writes)
			}
			if acknowledged < slot {
				continue
			}
			if newest := acknowledged - (acknowledged-slot)%8; len(found) == 0 || int(writes[0]) < newest {
				t.Errorf("acknowledged write %d of %d is missing: %v", newest, g, writes)
			}
		}
	}
	all, err := v.Collections(t.Context(), vectorKey.Owner)
	must(t, err)
	hits, err := v.Search(t.Context(), vectorKey, vector.SearchParams{Queries: []vector.Query{{Embedding: []float32{1, 1, 1, 1}}}, Limit: vector.MaxLimit})
	must(t, err)
	if n := len(hits[0].Hits); int64(n) != all[0].Documents {
		t.Errorf("the collection has %d documents, a search finds %d", all[0].Documents, n)
	}
}

// Replicas write to a collection that does not exist yet: one of the dimensions wins, and every write
// with another one gets a MismatchError.
func TestReplicasFixOneDimension(t *testing.T) {
	t.Parallel()
	w := storetest.Wrap(t)
	cfg := emptyConfig(w, Config{Vectors: true})
	replicas := []vector.Store{open(w, cfg).Vectors(vector.Config{}), open(w, cfg).Vectors(vector.Config{})}
	for round := range 5 {
		k := vector.Key{Owner: "owner", Collection: fmt.Sprint(round)}
		var mu sync.Mutex
		written := map[int]int{}
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				dim := 1 + i%3
				_, err := replicas[i%2].Upsert(t.Context(), k, vector.WriteParams{Documents: []vector.Document{{ID: fmt.Sprint(i), Embedding: []float32{1, 2, 3}[:dim]}, {ID: "same", Embedding: []float32{3, 2, 1}[:dim]}}})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					written[dim]++
				} else if !errors.Is(err, vector.ErrMismatch) {
					t.Errorf("Upsert() = %v, want a mismatch", err)
				}
			})
		}
		wg.Wait()
		all, err := replicas[round%2].Collections(t.Context(), "owner")
		must(t, err)
		c := all[round]
		if len(written) != 1 || written[c.Dimension] != 4 || c.Documents != 5 {
			t.Errorf("writes of dimensions %v succeeded; the collection is %+v, want 4 writes and 5 documents", written, c)
		}
	}
}

// A write stores nothing if its context ends while another transaction blocks it.
func TestCanceledVectorWritesStoreNothing(t *testing.T) {
	t.Parallel()
	w := storetest.Wrap(t)
	s := open(w, emptyConfig(w, Config{Vectors: true}))
	v := s.Vectors(vector.Config{}).(*vectorStore)
	document := func(id string) vector.Document { return vector.Document{ID: id, Embedding: []float32{1, 2}} }
	_, err := v.Add(t.Context(), vectorKey, vector.WriteParams{Documents: []vector.Document{document("b")}})
	must(t, err)
	other, err := pgx.Connect(bg, s.cfg.URL)
	must(t, err)
	defer func() { _ = other.Close(bg) }()
	tx, err := other.Begin(bg)
	must(t, err)
	_, err = tx.Exec(bg, s.qualify(`SELECT 1 FROM {s}.vector_documents WHERE id = 'b' FOR UPDATE`))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := v.Upsert(ctx, vectorKey, vector.WriteParams{Documents: []vector.Document{document("a"), document("b"), document("c")}})
		done <- err
	}()
	await.True(t, "the write waits for a lock", func() bool {
		n := 0
		must(t, s.pool.QueryRow(bg, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`, s.cfg.Schema).Scan(&n))
		return n > 0
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Upsert() = %v, want the error of its context", err)
	}
	must(t, tx.Rollback(bg))
	found, err := v.Get(t.Context(), vectorKey, []string{"a", "b", "c"})
	must(t, err)
	if len(found) != 1 {
		t.Errorf("Get() = %+v, want the document before", found)
	}
	all, err := v.Collections(t.Context(), vectorKey.Owner)
	must(t, err)
	if all[0].Documents != 1 {
		t.Errorf("the collection has %d documents, want 1", all[0].Documents)
	}
}
