package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
)

func TestCheckDatabaseURL(t *testing.T) {
	t.Parallel()
	noPEM := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(noPEM, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"postgres://u:s3cr3t@h/d":                                   "",
		"postgresql+asyncpg://u:s3cr3t@h:1,i:2/d?ssl=require":       "",
		"postgres:///d?host=/run/postgresql":                        "",
		"postgres://u:s3cr3t@h/d?target_session_attrs=read-write":   "",
		"postgres://u:s3#cr3t@h/d":                                  "cannot be parsed",
		`"postgres://u:s3cr3t@h/d"`:                                 "has quotes, spaces or line breaks around it",
		"postgres://u:s3cr3t@h/d\n":                                 "has quotes, spaces or line breaks around it",
		"postgres://u@%2Frun%2Fpostgresql/d":                        "want postgres://USER@/DATABASE?host=/DIRECTORY",
		"postgres://u:s3cr3t@h/d?target_session_attrs=master":       "has target_session_attrs=master, want one of any, read-write",
		"postgres://u:s3cr3t@h/d?sslnegotiation=fast":               "has sslnegotiation=fast, want one of postgres, direct",
		"postgres://u:s3cr3t@h/d?sslsni=yes":                        "has sslsni=yes, want one of 0, 1",
		"postgres://u:s3cr3t@h/d?channel_binding=on":                "has channel_binding=on, want one of disable",
		"postgres://u:s3cr3t@h/d?sslcertmode=on":                    "has sslcertmode=on, want one of disable",
		"postgres://u:s3cr3t@h/d?require_auth=magic":                `require_auth method: "magic"`,
		"postgres://u:s3cr3t@h/d?connect_timeout=soon":              "invalid connect_timeout",
		"postgres://u:s3cr3t@h/d?min_protocol_version=9":            "invalid min_protocol_version",
		"postgres://u:s3cr3t@h:99999/d":                             "invalid port",
		"postgres://u:s3cr3t@::1:5432/d":                            "invalid port",
		"postgres://u:s3cr3t@h/d?sslkey=" + noPEM:                   `both "sslcert" and "sslkey" are required`,
		"postgres://u:s3cr3t@h/d?sslrootcert=" + noPEM:              "has sslrootcert: " + noPEM + " contains no PEM certificate",
		"postgres://u:s3cr3t@h/d?service=nope&servicefile=" + noPEM: "failed to read service",
	} {
		err := checkDatabaseURL(in)
		if text := fmt.Sprint(err); (err == nil) != (want == "") || err != nil && (!strings.Contains(text, want) || strings.Contains(text, "s3cr3t")) {
			t.Errorf("checkDatabaseURL(%q) = %v, want %q and no password", in, err, want)
		}
	}
}

// An invalid PostgreSQL URL still selects PostgreSQL: data must not go to another store.
func TestBackendByURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "sqlite", "postgres://u:p@h/d": "postgres", "POSTGRES://u:p@h/d": "postgres", "postgres://u:p#p@h/d": "postgres",
		"postgresql://u:p%zz@h/d": "postgres", `"postgres://u:p@h/d"`: "postgres", "\tpostgres://u:p@h/d": "postgres",
		"postgresql+psycopg2://u:p@h/d": "postgres", "postgres://u@%2Frun/d": "postgres",
		"mysql://u:p@h/d": "sqlite", "sqlite:///data.db": "sqlite", "host=h user=u": "sqlite", "jdbc:postgresql://h/d": "sqlite",
	} {
		if got, _ := backendByURL(in, origin{name: "DATABASE_URL"}); got.kind != want {
			t.Errorf("backendByURL(%q) = %s, want %s", in, got.kind, want)
		}
	}
	if got, _ := backendByURL("mysql://h/d", origin{name: "HOLDFAST_DATABASE_URL"}); got.kind != "postgres" {
		t.Errorf("backendByURL() of HOLDFAST_DATABASE_URL = %s, want postgres", got.kind)
	}
}

func TestConnectionErrorsAreOneLine(t *testing.T) {
	t.Parallel()
	inner := errors.New("failed to connect to `d`:\n\th: refused\n\th: refused\n\ti: read-only\n")
	err := explainConnection(a2a.Wrap(a2a.CodeUnavailable, inner, "nothing answers"))
	if got, want := err.Error(), "nothing answers: failed to connect to `d`: h: refused; i: read-only"; got != want {
		t.Errorf("explainConnection() = %q, want %q", got, want)
	}
	if !errors.Is(err, inner) {
		t.Error("explainConnection() does not wrap the cause")
	}
}

func TestConnectionErrorsHaveHints(t *testing.T) {
	t.Parallel()
	for want, cause := range map[string]error{
		"--postgres-pooler": postgres.ErrPooler,
		"sslrootcert=FILE":  x509.UnknownAuthorityError{},
		"sslmode=verify-ca": x509.HostnameError{},
		"renew it":          x509.CertificateInvalidError{Reason: x509.Expired},
	} {
		err := explainConnection(a2a.Wrap(a2a.CodeUnavailable, fmt.Errorf("connect: %w", cause), "nothing answers"))
		if got := (&app{}).hint(err); !strings.Contains(got, want) {
			t.Errorf("hint(%v) = %q, want %q in it", cause, got, want)
		}
	}
}

// With several hosts, one other error is enough.
func TestOnlyConnectionRefused(t *testing.T) {
	t.Parallel()
	refused := &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}
	coded := func(err error) error { return &singleLineError{a2a.Wrap(a2a.CodeUnavailable, err, "nothing answers")} }
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":      {errors.New("read-only"), false},
		"one address":  {coded(refused), true},
		"two":          {coded(errors.Join(refused, fmt.Errorf("dial: %w", refused))), true},
		"one of two":   {coded(errors.Join(refused, errors.New("read-only"))), false},
		"no cause":     {coded(nil), false},
		"several of n": {coded(errors.Join(errors.Join(refused, refused), errors.Join(refused, errors.New("read-only")))), false},
	} {
		if got := onlyConnectionRefused(test.err); got != test.want {
			t.Errorf("%s: onlyRefused(%v) = %t, want %t", name, test.err, got, test.want)
		}
	}
}
