//go:build services

package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-dev/holdfast/internal/migrate"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

var createTable = regexp.MustCompile(`(?s)CREATE TABLE (\S+)\.(\w+) \((.*?)\n\)( WITH \(.*?\))?;`)

// partitions is the number of partitions of each table of partitionedSchema.
const partitions = 2

// partitionedSchema rewrites a migration: tables with an owner are partitioned by the hash of
// the owner, other tables with a task number by the hash of that.
func partitionedSchema(text string) string {
	return createTable.ReplaceAllStringFunc(text, func(create string) string {
		m := createTable.FindStringSubmatch(create)
		schema, table, columns, with := m[1], m[2], m[3], m[4]
		key := ""
		for _, column := range []string{"owner", "task_pk"} {
			if key == "" && strings.Contains(columns, "\n  "+column+" ") {
				key = column
			}
		}
		if key == "" {
			return create
		}
		if strings.Contains(text, ` ON `+schema+`.`+table+` (owner COLLATE "POSIX"`) && key == "owner" {
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
// across partitions.
func TestPartitionedSchemaHasPartitions(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), partitioned(storetest.Wrap(t), Config{}))
	const text = `pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'p'`
	if n := countRows(t, s, text, s.cfg.Schema); n != 30 {
		t.Errorf("%d tables are partitioned, want 30", n)
	}
}
