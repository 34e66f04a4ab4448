package transfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/cli/transfer"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphs"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	longterm "github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/documents"
)

// parts is a store with the parts that agents keep data in.
type parts interface {
	store.Store
	sqlkit.Source
	Vectors(cfg vector.Config) vector.Store
}

// kept are the stores of contracts.
type kept struct {
	History   history.Provider
	Facts     longterm.LongTermStore
	Documents vector.Store
	Graphs    graph.Store
	Blobs     blob.Store
	State     longterm.ShortTerm
}

// Stores returns the stores that are not nil.
func (k *kept) Stores() []contract.Store {
	all := []contract.Store{transcripts.Of(k.History), facts.Of(k.Facts), documents.Of(k.Documents), graphs.Of(k.Graphs), blobs.Of(k.Blobs), states.Of(k.State)}
	return slices.DeleteFunc(all, func(s contract.Store) bool { return s == nil })
}

func keptOf(s parts) kept {
	return kept{History: historysql.Of(s), Facts: memorysql.Of(s, longterm.LongTermConfig{}), Blobs: blobsql.Of(s, blob.Config{}), Documents: s.Vectors(vector.Config{}), Graphs: graphsql.Of(s, nil)}
}

func storesOf(s parts) []contract.Store {
	k := keptOf(s)
	return k.Stores()
}

