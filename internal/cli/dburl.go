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
)

const urlForm = "postgres://USER:PASSWORD@HOST:PORT/DATABASE"

// databaseSchemes begin the URLs that are taken.
var databaseSchemes = []string{"postgres", "postgresql", "postgresql+asyncpg"}

// sslModes are the steps of sslmode, from none to all checks.
var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// choices are the parameters of a URL that take one of some values.
var choices = []struct {
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

// shownParameters are those of a database URL that hold no secrets.
var shownParameters = []string{
	"sslmode", "ssl", "sslrootcert", "sslcert", "sslkey", "sslnegotiation", "application_name", "connect_timeout", "target_session_attrs",
	"host", "hostaddr", "port", "dbname", "user", "service", "servicefile", "passfile", "sslcertmode", "sslsni", "channel_binding", "require_auth",
	"min_protocol_version", "max_protocol_version",
}

// socketHost is a URL with the folder of a socket for a host, as libpq takes it.
var socketHost = regexp.MustCompile(`^[a-z+]+://([^/?#]*@)?%2[fF]`)

// ofPostgres are texts that are meant for PostgreSQL, however they go on.
var ofPostgres = regexp.MustCompile(`^[\s'"]*(?i:postgres)`)

// parseDatabaseURL returns the parts of a URL that is one for us. Errors do not
// repeat it.
func parseDatabaseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text != strings.TrimSpace(text) || strings.HasPrefix(text, "'") || strings.HasPrefix(text, `"`):
		return nil, errors.New("has quotes, spaces or line breaks around it: take them away")
	case err != nil && socketHost.MatchString(text):
		return nil, errors.New("has the folder of a socket as its host: want postgres://USER@/DATABASE?host=/FOLDER")
	case err != nil:
		return nil, errors.New("cannot be read: want " + urlForm + ", with special characters of the password as %XX")
	case u.Scheme == "" || u.Opaque != "":
		return nil, errors.New("is not a URL: want " + urlForm)
	case !slices.Contains(databaseSchemes, u.Scheme):
		return nil, fmt.Errorf("begins with %s://, want postgres://, postgresql:// or postgresql+asyncpg://", u.Scheme)
	}
	return u, nil
}

// checkDatabaseURL says all that can be seen to be wrong with a URL.
func checkDatabaseURL(text string) error {
	u, err := parseDatabaseURL(text)
	if err != nil {
		return err
	}
	var errs []error
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		errs = append(errs, errors.New("has parameters that cannot be read: want ?name=value&name=value, with special characters as %XX"))
	}
	for _, c := range choices {
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
	return checkByDriver(text)
}

// checkPEM says what is wrong with a file that a parameter names.
func checkPEM(name, file string) error {
	raw, err := os.ReadFile(file) //nolint:gosec // the operator's file
	switch {
	case err != nil:
		return fmt.Errorf("has %s: %w", name, err)
	case name == "sslrootcert" && !x509.NewCertPool().AppendCertsFromPEM(raw):
		return fmt.Errorf("has %s: %s has no certificate in the form PEM", name, file)
	}
	return nil
}

// checkByDriver says what the driver finds wrong with a URL, and with what the
// variables and files of PostgreSQL add to it.
func checkByDriver(text string) error {
	_, rest, _ := strings.Cut(text, "://")
	_, err := pgconn.ParseConfig("postgres://" + rest)
	if err == nil {
		return nil
	}
	// The URL stands between backquotes before what is wrong with it.
	why := err.Error()
	why = why[strings.LastIndex(why, "`: ")+1:]
	return fmt.Errorf("cannot be used, with what the variables PG... add to it: %s", strings.TrimPrefix(why, ": "))
}

const masked = "***"

// maskURL returns a URL without what may be secret in it.
func maskURL(text string) string {
	if text == "" {
		return ""
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
		if name, _, _ := strings.Cut(param, "="); !slices.Contains(shownParameters, name) {
			params[i] = name + "=" + masked
		}
	}
	return shown + "?" + strings.Join(params, "&")
}

// How passwords may stand in a text: in a URL, in one without its scheme, as a
// parameter.
var passwordsInText = []*regexp.Regexp{
	regexp.MustCompile(`(://[^\s:/@"']*:)([^\s"']*)@`),
	regexp.MustCompile(`([\w.+-]+:)([^\s"'@/*][^\s"']*)@`),
	regexp.MustCompile(`((?i:password)=)([^\s"'&]+)`),
}

// withoutPasswords masks passwords in a text, such as a command line that is quoted
// in an error.
func withoutPasswords(text string) string {
	for _, form := range passwordsInText {
		text = form.ReplaceAllStringFunc(text, func(found string) string {
			m := form.FindStringSubmatch(found)
			if m[2] == "PASSWORD" { // of urlForm
				return found
			}
			return m[1] + masked + strings.TrimPrefix(found, m[1]+m[2])
		})
	}
	return text
}
