//go:build faults

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// mixed are message texts for a load.
var mixed = []string{"steps 3 20ms", "chunks 20 5ms", "work 100ms", "ask", "steps 4 150ms", "chunks 50 20ms", "files 2 100000 30ms"}

// loadDuring applies load to the cluster while f injects a fault. Then it asserts that the cluster
// recovers by itself, that no acknowledged message is lost, and that all tasks end. f returns the
// tasks that it has started.
func (c *cluster) loadDuring(f func() (tasks map[string]bool)) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	var sends acknowledged
	loaded := make(chan int)
	go func() { loaded <- sends.storm(ctx, c.any, 6, mixed...) }()
	time.Sleep(300 * time.Millisecond)
	own := f()
	over := time.Now()
	healing, ids := c.healed()
	for id := range own {
		ids[id] = true
	}
	cancel()
	refused := <-loaded
	for id := range sends.repeatAll(c.any) {
		ids[id] = true
	}
	c.awaitAll(ids)
	c.t.Logf("%d sends, %d acknowledged, %d refused; healed after %s, all over after %s", len(sends.sent), sends.answered(), refused, healing, time.Since(over))
	for _, p := range c.replicas {
		select {
		case <-p.exited:
			c.t.Errorf("a server has ended: %v", p.err)
		default:
		}
	}
	report := c.prove(ids)
	if n := report.Count(a2a.StateFailed); n > 0 {
		c.t.Errorf("%d tasks failed", n)
	}
	wantWholeChunks(c.t, report)
	wantOnce(c.t, c.done())
}

// shortTimeouts are flags for short timeouts, so that servers detect a database outage quickly.
var shortTimeouts = []string{"-lease", "2s", "-attempts", "100", "-command-timeout", "3s", "-pool-timeout", "2s", "-retry-delay", "100ms"}

