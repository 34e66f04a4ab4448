//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/testport"
)

// holdfast returns a command that runs holdfast serve on the site.
func (s *site) holdfast(args ...string) *exec.Cmd {
	return exec.Command(holdfastBin, append([]string{"serve", "--data", s.dir, "--addr", s.addr}, args...)...)
}

func TestSecondProcessIsRejected(t *testing.T) {
	parallel(t)
	s := newSite(t)
	first := launch(t, s.addr, s.holdfast("--agent", "echo"))
	id := first.send("before")
	second := *s
	second.addr = testport.Addr(t)
	p := spawn(t, second.addr, second.holdfast("--agent", "echo"))
	if code := p.exit(await.Limit); code != a2a.CodeUnavailable.ExitCode() {
		t.Errorf("exit code = %d, want %d", code, a2a.CodeUnavailable.ExitCode())
	}
	if log := p.log.String(); !strings.Contains(log, "process "+strconv.Itoa(first.cmd.Process.Pid)) || !strings.Contains(log, s.dir) {
		t.Errorf("log = %q, want it to name the directory and process %d", log, first.cmd.Process.Pid)
	}
	wantState(t, first.awaitEnd(id), a2a.StateCompleted)
	wantState(t, first.awaitEnd(first.send("after")), a2a.StateCompleted)
	first.kill()
	third := launch(t, second.addr, second.holdfast("--agent", "echo")) // the lock of a killed process is void
	wantState(t, third.task(id), a2a.StateCompleted)
	third.kill()
	s.prove()
}

func TestStopUnderLoad(t *testing.T) {
	parallel(t)
	s := newSite(t, "-stop-grace", "500ms", "-concurrency", "32")
	var sends acknowledged
	p := s.start()
	for _, text := range []string{"steps 20 100ms", "chunks 100 20ms", "work 1500ms"} {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { sends.load(ctx, p, 4, text) })
		time.Sleep(200 * time.Millisecond)
		started := time.Now()
		p.signal(syscall.SIGTERM)
		if code := p.exit(await.Limit); code != 0 {
			t.Errorf("exit code = %d, want 0\n%s", code, p.log.tail(2000))
		}
		t.Logf("ended %s after SIGTERM", time.Since(started))
		cancel()
		wg.Wait()
		s.prove()
		p = s.start()
	}
	s.args = []string{"-concurrency", "256"}
	p.kill()
	p = s.start()
	ids := sends.repeat(t, p)
	for id := range ids {
		wantState(t, p.awaitEnd(id), a2a.StateCompleted)
	}
	t.Logf("%d sends, %d of them acknowledged", len(sends.sent), sends.answered())
	p.kill()
	s.prove()
	wantRecordedOnce(t, s.done())
}

func TestRequeueAtStopCountsNoAttempt(t *testing.T) {
	parallel(t)
	s := newSite(t, "-stop-grace", "50ms", "-attempts", "2")
	p := s.start()
	id := p.send("until stopped")
	for range 4 {
		s.awaitCount("begin", id)
		p.signal(syscall.SIGTERM)
		if code := p.exit(await.Limit); code != 0 {
			t.Fatalf("exit code = %d, want 0", code)
		}
		p = s.start()
	}
	s.release("stopped")
	wantState(t, p.awaitEnd(id), a2a.StateCompleted)
	p.kill()
	s.prove()
}

// awaitCount waits until the task has started one more time than it has ended.
func (s *site) awaitCount(what, task string) {
	s.t.Helper()
	await.Success(s.t, func() error {
		n := 0
		for _, e := range s.done() {
			if e.task != task {
				continue
			}
			if e.what == what {
				n++
			} else if e.what == "end" {
				n--
			}
		}
		if n < 1 {
			return fmt.Errorf("task %s does not run", task)
		}
		return nil
	})
}

func TestSecondSignalStopsImmediately(t *testing.T) {
	parallel(t)
	s := newSite(t)
	p := launch(t, s.addr, s.holdfast("--exec", "sleep 600", "--exec-plain", "--stop-grace", "1h"))
	id := p.send("hello")
	child := awaitChild(t, p.cmd.Process.Pid)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		t.Fatal("the server has not given its task the grace it has")
	case <-time.After(300 * time.Millisecond):
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(await.Limit); code != 130 { // its stop grace is longer
		t.Errorf("exit code = %d, want 130", code)
	}
	awaitGone(t, child)
	report := s.prove()
	if state := report.States[id]; state != a2a.StateWorking {
		t.Errorf("task is %s, want it still working, to be run again", state)
	}
}

