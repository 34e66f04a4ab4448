package did

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/cardsig"
	"github.com/holdfast-dev/holdfast/internal/seal"
	"github.com/holdfast-dev/holdfast/store"
)

// The algorithms of the agent's keys (RFC 7518, RFC 8037).
const (
	EdDSA = cardsig.EdDSA // Ed25519: signs for the DID, and cards
	ES256 = cardsig.ES256 // P-256
)

const (
	// pendingTime is how long a key is published before it signs, so that others have read the document by then.
	pendingTime = 24 * time.Hour
	// keysAge is how long a process uses the keys that it has read.
	keysAge = 30 * time.Second
	// defaultRetiredFor is how long a retired key verifies by default.
	defaultRetiredFor = 30 * 24 * time.Hour
)

// ReasonDerived is the reason in [a2a.Error.Data] for a rotation that would change the DID.
const ReasonDerived = "did_derived_from_key"

// keysRecord is the record with the keys. No principal is its owner, because the id is not printable.
var keysRecord = store.RecordKey{Owner: store.System, Namespace: "keys", Key: "agent"}

// KeyRecords is the part of a store that keeps the keys of the agent.
type KeyRecords interface {
	Record(ctx context.Context, key store.RecordKey) (store.Record, error)
	SaveRecords(ctx context.Context, owner string, changes ...store.RecordChange) error
}

// KeysConfig configures [Keys].
type KeysConfig struct {
	// Records keeps the keys. Required.
	Records KeyRecords
	// EncryptionKeys encrypt the private keys: the first one encrypts, all of them decrypt. At least one of 32 bytes is required.
	EncryptionKeys [][]byte
	// RetiredFor is how long a key verifies after its successor became active: the lifetime of the longest signature.
	// Default 30 days.
	RetiredFor time.Duration
	// Now returns the time that all replicas share. Default [time.Now].
	Now func() time.Time
}

// Keys are the keys of this agent, the same on all replicas: one of each algorithm signs. The first use creates them. A
// change takes effect on the other replicas within 30 s. Create Keys with [NewKeys]. It is safe for concurrent use.
type Keys struct {
	records    KeyRecords
	sealer     seal.Sealer
	retiredFor time.Duration
	now        func() time.Time

	mu    sync.Mutex
	known *savedKeys // nil until they are needed
	read  time.Time
}

// savedKeys are keys with the version of their record.
type savedKeys struct {
	keyring
	version int64
}

// NewKeys returns the keys that a store keeps. It does not read them.
func NewKeys(cfg KeysConfig) (*Keys, error) {
	sealer, err := seal.New(cfg.EncryptionKeys, "holdfast agent keys")
	if err == nil && len(sealer) == 0 {
		err = errors.New("EncryptionKeys has no key")
	}
	if cfg.Records == nil {
		err = errors.Join(err, errors.New("Records is required"))
	}
	if cfg.RetiredFor < 0 {
		err = errors.Join(err, errors.New("RetiredFor is negative"))
	}
	if err != nil {
		return nil, fmt.Errorf("agent keys config: %w", err)
	}
	k := &Keys{records: cfg.Records, sealer: sealer, retiredFor: cmp.Or(cfg.RetiredFor, defaultRetiredFor), now: cfg.Now}
	if k.now == nil {
		k.now = time.Now
	}
	return k, nil
}

// KeyState is the state of a key of the agent.
type KeyState string

// The states of keys. A removed key is not listed.
const (
	KeyActive  KeyState = "active"  // signs
	KeyPending KeyState = "pending" // is published and does not sign yet
	KeyRetired KeyState = "retired" // is published so that its signatures verify, and does not sign
	KeyRevoked KeyState = "revoked" // is not published
	keyRemoved KeyState = "removed"
)

// KeyInfo describes a key of the agent.
type KeyInfo struct {
	// ID is the Multikey text of the key, which is its fragment in the document.
	ID        string
	Algorithm string // EdDSA or ES256
	Public    crypto.PublicKey
	State     KeyState
	Created   time.Time
	// Active, Retired and Removed are when the key changes to these states, and Revoked is when it was revoked. The zero
	// time means that no change is planned. Active is Created for a key that was active at once, or that replaced a revoked key.
	Active, Retired, Removed, Revoked time.Time
}

// List returns all keys: active keys first, then pending, retired and revoked keys.
func (k *Keys) List(ctx context.Context) ([]KeyInfo, error) {
	ring, err := k.load(ctx)
	if err != nil {
		return nil, err
	}
	return ring.list(k.now())
}

// Published returns the public keys for the document and the key set, the active Ed25519 key first.
func (k *Keys) Published(ctx context.Context) ([]crypto.PublicKey, error) {
	all, err := k.List(ctx)
	if err != nil {
		return nil, err
	}
	var public []crypto.PublicKey
	for _, info := range all {
		if info.State != KeyRevoked {
			public = append(public, info.Public)
		}
	}
	return public, nil
}

