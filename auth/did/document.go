package did

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/cardsig"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// The types of verification methods.
const (
	typeMultikey   = "Multikey"
	typeEd25519    = "Ed25519VerificationKey2020"
	typeJWK2020    = "JsonWebKey2020"
	typeJSONWebKey = "JsonWebKey"
)

// Limits of documents.
const (
	// MaxDocument is the maximum size of a document in bytes.
	MaxDocument = 64 << 10
	maxKeys     = 16
)

// Document is the content of a DID document that matters for signatures.
type Document struct {
	ID   string // the DID
	Keys []Key
}

// Key is a public key of a document.
type Key struct {
	// ID is the DID URL of the key: the DID, "#" and the fragment.
	ID string
	// Public is an [ed25519.PublicKey], or an [*ecdsa.PublicKey] on P-256.
	Public crypto.PublicKey
	// Authentication reports that the key may authenticate the DID, as in signatures of requests. Assertion reports that it
	// may sign statements, such as cards.
	Authentication, Assertion bool
}

// Key returns the key with a DID URL, or nil.
func (d *Document) Key(id string) *Key {
	for i := range d.Keys {
		if d.Keys[i].ID == id {
			return &d.Keys[i]
		}
	}
	return nil
}

// KeyDocument returns the document of a DID that has one key for all purposes.
func KeyDocument(did string, public crypto.PublicKey) (*Document, error) {
	fragment, err := EncodeKey(public)
	if err != nil {
		return nil, err
	}
	return &Document{ID: did, Keys: []Key{{ID: did + "#" + fragment, Public: public, Authentication: true, Assertion: true}}}, nil
}

// document is a DID document as JSON. Entries of Authentication and AssertionMethod are methods or their ids.
type document struct {
	Context            []string          `json:"@context,omitempty"`
	ID                 string            `json:"id"`
	Created            string            `json:"created,omitempty"`
	VerificationMethod []json.RawMessage `json:"verificationMethod,omitempty"`
	Authentication     []json.RawMessage `json:"authentication,omitempty"`
	AssertionMethod    []json.RawMessage `json:"assertionMethod,omitempty"`
	Service            []service         `json:"service,omitempty"`
}

type method struct {
	ID                 string          `json:"id"`
	Type               string          `json:"type"`
	Controller         string          `json:"controller"`
	PublicKeyBase58    string          `json:"publicKeyBase58,omitempty"`
	PublicKeyMultibase string          `json:"publicKeyMultibase,omitempty"`
	PublicKeyJwk       json.RawMessage `json:"publicKeyJwk,omitempty"`
}

type service struct {
	ID              string `json:"id"`
	Type            string `json:"type"`
	ServiceEndpoint string `json:"serviceEndpoint"`
}

// PublishParams are the content of a document of this agent.
type PublishParams struct {
	DID string
	// Keys are the public keys, the active one first. See [EncodeKey] for their types.
	Keys []crypto.PublicKey
	// URL is the address of the agent.
	URL string
	// Created is when the DID was created. It must never change. The zero time leaves it out.
	Created time.Time
}

// Publish returns the document of this agent as JSON. The fragment of a key is its Multikey text. Agents of Bindu read the
// first entry of authentication, so that the Ed25519 keys come first there, in the form that these agents read.
func Publish(p PublishParams) ([]byte, error) {
	d := document{
		Context: []string{"https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"},
		ID:      p.DID,
		Service: []service{{ID: p.DID + "#agent", Type: "A2A", ServiceEndpoint: p.URL}},
	}
	if !p.Created.IsZero() {
		d.Created = p.Created.UTC().Format(time.RFC3339)
	}
	var references []json.RawMessage
	for _, public := range p.Keys {
		text, err := EncodeKey(public)
		if err != nil {
			return nil, err
		}
		id := p.DID + "#" + text
		d.VerificationMethod = append(d.VerificationMethod, marshal(method{ID: id, Type: typeMultikey, Controller: p.DID, PublicKeyMultibase: text}))
		references = append(references, marshal(id))
		if public, ok := public.(ed25519.PublicKey); ok {
			id = p.DID + "#key-" + strconv.Itoa(len(d.Authentication)+1)
			d.Authentication = append(d.Authentication, marshal(method{ID: id, Type: typeEd25519, Controller: p.DID, PublicKeyBase58: EncodeBase58(public)}))
		}
	}
	d.Authentication = append(d.Authentication, references...)
	d.AssertionMethod = references
	return json.Marshal(d)
}

