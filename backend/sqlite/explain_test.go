package sqlite

import (
	"database/sql"
	"os"
	"strings"
	"testing"
)

const planFile = "testdata/plans.txt"

// hotQueries are the statements whose cost must not grow with the database.
var hotQueries = []struct{ name, text string }{
	{"guard", sqlSelectRow},
	{"get", sqlReadTask},
	{"get of a list's task", sqlReadTaskPK},
	{"log from a checkpoint", sqlReadLog},
	{"events", sqlReadEvents},
	{"steps", sqlReadSteps},
	{"idempotency key", sqlSelectKey},
	{"expire idempotency keys", sqlExpireKeys},
	{"context", sqlReadContext},
	{"feedback", sqlReadFeedback},
	{"list: states", sqlStates},
	{"list: states of a context", sqlContextStates},
	{"list: walk", sqlWalk},
	{"list: walk of a context", sqlContextWalk},
	{"list: count", sqlCount},
	{"list: count of a context", sqlContextCount},
	{"claim: next owner with queued tasks", sqlQueuedOwner},
	{"claim: next owner with leased tasks", sqlLeasedOwner},
	{"claim: queued and due", sqlQueuedDue},
	{"claim: queued beyond the horizon", sqlQueuedFar},
	{"claim: lease ended", sqlLeasedDue},
	{"claim: lease beyond the horizon", sqlLeasedFar},
}

// TestHotQueriesKeepTheirPlans compares with testdata/plans.txt, which
// UPDATE_GOLDEN=1 writes.
func TestHotQueriesKeepTheirPlans(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	db, err := sql.Open("sqlite", dataSource(s.path, "query_only(1)"))
	must(t, err)
	defer func() { _ = db.Close() }()
	var plans strings.Builder
	for _, q := range hotQueries {
		plan := explain(t, db, q.text)
		plans.WriteString(q.name + "\n" + plan)
		for line := range strings.Lines(plan) {
			if strings.Contains(line, "TEMP B-TREE") || (strings.Contains(line, "SCAN") && !harmlessScan(line)) {
				t.Errorf("%s: the plan has %q, want neither a scan nor a sort", q.name, strings.TrimSpace(line))
			}
		}
	}
	golden(t, planFile, plans.String())
}

// harmlessScan reports a scan of rows that the query itself has made.
func harmlessScan(line string) bool {
	return strings.Contains(line, "SCAN s") || strings.Contains(line, "SCAN CONSTANT ROW") || strings.Contains(line, "LIST SUBQUERY")
}

func explain(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	args := make([]any, 8)
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatalf("EXPLAIN %s = %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		must(t, rows.Scan(&id, &parent, &unused, &detail))
		plan.WriteString("  " + detail + "\n")
	}
	must(t, rows.Err())
	return plan.String()
}

// TestSchemaIsTheGoldenOne shows what the migrations add up to.
func TestSchemaIsTheGoldenOne(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	db, err := sql.Open("sqlite", dataSource(s.path, "query_only(1)"))
	must(t, err)
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name")
	must(t, err)
	defer func() { _ = rows.Close() }()
	var schema strings.Builder
	for rows.Next() {
		var text string
		must(t, rows.Scan(&text))
		schema.WriteString(text + ";\n")
	}
	must(t, rows.Err())
	golden(t, "testdata/schema.sql", schema.String())
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		must(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s is not up to date (UPDATE_GOLDEN=1 writes it); got:\n%s", file, got)
	}
}
