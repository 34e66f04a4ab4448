package did_test

import (
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/auth/did"
)

const agentDID = "did:web:agent.example"

// keyText returns a key without "did:key:".
func keyText(t testing.TB, public crypto.PublicKey) string {
	t.Helper()
	text, err := did.EncodeKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestPublishedDocument(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 11, 30, 13, 0, 0, 5, time.FixedZone("", 3600))
	got, err := did.Publish(did.PublishParams{DID: agentDID, Keys: []crypto.PublicKey{zeroPublic, p256Key(t)}, URL: "https://agent.example/", Created: created})
	ed, ec := strings.TrimPrefix(zeroDID, "did:key:"), strings.TrimPrefix(p256DID, "did:key:")
	want := `{"@context":["https://www.w3.org/ns/did/v1","https://w3id.org/security/multikey/v1"],"id":"D","created":"2026-11-30T12:00:00Z",` +
		`"verificationMethod":[{"id":"D#ED","type":"Multikey","controller":"D","publicKeyMultibase":"ED"},{"id":"D#EC","type":"Multikey","controller":"D","publicKeyMultibase":"EC"}],` +
		`"authentication":[{"id":"D#key-1","type":"Ed25519VerificationKey2020","controller":"D","publicKeyBase58":"` + zeroBase58 + `"},"D#ED","D#EC"],` +
		`"assertionMethod":["D#ED","D#EC"],"service":[{"id":"D#agent","type":"A2A","serviceEndpoint":"https://agent.example/"}]}`
	want = strings.NewReplacer(`"D`, `"`+agentDID, "ED", ed, "EC", ec).Replace(want)
	want = strings.ReplaceAll(want, agentDID+"ED", ed)
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("Publish() = %s, %v, want (-want +got):\n%s", got, err, diff)
	}
	doc, err := did.ParseDocument(agentDID, got)
	if err != nil {
		t.Fatal(err)
	}
	wantKeys := []did.Key{
		{ID: agentDID + "#" + ed, Public: zeroPublic, Authentication: true, Assertion: true},
		{ID: agentDID + "#" + ec, Public: p256Key(t), Authentication: true, Assertion: true},
		{ID: agentDID + "#key-1", Public: zeroPublic, Authentication: true},
	}
	if diff := cmp.Diff(wantKeys, doc.Keys); diff != "" {
		t.Errorf("ParseDocument(%s) = %+v, want (-want +got):\n%s", got, doc.Keys, diff)
	}
	if _, err := did.Publish(did.PublishParams{DID: agentDID, Keys: []crypto.PublicKey{"no key"}}); err == nil {
		t.Error("Publish() with another key = nil, want an error")
	}
}

