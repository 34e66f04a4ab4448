package did

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// keyring is the content of the record of keys. It has one active key of each algorithm at any time.
type keyring struct {
	Created time.Time  `json:"created"`
	Keys    []agentKey `json:"keys"`
}

type agentKey struct {
	Algorithm string `json:"algorithm"`
	// ID is the Multikey text of the public key.
	ID string `json:"id"`
	// Private is the seed of an Ed25519 key or the scalar of a P-256 key. It is nil if the key is revoked.
	Private []byte    `json:"private,omitempty"`
	Created time.Time `json:"created"`
	// Active is when the key becomes active. The zero time means that the key was active from its creation, or that it
	// replaced a revoked key.
	Active  time.Time `json:"active,omitzero"`
	Retired time.Time `json:"retired,omitzero"`
	Removed time.Time `json:"removed,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
}

// newKeyring returns the first keys.
func newKeyring(now time.Time) (*keyring, error) {
	ring := &keyring{Created: now}
	for _, algorithm := range []string{EdDSA, ES256} {
		if err := ring.add(algorithm, now, time.Time{}); err != nil {
			return nil, err
		}
	}
	return ring, nil
}

// add creates a key that is active from a time.
func (ring *keyring) add(algorithm string, now, active time.Time) error {
	k := agentKey{Algorithm: algorithm, Created: now, Active: active}
	var public crypto.PublicKey
	if algorithm == EdDSA {
		p, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		public, k.Private = p, private.Seed()
	} else {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		if k.Private, err = private.Bytes(); err != nil {
			return err
		}
		public = &private.PublicKey
	}
	var err error
	if k.ID, err = EncodeKey(public); err != nil {
		return err
	}
	ring.Keys = append(ring.Keys, k)
	return nil
}

// signer returns the private key.
func (k *agentKey) signer() (crypto.Signer, error) {
	if k.Algorithm == ES256 {
		return ecdsa.ParseRawPrivateKey(elliptic.P256(), k.Private)
	}
	if len(k.Private) != ed25519.SeedSize {
		return nil, errors.New("agent keys: the seed of a key is damaged")
	}
	return ed25519.NewKeyFromSeed(k.Private), nil
}

func (k *agentKey) state(now time.Time) KeyState {
	switch {
	case !k.Revoked.IsZero():
		return KeyRevoked
	case now.Before(k.Active):
		return KeyPending
	case k.Retired.IsZero() || now.Before(k.Retired):
		return KeyActive
	case now.Before(k.Removed):
		return KeyRetired
	}
	return keyRemoved
}

// find returns the key of an algorithm in a state, or nil.
func (ring *keyring) find(algorithm string, state KeyState, now time.Time) *agentKey {
	i := slices.IndexFunc(ring.Keys, func(k agentKey) bool { return k.Algorithm == algorithm && k.state(now) == state })
	if i < 0 {
		return nil
	}
	return &ring.Keys[i]
}

// active returns the active key of an algorithm.
func (ring *keyring) active(algorithm string, now time.Time) (*agentKey, error) {
	if k := ring.find(algorithm, KeyActive, now); k != nil {
		return k, nil
	}
	return nil, unknownAlgorithm(algorithm)
}

// stateOrder is the order of keys in lists.
var stateOrder = []KeyState{KeyActive, KeyPending, KeyRetired, KeyRevoked}

// list returns the keys that are not removed.
func (ring *keyring) list(now time.Time) ([]KeyInfo, error) {
	var all []KeyInfo
	for i := range ring.Keys {
		k := &ring.Keys[i]
		state := k.state(now)
		if state == keyRemoved {
			continue
		}
		public, err := DecodeKey(k.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, KeyInfo{
			ID: k.ID, Algorithm: k.Algorithm, Public: public, State: state, Created: k.Created, Active: cmp.Or(k.Active, k.Created), Retired: k.Retired, Removed: k.Removed, Revoked: k.Revoked,
		})
	}
	slices.SortStableFunc(all, func(a, b KeyInfo) int {
		return cmp.Or(slices.Index(stateOrder, a.State)-slices.Index(stateOrder, b.State), cmp.Compare(b.Algorithm, a.Algorithm), b.Active.Compare(a.Active)) // EdDSA first, newer keys first
	})
	return all, nil
}

// rotate adds a key that replaces the active key after pendingTime.
func (ring *keyring) rotate(algorithm, did string, now time.Time, retiredFor time.Duration) error {
	active, err := ring.active(algorithm, now)
	if err != nil {
		return err
	}
	public, err := DecodeKey(active.ID)
	if err != nil {
		return err
	}
	if derivedFrom(did, public) {
		e := a2a.Errorf(a2a.CodeUnsupported, "%s is derived from this key: a new key would change the DID; use a did:web, or revoke the key and publish the new DID", a2a.Quote(did))
		e.Data = map[string]any{"reason": ReasonDerived}
		return e
	}
	if pending := ring.find(algorithm, KeyPending, now); pending != nil {
		return a2a.Errorf(a2a.CodeConflict, "the key %s is pending until %s", pending.ID, pending.Active.UTC().Format(time.RFC3339))
	}
	active.Retired = now.Add(pendingTime)
	active.Removed = active.Retired.Add(retiredFor)
	return ring.add(algorithm, now, active.Retired)
}

// revoke revokes a key and replaces it if it is active.
func (ring *keyring) revoke(id string, now time.Time) error {
	i := slices.IndexFunc(ring.Keys, func(k agentKey) bool { return k.ID == id })
	if i < 0 {
		return a2a.Errorf(a2a.CodeNotFound, "key %s not found", a2a.Quote(id))
	}
	k := &ring.Keys[i]
	state := k.state(now)
	if state == KeyRevoked {
		return nil
	}
	k.Revoked, k.Private = now, nil
	if state == KeyPending {
		active, err := ring.active(k.Algorithm, now)
		if err != nil {
			return err
		}
		active.Retired, active.Removed = time.Time{}, time.Time{}
	}
	if state != KeyActive {
		return nil
	}
	pending := ring.find(k.Algorithm, KeyPending, now)
	if pending == nil {
		return ring.add(k.Algorithm, now, time.Time{})
	}
	pending.Active = time.Time{}
	return nil
}
