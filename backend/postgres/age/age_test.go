//go:build services

package age

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// withAGE returns a configuration of an empty schema in a database with the extension.
func withAGE(t storetest.T) Config {
	t.Helper()
	if err := createAGE(pgtest.URL(t)); err != nil {
		t.Fatalf("the server of HOLDFAST_TEST_POSTGRES_URL needs Apache AGE: %v", err)
	}
	return freshConfig(t, true)
}

var (
	ageMutex   sync.Mutex
	ageCreated bool
)

// createAGE creates the extension, once.
func createAGE(url string) error {
	ageMutex.Lock()
	defer ageMutex.Unlock()
	if ageCreated {
		return nil
	}
	c, err := pgx.Connect(bg, url)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(bg) }()
	_, err = c.Exec(bg, `SELECT pg_advisory_lock(8801); CREATE EXTENSION IF NOT EXISTS age`)
	ageCreated = err == nil
	return err
}

func TestGraphInAGE(t *testing.T) {
	t.Parallel()
	g := graphtest.Of(storetest.Harness{Open: func(t storetest.T) store.Store { return open(t, withAGE(t)) }, Reopen: reopen})
	g.Short, g.Calls = true, 100
	graphtest.Run(t, g)
}

// asRole returns a configuration with a user of its own, who is no superuser.
func asRole(t *testing.T, cfg Config, rights ...string) Config {
	t.Helper()
	open(storetest.Wrap(t), Config{Postgres: cfg.Postgres})
	role, server := cfg.Postgres.Schema+"_role", cfg.Postgres.URL
	pgtest.Exec(t, server, "CREATE USER "+role)
	t.Cleanup(func() { pgtest.Exec(t, server, "DROP OWNED BY "+role+" CASCADE", "DROP USER "+role) })
	for _, right := range rights {
		pgtest.Exec(t, server, "GRANT "+right+" TO "+role)
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	cfg.Postgres.URL, cfg.Postgres.Schema = u.String(), cfg.Postgres.Schema+"_own"
	return cfg
}

func TestAGENeedsNoSuperuser(t *testing.T) {
	t.Parallel()
	cfg := asRole(t, withAGE(storetest.Wrap(t)), "CREATE ON DATABASE postgres", "USAGE ON SCHEMA ag_catalog")
	a := open(storetest.Wrap(t), cfg).Graph(nil).(*Graphs)
	k := graph.Key{Owner: "o"}
	if _, err := a.AddEntities(t.Context(), k, []graph.Entity{{ID: "a", Label: "Person"}}); err != nil {
		t.Fatalf("AddEntities() = %v", err)
	}
	r, err := a.QueryCypher(t.Context(), k, graph.CypherParams{Query: `MATCH (p:Person) RETURN p.id`})
	if err != nil || len(r.Rows) != 1 || r.Rows[0][0] != "a" {
		t.Errorf("QueryCypher() = %v, %v, want a", r.Rows, err)
	}
	if _, err := a.DeleteGraph(t.Context(), k); err != nil {
		t.Errorf("DeleteGraph() = %v", err)
	}
}

func TestAGENamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	failure := func(cfg Config, remedy string) {
		t.Helper()
		s, err := Open(t.Context(), cfg)
		if err == nil {
			_ = s.Close()
		}
		if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("Open() = %v, want ErrUnusable with %q", err, remedy)
		}
	}
	cfg := asRole(t, withAGE(storetest.Wrap(t)), "CREATE ON DATABASE postgres")
	failure(cfg, `GRANT USAGE ON SCHEMA ag_catalog TO "`)
	cfg = withAGE(storetest.Wrap(t))
	inDatabase(t, cfg, func(cfg Config) { failure(cfg, "CREATE EXTENSION age") })
	// A library that a package upgrade has removed.
	inDatabase(t, cfg, func(cfg Config) {
		pgtest.Exec(t, cfg.Postgres.URL, `CREATE EXTENSION age`, `UPDATE pg_catalog.pg_proc SET probin = '$libdir/age-removed' WHERE pronamespace = 'ag_catalog'::regnamespace AND probin IS NOT NULL`)
		failure(cfg, `cannot be loaded: could not access file "$libdir/age-removed"`)
	})
}

