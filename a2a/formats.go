package a2a

import (
	"mime"
	"net/url"
	"strings"
)

// CanonicalUUID returns the canonical form of a UUID, in lower case with dashes (RFC 4122).
// It accepts upper case, 32 digits without dashes, the prefix urn:uuid: and braces. ok is
// false if s is not a UUID.
func CanonicalUUID(s string) (canonical string, ok bool) {
	if len(s) > 64 {
		return "", false
	}
	s = strings.ToLower(s)
	s = strings.TrimPrefix(s, "urn:uuid:")
	if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") {
		s = s[1 : len(s)-1]
	}
	if len(s) == 36 {
		for _, i := range []int{8, 13, 18, 23} {
			if s[i] != '-' {
				return "", false
			}
		}
		s = s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	}
	if len(s) != 32 || strings.Trim(s, "0123456789abcdef") != "" {
		return "", false
	}
	return strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-"), true
}

func (p *Problems) uuid(path, s string) {
	if _, ok := CanonicalUUID(s); !ok {
		p.Add(path, "is %s, want a UUID", Quote(s))
	}
}

// agent checks an agent's identifier: a UUID or a DID.
func (p *Problems) agent(path, s string) {
	if _, ok := CanonicalUUID(s); !ok && !isDID(s) {
		p.Add(path, "is %s, want a UUID or a DID", Quote(s))
	}
}

func (p *Problems) did(path, s string) {
	p.Check(isDID(s), path, "is %s, want a DID such as did:web:example.com", Quote(s))
}

func isDID(s string) bool {
	rest, ok := strings.CutPrefix(s, "did:")
	method, id, cut := strings.Cut(rest, ":")
	return ok && cut && method != "" && id != "" && strings.Trim(method, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// absolute checks an absolute URL with one of the schemes, or with any scheme if there are
// none. http and https URLs must have a host.
func (p *Problems) absolute(path, s string, schemes ...string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" {
		p.Add(path, "is %s, want an absolute URL", Quote(s))
		return
	}
	for i, scheme := range schemes {
		if u.Scheme == scheme {
			break
		}
		if i == len(schemes)-1 {
			p.Add(path, "is %s, want a URL that starts with %s", Quote(s), strings.Join(schemes, ":// or ")+"://")
			return
		}
	}
	if web := u.Scheme == "http" || u.Scheme == "https"; web && u.Hostname() == "" {
		p.Add(path, "is %s, which has no host", Quote(s))
	}
}

// https checks a URL that must use https. It may be empty.
func (p *Problems) https(path, s string) {
	if s != "" {
		p.absolute(path, s, "https")
	}
}

func (p *Problems) mediaType(path, s string) {
	if s == "" {
		return
	}
	if t, _, err := mime.ParseMediaType(s); err != nil || !strings.Contains(t, "/") {
		p.Add(path, "is %s, want a media type such as text/plain", Quote(s))
	}
}

func (p *Problems) historyLength(n *int) {
	if n != nil && *n < 0 {
		p.Add("historyLength", "is %d, want 0 or more", *n)
	}
}

func (p *Problems) notEmpty(path, s string) { p.Check(s != "", path, "must not be empty") }
