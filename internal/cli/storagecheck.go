package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/redis"
	"github.com/holdfast-dev/holdfast/backend/s3"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobtest"
	"github.com/holdfast-dev/holdfast/store/board/boardtest"
	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historytest"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectortest"
)

// storageCmd has the commands for stores.
type storageCmd struct {
	Check storageCheckCmd `cmd:"" help:"Test a store with the conformance suites."`
}

type storageCheckCmd struct {
	URL   string   `arg:"" help:"URL of the store, as for --store-history, or the path of a SQLite data directory with a slash."`
	Suite []string `placeholder:"NAME" enum:"tasks,history,memory,documents,graphs,state,boards,blobs" help:"Only this suite: tasks, history, memory, documents, graphs, state, boards or blobs. Repeatable (default all that the store supports, except tasks)."`

	storageFlags
}

// suiteRunner runs a suite on fresh stores.
type suiteRunner struct {
	name string
	run  func(t storetest.T)
}

// Run tests a store.
func (c *storageCheckCmd) Run(ctx context.Context, a *app) error {
	one, err := a.storeToCheck(c.URL)
	if err != nil {
		return usagef("URL %s", strings.ReplaceAll(err.Error(), "\n", " and "))
	}
	p := &checkPlace{app: a, c: one, id: strings.ToLower(rand.Text()[:12])}
	runners, err := p.suites(ctx)
	if err != nil {
		return a.storeError("URL", c.URL, err)
	}
	var reports []suiteReport
	failed := false
	for _, r := range runners {
		switch off := r.name == "documents" && one.kind == "postgres" && !one.at.cfg.Vectors; {
		case len(c.Suite) > 0 && !slices.Contains(c.Suite, r.name), len(c.Suite) == 0 && r.name == "tasks":
			continue
		case len(c.Suite) == 0 && off:
			a.info("documents are not tested, because they are turned off (--postgres-vectors)")
			continue
		}
		a.info("testing %s ...", r.name)
		report := runSuite(ctx, r.name, r.run)
		failed = failed || len(report.Failed) > 0
		if reports = append(reports, report); !a.json {
			report.print(a)
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(reports) == 0:
		return usagef("--suite: %s has no such store", one.kind)
	case a.json:
		if err := a.writeResult(map[string]any{"url": maskURL(c.URL), "ok": !failed, "suites": reports}); err != nil {
			return err
		}
	}
	if failed {
		return exitStatus(exitFailure)
	}
	return nil
}

// print prints the result of a suite.
func (r *suiteReport) print(a *app) {
	a.out.line("%-8s %d passed, %d failed, %d skipped in %s", r.Suite, r.Passed, len(r.Failed), len(r.Skipped), r.Duration)
	for _, f := range r.Failed {
		a.out.line("  %s %s: %s", a.out.red("failed"), clean(f.Test), strings.ReplaceAll(clean(f.Message), "\n", "\n    "))
	}
	for _, s := range r.Skipped {
		a.out.line("  %s", a.out.dim("skipped "+clean(s.Test)+": "+oneLine(s.Message, 0)))
	}
}

// storeToCheck returns the store at a URL, whatever contracts it has.
func (a *app) storeToCheck(url string) (one contractStore, err error) {
	for _, contract := range contracts() {
		if one, err = a.contractStore(contract, url); err == nil {
			return one, nil
		}
	}
	return one, err
}

// checkPlace is the part of a store in which a check writes: schemas, directories or prefixes with an
// id that nothing else uses. It removes each after its test.
type checkPlace struct {
	app *app
	c   contractStore
	id  string
	n   atomic.Int64
	// opened has where the stores and transcripts of tests are, to open them again.
	opened sync.Map
}

// openedStore is a store of a test and its location.
type openedStore struct {
	store.Store
	at storage
}

// next returns a name that was not used before.
func (p *checkPlace) next() string { return fmt.Sprintf("holdfast_check_%s_%d", p.id, p.n.Add(1)) }

// suites returns the suites for the store. It fails if the store does not respond.
func (p *checkPlace) suites(ctx context.Context) ([]suiteRunner, error) {
	switch p.c.kind {
	case "redis":
		s, err := redis.Open(ctx, redis.Config{URL: p.c.url})
		if err != nil {
			return nil, err
		}
		return p.redisSuites(), s.Close()
	case "s3":
		_, err := connectS3(ctx, connectParams{url: p.c.url, main: inmem.New()})
		return []suiteRunner{{"blobs", func(t storetest.T) { blobtest.RunOn(t, blobtest.Harness{Open: p.s3Blobs}) }}}, err
	case "sqlite":
		if _, err := os.Stat(p.c.at.data); err != nil {
			return nil, err
		}
	}
	h := storetest.Harness{Open: p.openStore}
	transcripts := historytest.Harness{Open: p.history, OwnClock: true}
	if !p.c.inMemory {
		h.Reopen, transcripts.Reopen = p.reopenStore, p.reopenHistory
	}
	documents := vectortest.Harness{Open: p.documents, Tasks: func(s vector.Store) store.Store {
		opened, _ := p.opened.Load(s)
		return opened.(openedStore).Store
	}}
	if !p.c.inMemory {
		documents.Reopen = p.reopenDocuments
	}
	return []suiteRunner{
		{"history", func(t storetest.T) { historytest.RunOn(t, transcripts) }},
		{"documents", func(t storetest.T) { vectortest.RunOn(t, documents) }},
		{"graphs", func(t storetest.T) { graphtest.RunOn(t, graphtest.Of(h)) }},
		{"memory", func(t storetest.T) { memorytest.RunLongTermOn(t, memorytest.LongTermOf(h)) }},
		{"state", func(t storetest.T) { memorytest.RunShortTermOn(t, memorytest.ShortTermOverRecords(h)) }},
		{"boards", func(t storetest.T) { boardtest.RunOn(t, boardtest.OverRecords(h)) }},
		{"blobs", func(t storetest.T) { blobtest.RunOn(t, blobtest.Harness{Open: p.blobs}) }},
		{"tasks", func(t storetest.T) { storetest.RunOn(t, h) }},
	}, nil
}

// openStore opens an empty store of tasks in a place of its own.
func (p *checkPlace) openStore(t storetest.T) store.Store {
	at, name := p.c.at, p.next()
	switch p.c.kind {
	case "sqlite":
		dir, err := os.MkdirTemp(at.data, name+"-*")
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() { p.must(t, os.RemoveAll(dir)) })
		at.data = dir
	case "postgres":
		at.cfg.Schema, at.cfg.Migrate = name, true
		t.Cleanup(func() { p.must(t, p.dropSchema(name)) })
	}
	return p.openAt(t, at)
}

