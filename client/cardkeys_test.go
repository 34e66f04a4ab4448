package client_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/cardsig"
)

func TestCardsAreVerifiedWithTheKeysOfTheirHost(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := cardsig.NewSigner([]crypto.Signer{key})
	if err != nil {
		t.Fatal(err)
	}
	const card = `{"name":"n","url":"https://a.example/","version":"1"}`
	signatures, err := signer.Sign([]byte(card), "")
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(signatures)
	if err != nil {
		t.Fatal(err)
	}
	signed := strings.TrimSuffix(card, "}") + `,"signatures":` + string(list) + "}"
	set, err := json.Marshal(signer.Keys())
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 10) // the Authorization headers of requests for keys
	host := func(path, keys string) string {
		mux := http.NewServeMux()
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			seen <- r.Header.Get("Authorization")
			_, _ = w.Write([]byte(keys))
		})
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		return s.URL
	}
	own, other := host("/.well-known/jwks.json", string(set)), host("/keys", string(set))
	c, err := client.New(client.Config{URL: own + "/agents/a", Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for keySet, authorization := range map[string]string{"": "Bearer t", other + "/keys": ""} {
		keys, err := c.CardKeys(t.Context(), keySet)
		if got := <-seen; err != nil || got != authorization {
			t.Errorf("CardKeys(%q) = %v with the Authorization %q, want %q", keySet, err, got, authorization)
		}
		if _, err := client.VerifyCard([]byte(signed), keys); err != nil {
			t.Errorf("VerifyCard() with keys from %q = %v", keySet, err)
		}
		if _, err := client.VerifyCard([]byte(strings.Replace(signed, "a.example", "b.example", 1)), keys); !errors.Is(err, client.ErrCardMismatch) {
			t.Errorf("VerifyCard(changed card) = %v, want %v", err, client.ErrCardMismatch)
		}
	}
	for keySet, want := range map[string]string{
		own + "/nope": "HTTP status 404", "ftp://a.example/keys": "must be an http or https URL", "http://me:secret@a.example/": "without credentials",
		host("/keys", `{"keys":[]}`) + "/keys": "has no key for EdDSA",
	} {
		if keys, err := c.CardKeys(t.Context(), keySet); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("CardKeys(%q) = %v, %v, want an error with %q", keySet, keys, err, want)
		}
	}
	var none client.CardKeys
	if _, err := client.VerifyCard([]byte(signed), none); !errors.Is(err, client.ErrCardKeyUnknown) {
		t.Errorf("VerifyCard() without keys = %v, want %v", err, client.ErrCardKeyUnknown)
	}
}
