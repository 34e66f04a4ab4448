package did

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
)

const (
	resolveTimeout = 5 * time.Second
	documentAge    = 5 * time.Minute  // how long a document is cached
	failureAge     = 10 * time.Second // how long a failure is cached
	maxCached      = 1024             // documents and failures
)

// KeySource finds the key of a did:bindu at an authority that the operator trusts: metadata.public_key of Ory Hydra's
// client with this id, or the agent's own document at a URL of the operator. Its error has [a2a.CodeNotFound] if
// the authority has no key of the DID. PublicKey is called concurrently, but not for the same DID. ctx ends after 5 s.
type KeySource interface {
	PublicKey(ctx context.Context, did string) (ed25519.PublicKey, error)
}

// ResolverConfig configures a [Resolver].
type ResolverConfig struct {
	// Pinned are the keys of DIDs. They take precedence over other ways to find a key.
	Pinned map[string]ed25519.PublicKey
	// Source finds the keys of other DIDs of the method bindu. nil finds none.
	Source KeySource
	// HTTP fetches the documents of the method web. nil rejects that method.
	HTTP *safehttp.Client
}

// Resolver finds the documents of DIDs. It caches up to 1024 results: a document for 5 minutes, a failure for 10 s. It
// resolves a DID once at a time. Create it with [NewResolver].
type Resolver struct {
	cfg ResolverConfig

	mu     sync.Mutex
	cached map[string]*resolution
}

// resolution is the result of a lookup of a DID.
type resolution struct {
	done chan struct{} // is closed when the other fields are set
	doc  *Document
	err  error
	// until is when the result expires.
	until time.Time
}

