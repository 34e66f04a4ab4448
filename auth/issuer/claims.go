package issuer

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth/did"
)

const (
	skew     = time.Minute  // accepted difference of the issuer's clock
	maxTime  = 253402300799 // Unix time in seconds of the end of the year 9999
	maxActor = 4            // delegations of a token
)

// claims are members of a JWT or of an introspection answer. A member null counts as absent.
type claims map[string]any

// text returns a member that is a text, "" if it is absent.
func (c claims) text(name string) (string, error) {
	s, ok := c[name].(string)
	if !ok && c[name] != nil {
		return "", invalid("the token's member %s is not a text", name)
	}
	return s, nil
}

// identifier returns a claim that may be part of a principal's id, "" if it is absent. As with all texts of principals,
// it shares no memory with the token, because caches keep it.
func (c claims) identifier(name string) (string, error) {
	s, err := c.text(name)
	if err != nil || c[name] == nil {
		return "", err
	}
	// The decoder replaces lone surrogates, so that several texts have the same form with U+FFFD.
	if err := (a2a.Principal{ID: s}).Check(); err != nil || strings.ContainsRune(s, '\uFFFD') {
		return "", invalid("the token's member %s is not 1 to %d bytes of UTF-8 without control characters", name, a2a.MaxPrincipalID)
	}
	return strings.Clone(s), nil
}

// texts returns a claim that is a text or a list of texts, nil if it is absent.
func (c claims) texts(name string) ([]string, error) {
	if s, ok := c[name].(string); ok {
		return []string{s}, nil
	}
	list, ok := c[name].([]any)
	if !ok && c[name] != nil {
		return nil, invalid("the token's member %s is not a text or a list of texts", name)
	}
	var texts []string
	for _, item := range list {
		s, ok := item.(string)
		if !ok {
			return nil, invalid("the token's member %s is not a text or a list of texts", name)
		}
		texts = append(texts, s)
	}
	return texts, nil
}

// time returns a claim that is a NumericDate (RFC 7519 section 2), the zero time if it is absent.
func (c claims) time(name string) (time.Time, error) {
	if c[name] == nil {
		return time.Time{}, nil
	}
	seconds, ok := c[name].(float64)
	if n, long := c[name].(json.Number); long {
		f, err := n.Float64()
		seconds, ok = f, err == nil
	}
	if !ok || seconds < 0 || seconds > maxTime {
		return time.Time{}, invalid("the token's member %s is not a time in seconds since 1970", name)
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)), nil
}

// checkClaims checks times, audience and proof, and returns the audiences of this server that the token has.
func (i *Issuer) checkClaims(c claims, now time.Time, needAudience bool) ([]string, error) {
	var times [3]time.Time
	for n, name := range []string{"exp", "nbf", "iat"} {
		var err error
		if times[n], err = c.time(name); err != nil {
			return nil, err
		}
	}
	audiences, err := c.texts("aud")
	if err != nil {
		return nil, err
	}
	ours := slices.DeleteFunc(slices.Clone(i.cfg.Audiences), func(a string) bool { return !slices.Contains(audiences, a) })
	switch expires, notBefore, issued := times[0], times[1], times[2]; {
	case len(ours) == 0 && (needAudience || len(audiences) > 0):
		return nil, a2a.Refusef(a2a.CodeUnauthenticated, "audience", "the token is not for this server: its aud is another")
	case c["exp"] == nil:
		return nil, invalid("the token has no exp")
	case !now.Before(expires.Add(skew)):
		return nil, a2a.Refusef(a2a.CodeCredentialsExpired, "expired", "the token has expired")
	case notBefore.After(now.Add(skew)), issued.After(now.Add(skew)):
		return nil, a2a.Refusef(a2a.CodeCredentialsExpired, "not_yet_valid", "the token is not valid yet: its nbf or iat is in the future")
	case c["cnf"] != nil:
		return nil, a2a.Refusef(a2a.CodeInvalidSignature, "proof", "the token is bound to a key (cnf), and this server accepts bearer tokens only")
	}
	return ours, nil
}