// inDatabase calls f with a configuration of a store in a new database.
func inDatabase(t *testing.T, cfg Config, f func(cfg Config)) {
	t.Helper()
	server := cfg.Postgres.URL
	cfg.Postgres.Schema += "_" + strconv.Itoa(rand.IntN(1e6))
	pgtest.Exec(t, server, `CREATE DATABASE `+cfg.Postgres.Schema)
	defer pgtest.Exec(t, server, `DROP DATABASE `+cfg.Postgres.Schema+` WITH (FORCE)`)
	u, err := url.Parse(server)
	must(t, err)
	u.Path = "/" + cfg.Postgres.Schema
	cfg.Postgres.URL = u.String()
	f(cfg)
}

// A store without Config.Copy changes existing copies, and adds none. A store that would not change them cannot be
// opened.
func TestCopiesInAGERemainExactWithoutConfig(t *testing.T) {
	t.Parallel()
	cfg := withAGE(storetest.Wrap(t))
	with := open(storetest.Wrap(t), cfg).Graph(nil).(*Graphs)
	k, other := graph.Key{Owner: "o"}, graph.Key{Owner: "o", Graph: "other"}
	_, err := with.AddEntities(t.Context(), k, []graph.Entity{{ID: "a", Label: "Person"}, {ID: "b", Label: "Person"}})
	must(t, err)
	cfg.Copy = false
	if s, err := postgres.Open(t.Context(), cfg.Postgres); err == nil || !strings.Contains(err.Error(), "open the store with package age") {
		t.Errorf("postgres.Open() = %v, %v, want an error that names package age", s, err)
	}
	without := open(storetest.Wrap(t), cfg).Graph(nil)
	batch := graph.Batch{Entities: []graph.Entity{{ID: "c", Label: "Person"}}, DeleteEntities: []string{"a"}}
	for _, k := range []graph.Key{k, other} {
		_, err = without.Write(t.Context(), k, batch)
		must(t, err)
	}
	ids := func(k graph.Key) string {
		r, err := with.QueryCypher(t.Context(), k, graph.CypherParams{Query: `MATCH (p:Person) RETURN p.id AS id ORDER BY id`})
		must(t, err)
		return fmt.Sprint(r.Rows)
	}
	if got := ids(k); got != "[[b] [c]]" {
		t.Errorf("the copy has %s, want [[b] [c]]", got)
	}
	var copies int
	must(t, connect(t, cfg.Postgres.URL).QueryRow(bg, `SELECT count(*) FROM ag_catalog.ag_graph WHERE starts_with(name::text, $1)`, postgres.GraphPrefix(cfg.Postgres.Schema)).Scan(&copies))
	if copies != 1 {
		t.Errorf("%d graphs have copies, want 1", copies)
	}
	if got := ids(other); got != "[[c]]" {
		t.Errorf("a query of the graph without a copy returns %s, want [[c]]", got)
	}
	_, err = without.ForgetOwner(t.Context(), "o")
	must(t, err)
	if got := ids(k); got != "[]" {
		t.Errorf("the copy has %s after ForgetOwner, want none", got)
	}
}

// A write reads the vertices of new edges through indexes, whatever their labels.
func TestPlansOfWritesInAGE(t *testing.T) {
	t.Parallel()
	a := open(storetest.Wrap(t), withAGE(storetest.Wrap(t))).Graph(nil).(*Graphs)
	k := graph.Key{Owner: "o"}
	_, err := a.Write(t.Context(), k, graph.Batch{
		Entities:      []graph.Entity{{ID: "a", Label: "A"}, {ID: "b", Label: "B"}},
		Relationships: []graph.Relationship{{Source: "a", Target: "b", Type: "to"}},
	})
	must(t, err)
	plan := ""
	db := &copyingDB{a.store.SQL(), a, k, func(g *copied) error {
		return g.Raw(func(row []string) { plan += row[0] + "\n" }, `EXPLAIN (COSTS OFF) `+g.insertEdges("to"), "[]")
	}}
	must(t, db.Write(t.Context(), func(sqlkit.Tx) error { return nil }))
	if strings.Contains(plan, "Seq Scan") || strings.Count(plan, "Index Scan") < 6 {
		t.Errorf("the plan reads whole tables:\n%s", plan)
	}
}