// marshal returns a value of this package as JSON, which does not fail.
func marshal(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

// ParseDocument returns the document of a DID from JSON of at most [MaxDocument] bytes. Its id must be the DID, and it
// must have a supported key. Keys of other types and of other controllers, and unknown members, are ignored.
func ParseDocument(did string, data []byte) (*Document, error) {
	if len(data) > MaxDocument {
		return nil, invalid(ReasonDocument, "the DID document has more than %d bytes", MaxDocument)
	}
	var raw struct {
		ID                 string            `json:"id"`
		VerificationMethod []json.RawMessage `json:"verificationMethod"`
		Authentication     []json.RawMessage `json:"authentication"`
		AssertionMethod    []json.RawMessage `json:"assertionMethod"`
	}
	if err := wire.UnmarshalStrict(data, &raw); err != nil {
		e := a2a.Wrap(a2a.CodeInvalid, err, "the DID document is not valid JSON")
		e.Data = map[string]any{"reason": ReasonDocument}
		return nil, e
	}
	if raw.ID != did {
		return nil, invalid(ReasonDocument, "the DID document has the id %s, want %s", a2a.Quote(raw.ID), a2a.Quote(did))
	}
	d := &Document{ID: did}
	for _, list := range []struct {
		entries                   []json.RawMessage
		authentication, assertion bool
	}{{entries: raw.VerificationMethod}, {raw.Authentication, true, false}, {raw.AssertionMethod, false, true}} {
		for _, entry := range list.entries {
			k, err := d.add(entry)
			if err != nil {
				return nil, err
			}
			if k != nil {
				k.Authentication = k.Authentication || list.authentication
				k.Assertion = k.Assertion || list.assertion
			}
		}
	}
	if len(d.Keys) == 0 {
		return nil, invalid(ReasonDocument, "the DID document has no key of Ed25519 or P-256")
	}
	return d, nil
}

// add adds the key of an entry, a method or the id of a method, and returns it, or nil if the entry has no supported key.
func (d *Document) add(entry json.RawMessage) (*Key, error) {
	var id string
	if wire.UnmarshalStrict(entry, &id) == nil {
		return d.Key(d.absolute(id)), nil
	}
	var m method
	if wire.UnmarshalStrict(entry, &m) != nil || m.Controller != "" && m.Controller != d.ID {
		return nil, nil
	}
	id = d.absolute(m.ID)
	public := m.key()
	if public == nil || !strings.HasPrefix(id, d.ID+"#") || len(id) > 2*MaxLength {
		return nil, nil
	}
	if known := d.Key(id); known != nil {
		if !sameKey(known.Public, public) {
			return nil, invalid(ReasonDocument, "the DID document has two keys with the id %s", a2a.Quote(id))
		}
		return known, nil
	}
	if len(d.Keys) == maxKeys {
		return nil, invalid(ReasonDocument, "the DID document has more than %d keys", maxKeys)
	}
	d.Keys = append(d.Keys, Key{ID: id, Public: public})
	return &d.Keys[len(d.Keys)-1], nil
}

// absolute returns a DID URL of the document that may be relative.
func (d *Document) absolute(id string) string {
	if strings.HasPrefix(id, "#") {
		return d.ID + id
	}
	return id
}

// key returns the key of a method, or nil if it is malformed or not supported.
func (m *method) key() crypto.PublicKey {
	switch m.Type {
	case typeMultikey:
		public, _ := DecodeKey(m.PublicKeyMultibase)
		return public
	case typeEd25519:
		if m.PublicKeyBase58 != "" {
			if public, err := DecodeBase58(m.PublicKeyBase58); err == nil {
				return public
			}
			return nil
		}
		if public, err := DecodeKey(m.PublicKeyMultibase); err == nil {
			if public, ok := public.(ed25519.PublicKey); ok {
				return public
			}
		}
	case typeJWK2020, typeJSONWebKey:
		set, err := json.Marshal(map[string]any{"keys": []json.RawMessage{m.PublicKeyJwk}})
		if err != nil {
			return nil
		}
		keys, err := cardsig.ParseKeys(set)
		if err == nil && (keys[0].Algorithm == cardsig.EdDSA || keys[0].Algorithm == cardsig.ES256) {
			return keys[0].Public()
		}
	}
	return nil
}

func sameKey(a, b crypto.PublicKey) bool {
	switch a := a.(type) {
	case ed25519.PublicKey:
		return a.Equal(b)
	case *ecdsa.PublicKey:
		return a.Equal(b)
	}
	return false
}
