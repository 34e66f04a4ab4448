package postgres

import (
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store/storetest"
)

// schemas is a pool of empty schemas for the tests of a suite. Creating and dropping a schema
// takes five times as long as emptying one.
type schemas struct {
	suite  storetest.T                // the schemas are dropped at its end
	create func(t storetest.T) Config // called with suite

	mu   sync.Mutex
	free []Config
}

func newSchemas(t testing.TB, create func(t storetest.T) Config) *schemas {
	return &schemas{suite: storetest.Wrap(t), create: create}
}

// get returns an empty schema. When the test ends, it is emptied and returned to the pool.
func (s *schemas) get(t storetest.T) Config {
	t.Helper()
	cfg, ok := s.pop()
	if !ok {
		cfg = s.create(s.suite)
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if emptySchema(t, cfg); !t.Failed() {
			s.put(cfg)
		}
	})
	return cfg
}

func (s *schemas) pop() (cfg Config, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		return cfg, false
	}
	cfg, s.free = s.free[len(s.free)-1], s.free[:len(s.free)-1]
	return cfg, true
}

func (s *schemas) put(cfg Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, cfg)
}

// emptySchema truncates the tables that have rows and restores the rows that migrations insert.
// TRUNCATE also removes dead rows and statistics. emptySchema fails if a test has left a
// transaction open.
func emptySchema(t storetest.T, cfg Config) {
	t.Helper()
	const text = `SET lock_timeout = '10s';
		DO $$
		DECLARE
			used text;
		BEGIN
			SELECT string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid) INTO used FROM pg_class c
			WHERE c.relnamespace = '{s}'::regnamespace AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0
				AND c.relname NOT LIKE 'schema_migrations%' AND c.relname <> 'heartbeat';
			IF used IS NOT NULL THEN
				EXECUTE 'TRUNCATE ' || used;
			END IF;
			PERFORM setval('{s}.task_pks', 1024, false);
			UPDATE {s}.heartbeat SET beats = 0 WHERE beats <> 0;
		END $$`
	c, err := pgx.Connect(bg, cfg.URL)
	if err != nil {
		t.Errorf("empty schema: %v", err)
		return
	}
	defer func() { _ = c.Close(bg) }()
	if _, err := c.Exec(bg, strings.ReplaceAll(text, "{s}", cfg.Schema), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Errorf("empty schema: %v", err)
	}
}

// An emptied schema has the same rows as a new one.
func TestEmptiedSchemaEqualsANewOne(t *testing.T) {
	t.Parallel()
	w := storetest.Wrap(t)
	for name, create := range map[string]func(storetest.T) Config{
		"plain":       func(t storetest.T) Config { return freshConfig(t, Config{}) },
		"partitioned": func(t storetest.T) Config { return partitioned(t, Config{}) },
	} {
		cfg := create(w)
		s := open(w, cfg)
		before := rowCounts(t, s)
		for n := range 3 {
			must(t, runTask(s, n))
		}
		if after := rowCounts(t, s); after == before {
			t.Fatalf("%s: contents after tasks = %s, want more", name, after)
		}
		must(t, s.Close())
		emptySchema(w, cfg)
		if after := rowCounts(t, open(w, cfg)); after != before {
			t.Errorf("%s: contents after emptying = %s, want %s", name, after, before)
		}
	}
}

// rowCounts describes the number of rows of each table that is not empty, and the state of the
// sequence.
func rowCounts(t *testing.T, s *Store) (text string) {
	t.Helper()
	const query = `SELECT coalesce(string_agg(line, ' ' ORDER BY line), '') || (SELECT ' next ' || last_value || is_called FROM {s}.task_pks) FROM (
		SELECT c.relname || ' ' || (xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM %s', c.oid::regclass), false, true, '')))[1]::text AS line
		FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p')) AS lines WHERE line NOT LIKE '% 0'`
	must(t, s.pool.QueryRow(bg, s.qualify(query), s.cfg.Schema).Scan(&text))
	return text
}
