package push

import "strings"

// UserAgent returns what a program of a name and a version is told as (RFC 9110,
// section 10.1.5): "name/version", or "name" if it has no version. Characters that
// must not be there become "-".
func UserAgent(name, version string) string {
	name, version = token(name), token(version)
	if version == "" {
		return name
	}
	return name + "/" + version
}

func token(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return r
		}
		return '-'
	}, s)
}

// isUserAgent reports whether a header can have it.
func isUserAgent(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
