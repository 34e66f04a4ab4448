package postgres

import (
	"crypto/rand"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/migrate"
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

// applied are the migrations that databases have, by their checksums. One that is
// listed here is never changed; another one is added after it.
var applied = []string{
	"202611210300_initial ad06c23d1d1ad83294176c8c82d540d7dba134ae78f476a1e87b5492e7ce1313",
	"202611210600_webhooks 92c3c4261417d7b8a11cca25134e9afda2383d7fac00076ab08979147aded9c3",
	"202611210900_turns 7b095162b248f59c02a1bee2ecfad67127baab7e07da5bd1fe85595fb5dfb920",
	"202611211000_dead_order caa0207f9739d94545e727453354c6da94170ea84912f141cd59ce10fc5fff24",
	"202611211100_label_tallies 7fe3bfe1691fc172f3f5aae53e597c01267cd0dd2fa8b125ba060e29585c8315",
}

func TestMigrationsThatDatabasesHaveAreNotChanged(t *testing.T) {
	t.Parallel()
	known, err := migrate.Load(migrationFiles, "migrations")
	must(t, err)
	var got []string
	for _, m := range known {
		got = append(got, m.String()+" "+m.Checksum)
	}
	if d := cmp.Diff(applied, got); d != "" {
		t.Errorf("migrations (-databases have +the program has):\n%s", d)
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
