package issuer_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth/issuer"
)

func TestTokensOfAllAlgorithmsAreAccepted(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, nil)
	for algorithm := range signers() {
		wantReason(t, i, algorithm, p.tokenOf(t, algorithm, "at+jwt", nil), "")
		changed := p.tokenOf(t, algorithm, "at+jwt", nil)
		head, tail := changed[:strings.LastIndex(changed, ".")+1], changed[strings.LastIndex(changed, ".")+1:]
		other := p.tokenOf(t, algorithm, "at+jwt", map[string]any{"sub": "bob"})
		wantReason(t, i, algorithm+" of other claims", other[:strings.LastIndex(other, ".")+1]+tail, badSignature)
		wantReason(t, i, algorithm+" empty", head, badSignature)
	}
	only := p.issuer(t, func(c *issuer.Config) { c.Algorithms = []string{"RS256"} })
	wantReason(t, only, "an algorithm that is not listed", p.token(t, nil), invalidToken)
	wantReason(t, only, "RS256", p.tokenOf(t, "RS256", "at+jwt", nil), "")
}

func TestPrincipalHasTheClaimsOfTheToken(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	expires := time.Unix(1_800_000_600, 0)
	base := func(change func(*a2a.Principal)) a2a.Principal {
		want := a2a.Principal{ID: "N:u:alice", Client: "app", Issuer: "N", Scopes: []a2a.Scope{"agent:read", "agent:write"}, Expires: expires}
		if change != nil {
			change(&want)
		}
		return want
	}
	act := func(depth int) map[string]any {
		var chain map[string]any
		for n := depth; n > 0; n-- {
			next := map[string]any{"sub": fmt.Sprint("actor-", n)}
			if chain != nil {
				next["act"] = chain
			}
			chain = next
		}
		return chain
	}
	for label, test := range map[string]struct {
		setting func(*issuer.Config)
		claims  map[string]any
		want    a2a.Principal
	}{
		"user":                  {nil, nil, base(nil)},
		"name":                  {nil, map[string]any{"name": "Alice"}, base(func(p *a2a.Principal) { p.Name = "Alice" })},
		"name that is no text":  {nil, map[string]any{"name": 1}, base(nil)},
		"no subject":            {nil, map[string]any{"sub": nil}, base(func(p *a2a.Principal) { p.ID = "N:c:app" })},
		"subject is the client": {nil, map[string]any{"sub": "app"}, base(func(p *a2a.Principal) { p.ID = "N:c:app" })},
		"client in azp":         {nil, map[string]any{"sub": "app", "client_id": nil, "azp": "app"}, base(func(p *a2a.Principal) { p.ID = "N:c:app" })},
		"client in cid":         {nil, map[string]any{"client_id": nil, "cid": "o"}, base(func(p *a2a.Principal) { p.Client = "o" })},
		"no client":             {nil, map[string]any{"client_id": nil}, base(func(p *a2a.Principal) { p.Client = "" })},
		"fractional exp":        {nil, map[string]any{"exp": 1_800_000_600.5}, base(func(p *a2a.Principal) { p.Expires = expires.Add(time.Second / 2) })},
		"long fraction of exp":  {nil, map[string]any{"exp": json.Number("1800000600.0000000000000000001")}, base(nil)},
		"scp list":              {nil, map[string]any{"scope": nil, "scp": []string{"agent:read", "agent:read", "x"}}, base(func(p *a2a.Principal) { p.Scopes = []a2a.Scope{"agent:read", "x"} })},
		"scp text":              {nil, map[string]any{"scope": nil, "scp": "write admin"}, base(func(p *a2a.Principal) { p.Scopes = []a2a.Scope{"write", "admin"} })},
		"empty scope":           {nil, map[string]any{"scope": ""}, base(func(p *a2a.Principal) { p.Scopes = []a2a.Scope{} })},
		"no scope":              {nil, map[string]any{"scope": nil}, base(func(p *a2a.Principal) { p.Scopes = []a2a.Scope{} })},
		"no scope, unscoped":    {func(c *issuer.Config) { c.Unscoped = true }, map[string]any{"scope": nil}, base(func(p *a2a.Principal) { p.Scopes = nil })},
		"empty scope, unscoped": {func(c *issuer.Config) { c.Unscoped = true }, map[string]any{"scope": ""}, base(func(p *a2a.Principal) { p.Scopes = []a2a.Scope{} })},
		"actor":                 {nil, map[string]any{"act": act(1)}, base(func(p *a2a.Principal) { p.Actor = "actor-1" })},
		"four actors":           {nil, map[string]any{"act": act(4)}, base(func(p *a2a.Principal) { p.Actor = "actor-1" })},
		"DID, not enabled":      {nil, map[string]any{"client_id": "did:bindu:a:b:1", "sub": nil}, base(func(p *a2a.Principal) { p.ID, p.Client = "N:c:did:bindu:a:b:1", "did:bindu:a:b:1" })},
		"DID": {func(c *issuer.Config) { c.DIDs = true }, map[string]any{"client_id": "did:bindu:a:b:1", "sub": "did:bindu:a:b:1"}, base(func(p *a2a.Principal) {
			p.ID, p.DID, p.Client = "did:bindu:a:b:1", "did:bindu:a:b:1", "did:bindu:a:b:1"
		})},
		"DID of Bindu with a plus": {func(c *issuer.Config) { c.DIDs = true }, map[string]any{"client_id": "did:bindu:a+b:c:1"}, base(func(p *a2a.Principal) {
			p.ID, p.DID, p.Client = "did:bindu:a+b:c:1", "did:bindu:a+b:c:1", "did:bindu:a+b:c:1"
		})},
		"keycloak":                  {provide(a2a.ProviderKeycloak), map[string]any{"realm_access": roles("r1"), "resource_access": map[string]any{audience: roles("r2", "r1"), "other": roles("r3")}}, base(func(p *a2a.Principal) { p.Roles = []string{"r1", "r2"} })},
		"azure, user":               {provide(a2a.ProviderAzureAD), map[string]any{"scope": nil, "scp": "agent:read", "roles": []string{"agent:write"}}, base(func(p *a2a.Principal) { p.Scopes, p.Roles = []a2a.Scope{"agent:read"}, []string{"agent:write"} })},
		"azure, application":        {provide(a2a.ProviderAzureAD), map[string]any{"scope": nil, "roles": []string{"agent:write"}}, base(func(p *a2a.Principal) { p.Scopes, p.Roles = []a2a.Scope{"agent:write"}, []string{"agent:write"} })},
		"okta, roles are no scopes": {provide(a2a.ProviderOkta), map[string]any{"scope": nil, "roles": []string{"agent:write"}}, base(func(p *a2a.Principal) { p.Scopes = []a2a.Scope{} })},
		"okta":                      {provide(a2a.ProviderOkta), map[string]any{"groups": []string{"g", ""}}, base(func(p *a2a.Principal) { p.Roles = []string{"g"} })},
		"auth0":                     {provide(a2a.ProviderAuth0), map[string]any{"permissions": []string{"read:tasks"}}, base(func(p *a2a.Principal) { p.Roles = []string{"read:tasks"} })},
		"hydra":                     {provide(a2a.ProviderHydra), map[string]any{"ext": roles("h")}, base(func(p *a2a.Principal) { p.Roles = []string{"h"} })},
		"custom":                    {custom("https://x.example/roles", "a.b", "a.c"), map[string]any{"https://x.example/roles": "one", "a": map[string]any{"b": []any{"two"}, "c": []any{1}}}, base(func(p *a2a.Principal) { p.Roles = []string{"one", "two"} })},
		"roles of another type":     {provide(a2a.ProviderKeycloak), map[string]any{"realm_access": "admin"}, base(nil)},
		"roles without a provider":  {nil, map[string]any{"roles": []string{"admin"}, "groups": []string{"admin"}}, base(nil)},
	} {
		i := p.issuer(t, test.setting)
		token := p.token(t, test.claims)
		for _, round := range []string{"new", "known"} {
			got, err := i.Verify(t.Context(), token)
			if len(got.Credential) != 32 {
				t.Errorf("%s: Credential = %q, want 32 hex digits", label, got.Credential)
			}
			got.Credential = ""
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%s, %s: Verify() = %v (-want +got):\n%s", label, round, err, diff)
			}
		}
	}
	dids := p.issuer(t, func(c *issuer.Config) { c.DIDs = true })
	for _, client := range []string{"did:", "did:x", "did:bindu:a b", "did:key:z6Mk#key"} {
		wantReason(t, dids, client, p.token(t, map[string]any{"client_id": client}), invalidToken)
	}
	i := p.issuer(t, nil)
	wantReason(t, i, "five actors", p.token(t, map[string]any{"act": act(5)}), invalidToken)
	wantReason(t, i, "actor without sub", p.token(t, map[string]any{"act": map[string]any{"client_id": "x"}}), invalidToken)
	wantReason(t, i, "actor that is a text", p.token(t, map[string]any{"act": "x"}), invalidToken)
}

