package issuer

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

const (
	maxKeys    = 100
	maxKeyAge  = 24 * time.Hour   // of keys that could not be refreshed
	minRefresh = 5 * time.Minute  // also without max-age
	fetchPause = 30 * time.Second // between fetches that tokens with unknown keys cause
	maxPause   = time.Minute      // between attempts after failures
	maxWaiting = 256              // requests that wait for a fetch

	minRSABits, maxRSABits = 2048, 8192
)

// fits has for each supported algorithm whether a public key fits it (RFC 7518 section 3, RFC 8037 section 3.1).
var fits = map[jose.SignatureAlgorithm]func(crypto.PublicKey) bool{
	jose.EdDSA: func(key crypto.PublicKey) bool { _, ok := key.(ed25519.PublicKey); return ok },
	jose.ES256: onCurve(elliptic.P256()), jose.ES384: onCurve(elliptic.P384()), jose.ES512: onCurve(elliptic.P521()),
	jose.RS256: isRSA, jose.RS384: isRSA, jose.RS512: isRSA, jose.PS256: isRSA, jose.PS384: isRSA, jose.PS512: isRSA,
}

func onCurve(curve elliptic.Curve) func(crypto.PublicKey) bool {
	return func(key crypto.PublicKey) bool {
		k, ok := key.(*ecdsa.PublicKey)
		return ok && k.Curve == curve
	}
}

func isRSA(key crypto.PublicKey) bool {
	k, ok := key.(*rsa.PublicKey)
	return ok && k.N.BitLen() >= minRSABits && k.N.BitLen() <= maxRSABits
}

// keySet are the keys of a JWK Set that may verify signatures.
type keySet struct {
	raw  []byte
	keys []jose.JSONWebKey
}

// parseKeys returns the usable keys of a JWK Set (RFC 7517 section 5). Other keys are ignored, as the RFC requires.
func parseKeys(raw []byte) (*keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys" wire:"required"`
	}
	if err := wire.UnmarshalStrict(raw, &set); err != nil {
		return nil, fmt.Errorf("the key set is not valid: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys, want at most %d", len(set.Keys), maxKeys)
	}
	s := &keySet{raw: raw}
	for _, text := range set.Keys {
		if key, err := parseKey(text); err == nil {
			s.keys = append(s.keys, key)
		}
	}
	return s, nil
}

// parseKey returns a key that may verify signatures (RFC 7517 section 4). A private or symmetric key fits no algorithm.
// The key's certificates are ignored, because an unusual certificate must not make a key unusable.
func parseKey(text []byte) (key jose.JSONWebKey, err error) {
	var members map[string]json.RawMessage
	if err := wire.UnmarshalStrict(text, &members); err != nil {
		return key, err
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return strings.HasPrefix(name, "x5") })
	var operations []string
	if raw := members["key_ops"]; raw != nil {
		if err := wire.Unmarshal(raw, &operations); err != nil {
			return key, err
		}
	}
	if text, err = json.Marshal(members); err != nil {
		return key, err
	}
	if err := json.Unmarshal(text, &key); err != nil {
		return key, err
	}
	if key.Use != "" && key.Use != "sig" || operations != nil && !slices.Contains(operations, "verify") {
		return key, errors.New("not a key for signatures")
	}
	return key, nil
}

// find returns the key for a signature, and whether the set has the key id. Without an id or with an id that several
// keys have, exactly one key must fit the algorithm.
func (s *keySet) find(id string, algorithm jose.SignatureAlgorithm) (key crypto.PublicKey, known bool) {
	for _, k := range s.keys {
		if id != "" && k.KeyID != id {
			continue
		}
		known = true
		if (k.Algorithm == "" || k.Algorithm == string(algorithm)) && fits[algorithm](k.Key) {
			if key != nil {
				return nil, true
			}
			key = k.Key
		}
	}
	return key, known
}

// keyring has an issuer's present keys. The zero value has none.
type keyring struct {
	mu      sync.Mutex
	set     *keySet
	fetched time.Time // the last success
	tried   time.Time // the start of the last fetch
	flight  *flight[time.Duration]
}

