//go:build faults

package faults_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
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
	"github.com/holdfast-dev/holdfast/faults/check"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/testport"
)

// agentBin and holdfastBin are the paths of the programs under test, which are built once.
var agentBin, holdfastBin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "holdfast-faults-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	agentBin = filepath.Join(dir, "agent")
	builds := map[string]string{agentBin: "./agent"}
	if holdfastBin = os.Getenv("HOLDFAST_BIN"); holdfastBin == "" {
		holdfastBin = filepath.Join(dir, "holdfast")
		builds[holdfastBin] = "../cmd/holdfast"
	}
	for out, pkg := range builds {
		// FAULTS_BUILD=-race builds the servers with the race detector.
		flags := strings.Fields(os.Getenv("FAULTS_BUILD"))
		build := exec.Command("go", append(append([]string{"build"}, flags...), "-o", out, pkg)...)
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n", pkg, err)
			return 1
		}
	}
	code := m.Run()
	if len(shown.texts) > 0 {
		fmt.Printf("--- FAIL: clients or receivers got internals:\n%s\n", strings.Join(shown.texts, "\n"))
		return 1
	}
	return code
}

// site is a data directory and an address, for servers that run one after the other.
type site struct {
	t       *testing.T
	dir     string // data directory
	effects string
	addr    string
	args    []string // for every server
}

func newSite(t *testing.T, args ...string) *site {
	t.Helper()
	root := t.TempDir()
	return &site{t: t, dir: filepath.Join(root, "data"), effects: filepath.Join(root, "effects"), addr: testport.Addr(t), args: args}
}

// process is a running server.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	client *client.Client
	log    *processLog
	exited chan struct{} // closed when the process has ended
	err    error         // result of Wait, valid after exited is closed
	// ready is the time from the start of the process to its first response.
	ready time.Duration
}

// start runs the scripted agent and waits until it responds.
func (s *site) start() *process {
	s.t.Helper()
	return launch(s.t, s.addr, s.agent())
}

// spawn runs the scripted agent.
func (s *site) spawn() *process {
	s.t.Helper()
	return spawn(s.t, s.addr, s.agent())
}

func (s *site) agent() *exec.Cmd {
	args := append([]string{"-data", s.dir, "-effects", s.effects, "-addr", s.addr}, s.args...)
	return exec.Command(agentBin, args...)
}

// launch runs a server that listens at addr, and waits until it responds.
func launch(t *testing.T, addr string, cmd *exec.Cmd) *process {
	t.Helper()
	p := spawn(t, addr, cmd)
	started := time.Now()
	for {
		if resp, err := http.Get(p.url + "healthz"); err == nil {
			_ = resp.Body.Close()
			break
		}
		select {
		case <-p.exited:
			t.Fatalf("%s ended before it answered: %v\n%s", cmd.Path, p.err, p.log)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Since(started) > await.Limit {
			t.Fatalf("%s does not answer\n%s", cmd.Path, p.log)
		}
	}
	p.ready = time.Since(started)
	return p
}

// spawn runs a server. The test kills it at its end.
func spawn(t *testing.T, addr string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, url: "http://" + addr + "/", log: new(processLog), exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	var err error
	if p.client, err = client.New(client.Config{URL: p.url, HTTPClient: httpClient, Reconnects: 200}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if strings.Contains(p.log.String(), "DATA RACE") {
			t.Error("the server has a data race")
		}
		if t.Failed() {
			t.Logf("log of process %d:\n%s", cmd.Process.Pid, p.log.tail(8000))
		}
	})
	return p
}

// httpClient does not limit the number of connections.
var httpClient = &http.Client{Transport: searched{&http.Transport{MaxIdleConnsPerHost: 64, DialContext: (&net.Dialer{Timeout: await.Limit}).DialContext}}}

// kill sends SIGKILL and waits until the process has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("signal %v: %v", sig, err)
	}
}

// exit waits until the process ends by itself, and returns its exit code.
func (p *process) exit(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("the process has not ended within %s\n%s", within, p.log.tail(4000))
		return -1
	}
}

// processLog is the output of a process.
type processLog struct{ await.Buffer }