// Created returns when the first keys were created, which is the "created" of the document.
func (k *Keys) Created(ctx context.Context) (time.Time, error) {
	ring, err := k.load(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return ring.Created, nil
}

// Signer returns the private key that signs now: an [ed25519.PrivateKey] for [EdDSA], an [*ecdsa.PrivateKey] for [ES256].
// Call it for each signature, because another key may sign later.
func (k *Keys) Signer(ctx context.Context, algorithm string) (crypto.Signer, error) {
	ring, err := k.load(ctx)
	if err != nil {
		return nil, err
	}
	active, err := ring.active(algorithm, k.now())
	if err != nil {
		return nil, err
	}
	return active.signer()
}

// Rotate creates a key that replaces the active key of an algorithm after 24 h. did is the DID of this agent. If it is
// derived from the active key, Rotate returns an error with [ReasonDerived], because the DID would change. If a key of
// the algorithm is already pending, the error has [a2a.CodeConflict].
func (k *Keys) Rotate(ctx context.Context, algorithm, did string) error {
	return k.update(ctx, func(ring *keyring, now time.Time) error {
		return ring.rotate(algorithm, did, now, k.retiredFor)
	})
}

// Revoke stops the publication of a key at once and erases its private key. Its pending key, or a new key, replaces an
// active key at once. A DID that is derived from a revoked key is lost: the agent needs a new DID. The error has
// [a2a.CodeNotFound] if no key has the id.
func (k *Keys) Revoke(ctx context.Context, id string) error {
	return k.update(ctx, func(ring *keyring, now time.Time) error { return ring.revoke(id, now) })
}

// load returns the keys, read up to keysAge ago, and creates the first keys. The caller must not modify them.
func (k *Keys) load(ctx context.Context) (*savedKeys, error) {
	now := k.now()
	k.mu.Lock()
	known, read := k.known, k.read
	k.mu.Unlock()
	if passed := now.Sub(read); known != nil && passed >= 0 && passed < keysAge {
		return known, nil
	}
	ring, err := k.readRecord(ctx)
	if errors.Is(err, store.ErrNotFound) {
		if ring, err = k.create(ctx, now); errors.Is(err, store.ErrRecordConflict) { // another replica has created it
			ring, err = k.readRecord(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("agent keys: %w", err)
	}
	return k.remember(ring, now), nil
}

// remember keeps keys that were read at a time, unless newer ones are known, and returns the newer ones.
func (k *Keys) remember(ring *savedKeys, read time.Time) *savedKeys {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || ring.version >= k.known.version {
		k.known, k.read = ring, read
	}
	return k.known
}

// create saves the first keys.
func (k *Keys) create(ctx context.Context, now time.Time) (*savedKeys, error) {
	ring, err := newKeyring(now)
	if err != nil {
		return nil, err
	}
	return k.save(ctx, &savedKeys{keyring: *ring})
}

// update changes the current keys.
func (k *Keys) update(ctx context.Context, change func(ring *keyring, now time.Time) error) error {
	if _, err := k.load(ctx); err != nil { // creates the first keys
		return err
	}
	for {
		ring, err := k.readRecord(ctx)
		if err != nil {
			return fmt.Errorf("agent keys: %w", err)
		}
		now := k.now()
		ring.Keys = slices.DeleteFunc(ring.Keys, func(key agentKey) bool { return key.state(now) == keyRemoved })
		if err := change(&ring.keyring, now); err != nil {
			return err
		}
		saved, err := k.save(ctx, ring)
		if errors.Is(err, store.ErrRecordConflict) {
			continue // another process has changed it
		}
		if err != nil {
			return fmt.Errorf("agent keys: %w", err)
		}
		k.remember(saved, now)
		return nil
	}
}

func (k *Keys) readRecord(ctx context.Context) (*savedKeys, error) {
	r, err := k.records.Record(ctx, keysRecord)
	if err != nil {
		return nil, err
	}
	plain, err := k.sealer.Open(r.Value, sealedPlace)
	if err != nil {
		return nil, err
	}
	ring := &savedKeys{version: r.Version}
	if err := json.Unmarshal(plain, &ring.keyring); err != nil {
		return nil, errors.New("the record is damaged") // without its content
	}
	return ring, nil
}

// save saves keys over the version that they were read at, and returns them with their new version.
func (k *Keys) save(ctx context.Context, ring *savedKeys) (*savedKeys, error) {
	plain, err := json.Marshal(ring.keyring)
	if err != nil {
		return nil, err
	}
	change := store.RecordChange{Namespace: keysRecord.Namespace, Key: keysRecord.Key, Version: ring.version, Value: k.sealer.Seal(plain, sealedPlace)}
	if err := k.records.SaveRecords(ctx, keysRecord.Owner, change); err != nil {
		return nil, err
	}
	return &savedKeys{keyring: ring.keyring, version: ring.version + 1}, nil
}

// sealedPlace binds the encrypted keys to their record.
var sealedPlace = []byte(keysRecord.Namespace + "\x00" + keysRecord.Key)

// derivedFrom reports whether a DID is derived from a key.
func derivedFrom(did string, public crypto.PublicKey) bool {
	if own, err := ParseKey(did); err == nil {
		return sameKey(own, public)
	}
	b, err := ParseBindu(did)
	ed, ok := public.(ed25519.PublicKey)
	return err == nil && ok && b.Proves(ed)
}

func unknownAlgorithm(algorithm string) error {
	return a2a.Errorf(a2a.CodeInvalid, "the algorithm is %s, want %s or %s", a2a.Quote(algorithm), EdDSA, ES256)
}
