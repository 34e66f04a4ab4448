package did

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"strings"

	"github.com/mr-tron/base58"

	"github.com/holdfast-dev/holdfast/a2a"
)

// The multicodec codes of public keys, as varints.
const (
	codecEd25519 = "\xed\x01"
	codecP256    = "\x80\x24"
)

// maxEncodedKey is the maximum length of an encoded key that is decoded; a key of P-256 has 49 bytes.
const maxEncodedKey = 64

const keyPrefix = "did:key:"

// EncodeKey returns a public key as Multikey (W3C Controlled Identifiers 1.0 section 2.2.2): "z" and base58btc of the
// multicodec code and the key. The key must be an [ed25519.PublicKey], or an [*ecdsa.PublicKey] on P-256.
func EncodeKey(public crypto.PublicKey) (string, error) {
	switch p := public.(type) {
	case ed25519.PublicKey:
		if len(p) == ed25519.PublicKeySize {
			return "z" + base58.Encode(append([]byte(codecEd25519), p...)), nil
		}
	case *ecdsa.PublicKey:
		if p.Curve != elliptic.P256() {
			break
		}
		if point, err := p.Bytes(); err == nil {
			compressed := append([]byte(codecP256), 2|point[64]&1)
			return "z" + base58.Encode(append(compressed, point[1:33]...)), nil
		}
	}
	return "", invalid(ReasonDID, "the key is not a key of Ed25519 or P-256")
}

// DecodeKey returns the key that [EncodeKey] encodes as text.
func DecodeKey(text string) (crypto.PublicKey, error) {
	encoded, ok := strings.CutPrefix(text, "z")
	if !ok || len(text) > maxEncodedKey {
		return nil, invalid(ReasonDID, "a key must be z and base58, in at most %d bytes", maxEncodedKey)
	}
	raw, err := base58.Decode(encoded)
	if err != nil {
		return nil, invalid(ReasonDID, "the key is not base58")
	}
	if key, ok := strings.CutPrefix(string(raw), codecEd25519); ok && len(key) == ed25519.PublicKeySize {
		return ed25519.PublicKey(key), nil
	}
	if point, ok := strings.CutPrefix(string(raw), codecP256); ok {
		if x, y := elliptic.UnmarshalCompressed(elliptic.P256(), []byte(point)); x != nil {
			uncompressed := make([]byte, 65)
			uncompressed[0] = 4
			x.FillBytes(uncompressed[1:33])
			y.FillBytes(uncompressed[33:])
			return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), uncompressed)
		}
	}
	return nil, invalid(ReasonDID, "the key is not a key of Ed25519 or P-256")
}

// FromKey returns the did:key of a public key (W3C CCG did:key 0.9). The text after "did:key:" is also the fragment
// of the key in the document. See [EncodeKey] for the keys that it accepts.
func FromKey(public crypto.PublicKey) (string, error) {
	text, err := EncodeKey(public)
	return keyPrefix + text, err
}

// ParseKey returns the public key of a did:key.
func ParseKey(did string) (crypto.PublicKey, error) {
	text, ok := strings.CutPrefix(did, keyPrefix)
	if !ok {
		return nil, invalid(ReasonDID, "%s is not a did:key", a2a.Quote(did))
	}
	return DecodeKey(text)
}

// EncodeBase58 returns an Ed25519 key in the form of publicKeyBase58 and of metadata.public_key in Ory Hydra.
func EncodeBase58(public ed25519.PublicKey) string { return base58.Encode(public) }

// DecodeBase58 returns the key that [EncodeBase58] encodes as text.
func DecodeBase58(text string) (ed25519.PublicKey, error) {
	if raw := decodeBase58(text, ed25519.PublicKeySize); raw != nil {
		return raw, nil
	}
	return nil, invalid(ReasonDID, "the key is not base58 of %d bytes", ed25519.PublicKeySize)
}

// decodeBase58 returns the bytes of a base58 text, or nil if it does not encode size bytes. Each value has one text.
func decodeBase58(text string, size int) []byte {
	if len(text) > 2*size {
		return nil
	}
	raw, err := base58.Decode(text)
	if err != nil || len(raw) != size {
		return nil
	}
	return raw
}
