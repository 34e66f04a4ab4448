//go:build unix

package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Config says what kind of server to start.
type Config struct {
	// Fsync makes commits survive an immediate stop; without it they are faster.
	Fsync bool
	// Dir is where the directory of the server is made. Default: where temporary
	// files are.
	Dir string
	// Settings are those of postgresql.conf, by name.
	Settings map[string]string
}

// Server is a PostgreSQL of this process, for a test. Its methods are not safe
// for concurrent use.
type Server struct {
	bin, dir string
	port     int
	cfg      Config
	cred     *syscall.Credential

	watchdog *exec.Cmd
	leash    io.Closer // what the watchdog waits at
	pid      int
}

const (
	superuser = "holdfast"
	install   = "PostgreSQL is needed for tests: install the package postgresql (programs initdb and postgres), or name a server in " + URLVariable
)

// Start makes a database cluster and starts a server on it.
func Start(cfg Config) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, cfg: cfg}
	if s.dir, err = os.MkdirTemp(cfg.Dir, "holdfast-pgtest-"); err != nil {
		return nil, err
	}
	if err := s.setUp(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

func (s *Server) setUp() error {
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			return fmt.Errorf("%s: %w", install, err)
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		s.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, int(uid), int(gid)); err != nil { //nolint:gosec // ids fit
			return err
		}
	}
	//nolint:gosec,noctx // the programs of the server
	initdb := exec.Command(filepath.Join(s.bin, "initdb"), "-D", s.data(), "-U", superuser, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	initdb.Dir = s.dir
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	s.port = port
	return s.Start()
}

// programs returns the folder of the newest PostgreSQL there is.
func programs() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	sort.Slice(found, func(i, j int) bool { return version(found[i]) < version(found[j]) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	if p, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(p), nil
	}
	return "", errors.New(install)
}

func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// URL names the server, over TCP on the loopback interface.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, s.port)
}

// Addr is where the server listens.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// watch runs the server and stops it when its standard input ends.
const watch = `"$@" >>"$LOG" 2>&1 </dev/null & pid=$!
echo $pid
(while read -r _; do :; done; kill -QUIT $pid 2>/dev/null; if [ -n "$REMOVE" ]; then sleep 1; rm -rf "$REMOVE"; fi) <&3 >/dev/null 2>&1 &
exec 3<&-
wait $pid`

// Start starts a server that was stopped, on the same port and data.
func (s *Server) Start() error {
	args := []string{
		"-c", watch, "watch", filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.port), "-k", s.dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300", "-c", "shared_buffers=128MB", "-c", "max_wal_size=2GB",
	}
	if !s.cfg.Fsync {
		args = append(args, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	}
	for k, v := range s.cfg.Settings {
		args = append(args, "-c", k+"="+v)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	cmd := exec.Command("/bin/sh", args...) //nolint:gosec,noctx // the server outlives any call
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LOG="+s.LogFile(), "REMOVE="+s.dir)
	cmd.ExtraFiles = []*os.File{r}
	// A group of its own: an interrupt at the keyboard is not for the server.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred, Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, w.Close())
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		s.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	s.watchdog, s.leash = cmd, w
	if err == nil {
		err = s.await()
	}
	if err != nil {
		log, _ := os.ReadFile(s.LogFile())
		return errors.Join(fmt.Errorf("start PostgreSQL: %w\n%s", err, log), s.Stop())
	}
	return nil
}

// LogFile is what the server writes its log to.
func (s *Server) LogFile() string { return filepath.Join(s.dir, "server.log") }

// await waits until the server takes connections.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, s.URL())
		if err == nil {
			return c.Close(ctx)
		}
		if ctx.Err() != nil || syscall.Kill(s.pid, 0) != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Stop stops the server as a loss of power would: nothing is finished or written
// back. Start starts it again.
func (s *Server) Stop() error { return s.signal(syscall.SIGQUIT) }

// StopFast stops the server after ending its connections.
func (s *Server) StopFast() error { return s.signal(syscall.SIGINT) }

// Pause stops all processes of the server where they are, until Resume.
func (s *Server) Pause() error { return s.signalAll(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.signalAll(syscall.SIGCONT) }

// signalAll signals the server and then its children, each of which has a process
// group of its own.
func (s *Server) signalAll(sig syscall.Signal) error {
	if err := syscall.Kill(s.pid, sig); err != nil {
		return err
	}
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(s.pid)).Output() //nolint:gosec,noctx // a number
	if err != nil {
		return fmt.Errorf("list the processes of the server: %w", err)
	}
	for _, line := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(line); err == nil {
			_ = syscall.Kill(pid, sig) // it may have ended
		}
	}
	return nil
}

func (s *Server) signal(sig syscall.Signal) error {
	if s.watchdog == nil {
		return nil
	}
	err := syscall.Kill(s.pid, sig)
	_ = s.watchdog.Wait() // tells how the server ended, which is as it was told
	// The rest of the watchdog's group only waits at the leash.
	_ = syscall.Kill(-s.watchdog.Process.Pid, syscall.SIGKILL)
	err = errors.Join(err, s.leash.Close())
	s.watchdog = nil
	return err
}

// Close stops the server and removes its data.
func (s *Server) Close() error { return errors.Join(s.Stop(), os.RemoveAll(s.dir)) }
