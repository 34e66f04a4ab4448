package postgres

import (
	"crypto/rand"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// administer runs statements on the tests' server.
func administer(t testing.TB, url string, texts ...string) {
	t.Helper()
	c, err := pgx.Connect(bg, url)
	must(t, err)
	defer func() { _ = c.Close(bg) }()
	for _, text := range texts {
		_, err := c.Exec(bg, text)
		must(t, err)
	}
}

// Whoever waited for the lock sees what the one before has migrated, whatever the
// database says of its transactions.
func TestManyThatStartTogetherMigrateOnceWhateverTheIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			server := pgtest.URL(storetest.Wrap(t))
			name := "d_" + strings.ToLower(rand.Text())
			administer(t, server, "CREATE DATABASE "+name, "ALTER DATABASE "+name+" SET default_transaction_isolation = '"+level+"'")
			t.Cleanup(func() { administer(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
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

// A user who may fill a schema needs no right to make one.
func TestMigrationsOfASchemaThatIsThereNeedNoRightToMakeIt(t *testing.T) {
	t.Parallel()
	cfg := fresh(storetest.Wrap(t), Config{})
	role := "r_" + strings.ToLower(rand.Text())
	administer(t, cfg.URL, "CREATE ROLE "+role+" LOGIN PASSWORD 'x'", "CREATE SCHEMA "+cfg.Schema+" AUTHORIZATION "+role)
	server := cfg.URL
	t.Cleanup(func() { administer(t, server, "DROP OWNED BY "+role+" CASCADE", "DROP ROLE "+role) })
	u, err := url.Parse(cfg.URL)
	must(t, err)
	u.User = url.UserPassword(role, "x")
	cfg.URL = u.String()
	s, err := Open(bg, cfg)
	must(t, err)
	must(t, s.Close())
	cfg.Schema += "x"
	if _, err := Open(bg, cfg); err == nil || !strings.Contains(err.Error(), "grant CREATE on the database") {
		t.Errorf("Open() of a schema that the user may not make = %v, want it told what to grant", err)
	}
}

func TestAParameterThatNobodyKnowsIsToldByItsName(t *testing.T) {
	t.Parallel()
	cfg := fresh(storetest.Wrap(t), Config{})
	u, err := url.Parse(cfg.URL)
	must(t, err)
	q := u.Query()
	q.Set("keepalives", "1")
	u.RawQuery = q.Encode()
	cfg.URL = u.String()
	if _, err := Open(bg, cfg); err == nil || !strings.Contains(err.Error(), `the parameter "keepalives" of the URL`) {
		t.Errorf("Open() = %v, want the parameter told", err)
	}
}

// After a failover the database may give out again what it gave out before.
func TestNumbersThatAreInUseArePassedOver(t *testing.T) {
	t.Parallel()
	cfg := fresh(storetest.Wrap(t), Config{})
	a := open(storetest.Wrap(t), cfg)
	b := open(storetest.Wrap(t), cfg)
	must(t, runTask(a, 0))
	must(t, runTask(b, 1))
	for range 3 { // what the sequence gives is in use
		_, err := a.pool.Exec(bg, a.q(`SELECT setval('{s}.task_pks', 1024, false)`))
		must(t, err)
		a.pks.mu.Lock()
		a.pks.free, a.pks.end = 0, 0
		a.pks.mu.Unlock()
	}
	must(t, runTask(a, 2))
	b.pks.mu.Lock() // what the replica holds is in use
	b.pks.free, b.pks.end = 1024, 1024+pkBlock
	b.pks.mu.Unlock()
	for n := 3; n < 40; n++ {
		must(t, runTask(b, n))
	}
	var numbers, tasks int
	must(t, a.pool.QueryRow(bg, a.q(`SELECT count(DISTINCT pk), count(*) FROM {s}.task_rows`)).Scan(&numbers, &tasks))
	if numbers != 40 || tasks != 40 {
		t.Errorf("%d numbers of %d tasks, want 40 of 40", numbers, tasks)
	}
}
