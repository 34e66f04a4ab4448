package cli_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/cardsig"
)

func TestChangedCardFailsVerification(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := cardsig.NewSigner([]crypto.Signer{key})
	if err != nil {
		t.Fatal(err)
	}
	const content = `{"name":"n","description":"d","version":"1","url":"https://a.example/","protocolVersion":"0.3.0","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[]`
	signatures, err := signer.Sign([]byte(content+"}"), "")
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(signatures)
	if err != nil {
		t.Fatal(err)
	}
	signed := content + `,"signatures":` + string(list) + "}"
	keys, err := json.Marshal(signer.Keys())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		card string
		code int
		want string
	}{
		{signed, 0, "the signature is valid"},
		{strings.Replace(signed, "a.example", "b.example", 1), 1, "the agent card does not match its signature by the key"},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("/.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(test.card)) })
		mux.HandleFunc("/.well-known/jwks.json", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keys) })
		s := httptest.NewServer(mux)
		defer s.Close()
		code, stdout, stderr := run(t, "", nil, "card", "verify", s.URL)
		if code != test.code || !strings.Contains(stdout+stderr, test.want) {
			t.Errorf("card verify = %d, %s%s, want %d and %q", code, stdout, stderr, test.code, test.want)
		}
	}
}
