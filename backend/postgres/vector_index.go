package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store/vector"
)

const (
	// indexFrom is the number of documents from which a collection gets an index. Comparing fewer takes
	// a few milliseconds.
	indexFrom = 10_000
	// Parameters of indexes of pgvector: links per vector, candidates during the build.
	indexLinks, indexCandidates = 16, 100
	// maxIndexed and maxHalfIndexed are the dimensions up to which pgvector indexes vectors.
	maxIndexed, maxHalfIndexed = 2000, 4000
	// kindHalf is the type of vectors of half precision.
	kindHalf = "halfvec"
	// minBuildMemory and maxBuildMemory limit the memory that the server uses for a build, in kB.
	minBuildMemory, maxBuildMemory = 64 << 10, 1 << 20
	// secondPass is the pause before a repeated pass, which finds what was not committed at the first pass.
	secondPass = 10 * time.Second
)

const (
	sqlUnindexed = `SELECT owner, name, id, metric, dimension, documents FROM {s}.vector_collections
		WHERE indexed = '' AND documents >= $1 AND dimension BETWEEN 1 AND $2 ORDER BY owner, name`
	sqlSetIndexed = `UPDATE {s}.vector_collections SET indexed = $3 WHERE owner = $1 AND id = $2`
	// sqlIndexNames returns the indexes of collections on the table, without the indexes on partitions
	// that belong to them.
	sqlIndexNames = `SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE i.indrelid = '{s}.vector_documents'::regclass AND c.relname ~ '^vector_(hnsw|attributes)_[0-9]+$'`
	sqlCollectionIDs = `SELECT id FROM {s}.vector_collections`
)

// vectorIndexes builds the indexes of large collections, and drops the indexes of deleted ones. An
// index is partial: it has the rows of one collection. So a search of a collection walks only its own
// documents, and collections without an index cost others nothing.
type vectorIndexes struct {
	*database
	wanted chan struct{}

	mu     sync.Mutex // held during a pass
	failed map[int64]bool
}

func newVectorIndexes(db *database) *vectorIndexes {
	return &vectorIndexes{database: db, wanted: make(chan struct{}, 1), failed: make(map[int64]bool)}
}

// notify starts a pass soon.
func (x *vectorIndexes) notify() {
	select {
	case x.wanted <- struct{}{}:
	default:
	}
}

// run removes the documents of interrupted deletions, then builds and drops indexes until ctx is done. It
// uses no connection of the pool, and Close waits for it.
func (x *vectorIndexes) run(ctx context.Context) {
	if err := x.continueDeletions(ctx); err != nil && ctx.Err() == nil {
		x.log.Warn("documents of deleted collections are left; the next start removes them", "schema", x.cfg.Schema, "error", x.cfg.maskPassword(err))
	}
	x.notify()
	var again <-chan time.Time // starts a repeated pass
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.wanted:
			again = time.After(secondPass)
		case <-again:
		}
		err := x.pass(ctx)
		switch {
		case ctx.Err() != nil || err == nil:
		case awaitsLock(err):
			again = time.After(secondPass)
		default:
			x.log.Warn("an index of documents was not built; searches compare all documents: run holdfast migrate up --postgres-vectors as the owner of the tables",
				"schema", x.cfg.Schema, "error", x.cfg.maskPassword(err))
		}
	}
}

// IndexVectors builds the indexes that large collections of documents lack, and drops the indexes of
// deleted collections. The user of the store must own the tables. Calls and other replicas continue
// meanwhile. If a build was interrupted, the next call repeats it. Without Config.Vectors it does nothing.
func (s *Store) IndexVectors(ctx context.Context) error {
	if !s.cfg.Vectors {
		return nil
	}
	s.vectors.mu.Lock()
	clear(s.vectors.failed)
	s.vectors.mu.Unlock()
	return wrapError(ctx, s.vectors.pass(ctx), "index documents")
}

// pass builds and drops indexes. It does not retry a collection that failed before, unless the cause was
// a lock.
func (x *vectorIndexes) pass(ctx context.Context) (err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	db := (&migrations{database: x.database}).connect(x.pool.Config().ConnConfig)
	defer func() { err = errors.Join(err, db.Close()) }()
	all, err := x.unindexed(ctx, db)
	if err != nil {
		return err
	}
	for _, c := range all {
		if x.failed[c.id] {
			continue
		}
		e := x.build(ctx, c)
		if e != nil && !builtElsewhere(e) {
			x.failed[c.id] = !awaitsLock(e)
			err = errors.Join(err, fmt.Errorf("collection %q of %q: %w", c.Name, c.owner, e))
		}
	}
	return errors.Join(err, x.dropUnused(ctx, db))
}

