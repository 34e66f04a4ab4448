//go:build services

package postgres

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// filterScalars are values that differ in one respect, such as the type, or are close to each other.
var filterScalars = []any{
	nil, true, false, "", "a", "b", "ab", "A", "ä", "é", "\U0001f600", "\uffff", "1", "true", "a.b", `\`, `"`, "%", "_", "a\x00", "\x00", "\x00\x00", "\x01", "\x02",
	"\x01\x02", "a\x00b", "\x02\x01", 0, 1, -1, 1.5, 0.1, 1e-7, 5e-324, 1e300, math.MaxFloat64, math.Copysign(0, -1), 9007199254740992.0, int64(9007199254740993),
	int64(math.MaxInt64), 9.223372036854775807e18, uint64(math.MaxUint64), json.Number("1e400"), json.Number("100000000000000000000000"), 1e23,
	json.Number("0.1000000000000000055"), json.Number("1.0"),
}

var filterNames = []string{"a", "b", "a.b", "0", `\`, "\x00", "x y", "é"}

func randomScalar(r *rand.Rand) any { return filterScalars[r.IntN(len(filterScalars))] }

func randomMetadata(r *rand.Rand, depth int) map[string]any {
	m := make(map[string]any)
	for range r.IntN(4) {
		m[filterNames[r.IntN(len(filterNames))]] = randomMember(r, depth)
	}
	return m
}

func randomMember(r *rand.Rand, depth int) any {
	switch n := r.IntN(6); {
	case n == 0 && depth > 0:
		return randomMetadata(r, depth-1)
	case n == 1 && depth > 0:
		all := make([]any, r.IntN(4))
		for i := range all {
			all[i] = randomMember(r, depth-1)
		}
		return all
	}
	return randomScalar(r)
}

// randomOperand returns a scalar that an operator accepts.
func randomOperand(r *rand.Rand, op filter.Op) any {
	for {
		v := randomScalar(r)
		if op == filter.OpExists {
			return nil
		}
		if (filter.Filter{Op: op, Path: "a", Value: v}).Check() == nil {
			return v
		}
	}
}

func randomFilter(r *rand.Rand, depth int) filter.Filter {
	if depth > 0 && r.IntN(2) == 0 {
		f := filter.Filter{Op: []filter.Op{filter.OpAnd, filter.OpOr, filter.OpNot}[r.IntN(3)]}
		n := r.IntN(4)
		if f.Op == filter.OpNot {
			n = 1
		}
		for range n {
			f.Filters = append(f.Filters, randomFilter(r, depth-1))
		}
		return f
	}
	var path []string
	for range 1 + r.IntN(2) {
		path = append(path, strings.NewReplacer(`\`, `\\`, ".", `\.`).Replace(filterNames[r.IntN(len(filterNames))]))
	}
	f := filter.Filter{Path: strings.Join(path, "."), Op: []filter.Op{
		filter.OpEq, filter.OpNe, filter.OpGt, filter.OpGte, filter.OpLt, filter.OpLte, filter.OpIn, filter.OpNotIn, filter.OpExists, filter.OpContains, filter.OpStartsWith,
	}[r.IntN(11)]}
	if f.Op == filter.OpIn || f.Op == filter.OpNotIn {
		for range r.IntN(4) {
			f.Values = append(f.Values, randomOperand(r, filter.OpEq))
		}
		return f
	}
	f.Value = randomOperand(r, f.Op)
	return f
}

// The conditions in SQL select the documents that filter.Match does, and the part of a filter that an
// index evaluates selects at least these.
func TestFiltersSelectAsInMemory(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{Vectors: true}))
	v := s.Vectors(vector.Config{}).(*vectorStore)
	k := vector.Key{Owner: "owner", Collection: "default"}
	documents := make([]vector.Document, 600)
	for i := range documents {
		documents[i] = vector.Document{ID: fmt.Sprint(i), Embedding: []float32{1}, Metadata: randomMetadata(r, 3)}
	}
	_, err := v.Add(t.Context(), k, vector.WriteParams{Documents: documents})
	must(t, err)
	c, err := v.collection(t.Context(), k)
	must(t, err)
	stored := make([]map[string]any, len(documents))
	for i, d := range documents {
		text, err := jsonobject.Encode(d.Metadata, 1<<16, 32)
		must(t, err)
		stored[i] = jsonobject.Decode(text)
	}
	trees := 1500
	if testing.Short() {
		trees = 300
	}
	matches := 0
	for range trees {
		f := randomFilter(r, 3)
		must(t, f.Check())
		want := map[string]bool{}
		for i, m := range stored {
			if f.Match(m) {
				want[fmt.Sprint(i)] = true
			}
		}
		matches += len(want)
		if got := selected(t, v, k, c, &f); !slices.Equal(got, sortedIDs(want)) {
			text, _ := json.Marshal(f)
			t.Fatalf("filter %s selects %v, want %v", text, got, sortedIDs(want))
		}
		if part := indexed(&f); part != nil {
			got := selected(t, v, k, c, part)
			for _, id := range got {
				delete(want, id)
			}
			if len(want) > 0 {
				text, _ := json.Marshal(f)
				t.Fatalf("the indexed part of filter %s does not select %v", text, sortedIDs(want))
			}
		}
	}
	t.Logf("%d filters select %d documents on average", trees, matches/trees)
}

func sortedIDs(m map[string]bool) []string {
	all := make([]string, 0, len(m))
	for key := range m {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// selected returns the ids of the documents that a condition in SQL selects.
func selected(t *testing.T, v *vectorStore, k vector.Key, c *collectionRow, f *filter.Filter) []string {
	t.Helper()
	search := &vectorSearch{kit: v.kit, k: k, c: c, exact: true}
	b := search.filter()
	condition, err := b.condition(f)
	must(t, err)
	var ids []string
	null := 0
	find := search.call(`SELECT d.id, (`+condition+`) IS NULL FROM {s}.vector_documents d WHERE`+whereDocuments+` AND (`+condition+`) IS NOT FALSE`, b.args)
	find.row = func(r record) {
		ids = append(ids, r.text(0))
		null += int(r.int(1))
	}
	if err := search.transact(t.Context(), find); err != nil {
		t.Fatalf("%s %v: %v", condition, b.args, err)
	}
	if null > 0 {
		t.Fatalf("%s is null for %d documents", condition, null)
	}
	slices.Sort(ids)
	return ids
}

func TestUnknownOperatorsAreRejected(t *testing.T) {
	t.Parallel()
	_, err := (&sqlFilter{}).condition(&filter.Filter{Op: "near", Path: "a"})
	if want := `vector: filter: op: "near" is not supported by this store`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("condition() = %v, want %q", err, want)
	}
}
