//go:build faults

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/await"
)

// smallDisk is a server with its data directory on a disk of its own.
type smallDisk struct {
	*process
	root string // path of the disk in this process
	// lasts reports whether the disk still exists after the server has ended.
	lasts bool
}

// startOnSmallDisk starts a server with its data directory on a small disk. It mounts the disk
// globally if the user may do that, otherwise in a namespace of the server.
func (s *site) startOnSmallDisk(size string) *smallDisk {
	s.t.Helper()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	disk := s.dir
	s.dir = filepath.Join(disk, "data")
	args := append([]string{"-data", s.dir, "-effects", s.effects, "-addr", s.addr}, s.args...)
	mounted := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", disk)
	out, err := mounted.CombinedOutput()
	if err == nil {
		s.t.Cleanup(func() {
			if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
				s.t.Errorf("umount: %s", out)
			}
		})
		return &smallDisk{launch(s.t, s.addr, exec.Command(agentBin, args...)), disk, true}
	}
	script := fmt.Sprintf("mount -t tmpfs -o size=%s tmpfs %q && exec \"$@\"", size, disk)
	cmd := exec.Command("unshare", append([]string{"-Urm", "sh", "-c", script, "sh", agentBin}, args...)...)
	if probe := exec.Command("unshare", "-Urm", "sh", "-c", fmt.Sprintf("mount -t tmpfs tmpfs %q", disk)); probe.Run() != nil {
		s.t.Fatalf("a small disk can neither be mounted (%s) nor made by unshare -Urm mount: this test needs one of them", strings.TrimSpace(string(out)))
	}
	p := launch(s.t, s.addr, cmd)
	return &smallDisk{p, filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "root", disk), false}
}

