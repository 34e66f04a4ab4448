package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gofrs/flock"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/migrate"
)

// FileName is the name of the database in the data directory.
const FileName = "holdfast.db"

// Config configures a store.
type Config struct {
	// Dir is the data directory. Open creates it with mode 0700 if it does not exist.
	// It must be on a local disk. Required.
	Dir string
	// Synchronous is "FULL" (default) or "NORMAL". With FULL, acknowledged changes
	// survive a power failure. With NORMAL, they survive a crash of the process, but
	// not always a power failure.
	Synchronous string
	// Readers is the number of connections that read. Default GOMAXPROCS, at least 2.
	// More than the number of processors makes reads slower. Lists use at most half of
	// them, so that reads of single tasks need not wait for lists.
	Readers int
	// CacheKB is the page cache of each reading connection, in KiB. Default 8192. The
	// connection that writes has twice as much.
	CacheKB int
	// IndexMemory limits, in bytes, the memory of the indexes of documents (Vectors, three quarters of it)
	// and of caches of contracts such as the embeddings of facts (a quarter). If the indexes need more, the
	// least recently used ones are dropped; a search or a write that needs a dropped index reads it again.
	// The most recently used index remains, whatever its size. Default: an eighth of the cgroup's memory
	// limit or of the machine's memory, 64 MiB to 1 GiB.
	IndexMemory int64
	// MaxPages limits the size of the database, in pages of 4 KiB. A database of this
	// size is full: changes fail as on a full disk. 0 means no limit.
	MaxPages int64
	// ReadOnly opens an existing database for reading only, also while another process
	// serves it; commits of that process are visible at once. It takes no lock and applies
	// no migration. Open fails if the schema does not match this program. All methods that
	// write, including Ping, return an error with a2a.CodeUnsupported. Info.Exclusive is false,
	// because the other process may hold leases. Synchronous and MaxPages are ignored.
	ReadOnly bool
	// Logger receives errors and events that no caller receives. Default: discard.
	Logger *slog.Logger
}

func (c *Config) complete() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("sqlite: Dir is empty, want a data directory"))
	}
	switch c.Synchronous = strings.ToUpper(c.Synchronous); c.Synchronous {
	case "":
		c.Synchronous = "FULL"
	case "FULL", "NORMAL":
	default:
		errs = append(errs, fmt.Errorf("sqlite: Synchronous is %q, want FULL or NORMAL", c.Synchronous))
	}
	if c.Readers < 0 || c.CacheKB < 0 || c.MaxPages < 0 || c.IndexMemory < 0 {
		errs = append(errs, errors.New("sqlite: Readers, CacheKB, IndexMemory and MaxPages must not be negative"))
	}
	if c.Readers == 0 {
		c.Readers = max(2, runtime.GOMAXPROCS(0))
	}
	if c.CacheKB == 0 {
		c.CacheKB = 8192
	}
	if c.IndexMemory == 0 {
		c.IndexMemory = max(64<<20, min(1<<30, memory.Default()/6)) // memory.Default is three quarters
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

//go:embed migrations/*.sql
var migrationFiles embed.FS

const (
	busyTimeout = "PRAGMA busy_timeout(5000)"
	// applicationID identifies a database of Holdfast: "HLDF".
	applicationID = 0x484c4446
)

// Open opens the store in cfg.Dir and creates it if needed. Errors name the path and
// what to do.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if cfg.ReadOnly {
		s := newStore(cfg)
		if err := s.openReadOnly(ctx); err != nil {
			return nil, errors.Join(readOnlyOpenError(err, s.path), s.release())
		}
		return s, nil
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, openError(err, cfg.Dir)
	}
	lock, err := lockDir(ctx, cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := newStore(cfg)
	s.lock, s.terminal = lock, newTerminalCache()
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(openError(err, s.path), s.release())
	}
	go func() {
		defer close(s.stopped)
		s.committer.run()
	}()
	s.vectors.start()
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	unclean, err := inspect(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = create(ctx, s.path)
	case err == nil:
		err = migrateFile(ctx, s.path, s.cfg.Synchronous)
	}
	if err != nil {
		return err
	}
	if err := s.openWriter(); err != nil {
		return err
	}
	if s.committer.files, err = watchFiles(s.log, s.path, s.path+"-wal"); err != nil {
		return err
	}
	if err := s.openReaders(); err != nil {
		return err
	}
	s.committer.wal = &checkpointer{conn: s.committer.conn, log: s.log, path: s.path + "-wal", gate: &s.reads, limit: walPauseSize, dirty: unclean}
	s.stopped = make(chan struct{})
	return s.startDamageCheck(ctx, unclean)
}