// principal returns the principal of checked claims. audiences are those that name this server.
func (i *Issuer) principal(c claims, audiences []string, hash [sha256.Size]byte) (a2a.Principal, error) {
	p := a2a.Principal{Issuer: i.cfg.Name, Credential: credential(hash)}
	subject, err := c.identifier("sub")
	if err != nil {
		return a2a.Principal{}, err
	}
	for _, name := range []string{"client_id", "azp", "cid", "appid"} { // the last two are Okta's and Azure's
		client, err := c.identifier(name)
		if err != nil {
			return a2a.Principal{}, err
		}
		p.Client = cmp.Or(p.Client, client)
	}
	switch {
	case i.cfg.DIDs && strings.HasPrefix(p.Client, "did:"): // must sign, so that a malformed DID is no other client
		if did.Check(p.Client) != nil {
			return a2a.Principal{}, invalid("the token's client starts like a DID and is none")
		}
		p.ID, p.DID = p.Client, p.Client
	case p.Client != "" && (subject == "" || subject == p.Client):
		p.ID = i.cfg.Name + ":c:" + p.Client
	case subject == "":
		return a2a.Principal{}, invalid("the token names neither a subject (sub) nor a client (client_id)")
	default:
		p.ID = i.cfg.Name + ":u:" + subject
	}
	if p.Check() != nil {
		return a2a.Principal{}, invalid("the token's subject or client is too long")
	}
	if name, err := c.identifier("name"); err == nil { // only for display
		p.Name = name
	}
	if p.Scopes, err = i.scopes(c); err != nil {
		return a2a.Principal{}, err
	}
	if p.Actor, err = actor(c); err != nil {
		return a2a.Principal{}, err
	}
	p.Roles = i.roles(c, audiences)
	p.Expires, err = c.time("exp")
	return p, err
}

// scopes returns the scopes of a token. They are nil only if the issuer's setting grants everything.
func (i *Issuer) scopes(c claims) ([]a2a.Scope, error) {
	claim := "scope"
	switch {
	case c[claim] != nil:
	case c["scp"] != nil:
		claim = "scp"
	case i.cfg.Provider == a2a.ProviderAzureAD:
		claim = "roles"
	}
	if c[claim] == nil && i.cfg.Unscoped {
		return nil, nil
	}
	texts, err := c.texts(claim)
	scopes := []a2a.Scope{}
	for _, text := range texts {
		for name := range strings.FieldsSeq(text) {
			scope := a2a.Scope(strings.Clone(name))
			if !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	return slices.Clip(scopes), err
}

// roles returns the texts in the claims with roles. Values of other types grant nothing.
func (i *Issuer) roles(c claims, audiences []string) []string {
	var roles []string
	add := func(value any) {
		texts, _ := claims{"": value}.texts("")
		for _, role := range texts {
			if role != "" && !slices.Contains(roles, role) {
				roles = append(roles, strings.Clone(role))
			}
		}
	}
	for _, path := range i.cfg.RoleClaims {
		if value, ok := c[path]; ok {
			add(value)
			continue
		}
		find(c, strings.Split(path, "."), audiences, add)
	}
	return slices.Clip(roles)
}

// find calls found with each value at a path. The part <aud> stands for each audience.
func find(c claims, path, audiences []string, found func(any)) {
	names := path[:1]
	if path[0] == "<aud>" {
		names = audiences
	}
	for _, name := range names {
		if len(path) == 1 {
			found(c[name])
		} else if next, ok := c[name].(map[string]any); ok {
			find(next, path[1:], audiences, found)
		}
	}
}

// actor returns the subject of the party that acts for the token's subject (RFC 8693 section 4.1), "" if there is
// none. It rejects more than maxActor delegations.
func actor(c claims) (string, error) {
	first := ""
	for depth := 0; c["act"] != nil; depth++ {
		act, ok := c["act"].(map[string]any)
		if !ok || depth == maxActor {
			return "", invalid("the token's member act is not an object with at most %d actors", maxActor)
		}
		c = act
		subject, err := c.identifier("sub")
		if err != nil || subject == "" {
			return "", invalid("the token's member act has no valid sub")
		}
		first = cmp.Or(first, subject)
	}
	return first, nil
}
