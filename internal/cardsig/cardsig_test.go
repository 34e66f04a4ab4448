package cardsig_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/cardsig"
)

func newKeys(t testing.TB) (ed ed25519.PrivateKey, ec *ecdsa.PrivateKey) {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	return ed, ec
}

func newRSA(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign returns a card with signatures.
func sign(t testing.TB, s *cardsig.Signer, card, jku string) string {
	t.Helper()
	signatures, err := s.Sign([]byte(card), jku)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(signatures)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(card, "}") + `,"signatures":` + string(raw) + "}"
}

func newSigner(t testing.TB, keys ...crypto.Signer) *cardsig.Signer {
	t.Helper()
	s, err := cardsig.NewSigner(keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const card = `{"name":"n","url":"https://a.example/","description":"","capabilities":{"streaming":false},"skills":[],"weights":[1,2.50,1e21]}`

func TestSignedCardsAreValidForTheirKeys(t *testing.T) {
	t.Parallel()
	ed, ec := newKeys(t)
	for name, key := range map[string]crypto.Signer{cardsig.EdDSA: ed, cardsig.ES256: ec, cardsig.RS256: newRSA(t, 2048)} {
		s := newSigner(t, key, ed)
		signed := sign(t, s, card, "https://a.example/keys")
		if again := sign(t, s, card, "https://a.example/keys"); again != signed {
			t.Errorf("%s: signing the same card twice differs: %s and %s", name, signed, again)
		}
		want := &cardsig.Signature{KeyID: s.Keys()[0].ID, Algorithm: name, JKU: "https://a.example/keys"}
		reordered := `{"url":"https:\/\/a.example\/", "weights":[1.0,2.5,1000000000000000000000],` + strings.Replace(strings.TrimPrefix(signed, `{`), `"url":"https://a.example/",`, "", 1)
		reordered = strings.Replace(reordered, `,"weights":[1,2.50,1e21]`, "", 1)
		for label, text := range map[string]string{"as signed": signed, "other order and spelling": reordered, "an additional empty value": strings.Replace(signed, `"skills":[]`, `"skills":[],"tags":[]`, 1)} {
			got, err := s.Keys().Verify([]byte(text))
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s, %s: Verify(%s) = %v (-want +got):\n%s", name, label, text, err, diff)
			}
		}
	}
}

func TestOtherCardsAreRejected(t *testing.T) {
	t.Parallel()
	ed, ec := newKeys(t)
	other, _ := newKeys(t)
	s := newSigner(t, ed, ec)
	signed := sign(t, s, card, "")
	header := func(text string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	own := strings.SplitN(strings.SplitN(signed, `"protected":"`, 2)[1], `"`, 2)[0]
	id := s.Keys()[0].ID
	for name, test := range map[string]struct {
		text string
		keys cardsig.Keys
		want error
	}{
		"changed":           {strings.Replace(signed, "a.example", "b.example", 1), s.Keys(), cardsig.ErrMismatch},
		"a member removed":  {strings.Replace(signed, `"name":"n",`, "", 1), s.Keys(), cardsig.ErrMismatch},
		"a member added":    {strings.Replace(signed, `"name"`, `"iconUrl":"x","name"`, 1), s.Keys(), cardsig.ErrMismatch},
		"a value reordered": {strings.Replace(signed, `[1,2.50`, `[2.50,1`, 1), s.Keys(), cardsig.ErrMismatch},
		"a default changed": {strings.Replace(signed, `"streaming":false`, `"streaming":true`, 1), s.Keys(), cardsig.ErrMismatch},
		"unsigned":          {card, s.Keys(), cardsig.ErrUnsigned},
		"no signatures":     {strings.TrimSuffix(card, "}") + `,"signatures":[]}`, s.Keys(), cardsig.ErrUnsigned},
		"another key":       {signed, newSigner(t, other).Keys(), cardsig.ErrUnknownKey},
		"no keys":           {signed, nil, cardsig.ErrUnknownKey},
		"no algorithm":      {strings.ReplaceAll(signed, own, header(`{"alg":"none","kid":"`+id+`","typ":"JOSE"}`)), s.Keys(), cardsig.ErrUnknownKey},
		"another algorithm": {strings.ReplaceAll(signed, own, header(`{"alg":"HS256","kid":"`+id+`","typ":"JOSE"}`)), s.Keys(), cardsig.ErrUnknownKey},
		"another header":    {strings.ReplaceAll(signed, own, header(`{"alg":"EdDSA","kid":"`+id+`","typ":"JOSE","x":1}`)), s.Keys(), cardsig.ErrMismatch},
		"critical header":   {strings.ReplaceAll(signed, own, header(`{"alg":"EdDSA","kid":"`+id+`","crit":["exp"]}`)), s.Keys(), cardsig.ErrMismatch},
		"broken header":     {strings.ReplaceAll(signed, own, "!"), s.Keys(), cardsig.ErrMismatch},
	} {
		if got, err := test.keys.Verify([]byte(test.text)); !errors.Is(err, test.want) || got != nil {
			t.Errorf("%s: Verify(%s) = %+v, %v, want %v", name, test.text, got, err, test.want)
		}
	}
	for _, text := range []string{``, `[]`, `{"name":1`, `{"name":1,"name":2}`, `{"signatures":{}}`} {
		if got, err := s.Keys().Verify([]byte(text)); err == nil {
			t.Errorf("Verify(%s) = %+v, want an error", text, got)
		}
	}
}

// The sample of RFC 8785 section 3.2.2, the order of section 3.2.3 and the numbers of appendix B.
func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	ed, _ := newKeys(t)
	s := newSigner(t, ed)
	for text, canonical := range map[string]string{
		`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`: `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		"{\"\\u20ac\":1,\"\\r\":2,\"\\ufb33\":3,\"1\":4,\"\\ud83d\\ude00\":5,\"\\u0080\":6,\"\\u00f6\":7}":                                                                    "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}",
		`{"a":[-0.0,9007199254740993,1e21,999999999999999900000,1e-6,1e-7,-1.5,"\b\f\t"]}`:                                                                                    `{"a":[0,9007199254740992,1e+21,999999999999999900000,0.000001,1e-7,-1.5,"\b\f\t"]}`,
	} {
		a, err := s.Sign([]byte(text), "")
		if err != nil {
			t.Fatal(err)
		}
		signature, _ := base64.RawURLEncoding.DecodeString(a[0].Signature)
		input := a[0].Protected + "." + base64.RawURLEncoding.EncodeToString([]byte(canonical))
		if !ed25519.Verify(ed.Public().(ed25519.PublicKey), []byte(input), signature) {
			t.Errorf("Sign(%s) does not sign %s", text, canonical)
		}
	}
}

func TestKeysAreReadFromKeySetsAndPEM(t *testing.T) {
	t.Parallel()
	ed, ec := newKeys(t)
	rs, short := newRSA(t, 2048), newRSA(t, 1024)
	s := newSigner(t, ec, ed, rs)
	set, err := json.Marshal(s.Keys())
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	pkcs8 := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return block("PRIVATE KEY", der, err)
	}
	public := func(key crypto.Signer) string {
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		return block("PUBLIC KEY", der, err)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	ecOnly := block("EC PARAMETERS", []byte{6, 1, 0}, nil) + block("EC PRIVATE KEY", sec1, err)
	rsaOnly := block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rs), nil)
	for name, text := range map[string]string{
		"key set":          string(set),
		"other kinds too":  strings.Replace(string(set), `[`, `[{"kty":"RSA","n":"AQAB","e":"AQAB","alg":"RSA-OAEP"},{"kty":"oct","k":"AA"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA","use":"enc"},`, 1),
		"public keys":      public(ec) + public(ed) + public(rs),
		"private keys":     pkcs8(ec) + pkcs8(ed) + pkcs8(rs),
		"keys of one kind": ecOnly + pkcs8(ed) + rsaOnly,
		"public RSA keys":  public(ec) + public(ed) + block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&rs.PublicKey), nil),
	} {
		keys, err := cardsig.ParseKeys([]byte(text))
		if err != nil || len(keys) != 3 || keys[0].ID != s.Keys()[0].ID || keys[1].ID != s.Keys()[1].ID || keys[2].ID != s.Keys()[2].ID {
			t.Errorf("ParseKeys(%s) = %+v, %v, want all keys", name, keys, err)
			continue
		}
		if _, err := keys.Verify([]byte(sign(t, s, card, ""))); err != nil {
			t.Errorf("Verify() with keys from %s = %v", name, err)
		}
	}
	if private, err := cardsig.ParsePrivateKeys([]byte(ecOnly + pkcs8(ed) + rsaOnly)); err != nil || len(private) != 3 || !ec.Equal(private[0]) || !ed.Equal(private[1]) || !rs.Equal(private[2]) {
		t.Errorf("ParsePrivateKeys() = %v, %v, want all keys in their order", private, err)
	}
	for name, text := range map[string]string{
		"nothing": "", "no PEM": "hello", "a short RSA key": pkcs8(short), "no RSA key": block("RSA PRIVATE KEY", []byte("x"), nil), "a public key": public(ec), "no key": block("PRIVATE KEY", []byte("x"), nil),
	} {
		if keys, err := cardsig.ParsePrivateKeys([]byte(text)); err == nil {
			t.Errorf("ParsePrivateKeys(%s) = %v, want an error", name, keys)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "a short RSA key": pkcs8(short), "no JSON": `{`, "no keys": `{}`, "no supported key": `{"keys":[{"kty":"oct"}]}`, "no modulus": `{"keys":[{"kty":"RSA"}]}`,
		"an even exponent": rsaSet(rs.N.Bytes(), []byte{2}), "a large exponent": rsaSet(rs.N.Bytes(), []byte{1, 0, 0, 0, 0, 0, 0, 0, 1}),
		"an even modulus": rsaSet(append(rs.N.Bytes(), 0), []byte{1, 0, 1}), "a large modulus": rsaSet(bytes.Repeat([]byte{255}, 1025), []byte{1, 0, 1}),
		"a point off the curve": fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","x":%[1]q,"y":%[1]q}]}`, strings.Repeat("A", 43)),
		"a short key":           `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`, "no base64": `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"!"}]}`,
	} {
		if keys, err := cardsig.ParseKeys([]byte(text)); err == nil {
			t.Errorf("ParseKeys(%s) = %v, want an error", name, keys)
		}
	}
}

func rsaSet(n, e []byte) string {
	b64 := base64.RawURLEncoding
	return fmt.Sprintf(`{"keys":[{"kty":"RSA","n":%q,"e":%q}]}`, b64.EncodeToString(n), b64.EncodeToString(e))
}

func TestShortRSAKeysAreReportedWithTheirSize(t *testing.T) {
	t.Parallel()
	const want = "the RSA key has 1024 bits, want 2048 to 8192"
	short := newRSA(t, 1024)
	if _, err := cardsig.NewSigner([]crypto.Signer{short}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("NewSigner() = %v, want %q", err, want)
	}
	if _, err := cardsig.ParseKeys([]byte(rsaSet(short.N.Bytes(), []byte{1, 0, 1}))); err == nil || err.Error() != "keys[0]: "+want {
		t.Errorf("ParseKeys() = %v, want %q", err, "keys[0]: "+want)
	}
}

// A key set limits an RSA key to one algorithm if it names it.
func TestRSAKeysVerifyTheAlgorithmOfTheirKeySet(t *testing.T) {
	t.Parallel()
	key := newRSA(t, 2048)
	s := newSigner(t, key)
	b64 := base64.RawURLEncoding
	const text = `{"name":"n"}`
	protected := b64.EncodeToString([]byte(`{"alg":"PS256","kid":"` + s.Keys()[0].ID + `"}`))
	sum := sha256.Sum256([]byte(protected + "." + b64.EncodeToString([]byte(text))))
	signature, err := key.Sign(rand.Reader, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256})
	if err != nil {
		t.Fatal(err)
	}
	pss := fmt.Sprintf(`{"name":"n","signatures":[{"protected":%q,"signature":%q}]}`, protected, b64.EncodeToString(signature))
	cards := map[string]string{cardsig.RS256: sign(t, s, text, ""), cardsig.PS256: pss}
	set, err := json.Marshal(s.Keys())
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range []string{"", cardsig.RS256, cardsig.PS256} {
		member := ""
		if named != "" {
			member = `"alg":"` + named + `",`
		}
		keys, err := cardsig.ParseKeys([]byte(strings.Replace(string(set), `"alg":"RS256",`, member, 1)))
		if err != nil {
			t.Fatal(err)
		}
		for algorithm, card := range cards {
			var want error
			if named != "" && named != algorithm {
				want = cardsig.ErrUnknownKey
			}
			got, err := keys.Verify([]byte(card))
			if !errors.Is(err, want) || (want == nil) != (got != nil && got.Algorithm == algorithm) {
				t.Errorf("Verify() of %s with a key for %q = %+v, %v, want %v", algorithm, named, got, err, want)
			}
			if _, err := keys.Verify([]byte(strings.Replace(card, `"n"`, `"m"`, 1))); err == nil {
				t.Errorf("Verify() of a changed card with %s by a key for %q = nil, want an error", algorithm, named)
			}
		}
	}
}

// The keys and thumbprints of RFC 8037 appendix A.3 and RFC 7638 section 3.1.
func TestKeyIDIsTheThumbprint(t *testing.T) {
	t.Parallel()
	for want, key := range map[string]string{
		"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k": `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`,
		"NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs": `{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":""}`,
	} {
		keys, err := cardsig.ParseKeys([]byte(`{"keys":[` + key + `]}`))
		if err != nil || keys[0].ID != want {
			t.Errorf("ParseKeys() = %+v, %v, want the id %s", keys, err, want)
		}
	}
}
