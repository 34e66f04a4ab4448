//go:build services

package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
)

var vectorKey = vector.Key{Owner: "owner", Collection: "collection"}

// clustered returns n documents around random centers. Metadata n is the number of the document, and
// tenth and hundredth divide the documents.
func clustered(r *rand.Rand, n, dim int) []vector.Document {
	centers := make([][]float32, 1+n/50)
	for i := range centers {
		centers[i] = make([]float32, dim)
		for j := range centers[i] {
			centers[i][j] = float32(r.NormFloat64())
		}
	}
	all := make([]vector.Document, n)
	for i := range all {
		v := slices.Clone(centers[r.IntN(len(centers))])
		for j := range v {
			v[j] += float32(0.4 * r.NormFloat64())
		}
		all[i] = vector.Document{ID: fmt.Sprintf("%06d", i), Text: "text", Embedding: v, Metadata: map[string]any{"n": i, "tenth": r.IntN(10), "hundredth": r.IntN(100)}}
	}
	return all
}

func addAll(t *testing.T, v vector.Store, k vector.Key, p vector.WriteParams) {
	t.Helper()
	for part := range slices.Chunk(p.Documents, vector.MaxWrite) {
		_, err := v.Add(t.Context(), k, vector.WriteParams{Documents: part, Metric: p.Metric})
		must(t, err)
	}
}

func awaitIndex(t *testing.T, v *vectorStore, k vector.Key, want string) {
	t.Helper()
	await.True(t, "the collection has an index", func() bool {
		c, err := v.collection(t.Context(), k)
		must(t, err)
		return c.indexed == want
	})
}

// recallOf compares the results of searches with the results of exact ones.
func recallOf(t *testing.T, v vector.Store, k vector.Key, queries []vector.Document, f filter.Filter) float64 {
	t.Helper()
	p := vector.SearchParams{Limit: 10, Filter: f}
	for i := range queries {
		p.Queries = append(p.Queries, vector.Query{Embedding: queries[i].Embedding})
	}
	got, err := v.Search(t.Context(), k, p)
	must(t, err)
	p.Exact = true
	want, err := v.Search(t.Context(), k, p)
	must(t, err)
	found, all := 0, 0
	for i := range want {
		all += len(want[i].Hits)
		if len(got[i].Hits) != len(want[i].Hits) {
			t.Errorf("a search returns %d documents, want %d", len(got[i].Hits), len(want[i].Hits))
		}
		for _, h := range got[i].Hits {
			if slices.ContainsFunc(want[i].Hits, func(w vector.Hit) bool { return w.ID == h.ID && w.Score == h.Score }) {
				found++
			}
		}
	}
	if all == 0 {
		return 1
	}
	return float64(found) / float64(all)
}

func TestLargeCollectionsGetAnIndex(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, test := range []struct {
		metric vector.Metric
		dim    int
		half   bool
		want   string
	}{{vector.Cosine, 32, false, "vector"}, {vector.Dot, 32, true, "halfvec"}, {vector.L2, 32, false, "vector"}, {vector.Cosine, 2100, false, "halfvec"}} {
		t.Run(fmt.Sprintf("%s %d", test.metric, test.dim), func(t *testing.T) {
			t.Parallel()
			n, from := 1500, int64(1000)
			if test.dim > maxIndexed {
				n, from = 300, 200
			}
			documents := clustered(rand.New(rand.NewPCG(r.Uint64(), 0)), n+20, test.dim)
			documents, queries := documents[:n], documents[n:]
			s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{Vectors: true, HalfVectors: test.half, indexFrom: from, Logger: testLogger(t)}))
			v := s.Vectors(vector.Config{}).(*vectorStore)
			addAll(t, v, vectorKey, vector.WriteParams{Documents: documents, Metric: test.metric})
			awaitIndex(t, v, vectorKey, test.want)
			for name, f := range map[string]filter.Filter{
				"no filter": {}, "a tenth": filter.Eq("tenth", 3), "a hundredth": filter.Eq("hundredth", 3), "a tenth without index": filter.Lt("n", n/10),
				"few without index": filter.Lt("n", 7), "none": filter.Eq("tenth", 99),
			} {
				if got := recallOf(t, v, vectorKey, queries, f); got < 0.95 {
					t.Errorf("%s: recall is %.3f", name, got)
				}
			}
			if plan := explainSearch(t, v, vectorKey, queries[0].Embedding); !strings.Contains(plan, "vector_hnsw_") {
				t.Errorf("a search does not use the index:\n%s", plan)
			}
			if test.want == kindHalf {
				checkHalfLimits(t, v, test.dim)
			}
			_, err := v.DeleteCollection(t.Context(), vectorKey)
			must(t, err)
			await.True(t, "the indexes are dropped", func() bool {
				return countRows(t, s, `pg_indexes WHERE schemaname = $1 AND indexname ~ '_[0-9]{5,}$'`, s.cfg.Schema) == 0
			})
		})
	}
}

