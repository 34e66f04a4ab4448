//go:build faults

package faults_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// awayFor is longer than the servers wait for a database, its locks and its connections.
const awayFor = 4 * time.Second

var impatient = []string{"-command-timeout", "1s", "-pool-timeout", "1s", "-lease", "30s"}

// A turn writes files and blobs while its store is away. It completes in its first attempt, and reads all of them back.
func TestFilesAndBlobsWaitForTheStore(t *testing.T) {
	parallel(t)
	const text = "files 4 300000 500ms"
	write := func(t *testing.T, s *site, p *process, away func()) {
		id := p.send(text)
		s.await("kept", id, "0")
		away()
		task := p.awaitEnd(id)
		wantState(t, task, a2a.StateCompleted)
		if got, want := said(task), "4 files and 4 blobs of 300000 bytes"; got != want {
			t.Errorf("reply = %q, want %q", got, want)
		}
		s.wantOneAttempt([]string{id})
	}
	t.Run("full disk", func(t *testing.T) {
		parallel(t)
		s := newSite(t)
		d := s.startOnSmallDisk("40m")
		write(t, s, d.process, func() {
			free := d.fill()
			time.Sleep(awayFor / 2)
			free()
		})
		s.proveOnDisk(d)
	})
	t.Run("locked database", func(t *testing.T) {
		parallel(t)
		s := newSite(t)
		p := s.start()
		write(t, s, p, func() {
			db := must(sql.Open("sqlite", filepath.Join(s.dir, sqlite.FileName)+"?_pragma=busy_timeout(60000)"))
			defer db.Close()
			conn := must(db.Conn(t.Context()))
			defer conn.Close()
			if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(awayFor)
		})
		p.kill()
		s.prove()
	})
	t.Run("restarted database", func(t *testing.T) {
		parallel(t)
		db := private(t, pgtest.Config{Fsync: true})
		c := newEmptyCluster(t, db.URL(), 1)
		c.args = impatient
		c.start(0, c.db)
		write(t, c.site, c.replicas[0], func() { restart(t, db) })
	})
	t.Run("program", func(t *testing.T) {
		parallel(t)
		db := private(t, pgtest.Config{Fsync: true})
		s := newSite(t)
		// The program writes a file of 200,000 bytes after 2 s, while the database is away.
		program := filepath.Join(t.TempDir(), "program.sh")
		lines := `read -r line; sleep 2; printf '{"type":"artifact","parts":[{"kind":"file","file":{"bytes":"%s"}}],"last":true}\n{"type":"result"}\n' ` + strings.Repeat("QUJD", 200_000/3)
		if err := os.WriteFile(program, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		p := launch(t, s.addr, s.holdfast("--storage", "postgres", "--database-url", db.URL(), "--run-migrations-on-startup", "--exec", "sh "+program))
		id := p.send("go")
		time.Sleep(500 * time.Millisecond)
		restart(t, db)
		task := p.awaitEnd(id)
		wantState(t, task, a2a.StateCompleted)
		if len(task.Artifacts) != 1 || !strings.Contains(fmt.Sprintf("%T", task.Artifacts[0].Parts[0]), "FilePart") {
			t.Errorf("artifacts = %+v, want one with the file", task.Artifacts)
		}
	})
}

func restart(t *testing.T, db *pgtest.Server) {
	t.Helper()
	if err := db.Stop(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(awayFor)
	if err := db.Start(); err != nil {
		t.Fatal(err)
	}
}
