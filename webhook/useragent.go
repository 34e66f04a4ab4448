package webhook

import "strings"

// UserAgent returns a User-Agent value (RFC 9110, section 10.1.5): "name/version", or "name"
// if version is empty. Characters that are not allowed become "-".
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

// isUserAgent reports whether s is a valid User-Agent value.
func isUserAgent(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
