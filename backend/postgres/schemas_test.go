//go:build services

package postgres

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// schemas are empty schemas that all tests of the process share. Creating and dropping a schema
// takes ten times as long as emptying one.
var schemas schemaPool

// schemaKind describes the tables of a schema.
type schemaKind struct{ vectors, partitioned bool }

// pooledSchema is a schema with the tables of its kind. definition describes them.
type pooledSchema struct{ name, definition string }

type schemaPool struct {
	mu    sync.Mutex
	free  map[schemaKind][]pooledSchema
	names []string      // of all schemas
	admin *pgxpool.Pool // connections of emptySchema
}

// emptyConfig completes a configuration with an empty schema that has the tables of a store.
// Other tests use the schema afterwards, unless the test changes its definition or fails. A
// configuration with a URL gets a new schema.
func emptyConfig(t storetest.T, cfg Config) Config {
	t.Helper()
	if cfg.URL != "" {
		return freshConfig(t, cfg)
	}
	return schemas.get(t, cfg, schemaKind{vectors: cfg.Vectors})
}

// get returns an empty schema. When the test ends, it is emptied and returned to the pool.
func (p *schemaPool) get(t storetest.T, cfg Config, kind schemaKind) Config {
	t.Helper()
	cfg = withDefaults(t, cfg)
	admin := p.connect(t, pgtest.URL(t))
	s, ok := p.pop(kind)
	if !ok {
		s.name = pgtest.NewSchema()
		p.add(s.name)
		cfg.Schema = s.name
		if kind.partitioned {
			createPartitioned(t, cfg)
		} else if opened, err := Open(bg, cfg); err != nil {
			t.Fatalf("Open() = %v", err)
		} else if err := opened.Close(); err != nil {
			t.Fatalf("Close() = %v", err)
		}
		s.definition = emptySchema(t, admin, s.name)
	}
	cfg.Schema = s.name
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if definition := emptySchema(t, admin, s.name); !t.Failed() && definition == s.definition {
			p.put(kind, s)
		}
	})
	return cfg
}

func (p *schemaPool) connect(t storetest.T, url string) *pgxpool.Pool {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.admin == nil {
		admin, err := pgxpool.New(bg, url)
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		p.admin = admin
	}
	return p.admin
}

func (p *schemaPool) add(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names = append(p.names, name)
}

func (p *schemaPool) pop(kind schemaKind) (s pooledSchema, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.free[kind]
	if len(free) == 0 {
		return s, false
	}
	p.free[kind] = free[:len(free)-1]
	return free[len(free)-1], true
}

func (p *schemaPool) put(kind schemaKind, s pooledSchema) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == nil {
		p.free = make(map[schemaKind][]pooledSchema)
	}
	p.free[kind] = append(p.free[kind], s)
}

// drop drops all schemas, at the end of the process.
func (p *schemaPool) drop() (err error) {
	if p.admin == nil {
		return nil
	}
	defer p.admin.Close()
	for _, name := range p.names {
		_, e := p.admin.Exec(bg, "DROP SCHEMA IF EXISTS "+name+" CASCADE")
		err = errors.Join(err, e)
	}
	return err
}

// emptySchema truncates the tables that have rows, and restores the rows that migrations
// insert. It returns the definition of the schema without indexes of collections.
// TRUNCATE also removes dead rows and statistics. emptySchema fails if a test has left a
// transaction open.
func emptySchema(t storetest.T, admin *pgxpool.Pool, name string) (definition string) {
	t.Helper()
	const text = `DO $$
		DECLARE
			used text;
		BEGIN
			PERFORM set_config('lock_timeout', '10s', true);
			SELECT string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid) INTO used FROM pg_class c
			WHERE c.relnamespace = '{s}'::regnamespace AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0
				AND c.relname NOT LIKE 'schema_migrations%' AND c.relname NOT IN ('heartbeat', 'queue_era');
			IF used IS NOT NULL THEN
				EXECUTE 'TRUNCATE ' || used;
			END IF;
			UPDATE {s}.heartbeat SET beats = 0 WHERE beats <> 0;
			UPDATE {s}.queue_era SET era = 1 WHERE era <> 1;
		END $$;
		SELECT concat_ws(chr(10),
			(SELECT string_agg(concat_ws(' ', relname, relkind, relnatts, relowner, relhastriggers, relchecks, reloptions, relacl), chr(10) ORDER BY relname)
				FROM pg_class WHERE relnamespace = '{s}'::regnamespace AND relname !~ '^vector_(hnsw|attributes)_'),
			(SELECT string_agg(proname || md5(prosrc), ' ' ORDER BY proname) FROM pg_proc WHERE pronamespace = '{s}'::regnamespace),
			(SELECT string_agg(version || checksum, ' ' ORDER BY version) FROM {s}.schema_migrations))`
	c, err := admin.Acquire(bg)
	if err != nil {
		t.Errorf("empty schema: %v", err)
		return ""
	}
	defer c.Release()
	results, err := c.Conn().PgConn().Exec(bg, strings.ReplaceAll(text, "{s}", name)).ReadAll()
	if err != nil {
		t.Errorf("empty schema: %v", err)
		return ""
	}
	return string(results[len(results)-1].Rows[0][0])
}

// runTests runs the tests and then drops the schemas that they shared.
func runTests(m *testing.M) int {
	code := m.Run()
	if err := schemas.drop(); err != nil {
		fmt.Fprintln(os.Stderr, "drop schemas:", err)
		return 1
	}
	return code
}

// An emptied schema has the same rows as a new one.
func TestEmptiedSchemaEqualsANewOne(t *testing.T) {
	t.Parallel()
	w := storetest.Wrap(t)
	for name, create := range map[string]func(storetest.T, Config) Config{"plain": emptyConfig, "partitioned": partitioned} {
		cfg := create(w, Config{})
		s := open(w, cfg)
		before, definition := rowCounts(t, s), emptySchema(w, schemas.admin, cfg.Schema)
		for n := range 3 {
			must(t, runTask(s, n))
		}
		if after := rowCounts(t, s); after == before {
			t.Fatalf("%s: contents after tasks = %s, want more", name, after)
		}
		must(t, s.Close())
		if after := emptySchema(w, schemas.admin, cfg.Schema); after != definition {
			t.Errorf("%s: definition after emptying = %s, want %s", name, after, definition)
		}
		s = open(w, cfg)
		if after := rowCounts(t, s); after != before {
			t.Errorf("%s: contents after emptying = %s, want %s", name, after, before)
		}
		_, err := s.pool.Exec(bg, s.qualify(`ALTER TABLE {s}.task_rows ADD COLUMN more integer`))
		must(t, err)
		if after := emptySchema(w, schemas.admin, cfg.Schema); after == definition {
			t.Errorf("%s: the definition does not show another column", name)
		}
	}
}

// rowCounts describes the number of rows of each table that is not empty.
func rowCounts(t *testing.T, s *Store) (text string) {
	t.Helper()
	const query = `SELECT coalesce(string_agg(line, ' ' ORDER BY line), '') FROM (
		SELECT c.relname || ' ' || (xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM %s', c.oid::regclass), false, true, '')))[1]::text AS line
		FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p')) AS lines WHERE line NOT LIKE '% 0'`
	must(t, s.pool.QueryRow(bg, s.qualify(query), s.cfg.Schema).Scan(&text))
	return text
}
