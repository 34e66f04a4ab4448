package webhook

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/seal"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// settings is the content of [store.Webhook.Data].
type settings struct {
	URL            string                 `json:"url,omitempty"`
	Authentication a2a.PushAuthentication `json:"authentication,omitempty"` // without credentials
	Format         a2a.PayloadFormat      `json:"format,omitempty"`
	Signatures     []string               `json:"signatures,omitempty"`
	// SecretReturned reports that the owner received the secret of the newest key.
	SecretReturned bool `json:"secretReturned,omitempty"`
	// Saved is when the owner last saved the webhook.
	Saved time.Time `json:"saved,omitempty"`
	// Global marks the global webhook. Its other settings are in Config.
	Global bool `json:"global,omitempty"`
	// Through is the last event that the global webhook receives, because the task got a
	// webhook of its own. 0 means no end.
	Through int64 `json:"through,omitempty"`

	// Either Secrets or Sealed, its encrypted form, is set.
	Secrets *secrets `json:"secrets,omitempty"`
	Sealed  []byte   `json:"sealed,omitempty"`
}

type secrets struct {
	Token       string `json:"token,omitempty"`
	Credentials string `json:"credentials,omitempty"`
	// Keys sign requests, newest first.
	Keys []signingKey `json:"keys,omitempty"`
}

// signingKey is a seed from which the keys for the signature versions are derived.
type signingKey struct {
	Seed []byte `json:"seed"`
	// Until is when the key expires. Zero means that it is current.
	Until time.Time `json:"until,omitempty"`
	// Made is when the key was created. Zero means unknown.
	Made time.Time `json:"made,omitempty"`
}

func newSigningKey(now time.Time) signingKey {
	k := signingKey{Seed: make([]byte, keyLen), Made: now}
	_, _ = rand.Read(k.Seed) // never fails
	return k
}

var errUndecryptable = seal.ErrUndecryptable

// sealer encrypts secrets with its first key, and decrypts with all of them.
type sealer seal.Sealer

func newSealer(keys [][]byte) (sealer, error) {
	s, err := seal.New(keys, "holdfast webhooks secrets")
	return sealer(s), err
}

// additionalData returns the additional authenticated data that binds encrypted secrets to
// their webhook.
func additionalData(task store.Key, id string) []byte {
	var b []byte
	for _, s := range []string{task.Owner, task.ID, id} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) // ids are short
	}
	return b
}

// encode returns the stored form of settings.
func (s sealer) encode(set settings, task store.Key, id string) ([]byte, error) {
	if len(s) == 0 || set.Secrets == nil {
		return wire.Marshal(&set)
	}
	plain, err := wire.Marshal(set.Secrets)
	if err != nil {
		return nil, err
	}
	set.Sealed, set.Secrets = seal.Sealer(s).Seal(plain, additionalData(task, id)), nil
	return wire.Marshal(&set)
}

// decode reads stored settings and decrypts their Secrets. If no key decrypts them, the error
// is errUndecryptable and all other settings are returned.
func (s sealer) decode(c *store.Webhook) (settings, error) {
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
	plain, err := seal.Sealer(s).Open(sealed, additionalData(c.Task, c.ID))
	if err != nil {
		return set, err
	}
	return set, wire.Unmarshal(plain, set.Secrets)
}
