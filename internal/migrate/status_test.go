package migrate_test

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/migrate"
)

func TestStepsReportAppliedMigrations(t *testing.T) {
	t.Parallel()
	db := database(t, filepath.Join(t.TempDir(), "x.db"))
	files := map[string]string{first: "CREATE TABLE a (x)"}
	if _, err := migrate.Apply(t.Context(), db, params(t, files)); err != nil {
		t.Fatal(err)
	}
	files[second] = "CREATE TABLE b (x)"
	steps, err := migrate.Steps(t.Context(), db, params(t, files))
	if err != nil || len(steps) != 2 || steps[0].Applied.IsZero() || !steps[1].Applied.IsZero() || steps[1].String() != second {
		t.Errorf("Steps() = %v, %v, want %s applied and %s not", steps, err, first, second)
	}
	if got := tables(t, db); got != "a" {
		t.Errorf("tables = %q, want Steps to change nothing", got)
	}
}

// After the scripts were run by hand, Apply has nothing left to do.
func TestScriptsMatchApply(t *testing.T) {
	t.Parallel()
	db := database(t, filepath.Join(t.TempDir(), "x.db"))
	p := params(t, map[string]string{first: "CREATE TABLE a (x);\n", second: "CREATE TABLE b (x); CREATE TABLE c (x)"})
	for _, m := range p.Migrations {
		if _, err := db.ExecContext(t.Context(), migrate.Script(p, m)); err != nil {
			t.Fatalf("%v\n%s", err, migrate.Script(p, m))
		}
	}
	applied, err := migrate.Apply(t.Context(), db, p)
	if err != nil || len(applied) != 0 || tables(t, db) != "a b c" {
		t.Errorf("Apply() after the scripts = %v, %v with tables %q, want nothing left to do", applied, err, tables(t, db))
	}
}
