// Package seal encrypts secrets that a store keeps.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

// ErrUndecryptable is the error of [Sealer.Open] if no key decrypts a secret.
var ErrUndecryptable = errors.New("no key decrypts the secrets")

// Sealer encrypts secrets with its first key, and decrypts with all of them: AES-256 in GCM. It is safe for concurrent use.
type Sealer []cipher.AEAD

// New returns a sealer of keys of [KeySize] bytes. purpose separates its secrets from the secrets that other sealers
// encrypt with the same keys.
func New(keys [][]byte, purpose string) (Sealer, error) {
	s := make(Sealer, len(keys))
	for i, key := range keys {
		if len(key) != KeySize {
			return nil, fmt.Errorf("Keys[%d] has %d bytes, want %d", i, len(key), KeySize)
		}
		derived, err := hkdf.Key(sha256.New, key, nil, purpose, KeySize)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(derived)
		if err != nil {
			return nil, err
		}
		if s[i], err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Seal returns the encrypted form of a secret. place is where the store keeps it: [Sealer.Open] rejects it at another
// place. The sealer must have a key.
func (s Sealer) Seal(plain, place []byte) []byte {
	nonce := make([]byte, s[0].NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return s[0].Seal(nonce, nonce, plain, place)
}

// Open decrypts a secret, or returns [ErrUndecryptable].
func (s Sealer) Open(sealed, place []byte) ([]byte, error) {
	for _, aead := range s {
		n := aead.NonceSize()
		if len(sealed) < n {
			break
		}
		if plain, err := aead.Open(nil, sealed[:n:n], sealed[n:], place); err == nil {
			return plain, nil
		}
	}
	return nil, ErrUndecryptable
}
