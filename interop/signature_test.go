package interop_test

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
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/gowebpki/jcs"

	"github.com/holdfast-dev/holdfast/client"
)

var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256}

type cardSignature struct {
	Protected string `json:"protected"`
	Signature string `json:"signature"`
}

// cardKeys returns a key of each supported kind, by its algorithm.
func cardKeys(t *testing.T) map[jose.SignatureAlgorithm]crypto.Signer {
	t.Helper()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return map[jose.SignatureAlgorithm]crypto.Signer{jose.ES256: ec, jose.EdDSA: ed, jose.RS256: rs}
}

func fetch(t *testing.T, url string) []byte {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s = %d %s, %v", url, resp.StatusCode, body, err)
	}
	return body
}

// canonical returns the canonical form of a card without its signatures, and the signatures.
func canonical(t *testing.T, card []byte) (text []byte, signatures []cardSignature) {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(card, &members); err != nil {
		t.Fatal(err)
	}
	if raw, signed := members["signatures"]; signed {
		if err := json.Unmarshal(raw, &signatures); err != nil {
			t.Fatal(err)
		}
		delete(members, "signatures")
	}
	rest, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = jcs.Transform(rest); err != nil {
		t.Fatal(err)
	}
	return text, signatures
}

func TestOtherLibrariesVerifyOurCards(t *testing.T) {
	t.Parallel()
	for algorithm, key := range cardKeys(t) {
		s := start(t, binary, "--agent", "echo", "--token", "t=alice", "--card-key", keyFile(t, key))
		var keys jose.JSONWebKeySet
		if err := json.Unmarshal(fetch(t, s.url+".well-known/jwks.json"), &keys); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{".well-known/agent-card.json", "v1.0/.well-known/agent-card.json"} {
			text, signatures := canonical(t, fetch(t, s.url+path))
			if len(signatures) == 0 {
				t.Fatalf("the card at %s has no signature", path)
			}
			jws, err := jose.ParseDetached(signatures[0].Protected+".."+signatures[0].Signature, text, algorithms)
			if err != nil {
				t.Fatal(err)
			}
			head := jws.Signatures[0].Protected
			found := keys.Key(head.KeyID)
			if len(found) != 1 || head.Algorithm != string(algorithm) || head.ExtraHeaders["typ"] != "JOSE" {
				t.Fatalf("the header is %+v with %d keys, want %s, typ and one key", head, len(found), algorithm)
			}
			if _, err := jws.Verify(found[0]); err != nil {
				t.Errorf("%s: Verify() of %s = %v", algorithm, path, err)
			}
		}
	}
}

func TestWeVerifyCardsThatOtherLibrariesSigned(t *testing.T) {
	t.Parallel()
	const card = `{"name":"Zürich \u20ac","version":"1","skills":[],"capabilities":{"streaming":false},"ratio":1e-7,"limits":[10,1.50,1E21]}`
	text, _ := canonical(t, []byte(card))
	keys := cardKeys(t)
	keys[jose.PS256] = keys[jose.RS256]
	for algorithm, key := range keys {
		public := jose.JSONWebKey{Key: key.Public(), KeyID: "k1", Algorithm: string(algorithm), Use: "sig"}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, (&jose.SignerOptions{}).WithType("JOSE"))
		if err != nil {
			t.Fatal(err)
		}
		jws, err := signer.Sign(text)
		if err != nil {
			t.Fatal(err)
		}
		compact, err := jws.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(compact, ".")
		if parts[1] != base64.RawURLEncoding.EncodeToString(text) {
			t.Fatalf("payload %s, want the canonical card", parts[1])
		}
		list, err := json.Marshal([]cardSignature{{parts[0], parts[2]}})
		if err != nil {
			t.Fatal(err)
		}
		set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
		if err != nil {
			t.Fatal(err)
		}
		trusted, err := client.ParseCardKeys(set)
		if err != nil {
			t.Fatal(err)
		}
		signed := strings.TrimSuffix(card, "}") + `,"signatures":` + string(list) + "}"
		if got, err := client.VerifyCard([]byte(signed), trusted); err != nil || got.KeyID != "k1" || got.Algorithm != string(algorithm) {
			t.Errorf("VerifyCard(%s) = %+v, %v, want the key k1 and %s", signed, got, err, algorithm)
		}
		if _, err := client.VerifyCard([]byte(strings.Replace(signed, "10,", "11,", 1)), trusted); err == nil {
			t.Error("VerifyCard(changed card) = nil, want an error")
		}
	}
}

// The official JS SDK verifies only the members of A2A 1.0, without empty values.
func TestOfficialSDKVerifiesOurCards(t *testing.T) {
	t.Parallel()
	for algorithm, key := range cardKeys(t) {
		s := start(t, binary, "--agent", "echo", "--token", "t=alice", "--card-key", keyFile(t, key))
		paths := []string{"/.well-known/agent-card.json", "/v1.0/.well-known/agent-card.json"}
		_, lines := node(t, "verify.mjs", append([]string{s.url}, paths...)...)
		for _, path := range paths {
			var got struct{ Path, Card, Changed string }
			if !lines.Scan() || json.Unmarshal(lines.Bytes(), &got) != nil {
				t.Fatalf("%s: output %q, %v, want an outcome for %s", algorithm, lines.Text(), lines.Err(), path)
			}
			if got.Path != path || got.Card != "valid" || got.Changed == "valid" {
				t.Errorf("%s: %+v, want %s to be valid, and not valid if it is changed", algorithm, got, path)
			}
		}
	}
}

// keyFile returns a file with a private key.
func keyFile(t *testing.T, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