// NewResolver returns a resolver, or an error that lists all problems of the pinned keys.
func NewResolver(cfg ResolverConfig) (*Resolver, error) {
	var errs []error
	for did, public := range cfg.Pinned {
		if err := Check(did); err != nil {
			errs = append(errs, fmt.Errorf("pinned key: %w", err))
		} else if len(public) != ed25519.PublicKeySize {
			errs = append(errs, fmt.Errorf("pinned key of %s has %d bytes, want %d", did, len(public), ed25519.PublicKeySize))
		} else if own, err := ParseKey(did); err == nil && !sameKey(own, public) {
			errs = append(errs, fmt.Errorf("pinned key of %s is not the key of this DID", did))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Resolver{cfg: cfg, cached: make(map[string]*resolution)}, nil
}

// Resolve returns the document of a DID, which the caller must not modify. offered is a key that the agent claims to have; it is
// used only if the id of a did:bindu proves it, and may be nil. The error has the reason [ReasonKeyUnavailable], and
// [a2a.CodeUnavailable] if a later attempt may succeed.
func (r *Resolver) Resolve(ctx context.Context, did string, offered ed25519.PublicKey) (*Document, error) {
	if err := Check(did); err != nil {
		return nil, keyUnavailable(a2a.CodeInvalidSignature, did, err)
	}
	if public, ok := r.cfg.Pinned[did]; ok {
		return KeyDocument(did, public)
	}
	err := error(nil)
	switch method, _ := split(did); method {
	case "key":
		var public crypto.PublicKey
		if public, err = ParseKey(did); err == nil {
			return KeyDocument(did, public)
		}
	case "web":
		if r.cfg.HTTP != nil {
			return r.once(ctx, did, r.fetch)
		}
	case "bindu":
		if b, err := ParseBindu(did); err == nil && b.Proves(offered) {
			return KeyDocument(did, offered)
		}
		if r.cfg.Source != nil {
			return r.once(ctx, did, r.ask)
		}
	}
	return nil, keyUnavailable(a2a.CodeInvalidSignature, did, err)
}

// once returns the cached result of lookup. It calls lookup if no result is cached, or waits for a call in progress.
func (r *Resolver) once(ctx context.Context, did string, lookup func(context.Context, string) (*Document, error)) (*Document, error) {
	mine, created := r.reserve(did)
	switch {
	case mine == nil:
		return nil, keyUnavailable(a2a.CodeUnavailable, did, fmt.Errorf("%d other DIDs are being resolved", maxCached))
	case created:
		r.run(ctx, did, mine, lookup)
	default:
		select {
		case <-mine.done:
		case <-ctx.Done():
			return nil, keyUnavailable(a2a.CodeUnavailable, did, context.Cause(ctx))
		}
	}
	if mine.err != nil {
		return nil, keyUnavailable(failureCode(mine.err), did, mine.err)
	}
	return mine.doc, nil
}

// run sets the result of a resolution. The call continues if the caller's context ends, because others wait for it.
func (r *Resolver) run(ctx context.Context, did string, mine *resolution, lookup func(context.Context, string) (*Document, error)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	defer cancel()
	defer func() {
		age := documentAge
		if mine.doc == nil {
			age = failureAge
		}
		r.mu.Lock()
		mine.until = time.Now().Add(age)
		r.mu.Unlock()
		close(mine.done)
	}()
	mine.err = errors.New("the lookup panicked")
	mine.doc, mine.err = lookup(ctx, did)
}

// reserve returns the current resolution of a DID, and whether it created one that the caller must run. It returns nil if the
// cache is full of resolutions in progress.
func (r *Resolver) reserve(did string) (*resolution, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if known := r.cached[did]; known != nil && !known.expired(now) {
		return known, false
	}
	if r.cached[did] == nil && len(r.cached) >= maxCached && !r.evict(now) {
		return nil, false
	}
	created := &resolution{done: make(chan struct{})}
	r.cached[did] = created
	return created, true
}

// evict removes the expired results, or any result if none has expired. It reports false if there is no result.
func (r *Resolver) evict(now time.Time) bool {
	finished := ""
	for did, known := range r.cached {
		if known.expired(now) {
			delete(r.cached, did)
		} else if !known.until.IsZero() {
			finished = did
		}
	}
	if len(r.cached) < maxCached {
		return true
	}
	delete(r.cached, finished)
	return finished != ""
}

// expired reports whether a result has expired. A resolution in progress has not.
func (s *resolution) expired(now time.Time) bool { return !s.until.IsZero() && !now.Before(s.until) }

// fetch gets the document of a did:web.
func (r *Resolver) fetch(ctx context.Context, did string) (*Document, error) {
	address, err := WebURL(did)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Accept": {"application/did+json, application/json"}}
	data, _, err := r.cfg.HTTP.Fetch(ctx, address, header, MaxDocument, func(context.Context, int64) error { return nil })
	if err != nil {
		return nil, err
	}
	return ParseDocument(did, data)
}

// ask gets the key of a did:bindu from the source.
func (r *Resolver) ask(ctx context.Context, did string) (*Document, error) {
	public, err := r.cfg.Source.PublicKey(ctx, did)
	if err != nil {
		return nil, err
	}
	return KeyDocument(did, public)
}

func keyUnavailable(code a2a.Code, did string, cause error) error {
	e := a2a.Refusef(code, ReasonKeyUnavailable, "no public key of %s is available", a2a.Quote(did))
	e.Err = cause
	return e
}

// failureCode returns [a2a.CodeUnavailable] for the error of a lookup that may succeed later.
func failureCode(err error) a2a.Code {
	if e, ok := errors.AsType[*safehttp.Error](err); ok {
		switch {
		case e.Outcome == safehttp.OutcomeRefused, e.Outcome == safehttp.OutcomeTooLarge, e.Outcome == safehttp.OutcomeStatus && e.Status < http.StatusInternalServerError:
			return a2a.CodeInvalidSignature
		}
		return a2a.CodeUnavailable
	}
	if code := a2a.CodeOf(err); code == a2a.CodeNotFound || code == a2a.CodeInvalid {
		return a2a.CodeInvalidSignature
	}
	return a2a.CodeUnavailable
}
