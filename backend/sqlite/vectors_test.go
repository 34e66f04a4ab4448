package sqlite

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/ann"
	"github.com/holdfast-dev/holdfast/store/vector/vectortest"
)

// openVectors are the documents of a store that a test can reopen.
type openVectors struct {
	*vectorStore
	store *Store
}

// vectorHarness returns a harness of stores. Their indexes have a graph, and snapshots from a number
// of documents on.
func vectorHarness(index ann.Config, minSnapshot int) vectortest.Harness {
	openIn := func(t storetest.T, dir string, cfg vector.Config) vector.Store {
		s := open(t, Config{Dir: dir, Logger: testLogger(t)})
		s.vectors.cfg, s.vectors.minSnapshot = index, minSnapshot
		return openVectors{s.Vectors(cfg).(*vectorStore), s}
	}
	return vectortest.Harness{
		Open: func(t storetest.T, cfg vector.Config) vector.Store { return openIn(t, t.TempDir(), cfg) },
		Reopen: func(t storetest.T, p vector.Store, cfg vector.Config) vector.Store {
			s := p.(openVectors).store
			if err := s.Close(); err != nil {
				t.Fatalf("Close() = %v", err)
			}
			return openIn(t, s.cfg.Dir, cfg)
		},
		Tasks: func(s vector.Store) store.Store { return s.(openVectors).store },
	}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	vectortest.Run(t, vectorHarness(ann.Config{KeepBytes: keepEmbeddings}, minSnapshot))
}

// Collections of the suite are too small for graphs and snapshots otherwise, and their embeddings
// remain in memory.
func TestVectorsWithGraphAndSnapshots(t *testing.T) {
	t.Parallel()
	h := vectorHarness(ann.Config{GraphAt: 8}, 4)
	h.Calls = 600
	vectortest.Run(t, h)
}

var testCollection = vector.Key{Owner: "owner", Collection: "collection"}

// randomDocuments returns n documents with numbers from first.
func randomDocuments(r *rand.Rand, n, first int) (all []vector.Document) {
	for i := range n {
		v := make([]float32, 24)
		for j := range v {
			v[j] = float32(r.NormFloat64())
		}
		all = append(all, vector.Document{ID: fmt.Sprintf("%06d", first+i), Embedding: v, Metadata: map[string]any{"n": float64((first + i) % 10)}})
	}
	return all
}

func searchIDs(t *testing.T, s vector.Store, p vector.SearchParams, embedding []float32) (ids []string) {
	t.Helper()
	p.Queries = []vector.Query{{Embedding: embedding}}
	all, err := s.Search(t.Context(), testCollection, p)
	must(t, err)
	for _, h := range all[0].Hits {
		ids = append(ids, h.ID)
	}
	return ids
}

// TestVectorSnapshotIsRead checks that a store reads its index from a snapshot, and only the
// documents that were written afterwards.
func TestVectorSnapshotIsRead(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	reopen := func(damage string) (*Store, *vectorStore) {
		if damage != "" {
			execFile(t, dir+"/"+FileName, damage)
		}
		s := open(t, Config{Dir: dir})
		s.vectors.cfg, s.vectors.minSnapshot = ann.Config{GraphAt: 200}, 100
		return s, s.Vectors(vector.Config{}).(*vectorStore)
	}
	write := func(v *vectorStore, documents []vector.Document) {
		_, err := v.Upsert(t.Context(), testCollection, vector.WriteParams{Documents: documents})
		must(t, err)
	}
	s, v := reopen("")
	documents := randomDocuments(r, 900, 0)
	write(v, documents)
	query := randomDocuments(r, 1, 0)[0].Embedding
	want := searchIDs(t, v, vector.SearchParams{Limit: 20, Exact: true}, query)
	for name, damage := range map[string]string{
		"valid":   "",
		"damaged": "UPDATE vector_snapshots SET data = zeroblob(length(data)) WHERE part = 0",
		"missing": "DELETE FROM vector_snapshots",
	} {
		must(t, s.Close())
		s, v = reopen(damage)
		s.vectors.minSnapshot = 1 << 30 // to read it links no rows
		c, err := collectionIn(t.Context(), s.kit, testCollection)
		must(t, err)
		if c.snapshot == 0 {
			t.Fatalf("%s: the collection has no snapshot", name)
		}
		if got := searchIDs(t, v, vector.SearchParams{Limit: 20}, query); len(got) != 20 {
			t.Errorf("%s: Search() returns %d documents", name, len(got))
		}
		if got := searchIDs(t, v, vector.SearchParams{Limit: 20, Exact: true}, query); !slices.Equal(got, want) {
			t.Errorf("%s: Search() = %v, want %v", name, got, want)
		}
		index := s.vectors.get(testCollection)
		if linked := index.state.Load().index.Stats().Linked; (linked > 0) != (damage == "") {
			t.Errorf("%s: the index has %d linked rows", name, linked)
		}
		s.vectors.minSnapshot = 100
		write(v, documents[:1]) // so that Close saves a snapshot
	}
	must(t, s.Close())
	s, v = reopen("")
	write(v, documents[:1])
	if n := s.vectors.get(testCollection).changes.Load(); n > 1 {
		t.Errorf("%d documents were read after the snapshot, want 1", n)
	}
}