func provide(p a2a.IdentityProvider) func(*issuer.Config) {
	return func(c *issuer.Config) { c.Provider = p }
}

func custom(paths ...string) func(*issuer.Config) {
	return func(c *issuer.Config) { c.Provider, c.RoleClaims = a2a.ProviderCustom, paths }
}

func roles(names ...string) map[string]any { return map[string]any{"roles": names} }

func TestMalformedTokensAreRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, nil)
	valid := p.token(t, nil)
	header := func(text string) string { return sign(t, "EdDSA", signers()["EdDSA"], text, p.claims(t, nil)) }
	for label, test := range map[string]struct{ token, want string }{
		"none":                  {"", "unauthenticated missing"},
		"too long":              {p.token(t, map[string]any{"x": strings.Repeat("x", 16<<10)}), invalidToken},
		"a space":               {valid + " ", invalidToken},
		"a line feed":           {valid[:20] + "\n" + valid[20:], invalidToken},
		"not ASCII":             {valid + "é", invalidToken},
		"opaque":                {"opaque", invalidToken},
		"two parts":             {valid[:strings.LastIndex(valid, ".")], invalidToken},
		"four parts":            {valid + ".x", invalidToken},
		"JSON form":             {`{"payload":"e30","protected":"e30","signature":""}`, invalidToken},
		"other spelling":        {otherSpelling(valid), invalidToken},
		"other header spelling": {otherSpelling(valid[:strings.Index(valid, ".")]) + valid[strings.Index(valid, "."):], invalidToken},
		"padding":               {strings.Replace(valid, ".", "=.", 1), invalidToken},
		"header null":           {header(`null`), invalidToken},
		"header list":           {header(`[]`), invalidToken},
		"claims null":           {sign(t, "EdDSA", signers()["EdDSA"], `{"alg":"EdDSA","typ":"at+jwt"}`, `null`), invalidToken},
		"no alg":                {header(`{"kid":"eddsa","typ":"at+jwt"}`), invalidToken},
		"alg of another type":   {header(`{"alg":["EdDSA"],"kid":"eddsa","typ":"at+jwt"}`), invalidToken},
		"crit":                  {header(`{"alg":"EdDSA","kid":"eddsa","typ":"at+jwt","crit":["exp"],"exp":1}`), invalidToken},
		"crit b64":              {header(`{"alg":"EdDSA","kid":"eddsa","typ":"at+jwt","crit":["b64"],"b64":false}`), invalidToken},
		"b64":                   {header(`{"alg":"EdDSA","kid":"eddsa","typ":"at+jwt","b64":true}`), invalidToken},
		"kid of another type":   {header(`{"alg":"EdDSA","kid":1,"typ":"at+jwt"}`), invalidToken},
		"typ of another type":   {header(`{"alg":"EdDSA","kid":"eddsa","typ":1}`), invalidToken},
		"nonce type":            {header(`{"alg":"EdDSA","kid":"eddsa","typ":"at+jwt","nonce":1}`), invalidToken},
		"no iss":                {p.token(t, map[string]any{"iss": nil}), badIssuer},
		"iss of another type":   {p.token(t, map[string]any{"iss": []string{p.URL}}), badIssuer},
		"nbf in the future":     {p.token(t, map[string]any{"nbf": p.clock.Now().Unix() + 61}), notYetValid},
		"iat in the future":     {p.token(t, map[string]any{"iat": p.clock.Now().Unix() + 61}), notYetValid},
		"nbf of another type":   {p.token(t, map[string]any{"nbf": "1"}), invalidToken},
		"scope of a number":     {p.token(t, map[string]any{"scope": 1}), invalidToken},
		"scope with a number":   {p.token(t, map[string]any{"scope": []any{"read", 1}}), invalidToken},
		"client of a number":    {p.token(t, map[string]any{"client_id": 1}), invalidToken},
		"nobody":                {p.token(t, map[string]any{"sub": nil, "client_id": nil}), invalidToken},
		"bound to a key":        {p.token(t, map[string]any{"cnf": map[string]any{"jkt": "x"}}), badProof},
		"cnf null is absent":    {p.token(t, map[string]any{"cnf": json.RawMessage("null")}), ""},
		"application/at+jwt":    {p.tokenOf(t, "EdDSA", "application/AT+JWT", nil), ""},
		"skew of nbf and iat":   {p.token(t, map[string]any{"nbf": p.clock.Now().Unix() + 60, "iat": p.clock.Now().Unix() + 60}), ""},
		"no iat":                {p.token(t, map[string]any{"iat": nil}), ""},
		"without kid, one fits": {header(`{"alg":"EdDSA","typ":"at+jwt"}`), ""},
	} {
		wantReason(t, i, label, test.token, test.want)
	}
}

