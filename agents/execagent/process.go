package execagent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Limits for reading the output after the program has exited. Processes that it left behind
// may hold the pipe open.
const (
	drainTimeout = 300 * time.Millisecond // without data
	drainLimit   = 1 << 20                // the maximum capacity of a pipe
)

// process is a running program with the server's ends of its pipes.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *outputPipe
	stderr *outputPipe

	exited    chan struct{} // closed when the program has exited
	reap      chan struct{} // closed when the process may be reaped
	reaped    chan struct{} // closed when the process has been reaped
	clearOnce sync.Once
}

// start starts a command. It creates the pipes itself, so that cmd.Wait does not wait for
// other processes that hold them open.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{}), reap: make(chan struct{}), reaped: make(chan struct{})}
	var all []*os.File
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			all = append(all, r, w)
		}
		return r, w, err
	}
	inR, inW, err1 := pipe()
	outR, outW, err2 := pipe()
	errR, errW, err3 := pipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		closeAll(all...)
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	p.stdin = inW
	p.stdout = &outputPipe{file: outR, exited: p.exited, remaining: drainLimit}
	p.stderr = &outputPipe{file: errR, exited: p.exited, remaining: drainLimit}
	isolate(cmd)
	started := make(chan error, 1)
	go p.startAndWait(started)
	err := <-started
	closeAll(inR, outW, errW)
	if err != nil {
		closeAll(inW, outR, errR)
		return nil, err
	}
	return p, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// startAndWait starts the program and waits for it. It locks its thread, because the kernel kills the
// program (Pdeathsig) when the thread that started it ends.
func (p *process) startAndWait(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(p.reaped)
	if awaitExit(p.cmd.Process.Pid) {
		// Until Wait is called, the id of its process group cannot be reused.
		p.markExited()
		<-p.reap
		_ = p.cmd.Wait() // ProcessState has the result
		return
	}
	_ = p.cmd.Wait() // ProcessState has the result
	p.markExited()
}

// markExited marks the program as exited and limits pending reads of its output.
func (p *process) markExited() {
	close(p.exited)
	p.stdout.limitRead()
	p.stderr.limitRead()
}

// stop waits for the program to exit. After grace, or immediately if skipGrace is closed, it sends
// SIGTERM. After another grace it kills the process group.
func (p *process) stop(grace time.Duration, skipGrace <-chan struct{}) {
	if !p.wait(grace, skipGrace) {
		terminate(p.cmd)
		if !p.wait(grace, nil) {
			kill(p.cmd)
		}
	}
	<-p.exited
}

// wait reports whether the program exits within d, or before skipGrace is closed.
func (p *process) wait(d time.Duration, skipGrace <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
	case <-skipGrace:
	}
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// killGroup kills the rest of the process group and reaps the process. The program must have
// exited.
func (p *process) killGroup() {
	p.clearOnce.Do(func() {
		kill(p.cmd)
		close(p.reap)
	})
	<-p.reaped
}

// exitError returns an error that says how the program ended, nil if it exited with status 0.
// It must be called after killGroup.
func (p *process) exitError() error {
	state := p.cmd.ProcessState
	switch {
	case state == nil:
		return errors.New("ended with an unknown status")
	case state.Success():
		return nil
	case state.Exited():
		return fmt.Errorf("exited with status %d", state.ExitCode())
	}
	return fmt.Errorf("was terminated (%s)", state)
}

// transient reports whether starting a program failed for a temporary reason.
func transient(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// errCutOff is returned by reads of output that a process left behind by the program writes.
var errCutOff = errors.New("output cut off")

// outputPipe reads the output of a program: without limit while the program runs, and then the
// rest of the pipe's content.
type outputPipe struct {
	file      *os.File
	exited    <-chan struct{} // closed when the program has exited
	remaining int             // maximum number of bytes to read after that
}

func (l *outputPipe) Read(b []byte) (int, error) {
	select {
	case <-l.exited:
		return l.readRest(b)
	default:
	}
	n, err := l.file.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return l.readRest(b)
	}
	return n, err
}

func (l *outputPipe) readRest(b []byte) (int, error) {
	if l.remaining <= 0 {
		return 0, errCutOff
	}
	l.limitRead()
	n, err := l.file.Read(b[:min(len(b), l.remaining)])
	l.remaining -= n
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}

// limitRead makes a pending Read return after drainTimeout.
func (l *outputPipe) limitRead() {
	if err := l.file.SetReadDeadline(time.Now().Add(drainTimeout)); err != nil {
		// Pipes of this system do not support deadlines: close the file instead.
		time.AfterFunc(drainTimeout, func() { _ = l.file.Close() })
	}
}

func (l *outputPipe) close() { _ = l.file.Close() }
