//go:build services

package holdfast_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/redis"
	"github.com/holdfast-dev/holdfast/backend/s3"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// backendColumns are the backends of the table of contracts, in the order of its columns. A new
// backend is one line. A backend may be a zero value if its accessors need no server.
func backendColumns(t *testing.T) []backendColumn {
	t.Helper()
	return []backendColumn{
		{"memory", inmem.New()},
		{"SQLite", openForTable(sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()}))(t)},
		{"PostgreSQL", openForTable(postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t, pgtest.URL(t)), Migrate: true}))(t)},
		{"Redis", new(redis.Store)},
		{"S3", new(s3.Contents)},
	}
}

type backendColumn struct {
	name  string
	store any
}

// openForTable returns a function that closes an opened store with the test.
func openForTable[S interface{ Close() error }](s S, err error) func(t *testing.T) any {
	return func(t *testing.T) any {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
}

// implements returns a row that says which backends implement an interface. part returns the part
// of a backend for a contract, nil if it has none.
func implements[I any](label string, part func(backend any) any) contractRow {
	return contractRow{label, func(backend any) string {
		if _, ok := part(backend).(I); ok {
			return "yes"
		}
		return ""
	}}
}

// contractRow is a row of the table.
type contractRow struct {
	label string
	cell  func(backend any) string
}

func whole(backend any) any { return backend }

func transcriptPart(backend any) any {
	if h := historysql.Of(backend); h != nil {
		return h
	}
	if s, ok := backend.(interface{ History() history.Provider }); ok {
		return s.History()
	}
	return nil
}

func factPart(backend any) any {
	return memorysql.Of(backend, memory.LongTermConfig{})
}

func refs(backend any) any {
	return blobsql.RefsOf(backend)
}

// blobPart returns the type of the blobs of a backend.
func blobPart(backend any) any {
	if b := blobsql.Of(backend, blob.Config{}); b != nil {
		return b
	}
	if s, ok := backend.(interface {
		Blobs(cfg blob.Config) *blobdriver.Blobs
	}); ok {
		return s.Blobs(blob.Config{})
	}
	return nil
}

// vectorPart returns the documents of a backend.
func vectorPart(backend any) any {
	if s, ok := backend.(interface {
		Vectors(cfg vector.Config) vector.Store
	}); ok {
		return s.Vectors(vector.Config{})
	}
	return nil
}

// graphPart returns the graphs of a backend.
func graphPart(backend any) any {
	return graphsql.Of(backend, nil)
}

// statePart returns the states of a backend: a store of their own, or records.
func statePart(backend any) any {
	method, ok := reflect.TypeOf(backend).MethodByName("ShortTerm")
	if ok {
		return reflect.Zero(method.Type.Out(0)).Interface()
	}
	if _, ok := backend.(store.Records); ok {
		return (*memory.ShortTermRecords)(nil)
	}
	return nil
}

// boardPart returns the boards of a backend, which are records.
func boardPart(backend any) any {
	if _, ok := backend.(store.Records); ok {
		return (*board.Records)(nil)
	}
	return nil
}

func contractRows() []contractRow {
	return []contractRow{
		implements[store.Store]("**tasks, contexts, webhooks, records** (`store.Store`)", whole),
		implements[store.Watcher]("commits are announced to other processes (`store.Watcher`)", whole),
		implements[history.Provider]("**transcripts** (`history.Provider`)", transcriptPart),
		implements[history.Editor]("fork, rewind (`history.Editor`)", transcriptPart),
		implements[history.Pruner]("prune by policy (`history.Pruner`)", transcriptPart),
		implements[history.Searcher]("search (`history.Searcher`)", transcriptPart),
		implements[history.SessionLister]("list of sessions (`history.SessionLister`)", transcriptPart),
		implements[history.Restorer]("import (`history.Restorer`)", transcriptPart),
		implements[history.Transactional]("changes in the commit of a task (`history.Transactional`)", transcriptPart),
		implements[memory.ShortTerm]("**states of sessions** (`memory.ShortTerm`)", statePart),
		implements[memory.StateLister]("list of states (`memory.StateLister`)", statePart),
		implements[memory.OnceUpdater]("changes with an idempotency key (`memory.OnceUpdater`)", statePart),
		implements[memory.LongTerm]("**facts** (`memory.LongTerm`)", factPart),
		implements[memory.Editor]("correct and supersede (`memory.Editor`)", factPart),
		implements[memory.Historian]("history of a fact, reads as of a time (`memory.Historian`)", factPart),
		implements[memory.NamespaceLister]("list of namespaces (`memory.NamespaceLister`)", factPart),
		implements[memory.Forgetter]("forget a subject (`memory.Forgetter`)", factPart),
		implements[memory.Expirer]("expiry (`memory.Expirer`)", factPart),
		implements[memory.Lister]("export (`memory.Lister`)", factPart),
		implements[memory.Restorer]("import (`memory.Restorer`)", factPart),
		implements[memory.Transactional]("changes in the commit of a task (`memory.Transactional`)", factPart),
		implements[board.Store]("**boards** (`board.Store`)", boardPart),
		implements[board.Lister]("list of boards (`board.Lister`)", boardPart),
		implements[vector.Store]("**documents** (`vector.Store`)", vectorPart),
		implements[vector.Lister]("export (`vector.Lister`)", vectorPart),
		implements[vector.Forgetter]("forget a principal (`vector.Forgetter`)", vectorPart),
		implements[vector.Transactional]("changes in the commit of a task (`vector.Transactional`)", vectorPart),
		implements[graph.Store]("**graphs** (`graph.Store`)", graphPart),
		implements[graph.Historian]("history of relationships (`graph.Historian`)", graphPart),
		implements[graph.Lister]("list of graphs (`graph.Lister`)", graphPart),
		implements[graph.Forgetter]("forget a principal (`graph.Forgetter`)", graphPart),
		implements[graph.Restorer]("import (`graph.Restorer`)", graphPart),
		implements[graph.Transactional]("changes in the commit of a task (`graph.Transactional`)", graphPart),
		implements[blob.Store]("**blobs** (`blob.Store`)", blobPart),
		implements[blob.Maintenance]("expiry, removal of orphans (`blob.Maintenance`)", blobPart),
		implements[blob.Restorer]("import (`blob.Restorer`)", blobPart),
		implements[blobdriver.Refs]("refs, for contents in another system (`blobdriver.Refs`)", refs),
		implements[blobdriver.TransactionalRefs]("pins in the commit of a task (`blobdriver.TransactionalRefs`)", refs),
		implements[blobdriver.Contents]("contents, for refs in another system (`blobdriver.Contents`)", whole),
	}
}

// TestBackendsPageHasTheTableOfContracts compares the table of contracts in docs/backends.md with the
// interfaces that the backends implement. -update rewrites it.
func TestBackendsPageHasTheTableOfContracts(t *testing.T) {
	t.Parallel()
	columns := backendColumns(t)
	var table strings.Builder
	table.WriteString("| |")
	for _, c := range columns {
		table.WriteString(" " + c.name + " |")
	}
	table.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, r := range contractRows() {
		table.WriteString("| " + r.label + " |")
		for _, c := range columns {
			table.WriteString(" " + r.cell(c.store) + strings.Repeat(" ", min(len(r.cell(c.store)), 1)) + "|")
		}
		table.WriteString("\n")
	}
	writeSection(t, "docs/backends.md", "contracts", table.String())
}

// TestBackendsPageMatchesDeclaredInfo compares the first table of docs/backends.md with the backends' Info.
func TestBackendsPageMatchesDeclaredInfo(t *testing.T) {
	t.Parallel()
	disk, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	yes := map[bool]string{true: "yes", false: "no"}
	processes := map[bool]string{true: "one", false: "many"}
	server := pgtest.URL(t)
	database, err := postgres.Open(t.Context(), postgres.Config{URL: server, Schema: pgtest.Schema(t, server), Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := database.Close(); err != nil {
			t.Error(err)
		}
	})
	memory, embedded, shared := inmem.New().Info(), disk.Info(), database.Info()
	page := read(t, "docs/backends.md")
	for _, row := range [][]string{
		{"survives the process", yes[memory.Durable], yes[embedded.Durable], yes[shared.Durable]},
		{"processes at a time", processes[memory.Exclusive], processes[embedded.Exclusive], processes[shared.Exclusive]},
	} {
		if line := "| " + strings.Join(row, " | ") + " |"; !strings.Contains(page, line) {
			t.Errorf("docs/backends.md has no row %s", line)
		}
	}
	entries, err := os.ReadDir("backend")
	if err != nil {
		t.Fatal(err)
	}
	parts := []string{"internal", "redis", "s3"} // not stores of tasks
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return slices.Contains(parts, e.Name()) })
	if len(entries) != 3 {
		t.Errorf("found %d backends, want the three of the table and of this test", len(entries))
	}
}