// otherSpelling returns base64url with other unused bits at its end, which it must have.
func otherSpelling(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(token) - 1
	return token[:last] + alphabet[strings.IndexByte(alphabet, token[last])+1:][:1]
}

func TestTypesOfTokens(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	strict := p.issuer(t, nil)
	plain := p.issuer(t, func(c *issuer.Config) { c.PlainTypes = true })
	identity := p.issuer(t, func(c *issuer.Config) { c.IDTokens = true })
	bare := map[string]any{"scope": nil, "client_id": nil}
	with := func(base map[string]any, name string, value any) map[string]any {
		all := map[string]any{name: value}
		for n, v := range base {
			all[n] = v
		}
		return all
	}
	for label, test := range map[string]struct {
		typ                          string
		claims                       map[string]any
		strictly, plainly, asIDToken string
	}{
		"access token":             {"JWT", nil, badType, "", ""},
		"no type":                  {"", nil, badType, "", ""},
		"only azp":                 {"JWT", with(bare, "azp", "app"), badType, "", ""},
		"neither scope nor client": {"JWT", bare, badType, badType, ""},
		"nonce":                    {"JWT", map[string]any{"nonce": "n"}, badType, badType, ""},
		"at_hash":                  {"JWT", map[string]any{"at_hash": "n"}, badType, badType, ""},
		"logout token":             {"JWT", with(bare, "events", map[string]any{}), badType, badType, badType},
		"keycloak access":          {"JWT", map[string]any{"typ": "Bearer", "nonce": "n"}, badType, "", ""},
		"keycloak ID":              {"JWT", map[string]any{"typ": "ID"}, badType, badType, ""},
		"keycloak refresh":         {"JWT", map[string]any{"typ": "Refresh"}, badType, badType, ""},
		"another type":             {"dpop+jwt", nil, badType, badType, badType},
		"logout type":              {"logout+jwt", nil, badType, badType, badType},
		"access token by type":     {"at+jwt", bare, "", "", ""},
	} {
		token := p.tokenOf(t, "EdDSA", test.typ, test.claims)
		wantReason(t, strict, label+", strict", token, test.strictly)
		wantReason(t, plain, label+", plain types", token, test.plainly)
		wantReason(t, identity, label+", ID tokens", token, test.asIDToken)
	}
	for _, provider := range []a2a.IdentityProvider{a2a.ProviderKeycloak, a2a.ProviderAzureAD, a2a.ProviderOkta, a2a.ProviderAuth0} {
		wantReason(t, p.issuer(t, provide(provider)), string(provider), p.tokenOf(t, "EdDSA", "JWT", nil), "")
	}
}

