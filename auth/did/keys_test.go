package did_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth/did"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/seal"
	"github.com/holdfast-dev/holdfast/store"
)

const day = 24 * time.Hour

// agents are replicas of an agent with one store and one clock.
type agents struct {
	records did.KeyRecords
	clock   time.Time
}

func newAgents(t testing.TB) *agents {
	t.Helper()
	s := inmem.New()
	t.Cleanup(func() { _ = s.Close() })
	return &agents{records: s, clock: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}
}

func encryptionKeys(keys ...byte) (all [][]byte) {
	for _, b := range keys {
		all = append(all, bytes.Repeat([]byte{b}, seal.KeySize))
	}
	return all
}

// replica returns the keys of a replica with encryption keys; without any it has the usual one.
func (a *agents) replica(t testing.TB, encryption ...byte) *did.Keys {
	t.Helper()
	if len(encryption) == 0 {
		encryption = []byte{1}
	}
	k, err := did.NewKeys(did.KeysConfig{Records: a.records, EncryptionKeys: encryptionKeys(encryption...), RetiredFor: 10 * day, Now: func() time.Time { return a.clock }})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func list(t testing.TB, k *did.Keys) []did.KeyInfo {
	t.Helper()
	all, err := k.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// states returns the states of the keys of an algorithm in the order of their creation in names, such as "a=active".
func states(t testing.TB, k *did.Keys, names map[string]string) string {
	t.Helper()
	var all []string
	for _, info := range list(t, k) {
		if info.Algorithm == did.EdDSA {
			if names[info.ID] == "" {
				names[info.ID] = string(rune('a' + len(names)))
			}
			all = append(all, names[info.ID]+"="+string(info.State))
		}
	}
	return strings.Join(all, " ")
}

// id returns the id of a key by its name in states.
func id(names map[string]string, name string) string {
	for id, n := range names {
		if n == name {
			return id
		}
	}
	return ""
}

func signer(t testing.TB, k *did.Keys, algorithm string) crypto.Signer {
	t.Helper()
	s, err := k.Signer(t.Context(), algorithm)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFirstKeysAreTheSameOnAllReplicas(t *testing.T) {
	t.Parallel()
	a := newAgents(t)
	// Both replicas find no record before one of them creates it.
	a.records = &barrier{KeyRecords: a.records, waiting: 2, open: make(chan struct{})}
	replicas := [2]*did.Keys{a.replica(t), a.replica(t)}
	var lists [2][]did.KeyInfo
	var group sync.WaitGroup
	for i := range replicas {
		group.Go(func() {
			var err error
			if lists[i], err = replicas[i].List(t.Context()); err != nil {
				t.Errorf("List() = %v", err)
			}
		})
	}
	group.Wait()
	if diff := cmp.Diff(lists[0], lists[1]); diff != "" || len(lists[0]) != 2 {
		t.Fatalf("List() = %+v on both replicas, want the same two keys (-first +second):\n%s", lists, diff)
	}
	for i, algorithm := range []string{did.EdDSA, did.ES256} {
		info := lists[0][i]
		want := did.KeyInfo{ID: keyText(t, info.Public), Algorithm: algorithm, Public: info.Public, State: did.KeyActive, Created: a.clock, Active: a.clock}
		if diff := cmp.Diff(want, info); diff != "" {
			t.Errorf("List()[%d] = %+v, want (-want +got):\n%s", i, info, diff)
		}
		for _, k := range replicas {
			if got := signer(t, k, algorithm).Public(); !equal(got, info.Public) {
				t.Errorf("Signer(%s) has the key %v, want %v", algorithm, got, info.Public)
			}
		}
	}
	created := a.clock
	a.clock = a.clock.Add(100 * day)
	if got, err := a.replica(t).Created(t.Context()); err != nil || !got.Equal(created) {
		t.Errorf("Created() = %s, %v, want %s", got, err, created)
	}
	if _, err := replicas[0].Signer(t.Context(), "RS256"); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("Signer(RS256) = %v, want %s", err, a2a.CodeInvalid)
	}
}

// barrier delays the first reads until several wait.
type barrier struct {
	did.KeyRecords
	mu      sync.Mutex
	waiting int
	open    chan struct{}
}

func (b *barrier) Record(ctx context.Context, key store.RecordKey) (store.Record, error) {
	r, err := b.KeyRecords.Record(ctx, key)
	b.mu.Lock()
	if b.waiting--; b.waiting == 0 {
		close(b.open)
	}
	b.mu.Unlock()
	<-b.open
	return r, err
}

func TestSignersSign(t *testing.T) {
	t.Parallel()
	k := newAgents(t).replica(t)
	text := []byte("text")
	ed, ok := signer(t, k, did.EdDSA).(ed25519.PrivateKey)
	if !ok || !ed25519.Verify(list(t, k)[0].Public.(ed25519.PublicKey), text, ed25519.Sign(ed, text)) {
		t.Errorf("Signer(%s) = %T, want an Ed25519 key that the list verifies", did.EdDSA, ed)
	}
	sum := sha256.Sum256(text)
	signature, err := signer(t, k, did.ES256).Sign(rand.Reader, sum[:], crypto.SHA256)
	if public := list(t, k)[1].Public.(*ecdsa.PublicKey); err != nil || !ecdsa.VerifyASN1(public, sum[:], signature) {
		t.Errorf("the signature of Signer(%s) = %x, %v, want one that the list verifies", did.ES256, signature, err)
	}
}

func TestRotationPublishesBeforeItSigns(t *testing.T) {
	t.Parallel()
	a := newAgents(t)
	names := make(map[string]string)
	k, other := a.replica(t), a.replica(t)
	check := func(want, signs string) {
		t.Helper()
		if got := states(t, k, names); got != want {
			t.Errorf("states are %s, want %s", got, want)
		}
		if got := states(t, other, names); got != want {
			t.Errorf("states on the other replica are %s, want %s", got, want)
		}
		if got := names[keyText(t, signer(t, k, did.EdDSA).Public())]; got != signs {
			t.Errorf("%s signs, want %s", got, signs)
		}
	}
	check("a=active", "a")
	started := a.clock
	if err := k.Rotate(t.Context(), did.EdDSA, agentDID); err != nil {
		t.Fatal(err)
	}
	if err := other.Rotate(t.Context(), did.EdDSA, agentDID); a2a.CodeOf(err) != a2a.CodeConflict {
		t.Errorf("Rotate() while a key is pending = %v, want %s", err, a2a.CodeConflict)
	}
	if err := k.Rotate(t.Context(), did.ES256, agentDID); err != nil {
		t.Errorf("Rotate(%s) = %v", did.ES256, err)
	}
	if err := k.Rotate(t.Context(), "RS256", agentDID); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("Rotate(RS256) = %v, want %s", err, a2a.CodeInvalid)
	}
	a.clock = started.Add(30 * time.Second) // the other replica reads again
	check("a=active b=pending", "a")
	a.clock = started.Add(day - time.Nanosecond)
	check("a=active b=pending", "a")
	a.clock = started.Add(day)
	check("b=active a=retired", "b")
	if err := other.Rotate(t.Context(), did.EdDSA, agentDID); err != nil {
		t.Errorf("Rotate() of the second key = %v", err)
	}
	a.clock = started.Add(2 * day)
	check("c=active b=retired a=retired", "c")
	public, err := k.Published(t.Context())
	if err != nil || len(public) != 5 || !equal(public[0], signer(t, k, did.EdDSA).Public()) {
		t.Errorf("Published() = %v, %v, want the active key first and 5 keys", public, err)
	}
	if document, err := did.Publish(did.PublishParams{DID: agentDID, Keys: public, URL: "https://agent.example"}); err != nil || !strings.Contains(string(document), id(names, "a")) {
		t.Errorf("Publish() = %s, %v, want the retired key", document, err)
	}
	a.clock = started.Add(11*day - time.Nanosecond)
	check("c=active b=retired a=retired", "c")
	a.clock = started.Add(11 * day)
	check("c=active b=retired", "c")
	a.clock = started.Add(12 * day)
	check("c=active", "c")
	if err := k.Revoke(t.Context(), id(names, "a")); a2a.CodeOf(err) != a2a.CodeNotFound {
		t.Errorf("Revoke() of a removed key = %v, want %s", err, a2a.CodeNotFound)
	}
}

func TestRotationOfDerivedDIDsIsRefused(t *testing.T) {
	t.Parallel()
	k := newAgents(t).replica(t)
	public := list(t, k)[0].Public.(ed25519.PublicKey)
	key, err := did.FromKey(public)
	if err != nil {
		t.Fatal(err)
	}
	derived, err := did.NewBindu("a", "b", public)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{key, derived.String()} {
		err := k.Rotate(t.Context(), did.EdDSA, id)
		if a2a.CodeOf(err) != a2a.CodeUnsupported || reason(err) != did.ReasonDerived || !strings.Contains(err.Error(), "use a did:web") {
			t.Errorf("Rotate() of %s = %v, want %s with the reason %s and the way out", id, err, a2a.CodeUnsupported, did.ReasonDerived)
		}
	}
	if got := list(t, k); len(got) != 2 {
		t.Errorf("List() = %+v, want no new key", got)
	}
	if err := k.Rotate(t.Context(), did.ES256, derived.String()); err != nil {
		t.Errorf("Rotate(%s) = %v, want nil: the DID is derived from the other key", did.ES256, err)
	}
	if err := k.Rotate(t.Context(), did.EdDSA, "did:bindu:a:b:139e3940-e64b-5491-7220-88d9a0d74162"); err != nil {
		t.Errorf("Rotate() of a DID with another id = %v", err)
	}
}

func TestRevokedKeysAreReplacedAtOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rotate             bool
		age                time.Duration // after the rotation
		revoke             string
		want, later, after string // at once, after a day, after 20 days
	}{
		"active":                   {false, 0, "a", "b=active a=revoked", "b=active a=revoked", "b=active a=revoked"},
		"active, another pending":  {true, time.Hour, "a", "b=active a=revoked", "b=active a=revoked", "b=active a=revoked"},
		"pending":                  {true, time.Hour, "b", "a=active b=revoked", "a=active b=revoked", "a=active b=revoked"},
		"retired":                  {true, day, "a", "b=active a=revoked", "b=active a=revoked", "b=active a=revoked"},
		"active, another retired":  {true, day, "b", "c=active a=retired b=revoked", "c=active a=retired b=revoked", "c=active b=revoked"},
		"active, after a rotation": {true, 15 * day, "b", "c=active b=revoked", "c=active b=revoked", "c=active b=revoked"},
	} {
		a := newAgents(t)
		names := make(map[string]string)
		k, other := a.replica(t), a.replica(t)
		states(t, other, names)
		if test.rotate {
			if err := k.Rotate(t.Context(), did.EdDSA, agentDID); err != nil {
				t.Fatal(err)
			}
		}
		a.clock = a.clock.Add(test.age)
		states(t, k, names)
		for range 2 { // the second call changes nothing
			if err := k.Revoke(t.Context(), id(names, test.revoke)); err != nil {
				t.Errorf("%s: Revoke() = %v", name, err)
			}
		}
		if got := states(t, k, names); got != test.want {
			t.Errorf("%s: states are %s, want %s", name, got, test.want)
		}
		public, err := k.Published(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range public {
			if names[keyText(t, p)] == test.revoke {
				t.Errorf("%s: the revoked key is published", name)
			}
		}
		if got := names[keyText(t, signer(t, k, did.EdDSA).Public())]; !strings.HasPrefix(test.want, got+"=active") {
			t.Errorf("%s: %s signs, want %s", name, got, test.want)
		}
		a.clock = a.clock.Add(30 * time.Second)
		if got := states(t, other, names); got != test.want {
			t.Errorf("%s: states on the other replica after 30 s are %s, want %s", name, got, test.want)
		}
		a.clock = a.clock.Add(day)
		if got := states(t, k, names); got != test.later {
			t.Errorf("%s: states after a day are %s, want %s", name, got, test.later)
		}
		a.clock = a.clock.Add(20 * day)
		if got := states(t, other, names); got != test.after {
			t.Errorf("%s: states after 20 days are %s, want %s", name, got, test.after)
		}
	}
	k := newAgents(t).replica(t)
	if err := k.Revoke(t.Context(), "z6Mk"); a2a.CodeOf(err) != a2a.CodeNotFound {
		t.Errorf("Revoke() of an unknown key = %v, want %s", err, a2a.CodeNotFound)
	}
}