func newMemory(t *testing.T) parts {
	s := inmem.New()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newSQLite(t *testing.T) parts {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// fillKept stores transcripts with gaps, facts with versions, and blobs of several sizes.
func fillKept(t *testing.T, k kept, owner string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, session := range []string{"s1", "s2"} {
		key := history.Key{Owner: owner, Agent: "a", Session: session}
		for i := range 7 {
			body := fmt.Sprintf(`{"text": "m%d \u00e9", "n": 12345678901234567890}`, i)
			if i == 3 {
				body = "[1,\n 2]"
			}
			_, err := k.History.Append(t.Context(), key, history.AppendParams{
				Messages: []history.Message{{Role: "user", Body: json.RawMessage(body), ToolCalls: []string{fmt.Sprint("call", i)}}}, Run: fmt.Sprint("r", i/2), TTL: 24 * time.Hour,
			})
			must(err)
		}
		_, err := k.History.ClearRun(t.Context(), key, "r1", 0)
		must(err)
	}
	scope := longterm.Scope{Owner: owner, Namespace: "users/ravi", Agent: "a"}
	id, err := k.Facts.Save(t.Context(), scope, "lives in Lisbon", longterm.SaveParams{Key: "home", Metadata: map[string]any{"big": json.Number("9007199254740993"), "snake_case": true}})
	must(err)
	_, err = k.Facts.Update(t.Context(), scope, id, longterm.UpdateParams{Content: "lives in Porto"})
	must(err)
	_, err = k.Facts.Save(t.Context(), scope, "likes tea", longterm.SaveParams{TTL: time.Hour})
	must(err)
	for n := range 130 {
		embedded := vector.Document{ID: fmt.Sprint("d", n), Text: "text\n", Embedding: []float32{0.1, float32(n) + 1e-7}, Metadata: map[string]any{"big": json.Number("9007199254740993"), "snake_case": n}, Blocks: []byte("[1,\n2]")}
		_, err := k.Documents.Add(t.Context(), vector.Key{Owner: owner, Collection: "embedded"}, vector.WriteParams{Documents: []vector.Document{embedded}, Metric: vector.L2, Embedder: "model"})
		must(err)
	}
	_, err = k.Documents.Add(t.Context(), vector.Key{Owner: owner}, vector.WriteParams{Documents: []vector.Document{{ID: "words", Text: "found by words"}}})
	must(err)
	fillGraphs(t, k, owner, 20)
	for i, size := range []int{0, 3, 192 << 10, 500_000} {
		p := blob.PutParams{Owner: owner, Name: fmt.Sprint("file ", i), ContentType: "text/plain"}
		if i%2 == 1 {
			p.Holder = "run/t1"
		}
		_, err := k.Blobs.Put(t.Context(), strings.NewReader(strings.Repeat("x", size)), p)
		must(err)
	}
}

// fillGraphs stores two graphs, one of some size and with versions of relationships.
func fillGraphs(t *testing.T, k kept, owner string, size int) {
	t.Helper()
	write := func(name string, b graph.Batch) {
		t.Helper()
		if _, err := k.Graphs.Write(t.Context(), graph.Key{Owner: owner, Graph: name}, b); err != nil {
			t.Fatal(err)
		}
	}
	properties := map[string]any{"name": "Ravi <&>", "big": json.Number("9007199254740993"), "snake_case": []any{1.5, nil, "\n"}}
	var b graph.Batch
	for n := range size {
		b.Entities = append(b.Entities, graph.Entity{ID: fmt.Sprint("e", n), Label: "Person", Properties: properties})
		b.Relationships = append(b.Relationships, graph.Relationship{ID: fmt.Sprint("r", n), Source: fmt.Sprint("e", n), Target: fmt.Sprint("e", n*7%size), Type: "knows"})
	}
	write("", b)
	from := time.Date(2020, 1, 2, 3, 4, 5, 6e6, time.UTC)
	write("", graph.Batch{Relationships: []graph.Relationship{{ID: "r1", Source: "e1", Target: "e7", Type: "knows", ValidFrom: from, Properties: properties}}})
	write("", graph.Batch{Ends: []graph.End{{ID: "r1", At: from.AddDate(1, 0, 0)}, {ID: "r2"}}})
	write("places", graph.Batch{Entities: []graph.Entity{{ID: "e1", Label: "City"}}, Relationships: []graph.Relationship{{ID: "r1", Source: "e1", Target: "e1", Type: "near"}}})
}

func exportKept(t *testing.T, k kept, owner string) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := transfer.ExportKept(t.Context(), &out, k.Stores(), owner); err != nil {
		t.Fatalf("ExportKept() = %v", err)
	}
	return out.String()
}

// withoutSum returns a document without its last line, which has the checksum.
func withoutSum(document string) string {
	lines := strings.Split(strings.TrimSuffix(document, "\n"), "\n")
	return strings.Join(lines[:len(lines)-1], "\n")
}

// An export of an import equals the first export, whatever the backends are.
func TestKeptDataIsTransferredBetweenBackends(t *testing.T) {
	t.Parallel()
	for name, open := range map[string][2]func(*testing.T) parts{
		"memory to SQLite": {newMemory, newSQLite}, "SQLite to memory": {newSQLite, newMemory}, "SQLite to SQLite": {newSQLite, newSQLite},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, target := open[0](t), open[1](t)
			fillKept(t, keptOf(source), "alice")
			document := exportKept(t, keptOf(source), "alice")
			want := contract.Counts{"sessions": 2, "messages": 10, "facts": 2, "documents": 131, "entities": 21, "relationships": 21, "blobs": 4}
			for _, written := range []contract.Counts{want, {}} {
				report, err := transfer.Import(t.Context(), strings.NewReader(document), target, transfer.ImportOptions{Contracts: storesOf(target)})
				if err != nil || !maps.Equal(report.Document, want) || !maps.Equal(report.Written, written) {
					t.Fatalf("Import() = %+v, %v, want %+v of %+v", report, err, written, want)
				}
			}
			if again := exportKept(t, keptOf(target), "alice"); again != document {
				t.Errorf("ExportKept() of the import differs:\n%s\nwant:\n%s", again, document)
			}
			opts := transfer.ImportOptions{Contracts: storesOf(target), Owner: "bob"}
			if report, err := transfer.Import(t.Context(), strings.NewReader(document), target, opts); err != nil || !maps.Equal(report.Written, want) {
				t.Fatalf("Import() for another owner = %+v, %v", report, err)
			}
			got := strings.Replace(withoutSum(exportKept(t, keptOf(target), "bob")), `"owner":"bob"`, `"owner":"alice"`, 1)
			if got != withoutSum(document) {
				t.Errorf("ExportKept() of another owner differs")
			}
		})
	}
}

