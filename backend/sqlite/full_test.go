package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func TestAFullDatabaseRefusesChangesUntilThereIsSpace(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir(), MaxPages: 100})
	written, err := fillUp(s, 0)
	must(t, err)
	must(t, stillReads(s, written))
	must(t, s.write(bg, &request{weight: 1, apply: func(w *writer) error { return nil }}))
	setMaxPages(s, 100_000)
	must(t, runTask(s, written+1))
	must(t, s.Ping(bg))
	must(t, checkIntegrity(s))
}

// setMaxPages changes the limit while the writer does nothing else.
func setMaxPages(s *Store, pages int64) {
	release := holdWriter(s)
	_ = s.writer.exec(bg, fmt.Sprintf("PRAGMA max_page_count(%d)", pages))
	release()
}

// fillUp completes tasks until the store is full and returns the number of the
// task that did not fit.
func fillUp(s *Store, from int) (int, error) {
	for n := from; n < from+100_000; n++ {
		err := runTask(s, n)
		switch {
		case err == nil:
		case a2a.CodeOf(err) != a2a.CodeExhausted || !strings.Contains(err.Error(), "disk full"):
			return n, fmt.Errorf("change of task %d = %w, want code %s and \"disk full\"", n, err, a2a.CodeExhausted)
		default:
			return n, nil
		}
	}
	return 0, errors.New("the store is never full")
}

// stillReads checks that what was acknowledged is whole.
func stillReads(s *Store, n int) error {
	for i := range n {
		t, err := s.Task(bg, taskKey(i), store.TaskOptions{})
		if err != nil {
			return fmt.Errorf("task %d of a full store: %w", i, err)
		}
		if t.Status.State != a2a.StateCompleted || len(t.History) != 2 || len(t.Artifacts) != 1 {
			return fmt.Errorf("task %d of a full store is not whole: %+v", i, t)
		}
	}
	return nil
}

func checkIntegrity(s *Store) error {
	c, err := openConn(s.path, "query_only(1)")
	if err != nil {
		return err
	}
	defer func() { _ = c.close() }()
	check, err := c.prepare("PRAGMA integrity_check")
	if err != nil {
		return err
	}
	return check.query(bg, func(r record) error {
		if r.text(0) != "ok" {
			return fmt.Errorf("integrity_check: %s", r.text(0))
		}
		return nil
	})
}

// inNamespace runs a child task with a user and mount namespace of its own, in
// which it may mount file systems whoever runs the test.
func inNamespace(t *testing.T, task string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs the mount namespaces of Linux")
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatalf("needs the program unshare of util-linux: %v", err)
	}
	var out bytes.Buffer
	cmd := child(t.Context(), task, t.TempDir(), unshare, "-Urm")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("child %s = %v\n%s", task, err, out.String())
	}
}

func TestAFullDiskRefusesChangesUntilThereIsSpace(t *testing.T) {
	t.Parallel()
	inNamespace(t, "disk")
}

func childFillsDisk(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); err != nil {
		return err
	}
	s, err := Open(bg, Config{Dir: filepath.Join(dir, "data")})
	if err != nil {
		return err
	}
	n, err := fillUp(s, 0)
	if err != nil {
		return err
	}
	if err := stillReads(s, n); err != nil {
		return err
	}
	if err := s.Ping(bg); a2a.CodeOf(err) != a2a.CodeExhausted && err != nil {
		return fmt.Errorf("Ping() on a full disk = %w, want code %s", err, a2a.CodeExhausted)
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	for i := range 20 {
		if err := runTask(s, n+1+i); err != nil {
			return fmt.Errorf("after space was made: %w", err)
		}
	}
	if err := errors.Join(s.Ping(bg), checkIntegrity(s), s.Close()); err != nil {
		return err
	}
	return openFails(dir)
}

// openFails fills the disk to the brim and opens a new store there.
func openFails(dir string) error {
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		return err
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	_ = f.Close()
	_, err = Open(bg, Config{Dir: filepath.Join(dir, "new")})
	if a2a.CodeOf(err) != a2a.CodeExhausted || !strings.Contains(err.Error(), filepath.Join(dir, "new")) || !strings.Contains(err.Error(), "disk full") {
		return fmt.Errorf("Open() on a full disk = %w, want code %s, the path and \"disk full\"", err, a2a.CodeExhausted)
	}
	return nil
}

func TestOpenTellsThatItCannotWrite(t *testing.T) {
	t.Parallel()
	inNamespace(t, "readonly")
}

func childOpensReadOnly(dir string) error {
	data := filepath.Join(dir, "data")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	s, err := Open(bg, Config{Dir: data})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	// The file alone, then the directory.
	path := filepath.Join(data, FileName)
	if err := errors.Join(
		syscall.Mount(path, path, "", syscall.MS_BIND, ""),
		syscall.Mount("", path, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""),
	); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if err := wantCannotWrite(data, path); err != nil {
		return err
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return errors.Join(wantCannotWrite(data, data), wantCannotWrite(filepath.Join(dir, "new"), filepath.Join(dir, "new")))
}

func wantCannotWrite(dir, path string) error {
	_, err := Open(bg, Config{Dir: dir})
	if a2a.CodeOf(err) != a2a.CodeUnavailable || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "cannot be written: give this user the right") {
		return fmt.Errorf("Open(%s) = %w, want code %s and that %s cannot be written", dir, err, a2a.CodeUnavailable, path)
	}
	return nil
}
