//go:build services

package postgres

import (
	"crypto/rand"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// A replica that waited for the migration lock sees the migrations of the previous holder at any
// default isolation level.
func TestReplicasThatStartTogetherMigrateOnceAtAnyIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			server := pgtest.URL(storetest.Wrap(t))
			name := "d_" + strings.ToLower(rand.Text())
			pgtest.Exec(t, server, "CREATE DATABASE "+name, "ALTER DATABASE "+name+" SET default_transaction_isolation = '"+level+"'")
			t.Cleanup(func() { pgtest.Exec(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
			u, err := url.Parse(server)
			must(t, err)
			u.Path = "/" + name
			cfg := Config{URL: u.String(), Migrate: true, PoolMin: -1, PoolMax: 2}
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					s, err := Open(bg, cfg)
					if err != nil {
						t.Errorf("Open() = %v", err)
						return
					}
					_ = s.Close()
				})
			}
			wg.Wait()
		})
	}
}

// Migrating an existing schema needs no CREATE privilege on the database.
func TestMigratingAnExistingSchemaNeedsNoCreatePrivilege(t *testing.T) {
	t.Parallel()
	cfg := freshConfig(storetest.Wrap(t), Config{})
	role := "r_" + strings.ToLower(rand.Text())
	pgtest.Exec(t, cfg.URL, "CREATE ROLE "+role+" LOGIN PASSWORD 'x'", "CREATE SCHEMA "+cfg.Schema+" AUTHORIZATION "+role)
	server := cfg.URL
	t.Cleanup(func() { pgtest.Exec(t, server, "DROP OWNED BY "+role+" CASCADE", "DROP ROLE "+role) })
	u, err := url.Parse(cfg.URL)
	must(t, err)
	u.User = url.UserPassword(role, "x")
	cfg.URL = u.String()
	s, err := Open(bg, cfg)
	must(t, err)
	must(t, s.Close())
	cfg.Schema += "x"
	if _, err := Open(bg, cfg); err == nil || !strings.Contains(err.Error(), "grant CREATE on the database") {
		t.Errorf("Open() of a schema that the user may not create = %v, want it to name the missing grant", err)
	}
}

func TestOpenNamesAnUnknownURLParameter(t *testing.T) {
	t.Parallel()
	cfg := freshConfig(storetest.Wrap(t), Config{})
	u, err := url.Parse(cfg.URL)
	must(t, err)
	q := u.Query()
	q.Set("keepalives", "1")
	u.RawQuery = q.Encode()
	cfg.URL = u.String()
	if _, err := Open(bg, cfg); err == nil || !strings.Contains(err.Error(), `unknown parameter "keepalives" in the URL`) {
		t.Errorf("Open() = %v, want it to name the parameter", err)
	}
}