type unindexedRow struct {
	collectionRow
	owner string
}

func (x *vectorIndexes) unindexed(ctx context.Context, db *sql.DB) (all []unindexedRow, err error) {
	rows, err := db.QueryContext(ctx, x.qualify(sqlUnindexed), x.cfg.indexFrom, maxHalfIndexed)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var c unindexedRow
		if err := rows.Scan(&c.owner, &c.Name, &c.id, &c.Metric, &c.Dimension, &c.Documents); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, rows.Err()
}

// build builds the indexes of a collection: of its embeddings, and of its metadata for filters.
func (x *vectorIndexes) build(ctx context.Context, c unindexedRow) (err error) {
	kind := "vector"
	if x.cfg.HalfVectors || c.Dimension > maxIndexed {
		kind = kindHalf
	}
	x.log.Info("building an index of documents", "schema", x.cfg.Schema, "collection", c.Name, "documents", c.Documents)
	m, err := x.builder(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.db.Close()) }()
	for _, text := range []string{
		fmt.Sprintf(`CREATE INDEX CONCURRENTLY vector_attributes_%[1]d ON {s}.vector_documents USING gin (attributes jsonb_path_ops) WHERE collection = %[1]d`, c.id),
		fmt.Sprintf(`CREATE INDEX CONCURRENTLY vector_hnsw_%[1]d ON {s}.vector_documents USING hnsw ((embedding::{v}.%[2]s(%[3]d)) {v}.%[2]s_%[4]s_ops) WITH (m = %[5]d, ef_construction = %[6]d) WHERE collection = %[1]d`,
			c.id, kind, c.Dimension, metricNames[c.Metric].class, indexLinks, indexCandidates),
	} {
		if err := m.createIndex(ctx, x.replacer().Replace(text)); err != nil {
			return err
		}
	}
	_, err = m.db.ExecContext(ctx, x.qualify(sqlSetIndexed), c.owner, c.id, kind)
	return err
}

// builder returns a migrator with enough memory on its server to build an index in memory, which is
// many times faster. The caller must close its pool.
func (x *vectorIndexes) builder(c unindexedRow) (*migrator, error) {
	s := &migrations{database: x.database}
	p, err := s.poolConfig()
	if err != nil {
		return nil, err
	}
	if !x.cfg.Pooler {
		memory := c.Documents * int64(c.Dimension*4+512) * 5 / 4 / 1024
		p.ConnConfig.RuntimeParams["maintenance_work_mem"] = fmt.Sprintf("%dkB", min(maxBuildMemory, max(minBuildMemory, memory)))
	}
	return &migrator{s: s, db: s.connect(p.ConnConfig)}, nil
}

// builtElsewhere reports whether an index was not built because another process builds it. That
// process then sets indexed.
func builtElsewhere(err error) bool {
	state := sqlState(err)
	return errors.Is(err, errBuilding) || state == stateDuplicateTable || state == stateUniqueViolation
}

// metricNames are the names of metrics in pgvector.
var metricNames = map[vector.Metric]struct{ class, operator string }{
	vector.Cosine: {"cosine", "<=>"}, vector.Dot: {"ip", "<#>"}, vector.L2: {"l2", "<->"},
}

var indexNumber = regexp.MustCompile(`[0-9]+$`)

// dropUnused drops the indexes of collections that do not exist any more.
func (x *vectorIndexes) dropUnused(ctx context.Context, db *sql.DB) error {
	names, err := firstColumn(ctx, db, x.qualify(sqlIndexNames))
	if err != nil || len(names) == 0 {
		return err
	}
	// The ids are read after the names: an index is younger than its collection.
	ids, err := firstColumn(ctx, db, x.qualify(sqlCollectionIDs))
	for _, name := range names {
		if err == nil && !slices.Contains(ids, indexNumber.FindString(name)) {
			_, err = db.ExecContext(ctx, fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d; DROP INDEX IF EXISTS %s; COMMIT",
				x.cfg.MigrationLockTimeout.Milliseconds(), pgx.Identifier{x.cfg.Schema, name}.Sanitize()))
		}
	}
	return err
}

// firstColumn returns the first column of a query.
func firstColumn(ctx context.Context, db *sql.DB, query string) (all []string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}
