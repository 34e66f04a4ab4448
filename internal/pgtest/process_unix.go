//go:build unix

package pgtest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// process is a server program under a watchdog, which ends it with this process.
type process struct {
	watchdog *exec.Cmd
	leash    io.Closer // the pipe that the watchdog reads; closing it ends the program
	pid      int
}

// watch runs a program and stops it when its standard input ends.
const watch = `"$@" >>"$LOG" 2>&1 </dev/null & pid=$!
echo $pid
(while read -r _; do :; done; kill -QUIT $pid 2>/dev/null; if [ -n "$REMOVE" ]; then sleep 1; rm -rf "$REMOVE"; fi) <&3 >/dev/null 2>&1 &
exec 3<&-
wait $pid`

// logFile is where the program of a directory writes its log.
func logFile(dir string) string { return filepath.Join(dir, "server.log") }

// run starts a program in a directory, which is removed with it if this process dies. as determines the user and the
// file system of the program.
func (p *process) run(dir string, as *syscall.SysProcAttr, args ...string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	cmd := exec.Command("/bin/sh", append([]string{"-c", watch, "watch"}, args...)...) //nolint:noctx // it outlives any call
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LOG="+logFile(dir), "REMOVE="+dir)
	cmd.ExtraFiles = []*os.File{r}
	// The server has its own process group, so that an interrupt at the keyboard does not end it.
	as.Setpgid = true
	cmd.SysProcAttr = as
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, w.Close())
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		p.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	p.watchdog, p.leash = cmd, w
	return err
}

// await waits until the program accepts connections.
func (p *process) await(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, url)
		if err == nil {
			return c.Close(ctx)
		}
		if ctx.Err() != nil || syscall.Kill(p.pid, 0) != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// signal ends the program with a signal and waits for its end.
func (p *process) signal(sig syscall.Signal) error {
	if p.watchdog == nil {
		return nil
	}
	err := syscall.Kill(p.pid, sig)
	_ = p.watchdog.Wait() // reports the exit status of a program that was stopped on purpose
	// The rest of the watchdog's group only reads the pipe.
	_ = syscall.Kill(-p.watchdog.Process.Pid, syscall.SIGKILL)
	err = errors.Join(err, p.leash.Close())
	p.watchdog = nil
	return err
}