func TestSuspendedProcessResumes(t *testing.T) {
	parallel(t)
	s := newSite(t, "-lease", "300ms")
	p := s.start()
	var ids []string
	for _, text := range []string{"work 600ms", "chunks 100 10ms", "steps 20 50ms"} {
		ids = append(ids, p.send(text))
	}
	for range 2 {
		time.Sleep(100 * time.Millisecond)
		p.signal(syscall.SIGSTOP)
		time.Sleep(1200 * time.Millisecond) // four leases
		p.signal(syscall.SIGCONT)
	}
	for _, id := range ids {
		wantState(t, p.awaitEnd(id), a2a.StateCompleted)
	}
	p.kill()
	s.prove()
	s.wantOneAttempt(ids)
}

func TestProgramsEndWhenServerIsKilled(t *testing.T) {
	parallel(t)
	s := newSite(t)
	p := launch(t, s.addr, s.holdfast("--exec", "sleep 600", "--exec-plain"))
	const programs = 5
	for range programs {
		p.send("hello")
	}
	var pids []int
	await.Success(t, func() error {
		if pids = children(t, p.cmd.Process.Pid); len(pids) != programs {
			return fmt.Errorf("%d programs run, want %d", len(pids), programs)
		}
		return nil
	})
	p.kill()
	for _, pid := range pids {
		awaitGone(t, pid)
	}
	s.prove()
}

func TestProgramsThatAreKilledOrHang(t *testing.T) {
	parallel(t)
	s := newSite(t)
	p := launch(t, s.addr, s.holdfast("--exec", "sleep 600", "--exec-plain"))
	killed := p.send("hello")
	child := awaitChild(t, p.cmd.Process.Pid)
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	task := p.awaitEnd(killed)
	wantState(t, task, a2a.StateFailed)
	if !strings.Contains(said(task), "kill") {
		t.Errorf("message = %q, want it to say that the program was killed", said(task))
	}
	canceled := p.send("hello")
	child = awaitChild(t, p.cmd.Process.Pid)
	if _, err := p.client.Cancel(t.Context(), canceled); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, child)
	wantState(t, p.task(canceled), a2a.StateCanceled)
	p.kill()

	p = launch(t, s.addr, s.holdfast("--exec", "sleep 600", "--exec-plain", "--exec-timeout", "2s"))
	hung := p.send("hello")
	task = p.awaitEnd(hung)
	wantState(t, task, a2a.StateFailed)
	if !strings.Contains(said(task), "2s") {
		t.Errorf("message = %q, want the limit in it", said(task))
	}
	await.Success(t, func() error {
		if pids := children(t, p.cmd.Process.Pid); len(pids) > 0 {
			return fmt.Errorf("programs %v still run", pids)
		}
		return nil
	})
	p.kill()
	s.prove()
}

func TestSummarizerResumesAtItsPage(t *testing.T) {
	parallel(t)
	s := newSite(t)
	cmd := func() *exec.Cmd { return s.holdfast("--agent", "summarize", "--page-delay", "500ms") }
	p := launch(t, s.addr, cmd())
	var text strings.Builder
	for page := range 7 {
		fmt.Fprintf(&text, "\f")
		for i := range 20 {
			fmt.Fprintf(&text, "Sentence %d of page %d says something about durable servers and lost work. ", i, page)
		}
	}
	task, err := p.trySend(t.Context(), client.Text(text.String()), "")
	if err != nil {
		t.Fatal(err)
	}
	awaitPage(t, p, task.ID, 3)
	p.kill()
	p = launch(t, s.addr, cmd())
	wantState(t, p.awaitEnd(task.ID), a2a.StateCompleted)
	p.kill()
	report := s.prove()
	read := make(map[string]int)
	resumed := false
	for _, e := range report.Logs[task.ID] {
		if e.Message == nil {
			continue
		}
		if said := e.Message.Text(); strings.Contains(said, "reading page") {
			read[said]++
		} else if strings.Contains(said, "resuming at page") {
			resumed = true
		}
	}
	twice := 0
	for _, n := range read {
		twice += n - 1
	}
	if !resumed || twice > 1 {
		t.Errorf("resumed: %t, pages read twice: %d, want at most the one that was under way; %v", resumed, twice, read)
	}
}