// openAt opens a store at a place.
func (p *checkPlace) openAt(t storetest.T, at storage) store.Store {
	s, err := at.open(context.WithoutCancel(t.Context()), p.app, nil)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	p.opened.Store(s, openedStore{s, at})
	return s
}

// reopenStore closes a store and opens its data again.
func (p *checkPlace) reopenStore(t storetest.T, s store.Store) store.Store {
	opened, _ := p.opened.Load(s)
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return p.openAt(t, opened.(openedStore).at)
}

func (p *checkPlace) must(t storetest.T, err error) {
	if err != nil {
		t.Errorf("clean up: %v", err)
	}
}

// cleanupTimeout limits the removal of what a test has written.
const cleanupTimeout = 30 * time.Second

// dropSchema removes a schema of a test.
func (p *checkPlace) dropSchema(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	_, rest, _ := strings.Cut(p.c.at.cfg.URL, "://")
	conn, err := pgx.Connect(ctx, "postgres://"+rest)
	if err != nil {
		return explainConnection(err)
	}
	_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE")
	if err == nil && p.c.at.cfg.AGE {
		err = dropGraphs(ctx, conn, postgres.GraphPrefix(name))
	}
	return errors.Join(err, conn.Close(ctx))
}

// dropGraphs removes the copies in Apache AGE whose names have a prefix, each in a session of its own: in AGE 1.5
// a session that dropped a graph fails when the server makes it empty its caches.
func dropGraphs(ctx context.Context, conn *pgx.Conn, prefix string) error {
	rows, err := conn.Query(ctx, "SELECT name::text FROM ag_catalog.ag_graph WHERE starts_with(name::text, $1)", prefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, name := range names {
		if err == nil {
			err = dropGraph(ctx, conn.Config(), name)
		}
	}
	return err
}

func dropGraph(ctx context.Context, cfg *pgx.ConnConfig, name string) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT 1 FROM ag_catalog.drop_graph($1::text::name, true)", pgx.QueryExecModeExec, name)
	return errors.Join(err, conn.Close(ctx))
}

