package cardsig

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Signer signs agent cards. Create it with [NewSigner]. It is safe for concurrent use if its keys
// are.
type Signer struct {
	key    crypto.Signer
	public Keys
}

// NewSigner returns a signer that signs with the first of several private keys, at least one. The
// other keys stay in its key set, so that cards that they signed remain valid.
func NewSigner(keys []crypto.Signer) (*Signer, error) {
	s := &Signer{key: keys[0]}
	for i, key := range keys {
		public, err := NewKey(key.Public())
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		s.public = append(s.public, public)
	}
	return s, nil
}

// Keys returns the public keys.
func (s *Signer) Keys() Keys { return s.public }

// header is a protected header of a signature.
type header struct {
	Alg  string   `json:"alg"`
	Kid  string   `json:"kid"`
	Typ  string   `json:"typ"`
	JKU  string   `json:"jku,omitempty"`
	Crit []string `json:"crit,omitempty"`
}

// Sign returns the signatures over a card: one over its canonical form, and one over the canonical
// form without empty values if it differs. jku is the URL of the key set; it may be "". Signatures
// of the same card by the same private key of crypto/ed25519, crypto/ecdsa or crypto/rsa are equal.
func (s *Signer) Sign(card []byte, jku string) ([]a2a.AgentCardSignature, error) {
	texts, err := payloads(card)
	if err != nil {
		return nil, err
	}
	head, err := json.Marshal(header{Alg: s.public[0].Algorithm, Kid: s.public[0].ID, Typ: "JOSE", JKU: jku})
	if err != nil {
		return nil, err
	}
	protected := b64.EncodeToString(head)
	var all []a2a.AgentCardSignature
	for _, text := range texts {
		signature, err := s.sign([]byte(protected + "." + b64.EncodeToString(text)))
		if err != nil {
			return nil, err
		}
		all = append(all, a2a.AgentCardSignature{Protected: protected, Signature: b64.EncodeToString(signature)})
	}
	return all, nil
}

// sign returns the signature of input in the format of RFC 7518.
func (s *Signer) sign(input []byte) ([]byte, error) {
	if s.public[0].Algorithm == EdDSA {
		return s.key.Sign(rand.Reader, input, crypto.Hash(0))
	}
	sum := sha256.Sum256(input)
	if s.public[0].Algorithm == RS256 {
		return s.key.Sign(rand.Reader, sum[:], crypto.SHA256)
	}
	der, err := s.key.Sign(nil, sum[:], crypto.SHA256) // without a source of randomness it is deterministic
	if err != nil {
		return nil, err
	}
	var point struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &point); err != nil {
		return nil, err
	}
	out := make([]byte, 64)
	point.R.FillBytes(out[:32])
	point.S.FillBytes(out[32:])
	return out, nil
}
