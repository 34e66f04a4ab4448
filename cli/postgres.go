package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/cli/command"
)

const urlFormat = "postgres://USER:PASSWORD@HOST:PORT/DATABASE"

// databaseSchemes are the accepted URL schemes.
var databaseSchemes = []string{"postgres", "postgresql", "postgresql+asyncpg"}

// sslModes are the values of sslmode, from no checks to all.
var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// enumParameters are the URL parameters with a fixed set of values.
var enumParameters = []struct {
	name string
	want []string
}{
	{"sslmode", sslModes},
	{"ssl", sslModes},
	{"sslnegotiation", []string{"postgres", "direct"}},
	{"sslsni", []string{"0", "1"}},
	{"sslcertmode", []string{"disable", "allow", "require"}},
	{"channel_binding", []string{"disable", "prefer", "require"}},
	{"target_session_attrs", []string{"any", "read-write", "read-only", "primary", "standby", "prefer-standby"}},
}

// publicParameters are the parameters of URLs of stores that contain no secrets.
var publicParameters = []string{
	"schema", "endpoint", "region", "insecure", // of the URLs of contracts
	"sslmode", "ssl", "sslrootcert", "sslcert", "sslkey", "sslnegotiation", "application_name", "connect_timeout", "target_session_attrs",
	"host", "hostaddr", "port", "dbname", "user", "service", "servicefile", "passfile", "sslcertmode", "sslsni", "channel_binding", "require_auth",
	"min_protocol_version", "max_protocol_version",
}

// socketHostPattern matches a URL with the directory of a socket as its host. libpq accepts it, the
// driver does not.
var socketHostPattern = regexp.MustCompile(`^[a-z+]+://([^/?#]*@)?%2[fF]`)

// postgresURLPattern matches texts that are meant as PostgreSQL URLs, also invalid ones.
var postgresURLPattern = regexp.MustCompile(`^[\s'"]*(?i:postgres)`)

// parseDatabaseURL parses a PostgreSQL URL. Its errors do not contain the URL, which may have a
// password.
func parseDatabaseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text != strings.TrimSpace(text) || strings.HasPrefix(text, "'") || strings.HasPrefix(text, `"`):
		return nil, errors.New("has quotes, spaces or line breaks around it: remove them")
	case err != nil && socketHostPattern.MatchString(text):
		return nil, errors.New("has a socket directory as its host: want postgres://USER@/DATABASE?host=/DIRECTORY")
	case err != nil:
		return nil, errors.New("cannot be parsed: want " + urlFormat + ", with special characters in the password as %XX")
	case u.Scheme == "" || u.Opaque != "":
		return nil, errors.New("is not a URL: want " + urlFormat)
	case !slices.Contains(databaseSchemes, u.Scheme):
		return nil, fmt.Errorf("starts with %s://, want postgres://, postgresql:// or postgresql+asyncpg://", u.Scheme)
	}
	return u, nil
}

// checkDatabaseURL returns all problems of a URL that can be found without a connection.
func checkDatabaseURL(text string) error {
	u, err := parseDatabaseURL(text)
	if err != nil {
		return err
	}
	var errs []error
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		errs = append(errs, errors.New("has parameters that cannot be parsed: want ?name=value&name=value, with special characters as %XX"))
	}
	for _, c := range enumParameters {
		if value := q.Get(c.name); value != "" && !slices.Contains(c.want, value) {
			errs = append(errs, fmt.Errorf("has %s=%s, want one of %s", c.name, value, strings.Join(c.want, ", ")))
		}
	}
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		if file := q.Get(name); file != "" && (name != "sslrootcert" || file != "system") {
			errs = append(errs, checkPEM(name, file))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return checkWithDriver(text)
}

// checkPEM checks a file that a parameter names.
func checkPEM(name, file string) error {
	raw, err := os.ReadFile(file) // the operator's file
	switch {
	case err != nil:
		return fmt.Errorf("has %s: %w", name, err)
	case name == "sslrootcert" && !x509.NewCertPool().AppendCertsFromPEM(raw):
		return fmt.Errorf("has %s: %s contains no PEM certificate", name, file)
	}
	return nil
}

// checkWithDriver checks a URL with the driver, which adds the variables and files of PostgreSQL.
func checkWithDriver(text string) error {
	_, rest, _ := strings.Cut(text, "://")
	_, err := pgconn.ParseConfig("postgres://" + rest)
	if err == nil {
		return nil
	}
	cause := err.Error()
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) { // names the URL, which may have a password
		parse.ConnString = ""
		cause = strings.TrimPrefix(parse.Error(), pgconn.NewParseConfigError("", "", nil).Error())
	}
	return fmt.Errorf("is not valid together with the PG... variables: %s", cause)
}

const masked = "***"

// publicLocation matches URLs of contracts that contain no secrets: paths and memory.
var publicLocation = regexp.MustCompile(`^(memory|[./][^@=\s]*|sqlite:[^@=\s]*)$`)

