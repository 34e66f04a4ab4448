package server_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/server"
)

const keysPath = "/.well-known/jwks.json"

// cardKeys are the agent's keys, of which the first signs.
func cardKeys(t *testing.T) []crypto.Signer {
	t.Helper()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return []crypto.Signer{ec, ed}
}

func TestAllFormsOfTheCardAreSigned(t *testing.T) {
	t.Parallel()
	keys := cardKeys(t)
	e := start(t, echo, func(c *server.Config) {
		withExtendedCard(c)
		c.Security.CardKeys = keys
		c.Card.Signatures = []a2a.AgentCardSignature{{Protected: "e30", Signature: "e30"}}
	})
	served := e.do("GET", keysPath, "", nil)
	trusted, err := client.ParseCardKeys(served.Body)
	if err != nil || served.Status != 200 || !strings.Contains(served.Header.Get("Cache-Control"), "max-age=") {
		t.Fatalf("GET %s = %d %s, %v, want the keys, cacheable", keysPath, served.Status, served.Body, err)
	}
	if strings.Contains(string(served.Body), `"d":`) {
		t.Errorf("GET %s = %s, want no private key", keysPath, served.Body)
	}
	cards := map[string][]byte{
		"union":           e.do("GET", cardPath, "", nil).Body,
		"strict":          e.do("GET", strictPath, "", nil).Body,
		"extended of 0.3": e.call("agent/getAuthenticatedExtendedCard", `{}`, "User", "alice").Result,
		"extended of 1.0": e.call("GetExtendedAgentCard", `{}`, "User", "alice").Result,
	}
	for name, card := range cards {
		signature, err := client.VerifyCard(card, trusted)
		if err != nil || signature.Algorithm != "ES256" || signature.JKU != e.url+keysPath {
			t.Errorf("VerifyCard(%s card %s) = %+v, %v, want ES256 with the URL of the keys", name, card, signature, err)
		}
		changed := strings.Replace(string(card), `"tester"`, `"other"`, 1)
		if _, err := client.VerifyCard([]byte(changed), trusted); !errors.Is(err, client.ErrCardMismatch) {
			t.Errorf("VerifyCard(changed %s card) = %v, want %v", name, err, client.ErrCardMismatch)
		}
	}
	// Clients that read only the members of A2A 1.0 verify the signatures of the strict card.
	for _, signature := range signaturesOf(t, cards["strict"]) {
		if !strings.Contains(string(cards["union"]), signature) {
			t.Errorf("the union card %s lacks the signature %s of the strict card", cards["union"], signature)
		}
	}
	if again := e.do("GET", cardPath, "", nil); string(again.Body) != string(cards["union"]) {
		t.Errorf("the card = %s, want the same signatures as in %s", again.Body, cards["union"])
	}
}

// signaturesOf returns the signatures of a card.
func signaturesOf(t *testing.T, card []byte) (all []string) {
	t.Helper()
	decoded, err := client.DecodeCard(card)
	if err != nil || len(decoded.Signatures) == 0 {
		t.Fatalf("DecodeCard(%s) = %+v, %v, want signatures", card, decoded, err)
	}
	for _, s := range decoded.Signatures {
		all = append(all, s.Signature)
	}
	return all
}

// Cards that an earlier key signed remain valid while it is in the key set.
func TestReplacedCardKeyStaysInTheKeySet(t *testing.T) {
	t.Parallel()
	keys := cardKeys(t)
	before := start(t, echo, func(c *server.Config) { c.Security.CardKeys = keys[:1] }).do("GET", cardPath, "", nil).Body
	after := start(t, echo, func(c *server.Config) { c.Security.CardKeys = []crypto.Signer{keys[1], keys[0]} })
	trusted, err := client.ParseCardKeys(after.do("GET", keysPath, "", nil).Body)
	if err != nil {
		t.Fatal(err)
	}
	for want, card := range map[string][]byte{"ES256": before, "EdDSA": after.do("GET", cardPath, "", nil).Body} {
		if signature, err := client.VerifyCard(card, trusted); err != nil || signature.Algorithm != want {
			t.Errorf("VerifyCard(%s) = %+v, %v, want %s", card, signature, err, want)
		}
	}
	unsigned := start(t, echo, nil)
	if got := unsigned.do("GET", keysPath, "", nil); got.Status != 404 {
		t.Errorf("GET %s without keys = %d %s, want 404", keysPath, got.Status, got.Body)
	}
	if _, err := client.VerifyCard(unsigned.do("GET", cardPath, "", nil).Body, trusted); !errors.Is(err, client.ErrCardUnsigned) {
		t.Errorf("VerifyCard(unsigned card) = %v, want %v", err, client.ErrCardUnsigned)
	}
}

func TestCardKeysOfOtherKindsAreRejected(t *testing.T) {
	t.Parallel()
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, echo, nil)
	for want, key := range map[string]crypto.Signer{
		"the curve P-384 is not supported, want P-256": curve,
		"the RSA key has 1024 bits, want 2048 to 8192": short,
	} {
		_, err = server.New(server.Config{Engine: e.engine, Card: a2a.AgentCard{Name: "a"}, Security: server.Security{CardKeys: []crypto.Signer{key}}})
		var problems *config.Error
		if !errors.As(err, &problems) || problems.Problems[0].Field != "Security.CardKeys" || !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want a problem of Security.CardKeys with %q", err, want)
		}
	}
}
