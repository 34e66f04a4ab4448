package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth/did"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

// SchemeDID is the name of DID signatures in [Config.Require]. Agent cards cannot declare it.
const SchemeDID = "did"

// DIDs verifies requests that DIDs have signed as Bindu's agents do, see package did. The DID must be in Allowed, or
// another credential in the same request must identify it. A token that an issuer has issued to a DID is not accepted
// without the DID's signature.
type DIDs struct {
	// Resolver finds the keys of DIDs. Required.
	Resolver *did.Resolver
	// Allowed are the DIDs that need no token.
	Allowed []string
	// Replays knows the signatures that were used. Required.
	Replays *Replays
}

// verify returns the principal of a signed request. found are the principals of its other credentials, and bound is the
// DID that must have signed, because a token was issued to it; "" if there is none.
func (d *DIDs) verify(r *http.Request, body []byte, found []proven, bound string, now time.Time) (a2a.Principal, error) {
	s, err := did.ParseRequestSignature(r.Header, bound, now)
	if err != nil {
		return a2a.Principal{}, refuseDID(err)
	}
	if s.DID != bound && !slices.Contains(d.Allowed, s.DID) && !slices.ContainsFunc(found, func(f proven) bool { return f.principal.ID == s.DID }) {
		return a2a.Principal{}, a2a.Refusef(a2a.CodeUnauthenticated, "missing", "the DID that signed the request needs a token")
	}
	document, err := d.Resolver.Resolve(r.Context(), s.DID, nil)
	if err == nil {
		err = s.Verify(document, body)
	}
	if err != nil {
		return a2a.Principal{}, refuseDID(err)
	}
	hash := sha256.Sum256(s.Value[:])
	if err := d.Replays.use(r.Context(), s.DID, hash, s.Time, now); err != nil {
		return a2a.Principal{}, refuseDID(err)
	}
	return a2a.Principal{ID: s.DID, DID: s.DID, Proof: a2a.ProofDID, Credential: hex.EncodeToString(hash[:16])}, nil
}

// refuseDID returns the rejection of a DID signature in the form of Bindu: with HTTP status 403, and with the members of
// its details in the data of the error.
func refuseDID(err error) error {
	if err == nil {
		return nil
	}
	var e *a2a.Error
	if !errors.As(err, &e) || e.Code.Retryable() || e.Code == a2a.CodeInternal {
		return err
	}
	refused := *e
	refused.Data = map[string]any{"did_verified": false, "reason": e.Data["reason"]}
	return &server.Refusal{Err: &refused, Status: http.StatusForbidden}
}

// Replays rejects signatures that were used before, on this and on other replicas. It stores them as records of the
// server until their time has passed. It is safe for concurrent use.
type Replays struct {
	records store.Records
	// recent are the signatures since start that need no record, because no other process shares the store and no
	// later process accepts them. It is nil if other processes share the store.
	recent *recentSignatures
	start  time.Time
}

const (
	replaysNamespace = "replay"
	// maxRecent is the number of signatures that a process remembers.
	maxRecent = 1_000_000
)

// NewReplays returns a Replays over the records of a store. now is the time of the start. If exclusive is set, no other
// process shares the store; signatures are then kept in memory, and signatures from before the start are rejected.
func NewReplays(records store.Records, exclusive bool, now time.Time) *Replays {
	r := &Replays{records: records, start: now}
	if exclusive {
		r.recent = &recentSignatures{used: make(map[[sha256.Size]byte]struct{})}
	}
	return r
}

// use records that a signature is used. It returns an error if it was used before.
func (r *Replays) use(ctx context.Context, signer string, hash [sha256.Size]byte, signed, now time.Time) error {
	key := sha256.Sum256(append([]byte(signer+"\n"), hash[:]...))
	if r.recent != nil {
		if signed.Before(r.start) {
			return a2a.Refusef(a2a.CodeInvalidSignature, "replayed", "the request was signed before the server started; sign it again")
		}
		// A signature from the future may be used again after a restart, and one from the first minutes may have been
		// used before the start. Both need a record.
		if !signed.After(now) && signed.Sub(r.start) > did.Window {
			return r.recent.use(key, now)
		}
	}
	err := r.records.SaveRecords(ctx, store.System, store.RecordChange{
		Namespace: replaysNamespace, Key: hex.EncodeToString(key[:]), Value: []byte{}, Expires: signed.Add(did.Window + time.Second),
	})
	if errors.Is(err, store.ErrRecordConflict) {
		return errReplayed
	}
	return err
}

var errReplayed error = a2a.Refusef(a2a.CodeInvalidSignature, "replayed", "the signature was used before")

// recentSignatures remembers signatures for at least twice [did.Window], in two generations.
type recentSignatures struct {
	mu          sync.Mutex
	used, older map[[sha256.Size]byte]struct{}
	since       time.Time // start of the generation of used
}

func (s *recentSignatures) use(key [sha256.Size]byte, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.since) > 2*did.Window {
		s.used, s.older, s.since = make(map[[sha256.Size]byte]struct{}), s.used, now
	}
	if _, again := s.used[key]; again {
		return errReplayed
	}
	if _, again := s.older[key]; again {
		return errReplayed
	}
	if len(s.used)+len(s.older) >= maxRecent {
		return a2a.Refusef(a2a.CodeUnavailable, "rate", "too many signed requests; retry later")
	}
	s.used[key] = struct{}{}
	return nil
}