// spare frees some of the space that fill used.
func (d *smallDisk) spare(bytes int64) {
	d.t.Helper()
	name := filepath.Join(d.root, "ballast")
	info, err := os.Stat(name)
	if err == nil {
		err = os.Truncate(name, info.Size()-bytes)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// fill fills the disk completely. It returns a function that frees the space.
func (d *smallDisk) fill() (free func()) {
	d.t.Helper()
	name := filepath.Join(d.root, "ballast")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for _, block := range []int{1 << 20, 4 << 10, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, block))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			d.t.Fatalf("fill the disk: %v", err)
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			d.t.Fatal(err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	parallel(t)
	s := newSite(t)
	d := s.startOnSmallDisk("40m")
	finished := d.awaitEnd(d.send("chunks 5 1ms"))
	var running []string
	for _, text := range []string{"work 1s", "chunks 100 10ms", "steps 20 50ms"} {
		running = append(running, d.send(text))
	}
	free := d.fill()
	acknowledged := d.sendUntilRefused(1)
	for range 5 {
		d.spare(300 << 10)
		acknowledged = append(acknowledged, d.sendUntilRefused(4)...)
	}

	// Every method can still read stored tasks.
	if got := d.task(finished.ID); got.Status.State != a2a.StateCompleted || len(got.Artifacts) != 1 {
		t.Errorf("tasks/get on a full disk = %s with %d artifacts", got.Status.State, len(got.Artifacts))
	}
	if err := follow(t.Context(), d.client, finished.ID); err != nil {
		t.Errorf("tasks/resubscribe on a full disk: %v", err)
	}
	if _, err := d.client.List(t.Context(), a2a.ListTasksParams{}); err != nil {
		t.Errorf("tasks/list on a full disk: %v", err)
	}
	await.Success(t, func() error {
		var health struct{ Status string }
		if d.getJSON("health", &health); health.Status != "unavailable" {
			return fmt.Errorf("/health says %s on a full disk", health.Status)
		}
		return nil
	})
	time.Sleep(1500 * time.Millisecond) // the running tasks end, which cannot be stored
	free()
	started := time.Now()
	for _, id := range append(running, acknowledged...) {
		wantState(t, d.awaitEnd(id), a2a.StateCompleted)
	}
	t.Logf("%d tasks over %s after there was space", len(running)+len(acknowledged), time.Since(started))
	wantState(t, d.awaitEnd(d.send("work 1ms")), a2a.StateCompleted)
	await.Success(t, func() error {
		var health struct{ Status string }
		if d.getJSON("health", &health); health.Status != "ok" {
			return fmt.Errorf("/health says %s when there is space", health.Status)
		}
		return nil
	})
	s.wantOneAttempt(running)
	s.proveOnDisk(d)
}

// sendUntilRefused sends with several senders until the disk is full, and asserts that the errors
// say so. It returns the ids of the accepted tasks.
func (d *smallDisk) sendUntilRefused(senders int) (taken []string) {
	d.t.Helper()
	type sent struct {
		ids []string
		err error
	}
	results := make(chan sent, senders)
	for range senders {
		go func() {
			ids, err := d.sendUntilError()
			results <- sent{ids, err}
		}()
	}
	for range senders {
		r := <-results
		taken = append(taken, r.ids...)
		wantCode(d.t, r.err, a2a.CodeExhausted)
		if !strings.Contains(r.err.Error(), "disk full") {
			d.t.Errorf("error = %v, want it to say that the disk is full", r.err)
		}
	}
	d.t.Logf("refused after %d sends", len(taken))
	return taken
}

func (d *smallDisk) sendUntilError() (taken []string, err error) {
	for i := range 5000 {
		ctx, cancel := context.WithTimeout(d.t.Context(), await.Limit)
		task, err := d.trySend(ctx, client.Text("length "+strings.Repeat("x", i%7<<10)), "")
		cancel()
		if err != nil {
			return taken, err
		}
		taken = append(taken, task.ID)
	}
	return taken, errors.New("the disk is full and 5000 messages have been taken")
}

// wantOneAttempt asserts that neither the tasks nor their steps ran again.
func (s *site) wantOneAttempt(ids []string) {
	s.t.Helper()
	started := make(map[string]int)
	steps := make(map[string]int)
	for _, e := range s.done() {
		switch e.what {
		case "begin":
			started[e.task]++
		case "step":
			steps[e.task+" "+e.detail]++
		}
	}
	for _, id := range ids {
		if started[id] != 1 {
			s.t.Errorf("task %s was run %d times, want once", id, started[id])
		}
	}
	for step, n := range steps {
		if n != 1 {
			s.t.Errorf("step %s ran %d times", step, n)
		}
	}
}

// proveOnDisk copies the store from its disk and checks the copy, because the disk may not exist
// after the server has ended.
func (s *site) proveOnDisk(d *smallDisk) {
	s.t.Helper()
	d.signal(syscall.SIGSTOP)
	s.dir = filepath.Join(s.t.TempDir(), "copy")
	if err := os.CopyFS(s.dir, os.DirFS(filepath.Join(d.root, "data"))); err != nil {
		s.t.Fatal(err)
	}
	d.kill()
	s.prove()
}

func TestKillOnFullDisk(t *testing.T) {
	parallel(t)
	s := newSite(t)
	d := s.startOnSmallDisk("40m")
	id := d.send("steps 3 300ms")
	s.await("recorded", id, "0")
	free := d.fill()
	acknowledged := d.sendUntilRefused(1)
	if !d.lasts {
		t.Log("the disk goes with its namespace: the server is not started again")
		free()
		return
	}
	d.kill()
	// The server may or may not start on a full disk; it must lose nothing and report the reason
	// if it does not start.
	args := []string{"-data", s.dir, "-effects", s.effects, "-addr", s.addr}
	p := spawn(t, s.addr, exec.Command(agentBin, args...))
	select {
	case <-p.exited:
		t.Logf("on a full disk the server does not start: %s", strings.TrimSpace(p.log.String()))
		if !strings.Contains(p.log.String(), "disk full") {
			t.Errorf("log = %s, want it to say that the disk is full", p.log)
		}
	case <-time.After(2 * time.Second):
		t.Log("on a full disk the server starts")
		p.kill()
	}
	free()
	p = launch(t, s.addr, exec.Command(agentBin, args...))
	for _, id := range append(acknowledged, id) {
		wantState(t, p.awaitEnd(id), a2a.StateCompleted)
	}
	p.kill()
	s.prove()
	wantOnce(t, s.done())
}
