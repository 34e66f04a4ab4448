package cardsig_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
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
	for name, key := range map[string]crypto.Signer{cardsig.EdDSA: ed, cardsig.ES256: ec} {
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
	s := newSigner(t, ec, ed)
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
	for name, text := range map[string]string{
		"key set":           string(set),
		"other kinds too":   strings.Replace(string(set), `[`, `[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA","use":"enc"},`, 1),
		"public keys":       public(ec) + public(ed),
		"private keys":      pkcs8(ec) + pkcs8(ed),
		"an EC private key": ecOnly + pkcs8(ed),
	} {
		keys, err := cardsig.ParseKeys([]byte(text))
		if err != nil || len(keys) != 2 || keys[0].ID != s.Keys()[0].ID || keys[1].ID != s.Keys()[1].ID {
			t.Errorf("ParseKeys(%s) = %+v, %v, want both keys", name, keys, err)
			continue
		}
		if _, err := keys.Verify([]byte(sign(t, s, card, ""))); err != nil {
			t.Errorf("Verify() with keys from %s = %v", name, err)
		}
	}
	if private, err := cardsig.ParsePrivateKeys([]byte(ecOnly + pkcs8(ed))); err != nil || len(private) != 2 || !ec.Equal(private[0]) || !ed.Equal(private[1]) {
		t.Errorf("ParsePrivateKeys() = %v, %v, want both keys in their order", private, err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing": "", "no PEM": "hello", "RSA": pkcs8(weak), "a public key": public(ec), "no key": block("PRIVATE KEY", []byte("x"), nil),
	} {
		if keys, err := cardsig.ParsePrivateKeys([]byte(text)); err == nil {
			t.Errorf("ParsePrivateKeys(%s) = %v, want an error", name, keys)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "RSA": pkcs8(weak), "no JSON": `{`, "no keys": `{}`, "no supported key": `{"keys":[{"kty":"RSA"}]}`,
		"a point off the curve": fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","x":%[1]q,"y":%[1]q}]}`, strings.Repeat("A", 43)),
		"a short key":           `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`, "no base64": `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"!"}]}`,
	} {
		if keys, err := cardsig.ParseKeys([]byte(text)); err == nil {
			t.Errorf("ParseKeys(%s) = %v, want an error", name, keys)
		}
	}
}

// The key and thumbprint of RFC 8037 appendix A.3.
func TestKeyIDIsTheThumbprint(t *testing.T) {
	t.Parallel()
	keys, err := cardsig.ParseKeys([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	if want := "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"; err != nil || keys[0].ID != want {
		t.Errorf("ParseKeys() = %+v, %v, want the id %s", keys, err, want)
	}
}
