package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func TestOpenReportsAllConfigErrors(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Config{Synchronous: "OFF", Readers: -1})
	for _, want := range []string{"Dir is empty", `Synchronous is "OFF"`, "must not be negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open() = %v, want %q in it", err, want)
		}
	}
}

func TestOpenCreatesPrivateDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	open(t, Config{Dir: dir})
	info, err := os.Stat(dir)
	must(t, err)
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the data directory = %v, want 0700", info.Mode().Perm())
	}
	info, err = os.Stat(filepath.Join(dir, FileName))
	must(t, err)
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the database = %v, want 0600", info.Mode().Perm())
	}
}

func TestSecondProcessIsRejectedWithHolderOfLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := child(t.Context(), "hold", dir)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	bufio.NewScanner(out).Scan()

	_, err = Open(t.Context(), Config{Dir: dir})
	pid := strconv.Itoa(cmd.Process.Pid)
	for _, want := range []string{"data directory " + dir + " is locked by process " + pid + " (holdfast, since 20"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open() = %v, want %q in it", err, want)
		}
	}
	if got := a2a.CodeOf(err); got != a2a.CodeUnavailable {
		t.Errorf("code of %v = %s, want %s", err, got, a2a.CodeUnavailable)
	}
	must(t, in.Close())
	must(t, cmd.Wait())
	open(t, Config{Dir: dir})
}

func TestOpenRejectsInvalidFiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"a text file", func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(strings.Repeat("not a database ", 100)), 0o600))
		}, "is not a SQLite database: move the file away"},
		{"a short file", func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte("SQLite"), 0o600))
		}, "is not a SQLite database: move the file away"},
		{"an empty file", func(t *testing.T, path string) {
			must(t, os.WriteFile(path, nil, 0o600))
		}, "is empty (0 bytes): restore it from a backup"},
		{"a database without application id", func(t *testing.T, path string) {
			execFile(t, path, "CREATE TABLE accounts (id)")
		}, "is the database of another program"},
		{"another program's database", func(t *testing.T, path string) {
			execFile(t, path, "PRAGMA application_id = 77; CREATE TABLE x (y)")
		}, "is the database of another program"},
		{"a newer schema", func(t *testing.T, path string) {
			makeStore(t, path)
			execFile(t, path, "INSERT INTO schema_migrations VALUES ('999912312359', 'future', 'x', '2099-01-01T00:00:00Z', '999912312359')")
		}, "schema is newer than this program: migration 999912312359_future needs a program with migration 999912312359 or later; use the program that applied it"},
		{"a changed migration", func(t *testing.T, path string) {
			makeStore(t, path)
			execFile(t, path, "UPDATE schema_migrations SET checksum = '00ff'")
		}, "applied migration was changed: 202611221300_initial was applied with checksum 00ff"},
		{"a damaged file", damage, "is damaged: restore it from a backup"},
		{"a damaged first page", func(t *testing.T, path string) {
			makeStore(t, path)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			must(t, err)
			_, err = f.WriteAt([]byte(strings.Repeat("\xff", 3000)), 100)
			must(t, errors.Join(err, f.Close()))
		}, "is damaged: restore it from a backup"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, FileName)
			test.make(t, path)
			_, err := Open(t.Context(), Config{Dir: dir})
			if err == nil || !strings.Contains(err.Error(), path+" ") && !strings.Contains(err.Error(), path+":") || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("Open() = %v, want %q and the path in it", err, test.want)
			}
			if got := a2a.CodeOf(err); got != a2a.CodeInternal {
				t.Errorf("code of %v = %s, want %s", err, got, a2a.CodeInternal)
			}
			if _, err := Migrations(t.Context(), dir); err == nil && test.name != "a damaged file" {
				t.Error("Migrations() = nil error, want an error")
			}
			// Open has released the lock.
			lock, err := lockDir(t.Context(), dir)
			must(t, err)
			must(t, unlock(lock))
		})
	}
}

func makeStore(t *testing.T, path string) {
	t.Helper()
	s := open(t, Config{Dir: filepath.Dir(path)})
	for n := range 200 {
		must(t, runTask(s, n))
	}
	must(t, s.Close())
}

// damage creates a database and overwrites pages in the middle.
func damage(t *testing.T, path string) {
	t.Helper()
	makeStore(t, path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	for page := int64(3); page < 40; page++ {
		_, err = f.WriteAt([]byte(strings.Repeat("\x5a", 4096)), page*4096)
		must(t, err)
	}
	must(t, f.Close())
}

func execFile(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", dataSource(path))
	must(t, err)
	_, err = db.ExecContext(t.Context(), text)
	must(t, errors.Join(err, db.Close()))
}

// Open does not read a large file completely.
func TestPingReportsDamageOfLargeFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	damage(t, path)
	must(t, os.Truncate(path, checkBeforeUse+1<<20))
	s := newStore(Config{Dir: dir, Logger: testLogger(t)})
	must(t, s.startDamageCheck(t.Context(), true))
	<-s.checked
	damage := s.damage.Load()
	if damage == nil || !strings.Contains(damage.Error(), path+" is damaged") {
		t.Errorf("damage = %v, want damage of %s", damage, path)
	}
}

func TestCloseLeavesOneFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	must(t, runTask(s, 1))
	must(t, s.Close())
	must(t, s.Close())
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if e.Name() != FileName && e.Name() != lockFile {
			t.Errorf("data directory has %s after Close, want only the database and the lock file", e.Name())
		}
	}
	if err := s.Ping(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Ping() of a closed store = %v, want %v", err, store.ErrClosed)
	}
}

func TestPingWritesAndTimesOut(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	must(t, s.Ping(t.Context()))
	beats := ints(t, s, sqlReadHeartbeat)
	if len(beats) != 1 || beats[0] != 1 {
		t.Errorf("heartbeats after one Ping = %v, want [1]", beats)
	}
	release := blockWriter(s)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Ping(ctx); a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Errorf("Ping() of a busy store = %v, want code %s", err, a2a.CodeUnavailable)
	}
}

// blockWriter keeps the writer busy until release is called.
func blockWriter(s *Store) (release func()) {
	blocked, unblock, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.write(bg, &request{weight: 1, apply: func(*writer) error {
			close(blocked)
			<-unblock
			return nil
		}})
	}()
	<-blocked
	return func() { close(unblock); <-done }
}

// A newer program has applied a migration that is compatible with this one.
func TestOlderProgramsAcceptACompatibleSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	makeStore(t, path)
	execFile(t, path, "ALTER TABLE task_rows ADD COLUMN extra INTEGER")
	execFile(t, path, "INSERT INTO schema_migrations VALUES ('999912312359', 'future', 'x', '2099-01-01T00:00:00Z', '202611221300')")
	for _, readOnly := range []bool{false, true} {
		s, err := Open(t.Context(), Config{Dir: dir, ReadOnly: readOnly})
		must(t, err)
		if !readOnly {
			must(t, runTask(s, 200))
		}
		_, err = s.Task(t.Context(), taskKey(200), store.TaskOptions{})
		must(t, err)
		must(t, s.Close())
	}
	all, err := Migrations(t.Context(), dir)
	must(t, err)
	if last := all[len(all)-1]; len(all) < 2 || last.Name != "999912312359_future" || last.Applied.IsZero() {
		t.Errorf("Migrations() = %+v, want the last one applied by the newer program", all)
	}
}
