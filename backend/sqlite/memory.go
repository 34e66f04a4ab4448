package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/holdfast-dev/holdfast/internal/migrate"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Memory stores the data that agents keep besides tasks in a database in memory, for package inmem. It is safe for
// concurrent use. The first change opens the database, which has one connection and no goroutine. Close is optional:
// the connection of an unused Memory is closed by a cleanup of the garbage collector.
type Memory struct {
	db      *memoryDB
	vectors *vectorIndexes
}

// memoryIndexes limits the memory of the indexes of documents, in bytes. The caches of contracts, such as embeddings of
// facts, may use a quarter of it in addition.
const memoryIndexes = 1 << 30

// NewMemory returns an empty database.
func NewMemory() *Memory {
	db := &memoryDB{caches: sqlkit.Caches{Bytes: memoryIndexes / 4}}
	return &Memory{db, newVectorIndexes(db, memoryIndexes, true, slog.New(slog.DiscardHandler))}
}

// Close discards the data. Later calls return [store.ErrClosed].
func (m *Memory) Close() error {
	m.vectors.close()
	return m.db.close()
}

// SQL implements sqlkit.Source.
func (m *Memory) SQL() sqlkit.DB { return m.db }

// Vectors returns the documents.
func (m *Memory) Vectors(cfg vector.Config) vector.Store { return newVectorStore(m.vectors, cfg) }

// ApplyEffects applies the effects of a change, or none of them.
func (m *Memory) ApplyEffects(c *store.Change) error {
	return m.db.Write(context.Background(), func(tx sqlkit.Tx) error { return c.ApplyEffects(tx) })
}

// memoryDB implements sqlkit.DB with one connection.
type memoryDB struct {
	mu     sync.Mutex
	conn   *conn // nil before the first change
	closed bool
	caches sqlkit.Caches
	// cleanup closes the connection if the database becomes unreachable without having been closed.
	cleanup runtime.Cleanup
}

// Dialect implements sqlkit.DB.
func (*memoryDB) Dialect() sqlkit.Dialect { return sqlkit.SQLite }

// Now implements sqlkit.DB.
func (*memoryDB) Now() time.Time { return time.Now() }

// Caches implements sqlkit.DB.
func (m *memoryDB) Caches() *sqlkit.Caches { return &m.caches }

// Write implements sqlkit.DB. The first call opens the database.
func (m *memoryDB) Write(ctx context.Context, f func(tx sqlkit.Tx) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(ctx); err != nil {
		return err
	}
	if m.conn == nil {
		c, err := m.open()
		if err != nil {
			return wrapError(err, "open a database in memory")
		}
		m.conn = c
		m.cleanup = runtime.AddCleanup(m, func(c *conn) { _ = c.close() }, c)
	}
	if _, err := m.conn.exec("BEGIN"); err != nil {
		return wrapError(err, "begin")
	}
	committed := false
	defer func() { // also if f panics
		if !committed {
			_, _ = m.conn.exec("ROLLBACK")
		}
	}()
	if err := f(m.tx(m.conn)); err != nil {
		return err
	}
	if _, err := m.conn.exec("COMMIT"); err != nil {
		return wrapError(err, "commit")
	}
	committed = true
	return nil
}

// Read implements sqlkit.DB. Before the first change, it reads the empty database that the process shares.
func (m *memoryDB) Read(ctx context.Context, f func(q sqlkit.Querier) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(ctx); err != nil {
		return err
	}
	if m.conn != nil {
		return f(m.tx(m.conn))
	}
	empty, err := sharedMemory()
	if err != nil {
		return wrapError(err, "open a database in memory")
	}
	empty.Lock()
	defer empty.Unlock()
	return f(m.tx(empty.conn))
}

// ReadSnapshot implements sqlkit.SnapshotReader. Every read is one.
func (m *memoryDB) ReadSnapshot(ctx context.Context, f func(q sqlkit.Querier) error) error {
	return m.Read(ctx, f)
}

func (*memoryDB) open() (*conn, error) {
	empty, err := sharedMemory()
	if err != nil {
		return nil, err
	}
	return empty.copy()
}

func (m *memoryDB) check(ctx context.Context) error {
	if m.closed {
		return store.ErrClosed
	}
	return ctx.Err()
}

// tx returns a transaction on a connection. It does not get the context of the call: a context that can be canceled
// costs a goroutine for each statement.
func (m *memoryDB) tx(c *conn) *kitTx {
	return &kitTx{ctx: context.Background(), conn: c, in: func(db sqlkit.DB) bool { return db == sqlkit.DB(m) }}
}

func (m *memoryDB) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := !m.closed && m.conn != nil
	m.closed = true
	if !open {
		return nil
	}
	m.cleanup.Stop()
	return m.conn.close()
}

// emptyMemory is a database in memory without rows. It is read in place of databases that were never changed. The first
// change of a database copies it.
type emptyMemory struct {
	sync.Mutex
	*conn
}

// sharedMemory returns the empty database of the process. The first call makes it, in about 20 ms.
var sharedMemory = sync.OnceValues(func() (*emptyMemory, error) {
	migrations, err := migrate.Load(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	raw, err := new(sqlite.Driver).Open(":memory:")
	if err != nil {
		return nil, err
	}
	c := newConn(raw)
	for _, m := range migrations {
		if err := c.script(m.SQL); err != nil {
			return nil, errors.Join(fmt.Errorf("migration %s: %w", m.Name, err), c.close())
		}
	}
	return &emptyMemory{conn: c}, nil
})

// copy returns a copy in memory.
func (e *emptyMemory) copy() (*conn, error) {
	e.Lock()
	defer e.Unlock()
	b, err := e.raw.(interface {
		NewBackup(uri string) (*sqlite.Backup, error)
	}).NewBackup(":memory:")
	if err != nil {
		return nil, err
	}
	if _, err := b.Step(-1); err != nil {
		return nil, errors.Join(err, b.Finish())
	}
	raw, err := b.Commit()
	if err != nil {
		return nil, err
	}
	return newConn(raw), nil
}
