// Package suites runs the conformance suites of the contracts on stores of operators.
package suites

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/postgres/age"
	"github.com/holdfast-dev/holdfast/backend/redis"
	"github.com/holdfast-dev/holdfast/backend/s3"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/cli/full"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/blob/blobtest"
	"github.com/holdfast-dev/holdfast/store/board/boardtest"
	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historytest"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector/vectortest"
)

// place is the part of a store in which suites write: schemas, directories or prefixes with an id
// that nothing else uses. Each is removed after its test.
type place struct {
	cli.StoreToCheck
	id string
	n  atomic.Int64
	// opened has the locations of the stores of tests, to open them again.
	opened sync.Map
}

// next returns a name that was not used before.
func (p *place) next() string { return fmt.Sprintf("holdfast_check_%s_%d", p.id, p.n.Add(1)) }

// suite returns a suite for [cli.Parts].
func suite(name string, tests func(t storetest.T)) cli.Suite {
	return cli.Suite{Name: name, Run: func(ctx context.Context) cli.SuiteReport { return run(ctx, name, tests) }}
}

// contracts are the suites of Holdfast's contracts.
func contracts() []storetest.Suite {
	return []storetest.Suite{
		historytest.Suite, vectortest.Suite, graphtest.Suite, memorytest.LongTermSuite, memorytest.ShortTermSuite, boardtest.Suite, blobtest.Suite,
	}
}

// Of returns a function for [cli.Parts] that returns the suites of a store: of Holdfast's contracts, and more. It
// fails if Redis or a bucket does not respond, or if a directory does not exist.
func Of(more ...storetest.Suite) func(ctx context.Context, s cli.StoreToCheck) ([]cli.Suite, error) {
	return func(ctx context.Context, s cli.StoreToCheck) ([]cli.Suite, error) {
		p := &place{StoreToCheck: s, id: strings.ToLower(rand.Text()[:12])}
		switch p.Kind {
		case "redis":
			s, err := redis.Open(ctx, redis.Config{URL: p.URL})
			if err != nil {
				return nil, err
			}
			return p.redisSuites(), s.Close()
		case "s3":
			_, err := full.OpenS3(ctx, cli.OpenParams{URL: p.URL, Main: inmem.New()})
			return []cli.Suite{suite("blobs", func(t storetest.T) { blobtest.RunOn(t, blobtest.Harness{Open: p.s3Blobs}) })}, err
		case "sqlite":
			if _, err := os.Stat(p.Dir); err != nil {
				return nil, err
			}
		}
		return p.suites(append(contracts(), more...)), nil
	}
}

// suites returns the suites of a store of tasks.
func (p *place) suites(contracts []storetest.Suite) (all []cli.Suite) {
	h := storetest.Harness{Open: p.openStore}
	if p.Kind != "memory" {
		h.Reopen = p.reopenStore
	}
	for _, one := range append(contracts, storetest.Suite{Name: "tasks", Run: storetest.RunOn}) {
		all = append(all, suite(one.Name, func(t storetest.T) { one.Run(t, h) }))
	}
	return all
}

// openStore opens an empty store of tasks in a place of its own.
func (p *place) openStore(t storetest.T) store.Store {
	at, name := p.StoreToCheck, p.next()
	switch at.Kind {
	case "sqlite":
		dir, err := os.MkdirTemp(at.Dir, name+"-*")
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() { p.must(t, os.RemoveAll(dir)) })
		at.Dir = dir
	case "postgres":
		at.Postgres.Postgres.Schema, at.Postgres.Postgres.Migrate = name, true
		t.Cleanup(func() { p.must(t, p.dropSchema(name)) })
	}
	return p.openAt(t, at)
}

// openAt opens a store at a place.
func (p *place) openAt(t storetest.T, at cli.StoreToCheck) store.Store {
	s, err := open(context.WithoutCancel(t.Context()), at)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	p.opened.Store(s, at)
	return s
}

// open opens a store of tasks.
func open(ctx context.Context, at cli.StoreToCheck) (store.Store, error) {
	switch at.Kind {
	case "sqlite":
		return sqlite.Open(ctx, sqlite.Config{Dir: at.Dir})
	case "postgres":
		return age.Open(ctx, at.Postgres)
	}
	return inmem.New(), nil
}

// reopenStore closes a store and opens its data again.
func (p *place) reopenStore(t storetest.T, s store.Store) store.Store {
	at, _ := p.opened.Load(s)
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return p.openAt(t, at.(cli.StoreToCheck))
}

func (p *place) must(t storetest.T, err error) {
	if err != nil {
		t.Errorf("clean up: %v", err)
	}
}

// cleanupTimeout limits the removal of what a test has written.
const cleanupTimeout = 30 * time.Second

// dropSchema removes a schema of a test.
func (p *place) dropSchema(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	_, rest, _ := strings.Cut(p.Postgres.Postgres.URL, "://")
	conn, err := pgx.Connect(ctx, "postgres://"+rest)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE")
	if err == nil && p.Postgres.Copy {
		err = dropGraphs(ctx, conn, postgres.GraphPrefix(name))
	}
	return errors.Join(err, conn.Close(ctx))
}

// dropGraphs removes the copies in Apache AGE with a prefix of their names, each in a session of its own: in AGE 1.5
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

// s3Blobs returns a store of blobs below a prefix of its own, with refs in the bucket or in memory.
func (p *place) s3Blobs(t storetest.T, cfg blob.Config) blobtest.Store {
	s3cfg, err := s3.ParseURL(p.URL)
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
	return blobdriver.New(cfg, blobsql.RefsOf(inmem.New()), contents)
}

// removeObjects removes all objects below the prefix of contents.
func removeObjects(contents blobdriver.Contents) error {
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

func (p *place) redisSuites() []cli.Suite {
	open := func(t storetest.T, now func() time.Time) *redis.Store {
		prefix := p.next() + ":"
		s, err := redis.Open(t.Context(), redis.Config{URL: p.URL, Prefix: prefix, Now: now})
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
	return []cli.Suite{
		suite("history", func(t storetest.T) {
			historytest.RunOn(t, historytest.Harness{OwnClock: true, Open: func(t storetest.T, _ func() time.Time) history.Provider { return open(t, time.Now).History() }})
		}),
		suite("state", func(t storetest.T) {
			memorytest.RunShortTermOn(t, memorytest.ShortTermHarness{Open: func(t storetest.T, o memorytest.ShortTermOptions) memory.ShortTerm {
				states, err := open(t, o.Now).ShortTerm(memory.ShortTermConfig{Now: o.Now, TTL: o.TTL, MaxBytes: o.MaxBytes})
				if err != nil {
					t.Fatalf("open: %v", err)
				}
				return states
			}})
		}),
	}
}
