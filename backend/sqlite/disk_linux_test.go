package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
)

// platformChildren are the child tasks that need Linux.
var platformChildren = map[string]func(dir string) error{
	"disk":     childFillsDisk,
	"readonly": childOpensReadOnly,
}

// inNamespace runs a child task in its own user and mount namespace, so that it can
// mount file systems without being root.
func inNamespace(t *testing.T, task string) {
	t.Helper()
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

func TestFullDiskRejectsChangesUntilSpaceIsFreed(t *testing.T) {
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
	if err := checkCompleted(s, n); err != nil {
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
			return fmt.Errorf("after space was freed: %w", err)
		}
	}
	if err := errors.Join(s.Ping(bg), checkIntegrity(s), s.Close()); err != nil {
		return err
	}
	return checkOpenOnFullDisk(dir)
}

// checkOpenOnFullDisk fills the disk and opens a new store there.
func checkOpenOnFullDisk(dir string) error {
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

func TestOpenReportsUnwritableDirectory(t *testing.T) {
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
	// First only the file is read-only, then the directory.
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
		return fmt.Errorf("Open(%s) = %w, want code %s and %s in the error", dir, err, a2a.CodeUnavailable, path)
	}
	return nil
}