// maskURL returns a URL with everything masked that may be secret.
func maskURL(text string) string {
	if text == "" || publicLocation.MatchString(text) {
		return text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Opaque != "" {
		return masked
	}
	shown := u.Scheme + "://"
	if u.User != nil {
		shown += url.User(u.User.Username()).String()
		if _, ok := u.User.Password(); ok {
			shown += ":" + masked
		}
		shown += "@"
	}
	shown += u.Host + u.EscapedPath()
	if u.RawQuery == "" {
		return shown
	}
	params := strings.Split(u.RawQuery, "&")
	for i, param := range params {
		if name, _, _ := strings.Cut(param, "="); !slices.Contains(publicParameters, name) {
			params[i] = name + "=" + masked
		}
	}
	return shown + "?" + strings.Join(params, "&")
}

// passwordPatterns match passwords in a text: in a URL, in a URL without scheme, as a parameter.
var passwordPatterns = []*regexp.Regexp{
	regexp.MustCompile(`(://[^\s:/@"']*:)([^\s"']*)@`),
	regexp.MustCompile(`([\w.+-]+:)([^\s"'@/*][^\s"']*)@`),
	regexp.MustCompile(`((?i:password)=)([^\s"'&]+)`),
}

// redactPasswords masks passwords in a text, such as a command line that is quoted
// in an error.
func redactPasswords(text string) string {
	for _, pattern := range passwordPatterns {
		text = pattern.ReplaceAllStringFunc(text, func(found string) string {
			m := pattern.FindStringSubmatch(found)
			if m[2] == "PASSWORD" { // of urlFormat
				return found
			}
			return m[1] + masked + strings.TrimPrefix(found, m[1]+m[2])
		})
	}
	return text
}

// check checks the URL of a PostgreSQL database.
func (u *databaseURL) check() error {
	if u.err != nil {
		return u.err
	}
	if u.url == "" {
		return errors.New("--storage: postgres needs the URL of the database: set DATABASE_URL, --database-url or --database-url-file to " + urlFormat)
	}
	if err := checkDatabaseURL(u.url); err != nil {
		return fmt.Errorf("--%s %s", u.flag, strings.ReplaceAll(err.Error(), "\n", " and "))
	}
	return nil
}

var didPattern = regexp.MustCompile(`^did:[a-z0-9]+:\S+$`)

// resolvePostgres checks the settings of PostgreSQL and sets its configuration.
func (f *storageFlags) resolvePostgres(a *app, s *storage, _ string) error {
	errs := []error{s.dsn.check()}
	which, err := a.set.selectFlag("schema", "did")
	errs = append(errs, err)
	schema := f.Schema
	switch {
	case which == "did":
		schema = postgres.SchemaOf(strings.TrimSpace(f.DID))
		if f.Schema != "" {
			s.notes = append(s.notes, fmt.Sprintf("%s has no effect: the schema is that of %s", a.set.origins["schema"], a.set.origins["did"]))
		}
	case f.DID != "" && err == nil:
		s.notes = append(s.notes, fmt.Sprintf("%s has no effect: the schema is that of %s", a.set.origins["did"], a.set.origins["schema"]))
	}
	if f.DID != "" && !didPattern.MatchString(strings.TrimSpace(f.DID)) {
		errs = append(errs, fmt.Errorf("--did is %q, want did:METHOD:ID", f.DID))
	}
	if schema == "" {
		schema = "holdfast"
	}
	if f.PoolMin > f.PoolMax && a.set.origins["postgres-pool-min"].rank != byDefault {
		errs = append(errs, fmt.Errorf("--postgres-pool-min is %d, want no more than --postgres-pool-max, which is %d", f.PoolMin, f.PoolMax))
	}
	a.set.bind("postgres.", &s.cfg)
	a.set.bind("age.", &s.age)
	s.url, s.cfg.URL, s.cfg.Schema = maskURL(s.dsn.url), "postgres://checked", schema
	errs = append(errs, a.set.checkBounds(true)...)
	errs = append(errs, a.set.problemsOf("postgres.", s.cfg.Check(), "")...)
	s.cfg.URL = s.dsn.url
	return errors.Join(errs...)
}

// locatePostgres sets the configuration for the URL of a contract. Its parameter schema names the schema.
// The other settings are the settings of the main database.
func locatePostgres(a *app, s *storage, text string) error {
	u, err := parseDatabaseURL(text)
	if err != nil {
		return err
	}
	s.cfg.Schema = "holdfast"
	if q := u.Query(); q.Has("schema") {
		s.cfg.Schema = q.Get("schema")
		q.Del("schema")
		u.RawQuery = q.Encode()
		text = u.String()
	}
	if err := checkDatabaseURL(text); err != nil {
		return err
	}
	schema := s.cfg.Schema
	a.set.bind("postgres.", &s.cfg)
	a.set.bind("age.", &s.age)
	s.url, s.cfg.URL, s.cfg.Schema = maskURL(text), "postgres://checked", schema
	err = s.cfg.Check()
	s.cfg.URL = text
	return err
}

// explainConnection returns an error of PostgreSQL as one line, with a hint about poolers and
// certificates.
func explainConnection(err error) error {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	wrapped := error(&singleLineError{err})
	switch {
	case errors.Is(err, postgres.ErrPooler):
		return command.WithHint(wrapped, "set --postgres-pooler or STORAGE__POSTGRES_POOLER=true")
	case errors.As(err, &unknown):
		return command.WithHint(wrapped, "the server's certificate is signed by an unknown authority: set sslrootcert=FILE in the URL to the authority's certificate")
	case errors.As(err, &host):
		return command.WithHint(wrapped, "the server's certificate is for another host: use the host name of the certificate in the URL, or set sslmode=verify-ca")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return command.WithHint(wrapped, "the server's certificate has expired or is not valid yet: renew it, or correct this machine's clock")
	}
	return wrapped
}

// singleLineError is an error with its distinct lines joined into one. A driver that tries a host with
// and without TLS returns a line for each attempt.
type singleLineError struct{ error }

func (e *singleLineError) Unwrap() error { return e.error }

func (e *singleLineError) Error() string {
	var lines []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}