// awaitPage waits until the summarizer reads the given page of a task's text, or a later one.
func awaitPage(t *testing.T, p *process, task string, page int) {
	t.Helper()
	await.Success(t, func() error {
		now, n := said(p.task(task)), 0
		if _, err := fmt.Sscanf(now, "reading page %d", &n); err != nil || n < page {
			return fmt.Errorf("task %s says %q, want page %d", task, now, page)
		}
		return nil
	})
}

// children returns the pids of a process's children.
func children(t *testing.T, pid int) []int {
	t.Helper()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	if err != nil && len(out) > 0 {
		t.Fatal(err)
	}
	var pids []int
	for _, field := range strings.Fields(string(out)) {
		if child, err := strconv.Atoi(field); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

func awaitChild(t *testing.T, pid int) int {
	t.Helper()
	var pids []int
	await.Success(t, func() error {
		if pids = children(t, pid); len(pids) != 1 {
			return fmt.Errorf("process %d has %d children, want 1", pid, len(pids))
		}
		return nil
	})
	return pids[0]
}

// awaitGone waits until a process does not exist or is a zombie.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	await.Success(t, func() error {
		if state := processState(pid); state != "" && state != "Z" {
			return fmt.Errorf("process %d still exists (%s)", pid, state)
		}
		return nil
	})
}

func TestBlockingSendsAreAnsweredAtStop(t *testing.T) {
	parallel(t)
	s := newSite(t, "-stop-grace", "500ms")
	p := s.start()
	answers := make(chan error, 3)
	for range 3 {
		go func() {
			event, err := p.client.Send(t.Context(), client.SendParams{
				Message: client.Text("until never"), Configuration: &a2a.MessageSendConfiguration{Blocking: true},
			})
			if task, ok := event.(*a2a.Task); err == nil && (!ok || task.Status.State.Final()) {
				err = fmt.Errorf("answer = %+v, want a task that is not over", event)
			}
			answers <- err
		}()
	}
	await.Success(t, func() error {
		if n := len(s.done()); n != 3 {
			return fmt.Errorf("%d of 3 tasks run", n)
		}
		return nil
	})
	started := time.Now()
	p.signal(syscall.SIGTERM)
	for range 3 {
		if err := <-answers; err != nil {
			t.Errorf("blocking send while the server stops: %v", err)
		}
	}
	if code := p.exit(await.Limit); code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	if took := time.Since(started); took > 8*time.Second { // the default stop grace is ten seconds, and the handlers never end
		t.Errorf("the server took %s to stop, its grace is 500ms", took)
	}
	s.prove()
}

func TestOneProcessOpensTheDataDirectory(t *testing.T) {
	parallel(t)
	s := newSite(t)
	const racers = 8
	var processes []*process
	for range racers {
		one := *s
		one.addr = testport.Addr(t)
		processes = append(processes, spawn(t, one.addr, one.holdfast("--agent", "echo")))
	}
	alive := func() (n int) {
		for _, p := range processes {
			select {
			case <-p.exited:
			default:
				n++
			}
		}
		return n
	}
	await.Success(t, func() error {
		if n := alive(); n != 1 {
			return fmt.Errorf("%d processes run on one data directory, want 1", n)
		}
		return nil
	})
	for _, p := range processes {
		select {
		case <-p.exited:
			if code := p.cmd.ProcessState.ExitCode(); code != a2a.CodeUnavailable.ExitCode() {
				t.Errorf("exit code = %d, want %d\n%s", code, a2a.CodeUnavailable.ExitCode(), p.log)
			}
		default:
			await.Success(t, func() error {
				_, err := p.trySend(t.Context(), client.Text("hello"), "")
				return err
			})
			p.kill()
		}
	}
	s.prove()
}

func TestServerRecoversFromFileDescriptorLimit(t *testing.T) {
	parallel(t)
	s := newSite(t)
	args := []string{"-c", `ulimit -n 48 && exec "$@"`, "sh", agentBin, "-data", s.dir, "-effects", s.effects, "-addr", s.addr}
	p := launch(t, s.addr, exec.Command("sh", args...))
	running := p.send("steps 40 50ms")
	var open []net.Conn
	for range 200 {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			break // the backlog is full as well
		}
		open = append(open, conn)
	}
	time.Sleep(time.Second) // the server is at its limit
	for _, conn := range open {
		_ = conn.Close()
	}
	await.Success(t, func() error {
		_, err := p.trySend(t.Context(), client.Text("work 1ms"), "")
		return err
	})
	wantState(t, p.awaitEnd(running), a2a.StateCompleted)
	s.wantOneAttempt([]string{running})
	p.kill()
	s.prove()
}
