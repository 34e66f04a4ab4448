package webhook

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	sign "github.com/holdfast-dev/holdfast/internal/signature"
	"github.com/holdfast-dev/holdfast/store"
)

// keyLen is the length of seeds and derived keys, in bytes.
const keyLen = 32

// rotationOverlap is how long the previous keys continue to sign after a rotation.
const rotationOverlap = 24 * time.Hour

// signer signs with one key. Exactly one of secret and private is set.
type signer struct {
	secret  []byte
	private ed25519.PrivateKey
	until   time.Time // zero for no expiry
}

// signers returns the signers of keys for the given versions. No version means v1.
func signers(keys []signingKey, versions []string) []signer {
	var all []signer
	for _, k := range keys {
		if len(versions) == 0 || slices.Contains(versions, sign.HMAC) {
			all = append(all, signer{secret: k.secret(), until: k.Until})
		}
		if slices.Contains(versions, sign.Ed25519) {
			all = append(all, signer{private: k.private(), until: k.Until})
		}
	}
	return all
}

// needsBodyCopy reports whether a signer needs a copy of the body.
func needsBodyCopy(all []signer) bool {
	return slices.ContainsFunc(all, func(s signer) bool { return s.private != nil })
}

// signature returns the value of the webhook-signature header, or "" without signers.
func signature(all []signer, id string, at time.Time, body []byte) string {
	m := sign.NewMessage(id, strconv.FormatInt(at.Unix(), 10), body)
	var header []byte
	for _, s := range all {
		if !s.until.IsZero() && at.After(s.until) {
			continue
		}
		if len(header) > 0 {
			header = append(header, ' ')
		}
		if s.private != nil {
			header = m.AppendEd25519(header, s.private)
		} else {
			header = m.AppendHMAC(header, s.secret)
		}
	}
	return string(header)
}

// secret returns the key of v1 signatures.
func (k signingKey) secret() []byte { return derive(k.Seed, "signature v1") }

// private returns the private key of v1a signatures. It cannot be derived from the v1 key,
// which receivers have.
func (k signingKey) private() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(derive(k.Seed, "signature v1a"))
}

// encodedSecret returns the v1 key in the form for receivers.
func (k signingKey) encodedSecret() string {
	return sign.EncodeSecret(k.secret())
}

// encodedPublicKey returns the v1a public key in the form for receivers.
func (k signingKey) encodedPublicKey() string {
	return sign.EncodePublicKey(k.private().Public().(ed25519.PublicKey))
}

// derive derives a key of keyLen bytes for one purpose.
func derive(key []byte, purpose string) []byte {
	derived, err := hkdf.Key(sha256.New, key, nil, "holdfast webhooks "+purpose, keyLen)
	if err != nil {
		panic(err) // fails only if keyLen exceeds 255 times the hash length
	}
	return derived
}

// EventID returns the id of an event in webhook requests: a version 8 UUID that is computed
// from the task's key, its creation time and the event's Seq.
func EventID(task store.Key, created time.Time, seq int64) string {
	h := sha256.New()
	for _, s := range []string{task.Owner, task.ID} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	numbers := binary.BigEndian.AppendUint64(nil, uint64(created.UnixMilli())) // hash input
	h.Write(binary.BigEndian.AppendUint64(numbers, uint64(seq)))               // hash input
	sum := h.Sum(nil)
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	const digits = "0123456789abcdef"
	id := make([]byte, 0, 36)
	for i, b := range sum[:16] {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			id = append(id, '-')
		}
		id = append(id, digits[b>>4], digits[b&15])
	}
	return string(id)
}
