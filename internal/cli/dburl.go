package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

const urlForm = "postgres://USER:PASSWORD@HOST:PORT/DATABASE"

// databaseSchemes begin the URLs that are taken.
var databaseSchemes = []string{"postgres", "postgresql", "postgresql+asyncpg"}

// sslModes are the steps of sslmode, from none to all checks.
var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// shownParameters are those of a database URL that hold no secrets.
var shownParameters = []string{
	"sslmode", "ssl", "sslrootcert", "sslcert", "sslkey", "sslnegotiation", "application_name", "connect_timeout", "target_session_attrs",
	"host", "hostaddr", "port", "dbname", "user",
}

// parseDatabaseURL returns the parts of a URL that is one for us. Errors do not
// repeat it.
func parseDatabaseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
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
	for _, name := range []string{"sslmode", "ssl"} {
		if mode := q.Get(name); mode != "" && !slices.Contains(sslModes, mode) {
			errs = append(errs, fmt.Errorf("has %s=%s, want one of %s", name, mode, strings.Join(sslModes, ", ")))
		}
	}
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		file := q.Get(name)
		if file == "" || name == "sslrootcert" && file == "system" {
			continue
		}
		if f, err := os.Open(file); err != nil { //nolint:gosec // the operator's file
			errs = append(errs, fmt.Errorf("has %s: %w", name, err))
		} else {
			_ = f.Close()
		}
	}
	return errors.Join(errs...)
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
