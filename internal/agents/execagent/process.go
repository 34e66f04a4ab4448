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

// Once the program is over, its output is read to its end, but not for ever:
// something it left behind may hold the pipe open.
const (
	lingerTime  = 300 * time.Millisecond // without a byte
	lingerBytes = 1 << 20                // a pipe holds no more
)

// process is a running program with the server's ends of its pipes.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *lingering
	stderr *lingering

	exited chan struct{} // closed when the program has exited
	reap   chan struct{} // closed when its process id may be given up
	reaped chan struct{} // closed when it has been
	bury   sync.Once
}

// start runs a command. Its pipes are made here, not by exec: then Wait does not
// wait for what else may hold them.
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
	p.stdout = &lingering{file: outR, over: p.exited, left: lingerBytes}
	p.stderr = &lingering{file: errR, over: p.exited, left: lingerBytes}
	isolate(cmd)
	started := make(chan error, 1)
	go p.keep(started)
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

// keep starts the program and waits for it, on a thread of its own: the signal
// that ends the program together with its parent is bound to the thread.
func (p *process) keep(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(p.reaped)
	if awaitExit(p.cmd.Process.Pid) {
		// While it is not waited for, its process group's id cannot become another's.
		p.over()
		<-p.reap
		_ = p.cmd.Wait() // told by ProcessState
		return
	}
	_ = p.cmd.Wait() // told by ProcessState
	p.over()
}

// over tells that the program has exited and wakes those who read from it.
func (p *process) over() {
	close(p.exited)
	p.stdout.wake()
	p.stderr.wake()
}

// end makes sure that the program is over and nothing of its process group is
// left. It is given grace to exit by itself, unless hurry is closed, then grace
// after SIGTERM.
func (p *process) end(grace time.Duration, hurry <-chan struct{}) {
	if !p.wait(grace, hurry) {
		terminate(p.cmd)
		if !p.wait(grace, nil) {
			kill(p.cmd)
		}
	}
	<-p.exited
}

// wait reports whether the program exits within d.
func (p *process) wait(d time.Duration, hurry <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
	case <-hurry:
	}
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// clear kills what is left of the process group and gives the process id up.
// The program must have exited.
func (p *process) clear() {
	p.bury.Do(func() {
		kill(p.cmd)
		close(p.reap)
	})
	<-p.reaped
}

// failure says how the program ended, nil when it did well. clear must have
// been called.
func (p *process) failure() error {
	state := p.cmd.ProcessState
	switch {
	case state == nil:
		return errors.New("ended in an unknown way")
	case state.Success():
		return nil
	case state.Exited():
		return fmt.Errorf("exited with status %d", state.ExitCode())
	}
	return fmt.Errorf("was ended by a signal (%s)", state)
}

// passing reports whether a program could not be started for a reason that may
// be gone in a while.
func passing(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// errCutOff: what a program left behind goes on writing.
var errCutOff = errors.New("output cut off")

// lingering reads a pipe of a program: as long as the program runs, and then
// what is left in the pipe.
type lingering struct {
	file *os.File
	over <-chan struct{}
	left int // bytes that may be read once the program is over
}

func (l *lingering) Read(b []byte) (int, error) {
	select {
	case <-l.over:
		return l.rest(b)
	default:
	}
	n, err := l.file.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return l.rest(b)
	}
	return n, err
}

func (l *lingering) rest(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errCutOff
	}
	l.wake()
	n, err := l.file.Read(b[:min(len(b), l.left)])
	l.left -= n
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}

// wake has a Read that waits return after lingerTime.
func (l *lingering) wake() {
	if err := l.file.SetReadDeadline(time.Now().Add(lingerTime)); err != nil {
		// No deadlines on this system's pipes: cut it off, later.
		time.AfterFunc(lingerTime, func() { _ = l.file.Close() })
	}
}

func (l *lingering) close() { _ = l.file.Close() }
