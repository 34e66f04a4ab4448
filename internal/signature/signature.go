// Package signature signs and verifies HTTP requests as Standard Webhooks 1.0.0 specifies.
package signature

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The versions of signatures.
const (
	HMAC    = "v1"
	Ed25519 = "v1a"
)

// The prefixes of encoded keys.
const (
	secretPrefix = "whsec_"
	publicPrefix = "whpk_"
)

// The headers of a signed request.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// Message is what a signature covers: id, time and body of a request.
type Message struct {
	prefix  []byte
	body    []byte
	content []byte // both, for Ed25519
}

// NewMessage returns the message of a request. It keeps body. timestamp is in Unix seconds.
func NewMessage(id, timestamp string, body []byte) *Message {
	return &Message{prefix: slices.Concat([]byte(id), []byte{'.'}, []byte(timestamp), []byte{'.'}), body: body}
}

// AppendHMAC appends a v1 signature by a secret to dst.
func (m *Message) AppendHMAC(dst, secret []byte) []byte {
	return base64.StdEncoding.AppendEncode(append(dst, HMAC+","...), m.hmac(secret))
}

// AppendEd25519 appends a v1a signature by a private key to dst. It copies the body.
func (m *Message) AppendEd25519(dst []byte, private ed25519.PrivateKey) []byte {
	return base64.StdEncoding.AppendEncode(append(dst, Ed25519+","...), ed25519.Sign(private, m.joined()))
}

func (m *Message) hmac(secret []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write(m.prefix)
	mac.Write(m.body)
	return mac.Sum(nil)
}

func (m *Message) joined() []byte {
	if m.content == nil {
		m.content = slices.Concat(m.prefix, m.body)
	}
	return m.content
}

// EncodeSecret returns a secret in the form for receivers.
func EncodeSecret(secret []byte) string {
	return secretPrefix + base64.StdEncoding.EncodeToString(secret)
}

// EncodePublicKey returns a public key in the form for receivers.
func EncodePublicKey(public ed25519.PublicKey) string {
	return publicPrefix + base64.StdEncoding.EncodeToString(public)
}

// Key verifies signatures of one version. Exactly one of its fields is set.
type Key struct {
	Secret []byte
	Public ed25519.PublicKey
}

// ParseKey decodes a key in the form for receivers: whsec_ or whpk_ and base64.
func ParseKey(text string) (Key, error) {
	if rest, ok := strings.CutPrefix(text, secretPrefix); ok {
		if secret, err := base64.StdEncoding.DecodeString(rest); err == nil && len(secret) > 0 {
			return Key{Secret: secret}, nil
		}
	}
	if rest, ok := strings.CutPrefix(text, publicPrefix); ok {
		if public, err := base64.StdEncoding.DecodeString(rest); err == nil && len(public) == ed25519.PublicKeySize {
			return Key{Public: public}, nil
		}
	}
	return Key{}, errors.New("must be whsec_ or whpk_ followed by base64") // without the key
}

// maxSignatures is the number of signatures of a request that Verify reads.
const maxSignatures = 16

// Verify returns an error unless one of the keys verifies a signature of a request, and its time
// differs from now by at most tolerance.
func Verify(keys []Key, h http.Header, body []byte, now time.Time, tolerance time.Duration) error {
	timestamp := h.Get(HeaderTimestamp)
	sent, err := strconv.ParseInt(timestamp, 10, 64)
	switch {
	case err != nil || h.Get(HeaderID) == "":
		return errors.New("no webhook-id or no webhook-timestamp")
	case sent < now.Add(-tolerance).Unix() || sent > now.Add(tolerance).Unix():
		return errors.New("webhook-timestamp is too old or in the future")
	}
	m := NewMessage(h.Get(HeaderID), timestamp, body)
	signatures := strings.Fields(h.Get(HeaderSignature))
	for _, text := range signatures[:min(len(signatures), maxSignatures)] {
		version, encoded, _ := strings.Cut(text, ",")
		signature, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			continue
		}
		for _, key := range keys {
			if version == HMAC && key.Secret != nil && hmac.Equal(signature, m.hmac(key.Secret)) ||
				version == Ed25519 && key.Public != nil && ed25519.Verify(key.Public, m.joined(), signature) {
				return nil
			}
		}
	}
	return errors.New("no valid webhook-signature")
}