// A replica with a clock that is behind has an active key too.
func TestReplacementsAreActiveOnSlowClocks(t *testing.T) {
	t.Parallel()
	a := newAgents(t)
	k, slow := a.replica(t), a.replica(t)
	first := list(t, k)[0].ID
	if err := k.Revoke(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	want := list(t, k)[0].ID
	a.clock = a.clock.Add(-time.Second)
	if got := keyText(t, signer(t, slow, did.EdDSA).Public()); got != want || want == first {
		t.Errorf("Signer() on a slow clock has the key %s, want %s", got, want)
	}
}

// counted counts reads, and fails the first changes as if another replica had been faster.
type counted struct {
	did.KeyRecords
	reads, conflicts int
	fail             error
}

func (c *counted) Record(ctx context.Context, key store.RecordKey) (store.Record, error) {
	c.reads++
	if c.fail != nil {
		return store.Record{}, c.fail
	}
	return c.KeyRecords.Record(ctx, key)
}

func (c *counted) SaveRecords(ctx context.Context, owner string, changes ...store.RecordChange) error {
	if c.conflicts > 0 {
		c.conflicts--
		return store.ErrRecordConflict
	}
	return c.KeyRecords.SaveRecords(ctx, owner, changes...)
}

func TestKeysAreReadEvery30Seconds(t *testing.T) {
	t.Parallel()
	a := newAgents(t)
	c := &counted{KeyRecords: a.records}
	a.records = c
	k := a.replica(t)
	list(t, k)
	reads := c.reads
	a.clock = a.clock.Add(30*time.Second - time.Nanosecond)
	list(t, k)
	signer(t, k, did.ES256)
	if c.reads != reads {
		t.Errorf("the record was read %d times within 30 s, want none", c.reads-reads)
	}
	a.clock = a.clock.Add(time.Nanosecond)
	list(t, k)
	if c.reads != reads+1 {
		t.Errorf("the record was read %d times after 30 s, want once", c.reads-reads)
	}
	a.clock = a.clock.Add(-time.Hour) // the clock was corrected
	list(t, k)
	if c.reads != reads+2 {
		t.Errorf("the record was read %d times after the clock was corrected, want twice", c.reads-reads)
	}
	c.conflicts = 2
	if err := k.Rotate(t.Context(), did.EdDSA, agentDID); err != nil || len(list(t, k)) != 3 {
		t.Errorf("Rotate() with conflicts = %v and %d keys, want 3 keys", err, len(list(t, k)))
	}
	c.fail = errors.New("connection refused")
	a.clock = a.clock.Add(time.Minute)
	_, created := k.Created(t.Context())
	_, published := k.Published(t.Context())
	_, signed := k.Signer(t.Context(), did.EdDSA)
	for _, err := range []error{created, published, signed, k.Rotate(t.Context(), did.EdDSA, agentDID), k.Revoke(t.Context(), "z")} {
		if !errors.Is(err, c.fail) {
			t.Errorf("error without a store = %v, want %v", err, c.fail)
		}
	}
}

// during calls a function after the next read.
type during struct {
	did.KeyRecords
	then func()
}

func (d *during) Record(ctx context.Context, key store.RecordKey) (store.Record, error) {
	r, err := d.KeyRecords.Record(ctx, key)
	if then := d.then; then != nil {
		d.then = nil
		then()
	}
	return r, err
}

// A read that started before a revocation does not bring the key back.
func TestOlderReadsAreIgnored(t *testing.T) {
	t.Parallel()
	a := newAgents(t)
	d := &during{KeyRecords: a.records}
	a.records = d
	k := a.replica(t)
	first := list(t, k)[0].ID
	d.then = func() {
		if err := k.Revoke(t.Context(), first); err != nil {
			t.Errorf("Revoke() = %v", err)
		}
	}
	a.clock = a.clock.Add(time.Minute)
	if got := list(t, k)[0].ID; got == first {
		t.Errorf("List() starts with the revoked key %s", got)
	}
	if got := keyText(t, signer(t, k, did.EdDSA).Public()); got == first {
		t.Errorf("Signer() has the revoked key %s", got)
	}
}

func TestKeysAreEncrypted(t *testing.T) {
	t.Parallel()
	a := newAgents(t)
	k := a.replica(t, 1)
	private := signer(t, k, did.EdDSA).(ed25519.PrivateKey)
	record := func() store.Record {
		r, err := a.records.Record(t.Context(), store.RecordKey{Owner: "\x1fholdfast", Namespace: "keys", Key: "agent"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if value := record().Value; bytes.Contains(value, private.Seed()) || bytes.Contains(value, []byte("EdDSA")) {
		t.Errorf("the record is %q, want it encrypted", value)
	}
	if got := signer(t, a.replica(t, 2, 1), did.EdDSA); !private.Equal(got) {
		t.Error("a replica with a newer encryption key has another key")
	}
	// The private key of a revoked key is erased.
	open := func() string {
		sealer, err := seal.New(encryptionKeys(1), "holdfast agent keys")
		if err != nil {
			t.Fatal(err)
		}
		plain, err := sealer.Open(record().Value, []byte("keys\x00agent"))
		if err != nil {
			t.Fatal(err)
		}
		return string(plain)
	}
	seed := base64.StdEncoding.EncodeToString(private.Seed())
	had := strings.Contains(open(), seed)
	if err := k.Revoke(t.Context(), keyText(t, private.Public())); err != nil {
		t.Fatal(err)
	}
	if has := strings.Contains(open(), seed); !had || has {
		t.Errorf("the record has the seed before the revocation: %t, and after it: %t, want only before", had, has)
	}
	// Without the encryption key, nothing is overwritten.
	before := record()
	other := a.replica(t, 2)
	if _, err := other.List(t.Context()); !errors.Is(err, seal.ErrUndecryptable) {
		t.Errorf("List() with another encryption key = %v, want %v", err, seal.ErrUndecryptable)
	}
	if err := other.Rotate(t.Context(), did.EdDSA, agentDID); !errors.Is(err, seal.ErrUndecryptable) {
		t.Errorf("Rotate() with another encryption key = %v, want %v", err, seal.ErrUndecryptable)
	}
	if diff := cmp.Diff(before, record()); diff != "" {
		t.Errorf("the record changed:\n%s", diff)
	}
	if text := fmt.Sprintf("%v %+v %#v", k, k, k); strings.Contains(text, fmt.Sprintf("%v", private.Seed()[:8])) || strings.Contains(text, fmt.Sprintf("%x", private.Seed()[:8])) {
		t.Errorf("Keys print as %s, want no private key", text)
	}
}

func TestNewKeysReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := did.NewKeys(did.KeysConfig{RetiredFor: -1})
	for _, want := range []string{"EncryptionKeys has no key", "Records is required", "RetiredFor is negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewKeys() = %v, want %q", err, want)
		}
	}
	if _, err := did.NewKeys(did.KeysConfig{Records: newAgents(t).records, EncryptionKeys: [][]byte{[]byte("hush")}}); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("NewKeys() with a short key = %v, want an error without the key", err)
	}
}