func (b *processLog) tail(n int) string {
	s := b.String()
	return s[max(0, len(s)-n):]
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// withIDs returns a message for a new task with ids chosen by the client, which makes the request
// repeatable.
func withIDs(text string) a2a.Message {
	m := client.Text(text)
	m.TaskID, m.ContextID = newID(), newID()
	return m
}

// send sends a text without waiting, and returns the task's id.
func (p *process) send(text string) string {
	p.t.Helper()
	task, err := p.trySend(p.t.Context(), client.Text(text), "")
	if err != nil {
		p.t.Fatalf("send %.40q: %v", text, err)
	}
	return task.ID
}

func (p *process) trySend(ctx context.Context, m a2a.Message, key string) (*a2a.Task, error) {
	event, err := p.client.Send(ctx, client.SendParams{Message: m, IdempotencyKey: key})
	if err != nil {
		return nil, err
	}
	return event.(*a2a.Task), nil
}

func (p *process) task(id string) *a2a.Task {
	p.t.Helper()
	task, err := p.client.Task(p.t.Context(), a2a.TaskQueryParams{ID: id})
	if err != nil {
		p.t.Fatalf("tasks/get %s: %v", id, err)
	}
	return task
}

// awaitEnd follows a task until it is final and returns it.
func (p *process) awaitEnd(id string) *a2a.Task {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), await.Limit)
	defer cancel()
	if err := follow(ctx, p.client, id); err != nil {
		p.t.Fatalf("follow task %s: %v\n%s", id, err, p.log.tail(4000))
	}
	task := p.task(id)
	if !task.Status.State.Final() {
		p.t.Fatalf("task %s is %s after its stream", id, task.Status.State)
	}
	return task
}

// follow reads all events of a task. It checks that they are numbered from 1 without gaps, and
// that only the last one is marked as the last.
func follow(ctx context.Context, c *client.Client, id string) error {
	next, final := 1, false
	for u, err := range c.Resubscribe(ctx, id, "0") {
		if err != nil {
			return err
		}
		if u.ID != strconv.Itoa(next) {
			return fmt.Errorf("event %d has id %s", next, u.ID)
		}
		if final {
			return fmt.Errorf("event %d comes after the last", next)
		}
		if status, ok := u.Event.(*a2a.TaskStatusUpdateEvent); ok {
			final = status.Final
		}
		next++
	}
	if !final {
		return fmt.Errorf("the stream ended at event %d, which is not the last", next-1)
	}
	return nil
}

func wantState(t *testing.T, task *a2a.Task, want a2a.TaskState) {
	t.Helper()
	if task.Status.State != want {
		t.Fatalf("task %s is %s (%s), want %s", task.ID, task.Status.State, said(task), want)
	}
}

func said(task *a2a.Task) string {
	if task.Status.Message == nil {
		return ""
	}
	return task.Status.Message.Text()
}

func wantCode(t *testing.T, err error, want a2a.Code) {
	t.Helper()
	if err == nil || a2a.CodeOf(err) != want {
		t.Fatalf("error = %v (%s), want %s", err, a2a.CodeOf(err), want)
	}
}

// prove checks the store after the server has ended.
func (s *site) prove() *check.Report {
	s.t.Helper()
	report, err := check.Dir(context.Background(), s.dir)
	if err != nil {
		s.t.Fatalf("the store is not sound: %v", err)
	}
	return report
}

// effect is a line that the scripted agent has written to its file of effects.
type effect struct {
	what, task    string
	turn, attempt int
	detail        string
	pid           int
	at            time.Time
}

// done returns all effects so far.
func (s *site) done() []effect {
	s.t.Helper()
	raw, err := os.ReadFile(s.effects)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	var effects []effect
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) != 7 {
			s.t.Fatalf("effect %q has %d fields", lines.Text(), len(f))
		}
		e := effect{what: f[0], task: f[1], detail: f[4]}
		e.turn, _ = strconv.Atoi(f[2])
		e.attempt, _ = strconv.Atoi(f[3])
		e.pid, _ = strconv.Atoi(f[5])
		ms, _ := strconv.ParseInt(f[6], 10, 64)
		e.at = time.UnixMilli(ms)
		effects = append(effects, e)
	}
	return effects
}

// release ends the wait of tasks with the text "until NAME".
func (s *site) release(name string) {
	s.t.Helper()
	if err := os.WriteFile(s.effects+"."+name, nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// await waits until an effect is written.
func (s *site) await(what, task, detail string) {
	s.t.Helper()
	await.Success(s.t, func() error {
		for _, e := range s.done() {
			if e.what == what && e.task == task && (detail == "" || e.detail == detail) {
				return nil
			}
		}
		return fmt.Errorf("%s %s of task %s has not been done", what, detail, task)
	})
}
