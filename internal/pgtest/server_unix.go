//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfast-dev/holdfast/internal/testport"
)

// Config is the configuration of a server.
type Config struct {
	// Fsync makes commits survive an immediate stop; without it they are faster.
	Fsync bool
	// Dir is where the directory of the server is made. Default: where temporary
	// files are.
	Dir string
	// Settings are the settings in postgresql.conf, by name.
	Settings map[string]string
	// Extensions requires a server with pgvector: one of this system or, if it has none, the one that
	// scripts/services has made. Dir is ignored then.
	Extensions bool
}

// Server is a PostgreSQL of this process, for a test. Its methods are not safe
// for concurrent use.
type Server struct {
	process
	bin, dir string
	root     string // of the file system that has bin and dir, "" for this system's
	port     int
	cfg      Config
	cred     *syscall.Credential
}

const (
	superuser = "holdfast"
	install   = "PostgreSQL is needed for tests: install the package postgresql (programs initdb and postgres), or name a server in " + URLVariable
)

// Start makes a database cluster and starts a server on it.
func Start(cfg Config) (*Server, error) {
	return start(cfg, "initdb", "-U", superuser, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
}

// Standby starts a server with a copy of the data and the settings of s, which then receives every
// change of s. A commit of s waits for it where synchronous_standby_names of s is "*".
func (s *Server) Standby() (*Server, error) {
	return start(s.cfg, "pg_basebackup", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", superuser, "-R", "-X", "stream", "-c", "fast", "--no-sync")
}

// start starts a server on the data that a program of PostgreSQL makes.
func start(cfg Config, program string, args ...string) (*Server, error) {
	s := &Server{cfg: cfg}
	err := s.find()
	if err != nil {
		return nil, err
	}
	if s.dir, s.cred, err = privateDir(s.cfg.Dir, s.root); err != nil {
		return nil, err
	}
	if err = s.make(program, args...); err == nil {
		s.port, err = testport.New()
	}
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

// privateDir makes a directory for a server and returns the user it runs as: not
// root, which PostgreSQL and PgBouncer refuse.
func privateDir(parent, root string) (dir string, cred *syscall.Credential, err error) {
	if dir, err = os.MkdirTemp(parent, "holdfast-pgtest-"); err != nil || os.Geteuid() != 0 {
		return dir, nil, err
	}
	id, group, err := postgresUser(root)
	if err != nil {
		return dir, nil, errors.Join(fmt.Errorf("%s: %w", install, err), os.RemoveAll(dir))
	}
	uid, _ := strconv.ParseUint(id, 10, 32)
	gid, _ := strconv.ParseUint(group, 10, 32)
	return dir, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid)) // ids fit
}

// postgresUser returns the ids of the user postgres and of its group in a file system, "" for this system.
func postgresUser(root string) (id, group string, err error) {
	if root == "" {
		u, err := user.Lookup("postgres")
		if err != nil {
			return "", "", err
		}
		return u.Uid, u.Gid, nil
	}
	users, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(users)) {
		if f := strings.Split(line, ":"); f[0] == "postgres" && len(f) > 3 {
			return f[2], f[3], nil
		}
	}
	return "", "", errors.New("there is no user postgres in " + root)
}

// make runs a program of PostgreSQL that fills the data directory.
func (s *Server) make(program string, args ...string) error {
	//nolint:noctx // the programs of the server
	cmd := exec.Command(filepath.Join(s.bin, program), append([]string{"-D", s.data()}, args...)...)
	cmd.Dir = s.inside()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred, Chroot: s.root}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}

// find finds the folder and the file system of the newest PostgreSQL.
func (s *Server) find() error {
	if s.bin = newest(""); s.bin == "" {
		if p, err := exec.LookPath("initdb"); err == nil {
			s.bin = filepath.Dir(p)
		}
	}
	const extension = "/usr/share/postgresql/*/extension/vector.control"
	if found, _ := filepath.Glob(extension); s.cfg.Extensions && found == nil {
		cache, err := cacheDir()
		if err != nil {
			return err
		}
		root := filepath.Join(cache, "trixie")
		if found, _ := filepath.Glob(root + extension); found == nil {
			return errors.New("a PostgreSQL with pgvector is needed: run ./scripts/services install")
		}
		s.root, s.bin, s.cfg.Dir = root, strings.TrimPrefix(newest(root), root), filepath.Join(root, "var/tmp")
	}
	if s.bin == "" {
		return errors.New(install)
	}
	return nil
}

// newest returns the folder of the newest PostgreSQL of a file system, "" if it has none.
func newest(root string) string {
	found, _ := filepath.Glob(root + "/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }))
}

func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// inside returns the path of the server's directory in its file system.
func (s *Server) inside() string { return strings.TrimPrefix(s.dir, s.root) }

func (s *Server) data() string { return filepath.Join(s.inside(), "data") }

// URL names the server, over TCP on the loopback interface.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, s.port)
}

// Addr is where the server listens.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Start starts a server that was stopped, on the same port and data.
func (s *Server) Start() error {
	args := []string{
		filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.port), "-k", "",
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300", "-c", "shared_buffers=128MB", "-c", "max_wal_size=2GB",
	}
	if !s.cfg.Fsync {
		args = append(args, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	}
	for k, v := range s.cfg.Settings {
		args = append(args, "-c", k+"="+v)
	}
	err := s.run(s.inside(), &syscall.SysProcAttr{Credential: s.cred, Chroot: s.root}, args...)
	if err == nil {
		err = s.await(s.URL())
	}
	if err != nil {
		log, _ := os.ReadFile(s.LogFile())
		return errors.Join(fmt.Errorf("start PostgreSQL: %w\n%s", err, log), s.Stop())
	}
	return nil
}

// LogFile returns the path of the server's log.
func (s *Server) LogFile() string { return logFile(s.dir) }

// Stop stops the server like a loss of power: it completes no work and writes no checkpoint.
// Start starts it again.
func (s *Server) Stop() error { return s.signal(syscall.SIGQUIT) }

// Pause suspends all processes of the server until Resume.
func (s *Server) Pause() error { return s.signalAll(syscall.SIGSTOP) }

// Resume continues a paused server.
func (s *Server) Resume() error { return s.signalAll(syscall.SIGCONT) }

// signalAll signals the server and then its children, each of which has a process
// group of its own.
func (s *Server) signalAll(sig syscall.Signal) error {
	if err := syscall.Kill(s.pid, sig); err != nil {
		return err
	}
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(s.pid)).Output() //nolint:noctx // a number
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

// Close stops the server and removes its data.
func (s *Server) Close() error { return errors.Join(s.Stop(), os.RemoveAll(s.dir)) }
