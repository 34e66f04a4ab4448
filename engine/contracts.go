package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/contract/all"
)

// Contracts are the stores of data that handlers keep besides tasks.
//
// Writes of a turn to a part of Config.Store are committed with the turn. Other stores are written
// at once, with keys that make repeated attempts change nothing.
type Contracts struct {
	// Stores are at most one store per contract, such as a result of facts.Of. The data of other
	// contracts are in the parts of Config.Store. If that has no such part, the methods of a turn that
	// need it return an error with code unsupported.
	Stores []contract.Store
	// Kinds are the contracts. Default: all.Kinds.
	Kinds []*contract.Kind
	// Embedder computes the embeddings of facts and documents in the parts of Config.Store, such as
	// a client of package embedding. Default: none; they are found by words. Other stores have
	// embedders of their own.
	Embedder contract.Embedder
	// Pings check Stores for [Engine.Health], by names for people. A ping returns an error if its store
	// does not respond.
	Pings map[string]func(ctx context.Context) error
}

// check returns an error about Stores.
func (c *Contracts) check() error {
	var errs []error
	known := make(map[*contract.Kind]bool)
	for _, s := range c.Stores {
		switch kind := s.Kind(); {
		case known[kind]:
			errs = append(errs, a2a.Errorf(a2a.CodeInvalid, "two stores of %s, want at most one", kind.Name))
		case !slices.Contains(c.kinds(), kind):
			errs = append(errs, a2a.Errorf(a2a.CodeInvalid, "a store of %s, which are not in Kinds", kind.Name))
		default:
			known[kind] = true
		}
	}
	return errors.Join(errs...)
}

func (c *Contracts) kinds() []*contract.Kind {
	if c.Kinds != nil {
		return c.Kinds
	}
	return all.Kinds()
}

// WithParts returns c with stores in the order of Kinds. It adds the parts of the task store s for contracts without a
// store in c, except contracts that keep their data in records. clock is the clock of the parts; nil means time.Now.
func (c Contracts) WithParts(s Store, clock func() time.Time) Contracts {
	p := contract.PartParams{Now: clock, Embedder: c.Embedder}
	var stores []contract.Store
	for _, kind := range c.kinds() {
		one := contract.Find(c.Stores, kind)
		if one == nil && kind.Part != nil && kind.Records == nil {
			one = kind.Part(s, p)
		}
		if one != nil {
			stores = append(stores, one)
		}
	}
	c.Stores = stores
	return c
}

// lasting returns the first error of the contracts' lists Lasting for which is reports true, or
// nil. A repeated call returns these errors again.
func (c *Contracts) lasting(is func(known error) bool) error {
	for _, kind := range c.kinds() {
		for _, known := range kind.Lasting {
			if is(known) {
				return known
			}
		}
	}
	return nil
}

// each calls do for all stores concurrently and returns their errors.
func (c *Contracts) each(do func(s contract.Store) error) error {
	errs := make([]error, len(c.Stores))
	var all sync.WaitGroup
	for i, s := range c.Stores {
		all.Go(func() { errs[i] = do(s) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// session returns a context as the session of the agent's data.
func (c *Config) session(key store.ContextKey) contract.Session {
	return contract.Session{Owner: key.Owner, Agent: c.agentKey(), ID: key.ID}
}

// agentKey returns the agent's name, or a hash of the name if it is not a valid key.
func (c *Config) agentKey() string {
	if name := c.Agent; name != "" && len(name) <= contract.MaxAgent && utf8.ValidString(name) && !strings.ContainsRune(name, 0) {
		return c.Agent
	}
	sum := sha256.Sum256([]byte(c.Agent))
	return hex.EncodeToString(sum[:])
}

// pingTimeout is the maximum time for a ping of a store of contracts.
const pingTimeout = 2 * time.Second

// unavailable returns the failures of pings, by name.
func (c *Contracts) unavailable(ctx context.Context) []string {
	if len(c.Pings) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	names := slices.Sorted(maps.Keys(c.Pings))
	failures := make([]string, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			if err := c.Pings[name](ctx); err != nil {
				failures[i] = name + ": " + problemText(err)
			}
		})
	}
	all.Wait()
	return slices.DeleteFunc(failures, func(failure string) bool { return failure == "" })
}