func TestAttack1OtherAlgorithms(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, nil)
	der, err := x509.MarshalPKIXPublicKey(signers()["RS256"].Public())
	if err != nil {
		t.Fatal(err)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	for _, alg := range []string{"none", "None", "nOnE", "HS256", "HS384", ""} {
		header := fmt.Sprintf(`{"alg":%q,"kid":"rs256","typ":"at+jwt"}`, alg)
		wantReason(t, i, "unsigned "+alg, sign(t, alg, nil, header, p.claims(t, nil)), invalidToken)
		wantReason(t, i, "signed with the public key, "+alg, sign(t, alg, secret, header, p.claims(t, nil)), invalidToken)
	}
	bare := newProvider(t)
	bare.set(keysPath, text(strings.ReplaceAll(keySet(t, jose.JSONWebKey{Key: signers()["RS256"].Public(), KeyID: "rs256"}), `"alg"`, `"x"`)))
	wantReason(t, bare.issuer(t, nil), "a key for any algorithm", sign(t, "HS256", secret, `{"alg":"HS256","kid":"rs256","typ":"at+jwt"}`, bare.claims(t, nil)), invalidToken)
	for alg, kid := range map[string]string{"ES256": "rs256", "RS256": "es256", "EdDSA": "es256", "ES384": "es256", "PS256": "rs256"} {
		header := fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"at+jwt"}`, alg, kid)
		wantReason(t, i, alg+" with the kid "+kid, sign(t, alg, signers()[alg], header, p.claims(t, nil)), invalidToken)
	}
	for _, alg := range []string{"none", "HS256", "HS512", "RSA-OAEP", "dir", "EdDSA "} {
		if _, err := issuer.New(issuer.Config{Name: "N", URL: p.URL, Audiences: []string{audience}, Algorithms: []string{alg}}); err == nil {
			t.Errorf("New() with the algorithm %s = nil, want an error", alg)
		}
	}
}

func TestAttack2KeysInTheHeader(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, nil)
	attacker := newProvider(t)
	own := newEd25519(t)
	embedded := ed25519JWK(t, own)
	for label, members := range map[string]string{
		"jwk":             `,"jwk":` + embedded,
		"jwk and no kid":  `,"jwk":` + embedded + `,"kid":""`,
		"jku":             fmt.Sprintf(`,"jku":"%s/keys"`, attacker.URL),
		"x5u":             fmt.Sprintf(`,"x5u":"%s/keys"`, attacker.URL),
		"kid is a URL":    fmt.Sprintf(`,"kid":"%s/keys"`, attacker.URL),
		"own kid and jwk": `,"kid":"eddsa","jwk":` + embedded,
	} {
		token := sign(t, "EdDSA", own, `{"alg":"EdDSA","typ":"at+jwt"`+members+`}`, p.claims(t, nil))
		want := badSignature
		if label == "kid is a URL" {
			want = invalidToken
		}
		wantReason(t, i, label, token, want)
	}
	if n := attacker.count(keysPath); n != 0 {
		t.Errorf("%d requests to a URL of the header, want none", n)
	}
}

func TestAttack5OtherIssuers(t *testing.T) {
	t.Parallel()
	p, q := newProvider(t), newProvider(t)
	i := p.issuer(t, nil)
	for label, iss := range map[string]string{
		"other": q.URL, "slash": p.URL + "/", "path": p.URL + "/x", "upper case": strings.ToUpper(p.URL), "user": strings.Replace(p.URL, "://", "://a@", 1),
		"look-alike": strings.Replace(p.URL, "127.0.0.1", "127.0.0.1.example", 1), "space": " " + p.URL, "NUL": p.URL + "\x00", "empty": "",
	} {
		wantReason(t, i, label, p.token(t, map[string]any{"iss": iss}), badIssuer)
	}
	second := q.issuer(t, func(c *issuer.Config) { c.Name = "M" })
	set, err := issuer.NewSet(i, second)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		label string
		of    *provider
		want  string
	}{{"first", p, "N:u:alice"}, {"second", q, "M:u:alice"}} {
		if got, err := set.Verify(t.Context(), test.of.token(t, nil)); err != nil || got.ID != test.want {
			t.Errorf("%s: Verify() = %q, %v, want %q", test.label, got.ID, err, test.want)
		}
	}
	own := newEd25519(t)
	q.set(keysPath, text(`{"keys":[`+ed25519JWK(t, own)+`]}`))
	q.clock.Advance(time.Minute)
	forged := sign(t, "EdDSA", own, `{"alg":"EdDSA","kid":"own","typ":"at+jwt"}`, p.claims(t, nil))
	wantReason(t, set, "signed by the other issuer", forged, invalidToken)
	wantReason(t, set, "no issuer", p.token(t, map[string]any{"iss": "https://none.example"}), badIssuer)
}

func TestAttack6Audiences(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, func(c *issuer.Config) { c.Audiences = []string{audience, "second"} })
	for label, test := range map[string]struct {
		aud  any
		want string
	}{
		"absent": {nil, badAudience}, "empty list": {[]string{}, badAudience}, "empty": {"", badAudience}, "another agent": {"https://other.example", badAudience},
		"prefix": {audience + "/", badAudience}, "upper case": {strings.ToUpper(audience), badAudience}, "others": {[]string{"a", "b"}, badAudience},
		"number": {1, invalidToken}, "object": {map[string]any{audience: true}, invalidToken}, "list with a number": {[]any{audience, 1}, invalidToken},
		"list": {[]string{"a", audience}, ""}, "second": {"second", ""}, "client": {"app", badAudience},
	} {
		wantReason(t, i, label, p.token(t, map[string]any{"aud": test.aud}), test.want)
	}
}

func TestAttack7IDTokenAsAccessToken(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	// An ID token of OpenID Connect Core 1.0 section 2, for a client with the server's audience.
	id := p.tokenOf(t, "RS256", "JWT", map[string]any{"scope": nil, "client_id": nil, "nonce": "n-0S6_WzA2Mj", "auth_time": 1, "acr": "x"})
	wantReason(t, p.issuer(t, nil), "strict", id, badType)
	wantReason(t, p.issuer(t, provide(a2a.ProviderAzureAD)), "azure_ad", id, badType)
	wantReason(t, p.issuer(t, func(c *issuer.Config) { c.IDTokens = true }), "accepted", id, "")
}

func TestAttack8Times(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, nil)
	now := p.clock.Now().Unix()
	for label, test := range map[string]struct{ exp, want string }{
		"text": {`"1800000600"`, invalidToken}, "1e400": {`1e400`, invalidToken}, "-1e400": {`-1e400`, invalidToken}, "null": {`null`, invalidToken},
		"true": {`true`, invalidToken}, "list": {`[1800000600]`, invalidToken}, "negative": {`-1`, invalidToken}, "1e300": {`1e300`, invalidToken},
		"after 9999": {`253402300800`, invalidToken}, "many digits": {`99999999999999999999`, invalidToken}, "NaN": {`NaN`, invalidToken},
		"61 s ago": {fmt.Sprint(now - 61), expired}, "60 s ago": {fmt.Sprint(now - 60), expired}, "59 s ago": {fmt.Sprint(now - 59), ""},
		"end of 9999": {`253402300799`, ""}, "1.8000006e9": {`1.8000006e9`, ""},
	} {
		claims := strings.Replace(p.claims(t, map[string]any{"exp": 7}), `"exp":7`, `"exp":`+test.exp, 1)
		wantReason(t, i, label, sign(t, "EdDSA", signers()["EdDSA"], `{"alg":"EdDSA","kid":"eddsa","typ":"at+jwt"}`, claims), test.want)
	}
	wantReason(t, i, "missing", p.token(t, map[string]any{"exp": nil}), invalidToken)
	token := p.token(t, nil)
	wantReason(t, i, "before it expires", token, "")
	p.clock.Advance(600*time.Second + 59*time.Second)
	wantReason(t, i, "59 s after", token, "")
	p.clock.Advance(time.Second)
	wantReason(t, i, "60 s after", token, expired)
}

func TestAttack9AmbiguousJSON(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, nil)
	const header = `{"alg":"EdDSA","kid":"eddsa","typ":"at+jwt"}`
	claims := p.claims(t, nil)
	add := func(text, members string) string { return strings.TrimSuffix(text, "}") + "," + members + "}" }
	for label, test := range map[string]struct{ header, claims string }{
		"sub twice":             {header, add(claims, `"sub":"bob"`)},
		"sub twice, escaped":    {header, add(claims, `"s\u0075b":"bob"`)},
		"nested twice":          {header, add(claims, `"x":{"y":[{"a":1,"a":1}]}`)},
		"alg twice":             {add(header, `"alg":"EdDSA"`), claims},
		"BOM before the claims": {header, "\ufeff" + claims},
		"BOM before the header": {"\ufeff" + header, claims},
		"text after the claims": {header, claims + "{}"},
		"deep":                  {header, add(claims, `"x":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000))},
		"deep header":           {add(header, `"x":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)), claims},
		"two tokens":            {header, claims + "." + claims},
	} {
		wantReason(t, i, label, sign(t, "EdDSA", signers()["EdDSA"], test.header, test.claims), invalidToken)
	}
	wantReason(t, i, "another case is another member", sign(t, "EdDSA", signers()["EdDSA"], header, add(claims, `"Sub":"bob","clientId":"x","EXP":1`)), "")
}

func TestAttack10Subjects(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, func(c *issuer.Config) { c.DIDs = true })
	for label, test := range map[string]struct {
		claims map[string]any
		want   string // the principal's id, "" if the token is refused
	}{
		"another's id":                {map[string]any{"sub": "N:u:bob"}, "N:u:N:u:bob"},
		"another issuer's id":         {map[string]any{"sub": "M:u:bob"}, "N:u:M:u:bob"},
		"a DID":                       {map[string]any{"sub": "did:key:z6Mk"}, "N:u:did:key:z6Mk"},
		"anonymous":                   {map[string]any{"sub": "anonymous"}, "N:u:anonymous"},
		"a client":                    {map[string]any{"sub": "c:app"}, "N:u:c:app"},
		"the system":                  {map[string]any{"sub": "\x1fholdfast"}, ""},
		"empty":                       {map[string]any{"sub": ""}, ""},
		"empty client":                {map[string]any{"client_id": "", "sub": nil}, ""},
		"NUL":                         {map[string]any{"sub": "alice\x00"}, ""},
		"line feed":                   {map[string]any{"sub": "alice\n"}, ""},
		"NUL in the client":           {map[string]any{"client_id": "app\x00"}, ""},
		"10 KiB":                      {map[string]any{"sub": strings.Repeat("x", 10<<10)}, ""},
		"just too long with the name": {map[string]any{"sub": strings.Repeat("x", 510)}, ""},
		"longest":                     {map[string]any{"sub": strings.Repeat("x", 508)}, "N:u:" + strings.Repeat("x", 508)},
		"lone surrogate":              {map[string]any{"sub": json.RawMessage(`"alice\ud800"`)}, ""},
		"number":                      {map[string]any{"sub": 1}, ""},
		"list":                        {map[string]any{"sub": []string{"alice"}}, ""},
		"client that is not a DID":    {map[string]any{"sub": nil, "client_id": "did:x:\u202e"}, ""},
	} {
		got, err := i.Verify(t.Context(), p.token(t, test.claims))
		if got.ID != test.want || (test.want == "") != (reason(err) == invalidToken) {
			t.Errorf("%s: Verify() = %q, %v, want %q", label, got.ID, err, test.want)
		}
	}
}

// FuzzVerify checks that no token is accepted except those that the issuer signed.
func FuzzVerify(f *testing.F) {
	p := newProvider(f)
	i := p.issuer(f, func(c *issuer.Config) { c.PlainTypes = true })
	signed := make(map[string]bool)
	for algorithm := range signers() {
		token := p.tokenOf(f, algorithm, "at+jwt", nil)
		signed[token] = true
		f.Add(token)
		f.Add(strings.Replace(token, ".", "..", 1))
		f.Add(token[:len(token)-1])
	}
	f.Add(sign(f, "none", nil, `{"alg":"none"}`, p.claims(f, nil)))
	f.Add(sign(f, "EdDSA", nil, `{"alg":"EdDSA","kid":"eddsa","jwk":{"kty":"OKP","crv":"Ed25519","x":"AA"}}`, p.claims(f, nil)))
	f.Add(sign(f, "EdDSA", nil, `{"alg":"EdDSA","x5c":["AA=="],"crit":["b64"]}`, p.claims(f, map[string]any{"exp": "1", "aud": nil})))
	f.Fuzz(func(t *testing.T, token string) {
		got, err := i.Verify(t.Context(), token)
		if (err == nil) != signed[token] || (err != nil) != (got.ID == "") {
			t.Errorf("Verify(%q) = %+v, %v, want a principal only for a token that the issuer signed", token, got, err)
		}
	})
}

func BenchmarkVerifyKnown(b *testing.B) {
	p := newProvider(b)
	i := p.issuer(b, nil)
	token := p.tokenOf(b, "RS256", "at+jwt", nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := i.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyNew(b *testing.B) {
	for _, algorithm := range []string{"RS256", "ES256", "EdDSA"} {
		b.Run(algorithm, func(b *testing.B) {
			p := newProvider(b)
			i := p.issuer(b, nil)
			// A token within the skew after its exp is not cached.
			token := p.tokenOf(b, algorithm, "at+jwt", map[string]any{"exp": p.clock.Now().Unix()})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := i.Verify(b.Context(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
