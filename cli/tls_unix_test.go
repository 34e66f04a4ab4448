//go:build services && unix

package cli_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// authority signs certificates.
type authority struct {
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &authority{file: filepath.Join(t.TempDir(), name+".pem"), cert: cert, key: key}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// issue creates a server certificate for the address 127.0.0.1, without a host name.
func (a *authority) issue(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "database"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "EC PRIVATE KEY", raw)
	return certFile, keyFile
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tlsServer is a PostgreSQL server that requires passwords and may support TLS.
type tlsServer struct {
	*pgtest.Server
	ca      *authority
	otherCA *authority // has signed nothing
}

const securePassword = "s3cr3t-passw0rd"

// startTLSServer starts a server that requires a password of the user bob; tls is "on" or "off".
func startTLSServer(t *testing.T, tls string) tlsServer {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-tls-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := tlsServer{ca: newAuthority(t, "right"), otherCA: newAuthority(t, "wrong")}
	certFile, keyFile := s.ca.issue(t, dir)
	hba := filepath.Join(dir, "hba.conf")
	if err := os.WriteFile(hba, []byte("host all bob 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // the server runs as another user
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		for _, file := range []string{dir, certFile, keyFile, hba} {
			if err := os.Chown(file, uid, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Server, err = pgtest.Start(pgtest.Config{Settings: map[string]string{
		"ssl": tls, "ssl_cert_file": certFile, "ssl_key_file": keyFile, "hba_file": hba, "log_connections": "on", "shared_buffers": "16MB",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := connectTo(t, s.URL())
	if _, err := c.Exec(t.Context(), "CREATE ROLE bob LOGIN PASSWORD '"+securePassword+"'; GRANT CREATE ON DATABASE postgres TO bob"); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

// url returns a URL of the server with the given host and parameters.
func (s tlsServer) url(host, params string) string {
	_, port, _ := net.SplitHostPort(s.Addr())
	return fmt.Sprintf("postgres://bob:%s@%s/postgres?%s", securePassword, net.JoinHostPort(host, port), params)
}

// encrypted returns TLS, plain or refused, as the server's log reports for a session.
func (s tlsServer) encrypted(t *testing.T, session string) string {
	t.Helper()
	log, err := os.ReadFile(s.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "connection authorized") && strings.Contains(line, "application_name="+session) {
			if strings.Contains(line, "SSL enabled") {
				return "TLS"
			}
			return "plain"
		}
	}
	return "refused"
}

// The certificate is for 127.0.0.1, so localhost does not match it.
func TestSSLModes(t *testing.T) {
	t.Parallel()
	on, off := startTLSServer(t, "on"), startTLSServer(t, "off")
	const right, wrong, none = "right", "wrong", "none"
	for i, test := range []struct {
		mode, root, host string
		with, without    string // connection to a server with TLS, and to one without
	}{
		{"disable", none, "127.0.0.1", "plain", "plain"},
		{"allow", none, "127.0.0.1", "plain", "plain"},
		{"prefer", none, "127.0.0.1", "TLS", "plain"},
		{"prefer", none, "localhost", "TLS", "plain"},
		{"require", none, "127.0.0.1", "TLS", "refused"},
		{"require", none, "localhost", "TLS", "refused"},
		// As in libpq, require checks the authority if one is set.
		{"require", right, "localhost", "TLS", "refused"},
		{"require", wrong, "127.0.0.1", "refused", "refused"},
		{"verify-ca", right, "127.0.0.1", "TLS", "refused"},
		{"verify-ca", right, "localhost", "TLS", "refused"},
		{"verify-ca", wrong, "127.0.0.1", "refused", "refused"},
		{"verify-full", right, "127.0.0.1", "TLS", "refused"},
		{"verify-full", right, "localhost", "refused", "refused"},
		{"verify-full", wrong, "127.0.0.1", "refused", "refused"},
		{"verify-full", none, "127.0.0.1", "refused", "refused"},
	} {
		t.Run(fmt.Sprintf("%s %s %s", test.mode, test.root, test.host), func(t *testing.T) {
			t.Parallel()
			for _, side := range []struct {
				s    tlsServer
				want string
			}{{on, test.with}, {off, test.without}} {
				session := fmt.Sprintf("ladder-%d-", i)
				params := "sslmode=" + test.mode + "&application_name=" + session
				switch test.root {
				case right:
					params += "&sslrootcert=" + side.s.ca.file
				case wrong:
					params += "&sslrootcert=" + side.s.otherCA.file
				}
				code, out, stderr := run(t, "", []string{"DATABASE_URL=" + side.s.url(test.host, params)}, "migrate", "status")
				wantCode := 0
				if side.want == "refused" {
					wantCode = 7
				}
				if got := side.s.encrypted(t, session); code != wantCode || got != side.want {
					t.Errorf("migrate status = %d with session %s, want %d and %s; stderr: %s", code, got, wantCode, side.want, stderr)
				}
				if wantCode == 7 && !strings.Contains(stderr, "sslmode") {
					t.Errorf("stderr = %q, want sslmode in it", stderr)
				}
				if wantCode == 7 && side.s.Server == on.Server && test.root == wrong && !strings.Contains(stderr, "sslrootcert") {
					t.Errorf("stderr = %q, want sslrootcert in it", stderr)
				}
				if strings.Contains(out+stderr, securePassword) {
					t.Errorf("the password is in %q", out+stderr)
				}
			}
		})
	}
}

// The driver connects with TLS and without; two equal errors are reported once.
func TestTLSRefusalIsReportedOnce(t *testing.T) {
	t.Parallel()
	url := startTLSServer(t, "on").url("127.0.0.1", "sslmode=prefer&require_auth=md5")
	code, _, stderr := run(t, "", []string{"DATABASE_URL=" + url}, "migrate", "status")
	if code != 7 || strings.Count(stderr, "\n") != 1 || strings.Count(stderr, "require_auth") != 1 {
		t.Errorf("migrate status = %d, %q, want 7 and one line that names require_auth once", code, stderr)
	}
}

// No output of any command contains the password.
func TestPasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	s := startTLSServer(t, "on")
	good := s.url("127.0.0.1", "sslmode=require")
	for name, url := range map[string]string{
		"good": good, "bad password": strings.Replace(good, securePassword, securePassword+"x", 1), "bad database": strings.Replace(good, "/postgres?", "/nowhere?", 1),
		"bad host": strings.Replace(good, "127.0.0.1", "no-such-host.invalid", 1), "bad port": "postgres://bob:" + securePassword + "@127.0.0.1:1/x",
		"bad scheme": strings.Replace(good, "postgres:", "mysql:", 1), "bad mode": strings.Replace(good, "require", "requre", 1),
		"bad parameter": good + "&nonsense=1", "bad escape": strings.Replace(good, securePassword, securePassword+"%zz", 1),
		"no scheme": strings.TrimPrefix(good, "postgres://"), "bad form": "host=127.0.0.1 password=" + securePassword, "bad port number": strings.Replace(good, "127.0.0.1:", "127.0.0.1:x", 1),
		"a parameter": "postgres://127.0.0.1:1/x?user=bob&password=" + securePassword,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environ := []string{"STORAGE_TYPE=postgres", "DATABASE_URL=" + url, "STORAGE__POSTGRES_MAX_RETRIES=0"}
			commands := [][]string{
				{"config"},
				{"config", "--json"},
				{"config", "--check"},
				{"migrate", "status"},
				{"migrate", "plan"},
				{"export", "--all"},
				{"serve", "--addr", "127.0.0.1:0", "--log-level", "debug"},
				{"migrate", "status", "--database-url", url},
				{"config", "--database-url", url},
				{"serve", "--json", "--addr", "127.0.0.1:0", "--database-url", url},
				{"migrate", url},
				{"serve", "--database-url", "--storage", url},
				{"serve", "--storage", url},
			}
			for _, args := range commands {
				code, out, stderr := run(t, "", environ, args...)
				if strings.Contains(out+stderr, securePassword) {
					t.Errorf("%s has the password: %s%s", args[0], out, stderr)
				}
				if name != "good" && args[0] != "config" && code == 0 {
					t.Errorf("%v = 0, want an error", args)
				}
			}
		})
	}
	t.Run("serve", func(t *testing.T) {
		t.Parallel()
		environ := []string{"DATABASE_URL=" + good, "STORAGE__RUN_MIGRATIONS_ON_STARTUP=true", "HOLDFAST_SCHEMA=quiet", "STORAGE__POSTGRES_MAX_RETRIES=1", "STORAGE__POSTGRES_RETRY_DELAY=0.01"}
		r := startServer(t, environ, "--agent", "echo", "--log-level", "debug")
		if code, _, stderr := run(t, "", nil, "send", "--server", r.URL, "x"); code != 0 {
			t.Fatalf("send = %d, %s", code, stderr)
		}
		// Without tables the server logs errors.
		// PostgreSQL may cancel this statement, because it and the server's lock tables in different orders.
		await.Success(t, func() error {
			_, err := connectTo(t, s.URL()).Exec(t.Context(), "DROP SCHEMA IF EXISTS quiet CASCADE")
			return err
		})
		_, out, stderr := run(t, "", nil, "send", "--server", r.URL, "y")
		r.stop()
		if !strings.Contains(r.log(), "bob:***@") || !strings.Contains(r.log(), "level=ERROR") {
			t.Errorf("log = %q, want the masked URL and errors", r.log())
		}
		if strings.Contains(r.log()+out+stderr+r.Database, securePassword) {
			t.Errorf("the password is in %s", r.log()+out+stderr)
		}
	})
}
