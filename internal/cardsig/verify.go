package cardsig

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// The reasons why [Keys.Verify] rejects a card.
var (
	ErrUnsigned   = errors.New("the agent card has no signature")
	ErrUnknownKey = errors.New("no key for the signatures of the agent card")
	ErrMismatch   = errors.New("the agent card does not match its signature")
)

// Signature describes a valid signature.
type Signature struct {
	// KeyID identifies the key. Algorithm is the algorithm of the signature.
	KeyID, Algorithm string
	// JKU is the URL of the signer's key set, as the signature claims; "" if it names none.
	JKU string
}

// Verify returns the first signature of a card that is valid for one of the keys. Otherwise the
// error is [ErrUnsigned], [ErrUnknownKey] or [ErrMismatch] with details, or an error about a card
// that is not valid JSON.
func (keys Keys) Verify(card []byte) (*Signature, error) {
	var signed struct {
		Signatures []a2a.AgentCardSignature `json:"signatures,omitempty"`
	}
	if err := wire.UnmarshalStrict(card, &signed); err != nil {
		return nil, fmt.Errorf("the agent card is not valid: %w", err)
	}
	texts, err := payloads(card)
	if err != nil {
		return nil, err
	}
	if len(signed.Signatures) == 0 {
		return nil, ErrUnsigned
	}
	problem := error(nil)
	for _, s := range signed.Signatures {
		valid, err := keys.verify(s, texts)
		if valid != nil {
			return valid, nil
		}
		if problem == nil || errors.Is(err, ErrMismatch) {
			problem = err
		}
	}
	return nil, problem
}

// verify checks one signature of any of several texts.
func (keys Keys) verify(s a2a.AgentCardSignature, texts [][]byte) (*Signature, error) {
	raw, err := b64.DecodeString(s.Protected)
	var head header
	if err != nil || json.Unmarshal(raw, &head) != nil {
		return nil, fmt.Errorf("%w: its protected header is not base64url of JSON", ErrMismatch)
	}
	signature, err := b64.DecodeString(s.Signature)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not base64url", ErrMismatch)
	}
	if len(head.Crit) > 0 {
		return nil, fmt.Errorf("%w: its header requires %s, which is not supported", ErrMismatch, a2a.Quote(head.Crit[0]))
	}
	found := false
	for i := range keys {
		key := &keys[i]
		if key.ID != head.Kid || !key.verifies(head.Alg) {
			continue
		}
		found = true
		for _, text := range texts {
			if key.valid(head.Alg, []byte(s.Protected+"."+b64.EncodeToString(text)), signature) {
				return &Signature{KeyID: head.Kid, Algorithm: head.Alg, JKU: head.JKU}, nil
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("%w: want the key %s for %s", ErrUnknownKey, a2a.Quote(head.Kid), a2a.Quote(head.Alg))
	}
	return nil, fmt.Errorf("%w by the key %s", ErrMismatch, a2a.Quote(head.Kid))
}

// valid reports whether a signature of input in the format of RFC 7518 is valid. The key must
// verify algorithm.
func (k *Key) valid(algorithm string, input, signature []byte) bool {
	switch public := k.public.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(public, input, signature)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(input)
		return len(signature) == 64 && ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	case *rsa.PublicKey:
		sum := sha256.Sum256(input)
		if algorithm == PS256 {
			return rsa.VerifyPSS(public, crypto.SHA256, sum[:], signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
		}
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}