func (p *checkPlace) history(t storetest.T, _ func() time.Time) history.Provider {
	return p.historyOf(t, p.openStore(t))
}

// historyOf returns the transcripts of a store, which the test closes.
func (p *checkPlace) historyOf(t storetest.T, s store.Store) history.Provider {
	t.Cleanup(func() { p.must(t, s.Close()) })
	h := s.(interface{ History() history.Provider }).History()
	opened, _ := p.opened.Load(s)
	p.opened.Store(h, opened)
	return h
}

// reopenHistory closes the store of transcripts and opens its data again.
func (p *checkPlace) reopenHistory(t storetest.T, h history.Provider, _ func() time.Time) history.Provider {
	opened, _ := p.opened.Load(h)
	return p.historyOf(t, p.reopenStore(t, opened.(openedStore).Store))
}

func (p *checkPlace) documents(t storetest.T, cfg vector.Config) vector.Store {
	return p.documentsOf(t, p.openStore(t), cfg)
}

// documentsOf returns the documents of a store, which the test closes.
func (p *checkPlace) documentsOf(t storetest.T, s store.Store, cfg vector.Config) vector.Store {
	t.Cleanup(func() { p.must(t, s.Close()) })
	documents := engine.Contracts{Embedder: cfg.Embedder}.WithParts(s, nil).Documents
	if documents == nil {
		t.Skipf("the store has no documents")
	}
	opened, _ := p.opened.Load(s)
	p.opened.Store(documents, opened)
	return documents
}

// reopenDocuments closes the store of documents and opens its data again.
func (p *checkPlace) reopenDocuments(t storetest.T, s vector.Store, cfg vector.Config) vector.Store {
	opened, _ := p.opened.Load(s)
	return p.documentsOf(t, p.reopenStore(t, opened.(openedStore).Store), cfg)
}

func (p *checkPlace) blobs(t storetest.T, cfg blob.Config) blobtest.Store {
	s := p.openStore(t)
	t.Cleanup(func() { p.must(t, s.Close()) })
	return s.(interface {
		Blobs(cfg blob.Config) *blob.Blobs
	}).Blobs(cfg)
}

// s3Blobs returns a store of blobs below a prefix of its own, with refs in the bucket or in memory.
func (p *checkPlace) s3Blobs(t storetest.T, cfg blob.Config) blobtest.Store {
	s3cfg, err := s3.ParseURL(p.c.url)
	if err != nil {
		t.Fatalf("%v", err)
	}
	s3cfg.Prefix += p.next() + "/"
	contents, err := s3.Open(t.Context(), s3cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { p.must(t, removeObjects(contents)) })
	if s3cfg.RefsInBucket {
		return contents.Blobs(cfg)
	}
	return blob.New(cfg, inmem.New().BlobRefs(), contents)
}

// removeObjects removes all objects below the prefix of contents.
func removeObjects(contents blob.Contents) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	for {
		objects, err := contents.List(ctx, blob.Object{}, 1000)
		if err != nil || len(objects) == 0 {
			return err
		}
		for _, o := range objects {
			if err := contents.Remove(ctx, o); err != nil {
				return err
			}
		}
	}
}

func (p *checkPlace) redisSuites() []suiteRunner {
	open := func(t storetest.T, now func() time.Time) *redis.Store {
		prefix := p.next() + ":"
		s, err := redis.Open(t.Context(), redis.Config{URL: p.c.url, Prefix: prefix, Now: now})
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
			defer cancel()
			p.must(t, errors.Join(redis.RemoveKeys(ctx, s, prefix), s.Close()))
		})
		return s
	}
	return []suiteRunner{
		{"history", func(t storetest.T) {
			historytest.RunOn(t, historytest.Harness{OwnClock: true, Open: func(t storetest.T, _ func() time.Time) history.Provider { return open(t, time.Now).History() }})
		}},
		{"state", func(t storetest.T) {
			memorytest.RunShortTermOn(t, memorytest.ShortTermHarness{Open: func(t storetest.T, o memorytest.ShortTermOptions) memory.ShortTerm {
				states, err := open(t, o.Now).ShortTerm(memory.ShortTermConfig{Now: o.Now, TTL: o.TTL, MaxBytes: o.MaxBytes})
				if err != nil {
					t.Fatalf("open: %v", err)
				}
				return states
			}})
		}},
	}
}
