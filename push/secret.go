package push

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// settings is a webhook as it is kept in [store.PushConfig.Data].
type settings struct {
	URL            string                 `json:"url,omitempty"`
	Authentication a2a.PushAuthentication `json:"authentication,omitempty"` // without credentials
	Format         a2a.PayloadFormat      `json:"format,omitempty"`
	Signatures     []string               `json:"signatures,omitempty"`
	// Told says that the owner has been told the newest key's secret.
	Told bool `json:"told,omitempty"`
	// Saved is when its owner saved it last.
	Saved time.Time `json:"saved,omitempty"`
	// Global webhooks have what the Config says in place of all this.
	Global bool `json:"global,omitempty"`
	// Through is the last event of the log that a global webhook is told of, since the
	// task has got a webhook of its own; 0: there is no last one.
	Through int64 `json:"through,omitempty"`

	// Secrets are there, or encrypted in Sealed.
	Secrets *secrets `json:"secrets,omitempty"`
	Sealed  []byte   `json:"sealed,omitempty"`
}

type secrets struct {
	Token       string `json:"token,omitempty"`
	Credentials string `json:"credentials,omitempty"`
	// Keys sign, the newest first.
	Keys []signingKey `json:"keys,omitempty"`
}

// signingKey is what the keys of a webhook follow from.
type signingKey struct {
	Seed []byte `json:"seed"`
	// Until is when it is of no use any more; zero: not yet known.
	Until time.Time `json:"until,omitempty"`
	// Made is when it was; zero: long ago.
	Made time.Time `json:"made,omitempty"`
}

func newSigningKey(now time.Time) signingKey {
	k := signingKey{Seed: make([]byte, keyLen), Made: now}
	_, _ = rand.Read(k.Seed) // never fails
	return k
}

var errUnsealed = errors.New("none of the keys opens the secrets")

// sealer encrypts secrets with the first of its keys, and tries all to read.
type sealer []cipher.AEAD

func newSealer(keys [][]byte) (sealer, error) {
	s := make(sealer, len(keys))
	for i, key := range keys {
		if len(key) != keyLen {
			return nil, fmt.Errorf("Keys[%d] has %d bytes, want %d", i, len(key), keyLen)
		}
		block, err := aes.NewCipher(derive(key, "secrets"))
		if err != nil {
			return nil, err
		}
		if s[i], err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// place ties what is sealed to the webhook it belongs to.
func place(task store.Key, id string) []byte {
	var b []byte
	for _, s := range []string{task.Owner, task.ID, id} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) //nolint:gosec // ids are short
	}
	return b
}

// encode returns the settings of a webhook as they are stored.
func (s sealer) encode(set settings, task store.Key, id string) ([]byte, error) {
	if len(s) == 0 || set.Secrets == nil {
		return wire.Marshal(&set)
	}
	plain, err := wire.Marshal(set.Secrets)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, s[0].NonceSize())
	_, _ = rand.Read(nonce) // never fails
	set.Sealed, set.Secrets = s[0].Seal(nonce, nonce, plain, place(task, id)), nil
	return wire.Marshal(&set)
}

// decode reads settings as they are stored, with their Secrets. When these cannot be
// read the error is errUnsealed and the rest is there.
func (s sealer) decode(c *store.PushConfig) (settings, error) {
	var set settings
	if err := wire.Unmarshal(c.Data, &set); err != nil {
		return set, fmt.Errorf("stored webhook: %w", err)
	}
	if set.Sealed == nil {
		if set.Secrets == nil {
			set.Secrets = new(secrets)
		}
		return set, nil
	}
	sealed := set.Sealed
	set.Sealed, set.Secrets = nil, new(secrets)
	for _, aead := range s {
		n := min(aead.NonceSize(), len(sealed))
		plain, err := aead.Open(nil, sealed[:n:n], sealed[n:], place(c.Task, c.ID))
		if err != nil {
			continue
		}
		return set, wire.Unmarshal(bytes.Clone(plain), set.Secrets)
	}
	return set, errUnsealed
}