func (s *Store) openReaders() error {
	mode := readWrite
	if s.cfg.ReadOnly {
		mode = readOnly
	}
	s.readers.idle, s.lists = make(chan struct{}, s.cfg.Readers), make(chan struct{}, max(1, s.cfg.Readers/2))
	for range s.cfg.Readers {
		r, err := openReader(s.path, mode, s.cfg.CacheKB)
		if err != nil {
			return err
		}
		s.readers.put(r)
	}
	return nil
}

// create creates the database under a temporary name and renames it when it is
// complete. A process killed in between never leaves a database without a schema.
func create(ctx context.Context, path string) (err error) {
	draft := path + ".new"
	defer func() {
		if err != nil {
			err = errors.Join(err, removeAll(draft))
		}
	}()
	if err := removeAll(draft); err != nil {
		return err
	}
	f, err := os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := migrateFile(ctx, draft, "FULL"); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// removeAll removes a database with SQLite's additional files.
func removeAll(path string) error {
	return errors.Join(os.RemoveAll(path), os.RemoveAll(path+"-wal"), os.RemoveAll(path+"-shm"))
}

// syncDir makes a rename durable on systems that can sync directories.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// inspect reads the header of the file. It reports whether the database was not closed
// properly, and rejects a file that is not a database of Holdfast.
func inspect(path string) (unclean bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 72)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	const magic = "SQLite format 3\x00"
	if n == 0 {
		return false, emptyFile(path)
	}
	if n < len(head) || string(head[:len(magic)]) != magic {
		return false, a2a.Errorf(a2a.CodeInternal,
			"%s is not a SQLite database: move the file away or choose another data directory", path)
	}
	if binary.BigEndian.Uint32(head[68:]) != applicationID {
		return false, foreignFile(path)
	}
	wal, err := os.Stat(path + "-wal")
	return err == nil && wal.Size() > 0, nil
}

// emptyFile returns the error for an empty file. Holdfast never creates one, so its
// data was lost. Creating a database in its place would hide that.
func emptyFile(path string) error {
	return a2a.Errorf(a2a.CodeInternal, "%s is empty (0 bytes): restore it from a backup, or delete it to start without data", path)
}

func foreignFile(path string) error {
	return a2a.Errorf(a2a.CodeInternal, "%s is the database of another program: choose another data directory", path)
}

func migrateFile(ctx context.Context, path, synchronous string) (err error) {
	migrations, err := migrate.Load(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	// auto_vacuum must be set before the first page is written. The driver sorts pragmas by name,
	// but applies _auto_vacuum first.
	db, err := sql.Open("sqlite", dataSource(path, "busy_timeout(5000)", fmt.Sprintf("application_id(%d)", applicationID),
		"journal_mode(wal)", "synchronous("+synchronous+")")+"&_txlock=immediate&_auto_vacuum=INCREMENTAL")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	_, err = migrate.Apply(ctx, db, migrate.Params{Migrations: migrations})
	if errors.Is(err, migrate.ErrNewer) || errors.Is(err, migrate.ErrChanged) {
		return a2a.Errorf(a2a.CodeInternal, "%s: %v", path, err)
	}
	return err
}

func (s *Store) openWriter() error {
	c, err := openConn(s.path, readWrite, "busy_timeout(5000)", "journal_mode(wal)", "synchronous("+s.cfg.Synchronous+")",
		fmt.Sprintf("cache_size(-%d)", 2*s.cfg.CacheKB), "temp_store(memory)",
		fmt.Sprintf("wal_autocheckpoint(%d)", walAutocheckpoint), fmt.Sprintf("journal_size_limit(%d)", walFileSize))
	if err != nil {
		return err
	}
	s.committer = &committer{
		writer: newWriter(c, s.terminal, &s.watchers), log: s.log,
		queue: make(chan *request, queueLength), large: make(chan struct{}, largeQueued),
	}
	if s.cfg.MaxPages > 0 {
		if err := c.script(fmt.Sprintf("PRAGMA max_page_count(%d)", s.cfg.MaxPages)); err != nil {
			return err
		}
	}
	return s.committer.load()
}

// release closes everything that open has opened.
func (s *Store) release() error {
	var errs []error
	errs = append(errs, s.readers.close())
	if s.committer != nil {
		errs = append(errs, s.committer.close())
	}
	if s.lock != nil {
		errs = append(errs, unlock(s.lock))
	}
	return errors.Join(errs...)
}

func unlock(lock *flock.Flock) error {
	if err := lock.Unlock(); err != nil {
		return fmt.Errorf("unlock data directory: %w", err)
	}
	return nil
}
