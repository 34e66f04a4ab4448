//go:build services

package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-dev/holdfast/internal/migrate"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

var createTable = regexp.MustCompile(`(?s)CREATE TABLE (\S+)\.(\w+) \((.*?)\n\)( WITH \(.*?\))?;`)

// partitions is the number of partitions of each table of partitionedSchema.
const partitions = 2

// partitionedSchema rewrites a migration: tables with an owner are partitioned by its hash.
func partitionedSchema(text string) string {
	return createTable.ReplaceAllStringFunc(text, func(create string) string {
		m := createTable.FindStringSubmatch(create)
		schema, table, columns, with := m[1], m[2], m[3], m[4]
		if !strings.Contains(columns, "\n  owner ") {
			return create
		}
		key := "owner"
		if strings.Contains(text, ` ON `+schema+`.`+table+` (owner COLLATE "POSIX"`) {
			key = `owner COLLATE "POSIX"` // the collation of its key
		}
		var b strings.Builder
		fmt.Fprintf(&b, "CREATE TABLE %s.%s (%s\n) PARTITION BY HASH (%s);\n", schema, table, columns, key)
		for n := range partitions {
			fmt.Fprintf(&b, "CREATE TABLE %[1]s.%[2]s_%[3]d PARTITION OF %[1]s.%[2]s FOR VALUES WITH (MODULUS %[4]d, REMAINDER %[3]d)%[5]s;\n",
				schema, table, n, partitions, with)
		}
		return b.String()
	})
}

// partitioned is emptyConfig with partitioned tables. The suites of all contracts run on such tables
// behind a pooler, so that each runs twice, not four times.
func partitioned(t storetest.T, cfg Config) Config {
	t.Helper()
	return schemas.get(t, cfg, schemaKind{vectors: cfg.Vectors, partitioned: true})
}

// createPartitioned creates the schema of a configuration with partitioned tables.
func createPartitioned(t storetest.T, cfg Config) {
	t.Helper()
	if err := cfg.setDefaults(); err != nil {
		t.Fatalf("%v", err)
	}
	cc, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		t.Fatalf("%v", err)
	}
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec // a pooler gives the connection to others
	db := stdlib.OpenDB(*cc)
	defer func() { _ = db.Close() }()
	m := &migrations{database: &database{cfg: cfg}}
	for _, l := range cfg.lines() {
		p, _, err := m.load(bg, db, l)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for i := range p.Migrations {
			one := &p.Migrations[i]
			one.SQL = partitionedSchema(one.SQL)
			if one.WithoutTransaction { // an index on a new table need not be built concurrently
				one.SQL, one.WithoutTransaction = strings.ReplaceAll(one.SQL, " CONCURRENTLY", ""), false
			}
		}
		if _, err := migrate.Apply(bg, db, p); err != nil {
			t.Fatalf("migrate: %v", err)
		}
	}
}

// Partitions find statements that identify rows by ctid or by a column that is not unique
// across partitions. Every table with data of an owner has the owner.
func TestTablesWithDataOfAnOwnerArePartitioned(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), partitioned(storetest.Wrap(t), Config{Vectors: true}))
	rows, err := s.pool.Query(bg, `SELECT relname::text FROM pg_class
		WHERE relnamespace = $1::regnamespace AND relkind = 'r' AND NOT relispartition ORDER BY 1`, s.cfg.Schema)
	must(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	want := []string{"commit_marks", "heartbeat", "queue_era", "schema_migrations", "schema_migrations_vector", "webhook_endpoints"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tables that are not partitioned (-want +got):\n%s", diff)
	}
}

// A statement about one owner reads one partition of each table.
func TestReadsOfATaskVisitOnePartition(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), partitioned(storetest.Wrap(t), Config{}))
	must(t, runTask(s, 0))
	k := taskKey(0)
	for name, q := range map[string]struct {
		text string
		args []any
	}{
		"get":         {sqlReadTask, []any{k.Owner, k.ID, true}},
		"get several": {sqlReadTaskBatch, []any{[]string{k.Owner}, []string{k.ID}}},
		"events":      {sqlReadEvents, []any{k.Owner, k.ID, 1, 100}},
		"log rows":    {sqlLogRows, []any{k.Owner, k.ID, 1, 100}},
		"steps":       {sqlReadSteps, []any{k.Owner, k.ID, 1}},
	} {
		rows, err := s.pool.Query(bg, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+s.qualify(q.text), q.args...)
		must(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		visited := make(map[string]int)
		for _, line := range plan {
			if m := visitedPartition.FindStringSubmatch(line); m != nil {
				visited[m[1]]++
			}
		}
		if len(visited) == 0 {
			t.Errorf("%s: the plan reads no partition:\n%s", name, strings.Join(plan, "\n"))
		}
		for table := range visited {
			other := strings.TrimSuffix(table, "_0") + "_1"
			if strings.HasSuffix(table, "_0") && visited[other] > 0 {
				t.Errorf("%s: the plan reads %s and %s:\n%s", name, table, other, strings.Join(plan, "\n"))
			}
		}
	}
}

// visitedPartition matches a scan that was executed.
var visitedPartition = regexp.MustCompile(` on (task_\w+_[01])\b.*\(actual rows`)