// flight is a call with a result that several callers share.
type flight[V any] struct {
	done    chan struct{} // closed after value and err are set
	value   V
	err     error
	waiting int // callers besides the first
}

// wait returns the flight's result.
func (f *flight[V]) wait(ctx context.Context) (value V, err error) {
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

// current returns the keys, nil if there are none or they are too old.
func (k *keyring) current(now time.Time) *keySet {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set == nil || now.Sub(k.fetched) > maxKeyAge {
		return nil
	}
	return k.set
}

// replace sets the keys. Equal sets stay the same set, so that verified tokens stay valid.
func (k *keyring) replace(set *keySet, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set == nil || !bytes.Equal(k.set.raw, set.raw) {
		k.set = set
	}
	k.fetched = now
}

// key returns the key for a token's signature. An unknown key id causes a fetch of the keys, which concurrent calls
// share, unless the last fetch started less than fetchPause ago.
func (i *Issuer) key(ctx context.Context, id string, algorithm jose.SignatureAlgorithm) (crypto.PublicKey, *keySet, error) {
	set := i.keys.current(i.cfg.Now())
	if set == nil {
		return nil, nil, i.unavailable(errors.New("no keys fetched within 24 h"))
	}
	key, known := set.find(id, algorithm)
	if !known {
		ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
		defer cancel()
		switch _, err := i.refresh(ctx, false); {
		case errors.Is(err, errNoFetch):
		case err != nil:
			return nil, nil, i.unavailable(err)
		default:
			if set = i.keys.current(i.cfg.Now()); set != nil {
				key, known = set.find(id, algorithm)
			}
		}
	}
	switch {
	case !known:
		return nil, nil, invalid("the token's key (kid) is not a key of the issuer")
	case key == nil:
		return nil, nil, invalid("the issuer has no key, or more than one, for the token's algorithm and kid")
	}
	return key, set, nil
}

var errNoFetch = errors.New("the keys were fetched a moment ago")

// refresh fetches the keys, or shares a fetch in progress, and returns the time until the next one. Only a scheduled
// fetch reads the metadata again, and needs no pause since the fetch before.
func (i *Issuer) refresh(ctx context.Context, scheduled bool) (time.Duration, error) {
	k, now := &i.keys, i.cfg.Now()
	k.mu.Lock()
	if f := k.flight; f != nil && (scheduled || f.waiting < maxWaiting) {
		f.waiting++
		k.mu.Unlock()
		return f.wait(ctx)
	}
	if k.flight != nil || !scheduled && now.Sub(k.tried) < fetchPause {
		k.mu.Unlock()
		return 0, errNoFetch
	}
	f := &flight[time.Duration]{done: make(chan struct{})}
	k.flight, k.tried = f, now
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.flight = nil
		k.mu.Unlock()
		close(f.done)
	}()
	if !scheduled {
		ctx = context.WithoutCancel(ctx) // others wait for the fetch
	}
	f.value, f.err = i.fetch(ctx, scheduled)
	return f.value, f.err
}

// fetch reads the keys, and if scheduled the metadata. The previous metadata stay valid if they cannot be read.
func (i *Issuer) fetch(ctx context.Context, scheduled bool) (time.Duration, error) {
	m := i.metadata.Load()
	if scheduled {
		fresh, err := i.discover(ctx)
		switch {
		case err == nil:
			i.metadata.Store(fresh)
			m = fresh
		case m == nil:
			return 0, err
		default:
			i.cfg.Logger.Warn("fetching the metadata of an issuer failed", "issuer", i.cfg.Name, "error", err)
		}
	}
	raw, age, err := i.get(ctx, m.keys)
	if err != nil {
		return 0, err
	}
	set, err := parseKeys(raw)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", m.keys, err)
	}
	if len(set.keys) == 0 {
		i.cfg.Logger.Warn("the key set of an issuer has no usable key", "issuer", i.cfg.Name)
	}
	i.keys.replace(set, i.cfg.Now())
	return min(max(age, minRefresh), maxKeyAge), nil
}