// checkHalfLimits checks components that half precision does not have.
func checkHalfLimits(t *testing.T, v *vectorStore, dim int) {
	t.Helper()
	large := make([]float32, dim)
	large[0] = 1e6
	p := vector.WriteParams{Documents: []vector.Document{{ID: "large", Embedding: large}}}
	if _, err := v.Upsert(t.Context(), vectorKey, p); a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(err.Error(), "documents[0].embedding") {
		t.Errorf("Upsert() of a large component = %v, want invalid_params", err)
	}
	if _, _, err := v.UpsertEffect(t.Context(), vectorKey, p); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("UpsertEffect() of a large component = %v, want invalid_params", err)
	}
	found, err := v.Search(t.Context(), vectorKey, vector.SearchParams{Queries: []vector.Query{{Embedding: large}}})
	if err != nil || len(found[0].Hits) != vector.DefaultLimit {
		t.Errorf("Search() with a large component = %+v, %v", found, err)
	}
}

// explainSearch returns the plan of a search with the index.
func explainSearch(t *testing.T, v *vectorStore, k vector.Key, embedding []float32) string {
	t.Helper()
	c, err := v.collection(t.Context(), k)
	must(t, err)
	search := &vectorSearch{kit: v.kit, k: k, c: c, p: &vector.SearchParams{Limit: 10}}
	search.add(embedding, nil)
	text, args, err := search.text(search.pending[0])
	must(t, err)
	explain := search.call("EXPLAIN (COSTS OFF) "+text, args)
	var plan strings.Builder
	explain.row = func(r record) { plan.WriteString(r.text(0) + "\n") }
	must(t, search.transact(t.Context(), explain))
	return plan.String()
}

// A replica that may not create indexes searches without one, and IndexVectors of the owner of the
// tables builds it. An index that a killed build left is repaired.
func TestOwnerOfTheTablesBuildsIndexes(t *testing.T) {
	t.Parallel()
	w := storetest.Wrap(t)
	cfg := emptyConfig(w, Config{Vectors: true})
	owner := open(w, cfg)
	role := cfg.Schema + "_agent"
	admin, err := pgx.Connect(bg, cfg.URL)
	must(t, err)
	for _, text := range []string{
		"CREATE ROLE " + role + " LOGIN", "GRANT USAGE ON SCHEMA " + cfg.Schema + " TO " + role,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + cfg.Schema + " TO " + role,
		"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA " + cfg.Schema + " TO " + role,
	} {
		_, err = admin.Exec(bg, text)
		must(t, err)
	}
	t.Cleanup(func() {
		_, _ = admin.Exec(bg, "DROP OWNED BY "+role+"; DROP ROLE "+role)
		_ = admin.Close(bg)
	})
	agent := cfg
	agent.Migrate, agent.indexFrom, agent.URL = false, 200, strings.Replace(cfg.URL, "//holdfast@", "//"+role+"@", 1)
	log := &logBuffer{}
	agent.Logger = log.logger()
	s := open(w, agent)
	v := s.Vectors(vector.Config{}).(*vectorStore)
	documents := clustered(rand.New(rand.NewPCG(1, 0)), 300, 8)
	addAll(t, v, vectorKey, vector.WriteParams{Documents: documents})
	await.True(t, "the missing privilege is logged", func() bool { return strings.Contains(log.String(), "must be owner of table") })
	if got := recallOf(t, v, vectorKey, documents[:20], filter.Filter{}); got != 1 {
		t.Errorf("recall without an index = %g, want 1", got)
	}
	c, err := v.collection(t.Context(), vectorKey)
	must(t, err)
	damaged := fmt.Sprintf("%s.vector_attributes_%d", cfg.Schema, c.id)
	_, err = admin.Exec(bg, fmt.Sprintf("CREATE INDEX vector_attributes_%d ON %s.vector_documents (id); UPDATE pg_index SET indisvalid = false WHERE indexrelid = '%s'::regclass", c.id, cfg.Schema, damaged))
	must(t, err)
	owner.vectors.cfg.indexFrom = 200
	must(t, owner.IndexVectors(bg))
	awaitIndex(t, v, vectorKey, "vector")
	var definition string
	must(t, admin.QueryRow(bg, "SELECT pg_get_indexdef('"+damaged+"'::regclass)").Scan(&definition))
	if !strings.Contains(definition, "USING gin") {
		t.Errorf("the damaged index is %s", definition)
	}
	if got := recallOf(t, v, vectorKey, documents[:20], filter.Filter{}); got < 0.95 {
		t.Errorf("recall = %g", got)
	}
}