func TestNothingKeptIsNoDocument(t *testing.T) {
	t.Parallel()
	if document := exportKept(t, keptOf(newMemory(t)), "alice"); document != "" {
		t.Errorf("ExportKept() = %q, want nothing", document)
	}
}

func TestKeptDataThatDiffersIsAConflict(t *testing.T) {
	t.Parallel()
	source := newMemory(t)
	fillKept(t, keptOf(source), "alice")
	document := exportKept(t, keptOf(source), "alice")
	for name, tt := range map[string]struct {
		change func(k kept) error
		want   string
	}{
		"a message": {func(k kept) error {
			key := history.Key{Owner: "alice", Agent: "a", Session: "s2"}
			_, err := k.History.Append(t.Context(), key, history.AppendParams{Messages: []history.Message{{Body: json.RawMessage("1")}}})
			return err
		}, `session "s2" of agent "a" exists and differs from the document at message 1`},
		"a fact": {func(k kept) error {
			page, err := memorysql.Of(source, longterm.LongTermConfig{}).(longterm.Lister).Facts(t.Context(), longterm.FactQuery{Owner: "alice"})
			if err != nil {
				return err
			}
			m := page.Facts[1]
			m.Version, m.Content = 1, "something else"
			return k.Facts.(longterm.Restorer).Restore(t.Context(), []longterm.Memory{m})
		}, "exists and differs from the document"},
		"a document": {func(k kept) error {
			_, err := k.Documents.Add(t.Context(), vector.Key{Owner: "alice"}, vector.WriteParams{Documents: []vector.Document{{ID: "words", Text: "other words"}}})
			return err
		}, `document "words" of collection "default" exists and differs`},
		"a collection": {func(k kept) error {
			_, err := k.Documents.Add(t.Context(), vector.Key{Owner: "alice", Collection: "embedded"}, vector.WriteParams{Documents: []vector.Document{{ID: "x", Embedding: []float32{1}}}})
			return err
		}, `collection "embedded" exists with another metric, dimension or embedder`},
		"an entity": {func(k kept) error {
			_, err := k.Graphs.AddEntities(t.Context(), graph.Key{Owner: "alice"}, []graph.Entity{{ID: "e19", Label: "Person"}})
			return err
		}, `entity "e19" of graph "default" exists and differs`},
		"a relationship": {func(k kept) error {
			_, err := k.Graphs.Write(t.Context(), graph.Key{Owner: "alice", Graph: "places"}, graph.Batch{
				Entities: []graph.Entity{{ID: "e1", Label: "City"}}, Relationships: []graph.Relationship{{ID: "r1", Source: "e1", Target: "e1", Type: "far"}},
			})
			return err
		}, `relationship "r1" of graph "places" exists and differs`},
		"a blob": {func(k kept) error {
			page, err := blobsql.Of(source, blob.Config{}).List(t.Context(), blob.ListParams{Owner: "alice"})
			if err != nil {
				return err
			}
			b := page.Blobs[1]
			b.Size, b.Digest = 3, blob.Sum([]byte("abc"))
			return k.Blobs.(blob.Restorer).Restore(t.Context(), "alice", b, strings.NewReader("abc"))
		}, "exists with other content"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := newMemory(t)
			if err := tt.change(keptOf(target)); err != nil {
				t.Fatal(err)
			}
			before := exportKept(t, keptOf(target), "alice")
			_, err := transfer.Import(t.Context(), strings.NewReader(document), target, transfer.ImportOptions{Contracts: storesOf(target)})
			if a2a.CodeOf(err) != a2a.CodeConflict || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Import() = %v, want conflict and %q", err, tt.want)
			}
			if after := exportKept(t, keptOf(target), "alice"); after != before {
				t.Errorf("a rejected import has changed the store")
			}
		})
	}
}