func TestDocumentsOfPeers(t *testing.T) {
	t.Parallel()
	ed, ec := strings.TrimPrefix(zeroDID, "did:key:"), strings.TrimPrefix(p256DID, "did:key:")
	key := func(public crypto.PublicKey, authentication, assertion bool) []did.Key {
		return []did.Key{{ID: agentDID + "#k", Public: public, Authentication: authentication, Assertion: assertion}}
	}
	base58Key := `{"id":"#k","type":"Ed25519VerificationKey2020","publicKeyBase58":"` + zeroBase58 + `"}`
	jwk := `{"id":"#k","type":"JsonWebKey2020","controller":"D","publicKeyJwk":{"kty":"EC","crv":"P-256","x":"` + p256X + `","y":"` + p256Y + `"}}`
	for name, test := range map[string]struct {
		text string
		want []did.Key // nil: an error
	}{
		"as Bindu writes it": {`{"@context":["a"],"id":"D","created":"now","authentication":[{"id":"D#k","type":"Ed25519VerificationKey2020","controller":"D","publicKeyBase58":"` + zeroBase58 + `"}]}`, key(zeroPublic, true, false)},
		"multibase":          {`{"id":"D","assertionMethod":[{"id":"#k","type":"Ed25519VerificationKey2020","publicKeyMultibase":"` + ed + `"}]}`, key(zeroPublic, false, true)},
		"a web key":          {`{"id":"D","verificationMethod":[` + jwk + `],"authentication":["#k"]}`, key(p256Key(t), true, false)},
		"without a purpose":  {`{"id":"D","verificationMethod":[{"id":"#k","type":"Multikey","publicKeyMultibase":"` + ec + `"}]}`, key(p256Key(t), false, false)},
		"other entries": {`{"id":"D","alsoKnownAs":{},"keyAgreement":["#k"],"authentication":["#other","D#k",7,[],{"id":7}],"verificationMethod":[` + base58Key +
			`,{"id":"#x","type":"X25519KeyAgreementKey2020","publicKeyMultibase":"z6LS"},{"id":"#s","type":"Multikey","publicKeyMultibase":"zQ3s"},{"id":"did:web:other#k","type":"Multikey","publicKeyMultibase":"` + ec +
			`"},{"id":"#c","controller":"did:web:other","type":"Multikey","publicKeyMultibase":"` + ec + `"},{"id":"#j","type":"JsonWebKey2020"},{"id":"#e","type":"Ed25519VerificationKey2020","publicKeyMultibase":"` + ec +
			`"},{"id":"#f","type":"Ed25519VerificationKey2020","publicKeyBase58":"x","publicKeyMultibase":"` + ed + `"}]}`, key(zeroPublic, true, false)},
		"another id":          {`{"id":"did:web:other","verificationMethod":[` + base58Key + `]}`, nil},
		"an id in other case": {`{"id":"did:web:Agent.example","verificationMethod":[` + base58Key + `]}`, nil},
		"no id":               {`{"verificationMethod":[` + base58Key + `]}`, nil},
		"two ids":             {`{"id":"did:web:other","id":"D","verificationMethod":[` + base58Key + `]}`, nil},
		"no key":              {`{"id":"D"}`, nil},
		"no list":             {`{"id":"D","verificationMethod":` + base58Key + `}`, nil},
		"two keys of one id":  {`{"id":"D","verificationMethod":[` + base58Key + `,` + jwk + `]}`, nil},
		"no JSON":             {`<html>`, nil},
		"text after the end":  {`{"id":"D","verificationMethod":[` + base58Key + `]} {}`, nil},
		"too long":            {`{"id":"D","verificationMethod":[` + base58Key + `]}` + strings.Repeat(" ", did.MaxDocument), nil},
		"deep":                {`{"id":"D","x":` + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000) + `}`, nil},
	} {
		got, err := did.ParseDocument(agentDID, []byte(strings.ReplaceAll(test.text, `"D`, `"`+agentDID)))
		if test.want == nil {
			if err == nil || reason(err) != did.ReasonDocument {
				t.Errorf("ParseDocument(%s) = %+v, %v, want an error with reason %s", name, got, err, did.ReasonDocument)
			}
			continue
		}
		if err != nil {
			t.Errorf("ParseDocument(%s) = %v", name, err)
			continue
		}
		if diff := cmp.Diff(&did.Document{ID: agentDID, Keys: test.want}, got); diff != "" {
			t.Errorf("ParseDocument(%s) = %+v, want (-want +got):\n%s", name, got, diff)
		}
		if k := got.Key(agentDID + "#k"); k == nil || got.Key("#k") != nil || got.Key(agentDID) != nil {
			t.Errorf("%s: Key() = %v, want the key by its DID URL only", name, k)
		}
	}
}

func TestDocumentsHaveFewKeys(t *testing.T) {
	t.Parallel()
	const limit = 16
	var methods []string
	for n := range byte(limit + 1) {
		methods = append(methods, fmt.Sprintf(`{"id":"#%d","type":"Multikey","publicKeyMultibase":%q}`, n, keyText(t, newKey(n).Public())))
	}
	for n := limit; n <= limit+1; n++ {
		got, err := did.ParseDocument(agentDID, []byte(`{"id":"`+agentDID+`","verificationMethod":[`+strings.Join(methods[:n], ",")+`]}`))
		if accepted := err == nil && len(got.Keys) == n; accepted != (n == limit) {
			t.Errorf("ParseDocument() of %d keys = %+v, %v, want at most %d", n, got, err, limit)
		}
	}
}

// A document that is accepted has the DID, and its keys encode to their text.
func FuzzParseDocument(f *testing.F) {
	published, err := did.Publish(did.PublishParams{DID: agentDID, Keys: []crypto.PublicKey{zeroPublic, p256Key(f)}, URL: "https://agent.example"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(published)
	f.Add([]byte(`{"id":"did:web:agent.example","verificationMethod":[{"id":"#k","type":"JsonWebKey2020","publicKeyJwk":{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}}],"authentication":["#k"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := did.ParseDocument(agentDID, data)
		if err != nil {
			return
		}
		if !json.Valid(data) || d.ID != agentDID || len(d.Keys) == 0 {
			t.Errorf("ParseDocument() = %+v, want keys of %s", d, agentDID)
		}
		for _, k := range d.Keys {
			if _, err := did.EncodeKey(k.Public); err != nil || d.Key(k.ID) == nil || !strings.HasPrefix(k.ID, agentDID+"#") {
				t.Errorf("key %+v: %v, want a supported key of the document", k, err)
			}
			if public, ok := k.Public.(ed25519.PublicKey); ok && len(public) != ed25519.PublicKeySize {
				t.Errorf("key %s has %d bytes", k.ID, len(public))
			}
		}
	})
}