// childWritesVectors upserts and deletes documents until it is killed. It prints each acknowledged
// write: the number of its goroutine and of the write.
func childWritesVectors(dir string) error {
	s, err := Open(bg, Config{Dir: dir})
	if err != nil {
		return err
	}
	s.vectors.cfg, s.vectors.minSnapshot = ann.Config{GraphAt: 100}, 50
	v := s.Vectors(vector.Config{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	for g := range vectorWriters {
		wg.Go(func() {
			for n := 0; ; n++ {
				err := vectorWrite(v, g, n)
				mu.Lock()
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
				} else {
					_ = json.NewEncoder(os.Stdout).Encode([2]int{g, n})
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return nil
}

const vectorWriters = 4

// vectorWrite stores 10 documents with the number of the write in their metadata. Every third write
// deletes half of them instead.
func vectorWrite(v vector.Store, g, n int) error {
	documents := randomDocuments(rand.New(rand.NewPCG(uint64(g), uint64(n))), 10, g*1000+n%40*10)
	if n%3 == 2 {
		ids := make([]string, 5)
		for i := range ids {
			ids[i] = documents[i].ID
		}
		_, err := v.Delete(bg, testCollection, ids)
		return err
	}
	for i := range documents {
		documents[i].Metadata = map[string]any{"write": float64(n)}
	}
	_, err := v.Upsert(bg, testCollection, vector.WriteParams{Documents: documents})
	return err
}

func TestAcknowledgedVectorsSurviveKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kills := 5
	if testing.Short() {
		kills = 2
	}
	writes := 0
	for n := range kills {
		last := killWhileWritingVectors(t, dir, time.Duration(100+71*n)*time.Millisecond)
		s := open(t, Config{Dir: dir})
		s.vectors.cfg = ann.Config{GraphAt: 100}
		checkVectors(t, s.Vectors(vector.Config{}), last)
		must(t, checkIntegrity(s))
		must(t, s.Close())
		for _, n := range last {
			writes += n + 1
		}
	}
	t.Logf("%d acknowledged writes, %d kills", writes, kills)
}

// killWhileWritingVectors returns the last acknowledged write of each goroutine.
func killWhileWritingVectors(t *testing.T, dir string, after time.Duration) map[int]int {
	t.Helper()
	cmd := child(t.Context(), "vectors", dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var kill *time.Timer
	last := make(map[int]int)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var write [2]int
		if json.Unmarshal(lines.Bytes(), &write) != nil {
			continue // truncated by the kill
		}
		last[write[0]] = write[1]
		if kill == nil {
			kill = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	if err := cmd.Wait(); err == nil || kill == nil {
		t.Fatalf("writing process was not killed: %v", err)
	}
	return last
}

// checkVectors checks that acknowledged writes are stored, that each write is whole, and that the index
// has the documents of the database.
func checkVectors(t *testing.T, s vector.Store, last map[int]int) {
	t.Helper()
	stored := make(map[string]vector.Document)
	for after := ""; ; {
		page, err := s.(vector.Lister).List(t.Context(), testCollection, vector.ListParams{After: after, Limit: 1000})
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, d := range page {
			stored[d.ID], after = d, d.ID
		}
	}
	for g, n := range last {
		for first := max(0, n-20); first <= n; first++ {
			checkVectorWrite(t, stored, g, first)
		}
	}
	all, err := s.Collections(t.Context(), testCollection.Owner)
	must(t, err)
	if all[0].Documents != int64(len(stored)) {
		t.Errorf("the collection has %d documents, List returns %d", all[0].Documents, len(stored))
	}
	for _, exact := range []bool{false, true} {
		found := searchIDs(t, s, vector.SearchParams{Limit: 1000, Exact: exact}, slices.Repeat([]float32{1}, 24))
		if want := min(1000, len(stored)); len(found) != want {
			t.Errorf("Search() returns %d documents, want %d", len(found), want)
		}
		for _, id := range found {
			if _, ok := stored[id]; !ok {
				t.Errorf("Search() returns %s, which is not stored", id)
			}
		}
	}
}

// checkVectorWrite checks the documents of an acknowledged write, which the next one may have changed.
func checkVectorWrite(t *testing.T, stored map[string]vector.Document, g, n int) {
	t.Helper()
	var versions []float64
	for i, want := range randomDocuments(rand.New(rand.NewPCG(uint64(g), uint64(n))), 10, g*1000+n%40*10) {
		d, ok := stored[want.ID]
		if n%3 == 2 {
			if i < 5 && ok {
				t.Errorf("document %s of write %d was deleted, but is stored", want.ID, n)
			}
			continue
		}
		if !ok {
			t.Errorf("document %s of write %d is missing", want.ID, n)
			continue
		}
		versions = append(versions, d.Metadata["write"].(float64))
		if versions[0] == float64(n) && !slices.Equal(d.Embedding, want.Embedding) {
			t.Errorf("document %s of write %d has another embedding", want.ID, n)
		}
	}
	if len(versions) > 0 && (slices.Min(versions) != slices.Max(versions)) {
		t.Errorf("write %d of %d is not whole: %v", n, g, versions)
	}
}

// A process may end after it has deleted a collection and before it has removed the rows.
func TestInterruptedDeletionContinues(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	v := s.Vectors(vector.Config{}).(*vectorStore)
	k := vector.Key{Owner: "owner", Collection: "collection"}
	_, err := v.Add(t.Context(), k, vector.WriteParams{Documents: []vector.Document{{ID: "a", Embedding: []float32{1}}}})
	must(t, err)
	_, err = v.drop(t.Context(), k)
	must(t, err)
	must(t, s.Close())
	s = open(t, Config{Dir: s.cfg.Dir})
	await.True(t, "the documents are removed", func() bool {
		rows := 0
		must(t, s.kit.Read(t.Context(), func(q sqlkit.Querier) error {
			rows = 0
			return q.Query(`SELECT id FROM {s}.vector_documents UNION ALL SELECT owner FROM {s}.vector_deleted`, func(sqlkit.Row) error {
				rows++
				return nil
			})
		}))
		return rows == 0
	})
}
