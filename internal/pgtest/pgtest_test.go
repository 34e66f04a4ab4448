//go:build services && unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/await"
)

const childVariable = "HOLDFAST_PGTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		s, err := Start(Config{})
		fmt.Println(s.dir, s.pid, err)
		select {} // until it is killed
	}
	os.Exit(m.Run())
}

func TestSharedServerHasSchemas(t *testing.T) {
	t.Parallel()
	url := URL(t)
	name := Schema(t, url)
	if err := execute(url, "CREATE SCHEMA "+name); err != nil {
		t.Fatal(err)
	}
}

func TestAcknowledgedRowsSurviveAnImmediateStop(t *testing.T) {
	t.Parallel()
	s, err := Start(Config{Fsync: true, Settings: map[string]string{"shared_buffers": "16MB"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := execute(s.URL(), "CREATE TABLE a (n int)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := execute(s.URL(), "SELECT 1"); err == nil {
		t.Fatal("a stopped server answers")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := execute(s.URL(), "INSERT INTO a VALUES (1)"); err != nil {
		t.Fatal(err)
	}
}

func TestServerEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dir, failure string
	var pid int
	if _, err := fmt.Fscanln(out, &dir, &pid, &failure); err != nil || !strings.Contains(failure, "nil") {
		t.Fatalf("the child said %q %d %q, %v", dir, pid, failure, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	await.True(t, "the server ends after its process and removes its data", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist) && syscall.Kill(pid, 0) != nil
	})
}