func TestTasksSurviveTerminatedConnections(t *testing.T) {
	parallel(t)
	db := private(t, pgtest.Config{})
	c := newCluster(t, db.URL(), shortTimeouts...)
	c.loadDuring(func() map[string]bool {
		conn, err := pgx.Connect(t.Context(), c.db)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		terminated := 0
		for range 20 * long(t) {
			var n int
			const text = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`
			if err := conn.QueryRow(t.Context(), text).Scan(&n); err != nil {
				t.Fatal(err)
			}
			terminated += n
			time.Sleep(200 * time.Millisecond)
		}
		t.Logf("%d connections were terminated", terminated)
		return nil
	})
}

func TestDatabaseRestartsUnderLoad(t *testing.T) {
	parallel(t)
	db := private(t, pgtest.Config{Fsync: true})
	c := newCluster(t, db.URL(), shortTimeouts...)
	c.loadDuring(func() map[string]bool {
		for round := range 2 * long(t) {
			time.Sleep(700 * time.Millisecond)
			if err := db.Stop(); err != nil {
				t.Fatal(err)
			}
			away := 500 * time.Millisecond
			if round%2 == 0 {
				away = 4 * time.Second // longer than servers try to find out the outcome of a commit
			}
			time.Sleep(away)
			started := time.Now()
			if err := db.Start(); err != nil {
				t.Fatal(err)
			}
			t.Logf("the database took %s to start", time.Since(started))
		}
		return nil
	})
}

func TestDatabaseHangs(t *testing.T) {
	parallel(t)
	db := private(t, pgtest.Config{})
	c := newCluster(t, db.URL(), shortTimeouts...)
	c.loadDuring(func() map[string]bool {
		for range long(t) {
			if err := db.Pause(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4500 * time.Millisecond) // longer than two leases and than the command timeout
			if err := db.Resume(); err != nil {
				t.Fatal(err)
			}
		}
		return nil
	})
}

func TestReplicaIsDisconnectedFromDatabase(t *testing.T) {
	parallel(t)
	const lease = 2 * time.Second
	for _, how := range []string{"stall", "cut"} {
		t.Run(how, func(t *testing.T) {
			parallel(t)
			c := newEmptyCluster(t, pgtest.URL(t), 3)
			c.args = shortTimeouts
			w, far := newWire(t, c.db)
			c.start(0, far)
			c.start(1, c.db)
			c.start(2, c.db)
			c.loadDuring(func() map[string]bool {
				ids := make(map[string]bool)
				for range long(t) {
					c.disconnect(w, how, lease, ids)
				}
				return ids
			})
		})
	}
}

// disconnect disconnects the first server, which runs a task, from its database until another server
// has taken the task over. It records the task.
func (c *cluster) disconnect(w *wire, how string, lease time.Duration, ids map[string]bool) {
	c.t.Helper()
	a := c.replicas[0]
	name := fmt.Sprint("healed", len(ids))
	id := c.sendTo(a, "steps 6 500ms until "+name, ids)
	c.await("step", id, "2")
	broken := time.Now()
	if how == "cut" {
		w.cut()
	} else {
		w.stall()
	}
	await.Success(c.t, func() error {
		for _, e := range c.done() {
			if e.task == id && e.what == "begin" && e.pid != a.cmd.Process.Pid {
				return nil
			}
		}
		return errors.New("the task of the server that is cut off is not taken over")
	})
	slowest, n := c.takeover(a.cmd.Process.Pid, broken)
	c.t.Logf("%d runs were taken over so far, the last after %s (lease %s)", n, slowest, lease)
	time.Sleep(time.Second)
	w.heal()
	healed := time.Now()
	c.release(name)
	await.Success(c.t, func() error {
		ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
		defer cancel()
		_, err := a.client.Task(ctx, a2a.TaskQueryParams{ID: id})
		return err
	})
	c.t.Logf("the server answers again %s after it reaches its database", time.Since(healed))
}

func TestConnectionPoolIsExhausted(t *testing.T) {
	parallel(t)
	c := newCluster(t, pgtest.URL(t), "-pool-max", "2", "-pool-timeout", "1s", "-command-timeout", "4s", "-retry-delay", "50ms", "-retries", "2", "-attempts", "100")
	const callers = 150
	var mu sync.Mutex
	ids := make(map[string]bool)
	asked, refused := 0, 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				s := sentTask{message: withIDs(fmt.Sprintf("length %d-%d", i, n))}
				err := c.sendAndRead(&s)
				if err != nil && !a2a.CodeOf(err).Retryable() && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error = %v (%s), want one that may pass", err, a2a.CodeOf(err))
				}
				mu.Lock()
				if asked++; err != nil {
					refused++
				}
				mu.Unlock()
				// Refused messages are sent until they are accepted.
				for err := s.send(c.any); err != nil && c.t.Context().Err() == nil; err = s.send(c.any) {
					time.Sleep(200 * time.Millisecond)
				}
				mu.Lock()
				ids[s.message.TaskID] = true
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	time.Sleep(time.Second)
	// All statements block, so no connection is returned to the pool.
	if err := execute(t.Context(), c.db, fmt.Sprintf(`BEGIN; LOCK TABLE %s.task_rows; SELECT pg_sleep(4); COMMIT`, c.schema)); err != nil {
		t.Fatal(err)
	}
	free := time.Now()
	took, more := c.healed()
	cancel()
	wg.Wait()
	t.Logf("%d callers of %d connections: %d calls, %d refused; healed %s after the lock", callers, 3*2, asked, refused, took)
	for id := range more {
		ids[id] = true
	}
	if refused == 0 {
		t.Error("nobody was refused: the pool was not exhausted")
	}
	c.awaitAll(ids)
	t.Logf("all over %s after the lock", time.Since(free))
	c.prove(ids)
	wantOnce(t, c.done())
}

// sendAndRead sends a message and reads its task on another server, which must return that task.
func (c *cluster) sendAndRead(s *sentTask) error {
	if err := s.send(c.any); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	task, err := c.any.client.Task(ctx, a2a.TaskQueryParams{ID: s.id})
	if err != nil {
		return err
	}
	if s.id != s.message.TaskID || task.ID != s.id || len(task.History) == 0 || task.History[0].Text() != s.message.Text() {
		c.t.Errorf("task %s was sent %q and is answered with %s %+v", s.message.TaskID, s.message.Text(), task.ID, task.History)
	}
	return nil
}

// onDisk starts a database server with its data on a small disk, and returns the server's
// directory.
func onDisk(t *testing.T, size string) (*pgtest.Server, string) {
	t.Helper()
	// Not below t.TempDir, which only its owner can enter.
	disk, err := os.MkdirTemp("", "holdfast-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(disk) })
	if err := os.Chmod(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size+",mode=755", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Fatalf("a small disk for PostgreSQL cannot be mounted: this test needs the right to (%s)", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return private(t, pgtest.Config{Dir: disk, Fsync: true, Settings: map[string]string{"max_wal_size": "32MB", "shared_buffers": "16MB"}}), disk
}

func TestDatabaseDiskIsFull(t *testing.T) {
	parallel(t)
	db, disk := onDisk(t, "160m")
	c := newCluster(t, db.URL(), shortTimeouts...)
	d := &smallDisk{&process{t: t}, disk, true}
	c.loadDuring(func() map[string]bool {
		ids := make(map[string]bool)
		for range long(t) {
			free := d.fill()
			codes := c.sendWhileFull(3*time.Second, ids)
			free()
			t.Logf("answers while the disk was full: %v", codes)
			if codes[a2a.CodeExhausted]+codes[a2a.CodeUnavailable] == 0 {
				t.Error("no client got an error about a full disk")
			}
			// PostgreSQL may stop without space for its write-ahead log; then its operator must
			// start it again.
			if err := execute(t.Context(), c.db, "SELECT 1"); err != nil {
				t.Logf("the database does not live on: %v", err)
				_ = db.Stop()
				if err := db.Start(); err != nil {
					t.Fatal(err)
				}
			}
		}
		return ids
	})
}

// sendWhileFull sends messages for a duration and counts the responses by code. "" counts
// accepted messages, since space may become free for a moment. It records their tasks.
func (c *cluster) sendWhileFull(d time.Duration, ids map[string]bool) map[a2a.Code]int {
	codes := make(map[a2a.Code]int)
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		s := sentTask{message: withIDs("length " + strings.Repeat("x", 10<<10))}
		if err := s.send(c.any); err != nil {
			codes[a2a.CodeOf(err)]++
			continue
		}
		codes[""]++
		ids[s.message.TaskID] = true
	}
	return codes
}
