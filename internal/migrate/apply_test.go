package migrate_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	_ "modernc.org/sqlite"

	"github.com/holdfast-dev/holdfast/internal/migrate"
)

const (
	first  = "202601010000_first"
	second = "202602010000_second"
	third  = "202603010000_third"
)

func params(t *testing.T, files map[string]string) migrate.Params {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys["m/"+name+".sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	all, err := migrate.Load(fsys, "m")
	if err != nil {
		t.Fatalf("Load() = %v", err)
	}
	return migrate.Params{Migrations: all}
}

func database(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func tables(t *testing.T, db *sql.DB) string {
	t.Helper()
	var names string
	if err := db.QueryRowContext(t.Context(), `SELECT group_concat(name, ' ') FROM
		(SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'schema_migrations' ORDER BY name)`).Scan(&names); err != nil {
		names = ""
	}
	return names
}

func TestApplyAppliesMissingMigrationsOnce(t *testing.T) {
	t.Parallel()
	db := database(t, filepath.Join(t.TempDir(), "x.db"))
	files := map[string]string{first: "CREATE TABLE a (x); CREATE TABLE b (x)"}
	for _, step := range []struct {
		add     string
		applied int
		want    string
	}{{"", 1, "a b"}, {"", 0, "a b"}, {second, 1, "a b c"}} {
		if step.add != "" {
			files[step.add] = "CREATE TABLE c (x)"
		}
		applied, err := migrate.Apply(t.Context(), db, params(t, files))
		if err != nil || len(applied) != step.applied {
			t.Fatalf("Apply() = %v, %v, want %d applied", applied, err, step.applied)
		}
		if got := tables(t, db); got != step.want {
			t.Errorf("tables = %q, want %q", got, step.want)
		}
	}
}

func TestApplyRejectsUnknownSchemas(t *testing.T) {
	t.Parallel()
	applied := map[string]string{first: "CREATE TABLE a (x)", second: "CREATE TABLE b (x)"}
	tests := []struct {
		name  string
		files map[string]string
		is    error
		want  string
	}{
		{"newer", map[string]string{first: applied[first]}, migrate.ErrNewer, second},
		{"changed", map[string]string{first: "CREATE TABLE a (x, y)", second: applied[second]}, migrate.ErrChanged, "; use the program that applied it, or restore a backup"},
		{"removed", map[string]string{second: applied[second]}, migrate.ErrChanged, "but this program does not have it"},
		{"inserted", map[string]string{first: applied[first], "202601150000_between": "SELECT 1", second: applied[second]}, migrate.ErrChanged, "is not applied, but the later " + second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := database(t, filepath.Join(t.TempDir(), "x.db"))
			if _, err := migrate.Apply(t.Context(), db, params(t, applied)); err != nil {
				t.Fatalf("Apply() = %v", err)
			}
			test.files[third] = "CREATE TABLE c (x)"
			if errors.Is(test.is, migrate.ErrNewer) {
				delete(test.files, third)
			}
			_, err := migrate.Apply(t.Context(), db, params(t, test.files))
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Apply() = %v, want %v with %q", err, test.is, test.want)
			}
			if got := tables(t, db); got != "a b" {
				t.Errorf("tables after a rejected Apply() = %q, want %q", got, "a b")
			}
		})
	}
}

func TestFailedMigrationIsRolledBack(t *testing.T) {
	t.Parallel()
	db := database(t, filepath.Join(t.TempDir(), "x.db"))
	applied, err := migrate.Apply(t.Context(), db, params(t, map[string]string{
		first: "CREATE TABLE a (x)", second: "CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)",
	}))
	if err == nil || !strings.Contains(err.Error(), "apply migration "+second) || len(applied) != 1 {
		t.Errorf("Apply() = %v, %v, want %s applied and %s named", applied, err, first, second)
	}
	if got := tables(t, db); got != "a" {
		t.Errorf("tables = %q, want %q", got, "a")
	}
}

func TestConcurrentProcessesMigrateOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	p := params(t, map[string]string{first: "CREATE TABLE a (x)", second: "CREATE TABLE b (x)", third: "CREATE TABLE c (x)"})
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range 4 {
		db := database(t, path)
		wg.Go(func() {
			applied, err := migrate.Apply(t.Context(), db, p)
			if err != nil {
				t.Errorf("Apply() = %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			total += len(applied)
		})
	}
	wg.Wait()
	if total != 3 {
		t.Errorf("four concurrent Apply() calls applied %d migrations, want 3", total)
	}
}