// logBuffer keeps what a store logs.
type logBuffer struct {
	mu  sync.Mutex
	all strings.Builder
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(logWriter(func(s string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.all.WriteString(s)
	}), nil))
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

func TestOpenNeedsTheVectorExtension(t *testing.T) {
	t.Parallel()
	w := storetest.Wrap(t)
	cfg := freshConfig(w, Config{Vectors: true})
	name := cfg.Schema + "_db"
	admin, err := pgx.Connect(bg, cfg.URL)
	must(t, err)
	_, err = admin.Exec(bg, "CREATE DATABASE "+name)
	must(t, err)
	t.Cleanup(func() {
		_, _ = admin.Exec(bg, "DROP DATABASE "+name+" WITH (FORCE)")
		_ = admin.Close(bg)
	})
	cfg.URL = strings.Replace(cfg.URL, "/postgres?", "/"+name+"?", 1)
	plain := cfg
	plain.Vectors = false
	without := open(w, plain)
	if _, err := without.Vectors(vector.Config{}).Collections(bg, "owner"); !errors.Is(err, errNoVectors) {
		t.Errorf("Collections() = %v, want %v", err, errNoVectors)
	}
	if n, err := without.Vectors(vector.Config{}).(vector.Forgetter).ForgetOwner(bg, "owner"); n != 0 || err != nil {
		t.Errorf("ForgetOwner() = %d, %v, want 0", n, err)
	}
	cfg.Migrate = false
	_, err = Open(bg, cfg)
	if want := "extension vector is not in the database: install pgvector 0.8 or later"; !errors.Is(err, ErrVectorExtension) || !strings.Contains(err.Error(), want) {
		t.Errorf("Open() = %v, want %q", err, want)
	}
	all, err := Migrations(bg, cfg)
	must(t, err)
	if last := all[len(all)-1]; last.Name != "202611271000_documents" || !last.Applied.IsZero() || !strings.Contains(last.Script, "CREATE EXTENSION IF NOT EXISTS vector") {
		t.Errorf("the last migration is %+v", last)
	}
	cfg.Migrate = true
	s := open(w, cfg)
	_, err = s.Vectors(vector.Config{}).Add(bg, vectorKey, vector.WriteParams{Documents: []vector.Document{{ID: "a", Embedding: []float32{1}}}})
	must(t, err)
	if n, err := without.Vectors(vector.Config{}).(vector.Forgetter).ForgetOwner(bg, "owner"); n != 1 || err != nil {
		t.Errorf("ForgetOwner() of a replica without documents = %d, %v, want 1", n, err)
	}
}

func TestVersionsAreCompared(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"0.8.0": true, "0.8": true, "0.10.1": true, "1.0": true, "0.7.4": false, "0": false, "": false} {
		if got := atLeast(version, minVector); got != want {
			t.Errorf("atLeast(%q, %q) = %t", version, minVector, got)
		}
	}
}

// A process may end after it has deleted a collection and before it has removed the documents.
func TestInterruptedDeletionContinues(t *testing.T) {
	t.Parallel()
	w := storetest.Wrap(t)
	cfg := emptyConfig(w, Config{Vectors: true})
	s := open(w, cfg)
	v := s.Vectors(vector.Config{}).(*vectorStore)
	k := vector.Key{Owner: "owner", Collection: "collection"}
	_, err := v.Add(bg, k, vector.WriteParams{Documents: []vector.Document{{ID: "a", Embedding: []float32{1}}}})
	must(t, err)
	_, err = v.drop(bg, k)
	must(t, err)
	if n := countRows(t, s, `{s}.vector_documents`); n != 1 {
		t.Fatalf("%d documents before the start, want 1", n)
	}
	must(t, s.Close())
	s = open(w, cfg)
	await.True(t, "the documents are removed", func() bool {
		return countRows(t, s, `{s}.vector_documents`)+countRows(t, s, `{s}.vector_deleted`) == 0
	})
}
