package did_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth/did"
)

// The vectors of the facts: the key with a seed of 32 zero bytes, and a key of P-256.
const (
	zeroBase58 = "4zvwRjXUKGfvwnParsHAS3HuSVzV5cA4McphgmoCtajS"
	zeroDID    = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"
	zeroBindu  = "139e3940-e64b-5491-7220-88d9a0d74162"
	p256DID    = "did:key:zDnaeQa8zprPhHA7Yuxcgc2Uh6XNQgaKjmFZE4EaA9fk5svmJ"
	p256X      = "AhfmF_C2RDkoJ4-WmZ5pojpPLBUr321s32bluAKC1O0"
	p256Y      = "GUp968uXcS0t2jyoWqh2Wlb0X8dYWZZS8ol8ZTBuV5Q"
)

var (
	zeroPrivate = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	zeroPublic  = zeroPrivate.Public().(ed25519.PublicKey)
)

// newKey returns a key that is determined by a number.
func newKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func p256Key(t testing.TB) *ecdsa.PublicKey {
	t.Helper()
	x, errX := base64.RawURLEncoding.DecodeString(p256X)
	y, errY := base64.RawURLEncoding.DecodeString(p256Y)
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
	if err := errors.Join(errX, errY, err); err != nil {
		t.Fatal(err)
	}
	return public
}

