package issuer

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// jwt is a signed token that is not verified yet.
type jwt struct {
	raw            string
	header, claims claims
}

// decode returns the JWT in a token. It accepts one spelling only: base64url in its canonical form, and JSON objects
// without duplicate members.
func decode(token string) (*jwt, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, invalid("the token is not a JWT: it does not have three parts")
	}
	t := &jwt{raw: token}
	for n, part := range parts {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if err == nil && n < 2 {
			err = wire.UnmarshalStrict(raw, []*claims{&t.header, &t.claims}[n])
		}
		if err != nil {
			return nil, invalid("the token is not a JWT: part %d is not valid base64url, or not a JSON object with unique members", n+1)
		}
	}
	return t, nil
}

// verifyJWT returns the principal of a token with the issuer's URL as iss.
func (i *Issuer) verifyJWT(ctx context.Context, t *jwt, hash [sha256.Size]byte) (a2a.Principal, error) {
	algorithm, err := t.header.text("alg")
	switch {
	case err != nil:
		return a2a.Principal{}, err
	case t.header["crit"] != nil || t.header["b64"] != nil:
		return a2a.Principal{}, invalid("the token's header has extensions that are not supported (crit or b64)")
	case !slices.Contains(i.cfg.Algorithms, algorithm):
		return a2a.Principal{}, invalid("the token's signature algorithm is not accepted, want one of %s", strings.Join(i.cfg.Algorithms, ", "))
	}
	if err := i.checkType(t); err != nil {
		return a2a.Principal{}, err
	}
	keyID, err := t.header.text("kid")
	if err != nil {
		return a2a.Principal{}, err
	}
	key, set, err := i.key(ctx, keyID, jose.SignatureAlgorithm(algorithm))
	if err != nil {
		return a2a.Principal{}, err
	}
	signed, err := jose.ParseSignedCompact(t.raw, i.algorithms)
	if err != nil {
		return a2a.Principal{}, invalid("the token is not a valid JSON Web Signature")
	}
	if _, err := signed.Verify(key); err != nil {
		return a2a.Principal{}, a2a.Refusef(a2a.CodeInvalidSignature, "signature", "the token's signature is not valid")
	}
	now := i.cfg.Now()
	audiences, err := i.checkClaims(t.claims, now, true)
	if err != nil {
		return a2a.Principal{}, err
	}
	p, err := i.principal(t.claims, audiences, hash)
	if err == nil {
		i.verified.put(hash, verified{p, set}, p.Expires)
	}
	return p, err
}

// Claims that only ID tokens and logout tokens have (OpenID Connect Core 1.0 sections 2 and 3.3.2.11, Back-Channel
// Logout 1.0 section 2.4), and claims that ID tokens do not need.
var (
	identityClaims = []string{"nonce", "at_hash", "c_hash", "s_hash", "events"}
	accessClaims   = []string{"scope", "scp", "client_id", "azp", "cid", "appid"}
)

// checkType returns an error unless the token is an access token, or an ID token where these are accepted.
func (i *Issuer) checkType(t *jwt) error {
	kind, err := t.header.text("typ")
	if err != nil {
		return err
	}
	kind = strings.TrimPrefix(strings.ToLower(kind), "application/")
	plain := kind == "jwt" || kind == ""
	switch {
	case kind == "at+jwt":
		return nil
	case !plain || !i.cfg.PlainTypes && !i.cfg.IDTokens:
		return a2a.Refusef(a2a.CodeUnauthenticated, "type", "the token's type is not accepted, want at+jwt")
	case i.cfg.IDTokens && t.claims["events"] == nil:
		return nil
	}
	if t.claims["typ"] != nil { // Keycloak's, also in tokens that have a nonce
		return checkUse(t.claims)
	}
	has := func(name string) bool { return t.claims[name] != nil }
	if slices.ContainsFunc(identityClaims, has) || !slices.ContainsFunc(accessClaims, has) {
		return a2a.Refusef(a2a.CodeUnauthenticated, "type", "the token is not an access token: send one, not an ID token")
	}
	return nil
}

// checkUse returns an error if a claim of Keycloak (typ) or of Hydra's introspection (token_use) says that the token is
// no access token.
func checkUse(c claims) error {
	kind, use := c["typ"], c["token_use"]
	text, _ := kind.(string)
	if kind != nil && !strings.EqualFold(text, "Bearer") && !strings.EqualFold(text, "DPoP") || use != nil && use != "access_token" {
		return a2a.Refusef(a2a.CodeUnauthenticated, "type", "the token is not an access token: its claim typ or token_use says otherwise")
	}
	return nil
}