func TestDamagedKeptDataIsRejected(t *testing.T) {
	t.Parallel()
	source := newMemory(t)
	fillKept(t, keptOf(source), "alice")
	lines := strings.SplitAfter(exportKept(t, keptOf(source), "alice"), "\n")
	lines = lines[:len(lines)-1]
	find := func(kind string) int {
		return slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"type":"`+kind+`"`) })
	}
	chunk := find("chunk")
	for name, tt := range map[string]struct {
		change func(l []string) []string
		want   string
	}{
		"a missing message":  {func(l []string) []string { return slices.Delete(l, 3, 4) }, "lines.message is "},
		"a repeated message": {func(l []string) []string { return slices.Insert(l, 3, l[3]) }, "message 1 follows message 1"},
		"a missing chunk":    {func(l []string) []string { return slices.Delete(l, chunk, chunk+1) }, "has 0 bytes, want "},
		"a repeated chunk":   {func(l []string) []string { return slices.Insert(l, chunk, l[chunk]) }, "has more than "},
		"a changed chunk":    {func(l []string) []string { l[chunk] = strings.Replace(l[chunk], "eHh4", "eHh5", 1); return l }, "does not match its sha256"},
		"no versions": {func(l []string) []string {
			i := find("fact")
			l[i] = l[i][:strings.Index(l[i], `"versions"`)] + "\"versions\":[]}\n"
			return l
		}, "versions: must not be empty"},
		"a session first":     {func(l []string) []string { return slices.Delete(l, 1, 2) }, "type is session, want context"},
		"no agent":            {func(l []string) []string { l[2] = strings.Replace(l[2], `"agent":"a"`, `"agent":""`, 1); return l }, "agent: must not be empty"},
		"a message of a fact": {func(l []string) []string { i := find("fact"); return slices.Insert(l, i+1, l[3]) }, "type is message, want fact"},
		"a document of another dimension": {func(l []string) []string {
			i := find("document")
			l[i] = strings.Replace(l[i], `"collection":"default"`, `"collection":""`, 1)
			l[i+1] = strings.Replace(l[i+1], `"embedding":"`, `"embedding":"AA`, 1)
			return l
		}, "embedding"},
		"a missing document":      {func(l []string) []string { i := find("document"); return slices.Delete(l, i, i+1) }, "lines.document is "},
		"a missing entity":        {func(l []string) []string { i := find("entity"); return slices.Delete(l, i, i+1) }, "source is \"e0\", must be an entity of the graph on a line before"},
		"a repeated entity":       {func(l []string) []string { i := find("entity"); return slices.Insert(l, i, l[i]) }, "entity \"e0\" of graph \"default\" is repeated"},
		"a missing relationship":  {func(l []string) []string { i := find("relationship"); return slices.Delete(l, i, i+1) }, "lines.relationship is "},
		"a repeated relationship": {func(l []string) []string { i := find("relationship"); return slices.Insert(l, i, l[i]) }, "relationship \"r0\" follows relationship \"r0\""},
		"a wrong version": {func(l []string) []string {
			i := find("relationship")
			l[i] = strings.Replace(l[i], `"version":1`, `"version":2`, 1)
			return l
		}, "version: is 2, want 1"},
		"a wrong label": {func(l []string) []string {
			i := find("entity")
			l[i] = strings.Replace(l[i], `"label":"`, `"label":"1`, 1)
			return l
		}, "label: is \"1Person\""},
		"a graph twice": {func(l []string) []string {
			i := find("blob")
			return slices.Insert(l, i, strings.Replace(l[find("entity")], `"e0"`, `"new"`, 1))
		}, "graph is \"default\", must not follow \"places\""},
		"a wrong ref": {func(l []string) []string {
			i := find("blob")
			l[i] = strings.Replace(l[i], `"sha256":"`, `"sha256":"x`, 1)
			return l
		}, "sha256 must be 64 hexadecimal digits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := newMemory(t)
			document := fixSum(tt.change(slices.Clone(lines)))
			_, err := transfer.Import(t.Context(), strings.NewReader(document), target, transfer.ImportOptions{Contracts: storesOf(target)})
			if a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Import() = %v, want invalid_params and %q", err, tt.want)
			}
			if left := exportKept(t, keptOf(target), "alice"); left != "" {
				t.Errorf("a rejected import has stored %s", left)
			}
		})
	}
}

// failing is a store of transcripts, facts and blobs. Its nth write fails.
type failing struct {
	history.Provider
	history.SessionLister
	history.Restorer
	left *int
}

var errFault = errors.New("fault")

func (f *failing) fault() error {
	if *f.left--; *f.left == 0 {
		return errFault
	}
	return nil
}

func (f *failing) Restore(ctx context.Context, s history.Session, m []history.Message) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.Restorer.Restore(ctx, s, m)
}

type failingBlobs struct {
	blob.Store
	blob.Restorer
	f *failing
}

func (b *failingBlobs) Restore(ctx context.Context, owner string, info blob.Info, r io.Reader) error {
	if err := b.f.fault(); err != nil {
		return err
	}
	return b.Restorer.Restore(ctx, owner, info, r)
}

type failingGraphs struct {
	graph.Complete
	f *failing
}

func (g *failingGraphs) Restore(ctx context.Context, k graph.Key, entities []graph.Entity, versions []graph.Relationship) error {
	if err := g.f.fault(); err != nil {
		return err
	}
	return g.Complete.Restore(ctx, k, entities, versions)
}

// growing is a store of graphs in which a relationship to a new entity appears after the entities were
// listed.
type growing struct{ graph.Complete }

func (g *growing) FindRelationships(ctx context.Context, k graph.Key, p graph.FindRelationshipParams) ([]graph.Relationship, error) {
	if p.After == "" {
		_, err := g.Write(ctx, k, graph.Batch{
			Entities: []graph.Entity{{ID: "a new one", Label: "Person"}}, Relationships: []graph.Relationship{{ID: "new", Source: "e1", Target: "a new one", Type: "knows"}},
		})
		if err != nil {
			return nil, err
		}
	}
	return g.Complete.FindRelationships(ctx, k, p)
}

func TestExportOfAGraphThatGrowsIsComplete(t *testing.T) {
	t.Parallel()
	source, target := newMemory(t), newMemory(t)
	fillGraphs(t, keptOf(source), "alice", graph.MaxWrite)
	document := exportKept(t, kept{Graphs: &growing{graphsql.Of(source, nil)}}, "alice")
	importDocument(t, target, document, transfer.ImportOptions{Contracts: storesOf(target)})
	if got, want := exportKept(t, keptOf(target), "alice"), exportKept(t, keptOf(source), "alice"); got != want {
		t.Errorf("the import differs from the source")
	}
}

func TestInterruptedImportOfKeptDataIsCompletedByAnother(t *testing.T) {
	t.Parallel()
	source := newMemory(t)
	fillKept(t, keptOf(source), "alice")
	document := exportKept(t, keptOf(source), "alice")
	for n := 1; ; n++ {
		target := newMemory(t)
		k, left := keptOf(target), n
		f := &failing{k.History, k.History.(history.SessionLister), k.History.(history.Restorer), &left}
		faulty := kept{History: f, Facts: k.Facts, Documents: k.Documents, Graphs: &failingGraphs{k.Graphs.(graph.Complete), f}, Blobs: &failingBlobs{k.Blobs, k.Blobs.(blob.Restorer), f}}
		_, err := transfer.Import(t.Context(), strings.NewReader(document), target, transfer.ImportOptions{Contracts: faulty.Stores()})
		if err != nil && !errors.Is(err, errFault) {
			t.Fatalf("Import() with fault %d = %v", n, err)
		}
		if _, again := transfer.Import(t.Context(), strings.NewReader(document), target, transfer.ImportOptions{Contracts: k.Stores()}); again != nil {
			t.Fatalf("Import() again after fault %d = %v", n, again)
		}
		if got := exportKept(t, k, "alice"); got != document {
			t.Errorf("after fault %d the store differs from the document", n)
		}
		if err == nil {
			return
		}
	}
}

// plain is a store of transcripts that cannot restore sequences.
type plain struct {
	history.Provider
	history.SessionLister
}

func TestTranscriptsAreAppendedWhereTheyCannotBeRestored(t *testing.T) {
	t.Parallel()
	source, target := newMemory(t), newMemory(t)
	fillKept(t, keptOf(source), "alice")
	document := exportKept(t, keptOf(source), "alice")
	k := keptOf(target)
	k.History = plain{k.History, k.History.(history.SessionLister)}
	report, err := transfer.Import(t.Context(), strings.NewReader(document), target, transfer.ImportOptions{Contracts: k.Stores()})
	if err != nil || report.Written["messages"] != 10 || len(report.Notes) != 2 || !strings.Contains(report.Notes[0], "other sequences") {
		t.Errorf("Import() = %+v, %v, want 10 messages and a note per session", report, err)
	}
	report, err = transfer.Import(t.Context(), strings.NewReader(document), target, transfer.ImportOptions{Contracts: k.Stores()})
	if err != nil || report.Written["messages"] != 0 || len(report.Notes) != 2 || !strings.Contains(report.Notes[0], "was left as it is") {
		t.Errorf("Import() again = %+v, %v, want nothing written and notes", report, err)
	}
	if _, err := transfer.Import(t.Context(), strings.NewReader(document), target, transfer.ImportOptions{}); a2a.CodeOf(err) != a2a.CodeUnsupported {
		t.Errorf("Import() without stores = %v, want unsupported", err)
	}
}

func TestStatesOfAnotherStoreAreTransferred(t *testing.T) {
	t.Parallel()
	states := func(s store.Store) *longterm.ShortTermRecords {
		m, err := longterm.NewShortTerm(longterm.ShortTermConfig{Records: store.NewUpdater(s)})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	key := longterm.Key{Owner: "alice", Agent: "a", Session: "s"}
	values := map[string]any{"n": json.Number("12345678901234567890"), "t": "x"}
	elsewhere := states(memory(t))
	if _, err := elsewhere.Set(t.Context(), key, values, longterm.AnyVersion); err != nil {
		t.Fatal(err)
	}
	document := exportKept(t, kept{State: elsewhere}, "alice")
	// To the records of a store, and from these to another store.
	target := memory(t)
	importDocument(t, target, document, transfer.ImportOptions{})
	if got, err := states(target).Get(t.Context(), key); err != nil || fmt.Sprint(got.Values) != fmt.Sprint(values) {
		t.Errorf("Get() = %+v, %v, want %v", got, err, values)
	}
	moved := states(memory(t))
	report := importDocument(t, memory(t), exportAll(t, target), transfer.ImportOptions{Contracts: (&kept{State: moved}).Stores()})
	if got, err := moved.Get(t.Context(), key); err != nil || fmt.Sprint(got.Values) != fmt.Sprint(values) || report.Written["states"] != 1 {
		t.Errorf("Get() = %+v, %v, want %v; report: %+v", got, err, values, report)
	}
}

// A blob of a task that the target lacks expires, since nothing would unpin it.
func TestImportDropsHoldersThatDoNotExist(t *testing.T) {
	t.Parallel()
	source, target := newMemory(t), newMemory(t)
	createDone(t, target, "t1", 0)
	createDone(t, target, "a/b", 5)
	holders := map[string]bool{"task/t1": true, "task/t1/1700000000000": true, "task/a/b": true, "run/x": true, "task/gone": false, "task/gone/1700000000000": false}
	refs := make(map[string]string)
	for holder := range holders {
		info, err := blobsql.Of(source, blob.Config{}).Put(t.Context(), strings.NewReader(holder), blob.PutParams{Owner: "alice", Holder: holder, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		refs[holder] = info.Ref
	}
	if err := blobsql.Of(source, blob.Config{}).Pin(t.Context(), "alice", refs["task/t1"], "task/gone"); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Millisecond).UTC()
	opts := transfer.ImportOptions{Contracts: storesOf(target), Now: func() time.Time { return now }}
	importDocument(t, target, exportKept(t, keptOf(source), "alice"), opts)
	for holder, keeps := range holders {
		info, err := blobsql.Of(target, blob.Config{}).Stat(t.Context(), "alice", refs[holder])
		if err != nil {
			t.Fatal(err)
		}
		if keeps && (!slices.Equal(info.Holders, []string{holder}) || !info.Expires.IsZero()) || !keeps && (len(info.Holders) > 0 || !info.Expires.Equal(now.Add(time.Hour))) {
			t.Errorf("blob of %s has the holders %v and expires at %v", holder, info.Holders, info.Expires)
		}
	}
}