func equal(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// reason returns the reason of an error in its data.
func reason(err error) any {
	var e *a2a.Error
	if !errors.As(err, &e) {
		return nil
	}
	return e.Data["reason"]
}

func TestKeysHaveOneDID(t *testing.T) {
	t.Parallel()
	for want, public := range map[string]crypto.PublicKey{zeroDID: zeroPublic, p256DID: p256Key(t)} {
		if got, err := did.FromKey(public); err != nil || got != want {
			t.Errorf("FromKey() = %s, %v, want %s", got, err, want)
		}
		if got, err := did.ParseKey(want); err != nil || !equal(got, public) {
			t.Errorf("ParseKey(%s) = %v, %v, want %v", want, got, err, public)
		}
	}
	if got := did.EncodeBase58(zeroPublic); got != zeroBase58 {
		t.Errorf("EncodeBase58() = %s, want %s", got, zeroBase58)
	}
	if got, err := did.DecodeBase58(zeroBase58); err != nil || !got.Equal(zeroPublic) {
		t.Errorf("DecodeBase58(%s) = %x, %v, want %x", zeroBase58, got, err, zeroPublic)
	}
}

func TestOtherKeysAreRejected(t *testing.T) {
	t.Parallel()
	encode := func(codec string, key []byte) string {
		return "did:key:z" + base58.Encode(append([]byte(codec), key...))
	}
	point, err := p256Key(t).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"no method":                        strings.TrimPrefix(zeroDID, "did:key:"),
		"a fragment":                       zeroDID + "#" + strings.TrimPrefix(zeroDID, "did:key:"),
		"another base":                     strings.Replace(zeroDID, ":z", ":u", 1),
		"no base58":                        zeroDID[:len(zeroDID)-1] + "0",
		"a leading zero":                   strings.Replace(zeroDID, ":z", ":z1", 1),
		"a space":                          zeroDID + " ",
		"overlong":                         "did:key:z" + strings.Repeat("1", 1<<20),
		"empty":                            "did:key:z",
		"the key of Bindu's fallback":      "did:key:z" + zeroBase58,
		"the codec without a varint":       encode("\xed", zeroPublic),
		"the codec as a longer varint":     encode("\xed\x81\x00", zeroPublic),
		"a short Ed25519 key":              encode("\xed\x01", zeroPublic[:31]),
		"an X25519 key":                    encode("\xec\x01", zeroPublic),
		"a secp256k1 key":                  encode("\xe7\x01", append([]byte{2}, zeroPublic...)),
		"a P-256 key that is uncompressed": encode("\x80\x24", point),
		"a P-256 key off the curve":        encode("\x80\x24", append([]byte{2, 2}, make([]byte, 31)...)),
		"a P-256 key beyond the field":     encode("\x80\x24", []byte("\x02"+strings.Repeat("\xff", 32))),
		"a P-256 key of an unknown sign":   encode("\x80\x24", append([]byte{4}, point[1:33]...)),
	} {
		if got, err := did.ParseKey(text); err == nil || reason(err) != did.ReasonDID {
			t.Errorf("ParseKey(%s) = %v, %v, want an error with reason %s", name, got, err, did.ReasonDID)
		}
	}
	if _, err := did.DecodeKey("z" + strings.Repeat("1", 1<<20)); err == nil || !strings.Contains(err.Error(), "at most 64 bytes") {
		t.Errorf("DecodeKey() of 1 MiB = %v, want the limit before it is decoded", err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P384(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, public := range []crypto.PublicKey{nil, zeroPublic[:31], other.Public(), zeroPrivate} {
		if got, err := did.EncodeKey(public); err == nil {
			t.Errorf("EncodeKey(%T) = %s, want an error", public, got)
		}
	}
	for _, text := range []string{"", zeroBase58 + "1", "1" + zeroBase58, zeroBase58[2:], strings.Repeat("1", 1<<20), "0" + zeroBase58[1:]} {
		if got, err := did.DecodeBase58(text); err == nil {
			t.Errorf("DecodeBase58(%.50s) = %x, want an error", text, got)
		}
	}
}

func TestBinduDIDs(t *testing.T) {
	t.Parallel()
	got, err := did.NewBindu("Ada Lovelace@Mail.Example", "My Bot+1.2", zeroPublic)
	want := "did:bindu:ada_lovelace_at_mail_example:my_bot+1_2:" + zeroBindu
	if err != nil || got.String() != want {
		t.Errorf("NewBindu() = %s, %v, want %s", got, err, want)
	}
	if again, err := did.ParseBindu(want); err != nil || again != got {
		t.Errorf("ParseBindu(%s) = %+v, %v, want %+v", want, again, err, got)
	}
	if other := newKey(1).Public().(ed25519.PublicKey); !got.Proves(zeroPublic) || got.Proves(other) || got.Proves(nil) {
		t.Errorf("Proves() = %t, %t, %t, want only its own key", got.Proves(zeroPublic), got.Proves(other), got.Proves(nil))
	}
	derived, err := did.ParseBindu("did:bindu:a:b:1") // as an agent of Bindu may configure it
	if err != nil || derived.Proves(zeroPublic) {
		t.Errorf("ParseBindu(did:bindu:a:b:1) = %+v, %v, want an id that proves no key", derived, err)
	}
	for _, author := range []string{"", "a:b", "é", "a/b", "a\n"} {
		if got, err := did.NewBindu(author, "bot", zeroPublic); err == nil {
			t.Errorf("NewBindu(%q) = %s, want an error", author, got)
		}
	}
	for _, text := range []string{
		"did:bindu:a:b", "did:bindu:a:b:c:d", "did:bindu:a::c", "did:bindu:A:b:c", "did:bindu:a:b:c#d", "did:web:a:b:c", "a:b:c", "did:bindu:a:b:" + strings.Repeat("c", did.MaxLength),
	} {
		if got, err := did.ParseBindu(text); err == nil || reason(err) != did.ReasonDID {
			t.Errorf("ParseBindu(%.40s) = %+v, %v, want an error with reason %s", text, got, err, did.ReasonDID)
		}
	}
}

func TestWebDIDs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ address, did, document string }{
		{"https://agent.example", "did:web:agent.example", "https://agent.example/.well-known/did.json"},
		{"https://Agent.Example:443/", "did:web:agent.example", "https://agent.example/.well-known/did.json"},
		{"https://agent.example:8443", "did:web:agent.example%3A8443", "https://agent.example:8443/.well-known/did.json"},
		{"https://agent.example/a/B_1/", "did:web:agent.example:a:B_1", "https://agent.example/a/B_1/did.json"},
		{"https://agent.example:8443/a", "did:web:agent.example%3A8443:a", "https://agent.example:8443/a/did.json"},
	} {
		if got, err := did.Web(test.address); err != nil || got != test.did {
			t.Errorf("Web(%s) = %s, %v, want %s", test.address, got, err, test.did)
		}
		if got, err := did.WebURL(test.did); err != nil || got != test.document {
			t.Errorf("WebURL(%s) = %s, %v, want %s", test.did, got, err, test.document)
		}
	}
	for _, address := range []string{
		"", "agent.example", "http://agent.example", "https://u@agent.example", "https://agent.example?", "https://agent.example#", "https://agent.example/a//b",
		"https://agent.example/a%2Fb", "https://agent.example/../a", "https://127.0.0.1", "https://[::1]", "https://[a:b:c:d:e:f:a:b]", "https://agent.example/~a",
		"https://agent.example:0", "https://agent.example.", "https://a_b.example", "https://" + strings.Repeat("a.", 200) + "example",
	} {
		if got, err := did.Web(address); err == nil || reason(err) != did.ReasonDID {
			t.Errorf("Web(%.60s) = %s, %v, want an error with reason %s", address, got, err, did.ReasonDID)
		}
	}
	for _, text := range []string{
		"did:web:", "web:agent.example", "did:web:agent.example:", "did:web:agent.example::a", "did:web:agent.example:..", "did:web:agent.example:a%2fb", "did:web:agent.example%3a80",
		"did:web:agent.example%3A", "did:web:agent.example%3A080", "did:web:agent.example%3A65536", "did:web:agent.example%3A80%3A80", "did:web:Agent.example", "did:web:127.0.0.1",
		"did:web:u%40agent.example", "did:web:agent.example#key", "did:web:agent.example/a", "did:web:agent.example?a", "did:web:0x7f000001", "did:web:2130706433", "did:web:-a.example",
		"did:web:agent.example:" + strings.Repeat("a", did.MaxLength),
	} {
		if got, err := did.WebURL(text); err == nil || reason(err) != did.ReasonDID {
			t.Errorf("WebURL(%.60s) = %s, %v, want an error with reason %s", text, got, err, did.ReasonDID)
		}
	}
}

func TestCheckAcceptsDIDsOnly(t *testing.T) {
	t.Parallel()
	for _, text := range []string{zeroDID, p256DID, "did:bindu:test", "did:bindu:a+b_at_x_com:bot:1", "did:web:agent.example%3A80:a", "did:" + "a1:" + strings.Repeat("x", did.MaxLength-7)} {
		if err := did.Check(text); err != nil {
			t.Errorf("Check(%s) = %v", text, err)
		}
	}
	for _, text := range []string{
		"", "did:", "did:a", "did:a:", "did::a", "DID:a:b", "did:A:b", "did:a:b c", "did:a:b/c", "did:a:b?c", "did:a:b#c", "did:a:é", "did:a:\"", "did:a:b\x00", " did:a:b",
		"did:" + "a1:" + strings.Repeat("x", did.MaxLength-6),
	} {
		if err := did.Check(text); reason(err) != did.ReasonDID {
			t.Errorf("Check(%.40q) = %v, want an error with reason %s", text, err, did.ReasonDID)
		}
	}
}

// A DID or a key that is accepted has one spelling.
func FuzzDIDs(f *testing.F) {
	for _, text := range []string{zeroDID, p256DID, zeroBase58, "did:bindu:a:b:" + zeroBindu, "did:bindu:test", "did:web:agent.example%3A8443:a:b", "did:key:z1", "did:web:127.0.0.1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if public, err := did.ParseKey(text); err == nil {
			if again, err := did.FromKey(public); err != nil || again != text {
				t.Errorf("FromKey(ParseKey(%q)) = %q, %v", text, again, err)
			}
		}
		if public, err := did.DecodeBase58(text); err == nil && did.EncodeBase58(public) != text {
			t.Errorf("EncodeBase58(DecodeBase58(%q)) = %q", text, did.EncodeBase58(public))
		}
		if b, err := did.ParseBindu(text); err == nil && (b.String() != text || did.Check(text) != nil) {
			t.Errorf("ParseBindu(%q) = %q, Check() = %v", text, b, did.Check(text))
		}
		if address, err := did.WebURL(text); err == nil {
			base := strings.TrimSuffix(strings.TrimSuffix(address, "/did.json"), "/.well-known")
			again, err := did.Web(base)
			if err != nil || did.Check(text) != nil || again != text && !strings.HasSuffix(text, "%3A443") && !strings.Contains(text, "%3A443:") && !strings.HasSuffix(text, ":.well-known") {
				t.Errorf("Web(%q) = %q, %v, want %q", base, again, err, text)
			}
		}
	})
}
