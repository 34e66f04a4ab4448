package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphs"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/documents"
)

// Contracts are the stores of data that handlers keep besides tasks. A nil field means the part
// of Config.Store. If that has no such part, the methods of Turn that need it return an error
// with code unsupported.
//
// Writes of a turn to a part of Config.Store are committed with the turn. Other stores are written
// at once, with keys that make repeated attempts change nothing.
type Contracts struct {
	// History stores transcripts.
	History history.Provider
	// Facts stores long-term memory.
	Facts memory.LongTermStore
	// Blobs stores files. It is a [blob.Maintenance] if the engine shall remove expired blobs.
	Blobs blob.Store
	// State stores the states of sessions. Default: records of Config.Store.
	State memory.ShortTerm
	// Documents stores documents that are found by meaning. It has an embedder of its own.
	Documents vector.Store
	// Graphs stores entities and their relationships.
	Graphs graph.Store
	// Embedder computes the embeddings of facts and documents in the parts of Config.Store, such as
	// a client of package embedding. Default: none; they are found by words. Other stores have
	// embedders of their own.
	Embedder vector.Embedder
	// Pings check the stores of these contracts for [Engine.Health], by names for people. A ping
	// returns an error if its store does not respond.
	Pings map[string]func(ctx context.Context) error
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

// ownContracts are the contracts that are parts of the engine's store and can be written with a
// task, nil for others.
type ownContracts struct {
	history history.Transactional
	facts   memory.Transactional
	blobs   blob.Transactional
	// documents is the store that Turn.Documents writes to.
	documents vector.Transactional
	graphs    graph.Transactional
}

// own returns the contracts of all, a result of WithParts, that c does not name.
func (c Contracts) own(all Contracts) (own ownContracts) {
	if c.History == nil {
		own.history, _ = all.History.(history.Transactional)
	}
	if c.Facts == nil {
		own.facts, _ = all.Facts.(memory.Transactional)
	}
	if c.Blobs == nil {
		own.blobs, _ = all.Blobs.(blob.Transactional)
	}
	if c.Documents == nil {
		own.documents, _ = all.Documents.(vector.Transactional)
	}
	if c.Graphs == nil {
		own.graphs, _ = all.Graphs.(graph.Transactional)
	}
	return own
}

// WithParts returns c with nil fields replaced by the parts of a store, as New does. clock is the
// clock of facts, graphs and blobs; nil means time.Now. State remains nil.
func (c Contracts) WithParts(s Store, clock func() time.Time) Contracts {
	if p, ok := s.(interface{ History() history.Provider }); ok && c.History == nil {
		c.History = p.History()
	}
	if p, ok := s.(interface {
		LongTerm(cfg memory.LongTermConfig) memory.LongTermStore
	}); ok && c.Facts == nil {
		c.Facts = p.LongTerm(memory.LongTermConfig{Now: clock, Embedder: c.Embedder})
	}
	if p, ok := s.(interface {
		Blobs(cfg blob.Config) *blob.Blobs
	}); ok && c.Blobs == nil {
		if b := p.Blobs(blob.Config{Now: clock}); b != nil {
			c.Blobs = b
		}
	}
	if p, ok := s.(interface {
		Vectors(cfg vector.Config) vector.Store
	}); ok && c.Documents == nil {
		c.Documents = p.Vectors(vector.Config{Embedder: c.Embedder})
	}
	if p, ok := s.(interface {
		Graph(now func() time.Time) graph.Complete
	}); ok && c.Graphs == nil {
		c.Graphs = p.Graph(clock)
	}
	return c
}

// Stores returns the stores of c that are not nil.
func (c *Contracts) Stores() []contract.Store {
	return slices.DeleteFunc([]contract.Store{
		transcripts.Of(c.History),
		facts.Of(c.Facts),
		documents.Of(c.Documents),
		graphs.Of(c.Graphs),
		blobs.Of(c.Blobs),
		states.Of(c.State),
	}, func(s contract.Store) bool { return s == nil })
}

// each calls do for all stores at once and returns their errors.
func (c *Contracts) each(do func(s contract.Store) error) error {
	stores := c.Stores()
	errs := make([]error, len(stores))
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() { errs[i] = do(s) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// session returns a context as the session of the agent's data.
func (c *Config) session(key store.ContextKey) contract.Session {
	return contract.Session{Owner: key.Owner, Agent: c.agentKey(), ID: key.ID}
}

// transcript returns the key of the transcript of a context.
func (c *Config) transcript(owner, contextID string) history.Key {
	return history.Key{Owner: owner, Agent: c.agentKey(), Session: contextID}
}

// transcriptTTL returns how long a transcript is kept after its last message, for
// [history.AppendParams].
func (c *Config) transcriptTTL() time.Duration {
	if age := c.Retention.Age(RetainTranscripts); age > 0 {
		return age
	}
	return history.NoTTL
}
