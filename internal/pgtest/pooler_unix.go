//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/holdfast-dev/holdfast/internal/testport"
)

// Pooler is a PgBouncer in transaction mode in front of a server.
type Pooler struct {
	process
	dir  string
	port int
}

const poolerConfig = `[databases]
* = host=127.0.0.1 port=%d user=` + superuser + `
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 1000
server_login_retry = 0
`

// Pooler starts a PgBouncer in front of the server.
func (s *Server) Pooler() (_ *Pooler, err error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return nil, fmt.Errorf("PgBouncer is needed for tests: install the package pgbouncer: %w", err)
		}
	}
	p := &Pooler{}
	dir, cred, err := privateDir("", "")
	if err != nil {
		return nil, err
	}
	p.dir = dir
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.port, err = testport.New(); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "pgbouncer.ini")
	if err = os.WriteFile(file, fmt.Appendf(nil, poolerConfig, s.port, p.port), 0o644); err != nil { // no secrets; read as another user
		return nil, err
	}
	if err = p.run(dir, &syscall.SysProcAttr{Credential: cred}, program, file); err == nil {
		err = p.await(p.URL())
	}
	if err != nil {
		log, _ := os.ReadFile(logFile(dir))
		return nil, fmt.Errorf("start PgBouncer: %w\n%s", err, log)
	}
	return p, nil
}

// URL names the server through the pooler.
func (p *Pooler) URL() string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, p.port)
}

// Close stops the pooler.
func (p *Pooler) Close() error { return errors.Join(p.signal(syscall.SIGTERM), os.RemoveAll(p.dir)) }
