package postgres

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// withAGE returns a configuration of an empty schema in a database with the extension.
func withAGE(t storetest.T) Config {
	t.Helper()
	cfg := freshConfig(t, Config{})
	c, err := pgx.Connect(bg, cfg.URL)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer func() { _ = c.Close(bg) }()
	if _, err := c.Exec(bg, `SELECT pg_advisory_lock(8801); CREATE EXTENSION IF NOT EXISTS age`); err != nil {
		t.Fatalf("the server of HOLDFAST_TEST_POSTGRES_URL needs Apache AGE: %v", err)
	}
	return cfg
}

// ageStore is a store whose graphs have copies.
type ageStore struct {
	*Store
	t storetest.T
}

// Graph returns the graphs with copies.
func (s *ageStore) Graph(now func() time.Time) graph.Complete {
	a, err := s.AGE(bg, now)
	if err != nil {
		s.t.Fatalf("AGE() = %v", err)
	}
	return a
}

func TestGraphInAGE(t *testing.T) {
	t.Parallel()
	h := harness
	h.Open = func(t storetest.T) store.Store { return &ageStore{open(t, withAGE(t)), t} }
	h.Reopen = nil
	g := graphtest.Of(h)
	g.Short, g.Calls = true, 100
	graphtest.Run(t, g)
}

// asRole returns a configuration with a user of its own, who is no superuser.
func asRole(t *testing.T, cfg Config, rights string) Config {
	t.Helper()
	s := open(storetest.Wrap(t), Config{URL: cfg.URL, Schema: cfg.Schema, Migrate: true})
	role := cfg.Schema + "_role"
	if _, err := s.pool.Exec(bg, strings.NewReplacer("ROLE", role).Replace(`CREATE USER ROLE; `+rights), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = s.pool.Exec(bg, strings.NewReplacer("ROLE", role).Replace(`DROP OWNED BY ROLE CASCADE; DROP USER ROLE`), pgx.QueryExecModeSimpleProtocol)
	})
	u, err := url.Parse(cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	cfg.URL, cfg.Schema = u.String(), cfg.Schema+"_own"
	return cfg
}

func TestAGENeedsNoSuperuser(t *testing.T) {
	t.Parallel()
	cfg := asRole(t, withAGE(storetest.Wrap(t)), `GRANT CREATE ON DATABASE postgres TO ROLE; GRANT USAGE ON SCHEMA ag_catalog TO ROLE`)
	a, err := open(storetest.Wrap(t), cfg).AGE(t.Context(), nil)
	if err != nil {
		t.Fatalf("AGE() = %v", err)
	}
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
	for name, test := range map[string]struct{ rights, remedy string }{
		"rights": {`GRANT CREATE ON DATABASE postgres TO ROLE`, "GRANT USAGE ON SCHEMA ag_catalog"},
	} {
		cfg := asRole(t, withAGE(storetest.Wrap(t)), test.rights)
		_, err := open(storetest.Wrap(t), cfg).AGE(t.Context(), nil)
		if !errors.Is(err, ErrNoAGE) || a2a.CodeOf(err) != a2a.CodeUnsupported || !strings.Contains(err.Error(), test.remedy) {
			t.Errorf("%s: AGE() = %v, want ErrNoAGE with %q", name, err, test.remedy)
		}
	}
	base := withAGE(storetest.Wrap(t))
	admin := open(storetest.Wrap(t), base)
	if _, err := admin.pool.Exec(bg, `CREATE DATABASE `+base.Schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = admin.pool.Exec(bg, `DROP DATABASE `+base.Schema+` WITH (FORCE)`) })
	u, err := url.Parse(base.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + base.Schema
	base.URL = u.String()
	_, err = open(storetest.Wrap(t), base).AGE(t.Context(), nil)
	if !errors.Is(err, ErrNoAGE) || !strings.Contains(err.Error(), "CREATE EXTENSION age") {
		t.Errorf("AGE() without the extension = %v, want ErrNoAGE", err)
	}
}
