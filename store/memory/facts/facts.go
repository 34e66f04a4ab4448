// Package facts connects long-term memory to the server; see package contract.
package facts

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
)

// Kind is the contract of facts.
var Kind = &contract.Kind{
	Name:    "facts",
	Setting: "store-memory",
	Part: func(tasks any, p contract.PartParams) contract.Store {
		return Of(memorysql.Of(tasks, memory.LongTermConfig{Now: p.Now, Embedder: p.Embedder}))
	},
	Lasting: []error{memory.ErrFactNotFound, memory.ErrNoEmbedder},
	Counts:  []string{countFacts, countVersions},
	Lines:   []contract.LineType{{Name: typeFact, Counts: countFacts}},
	Scan:    func(owner string) contract.Scanner { return &scanner{owner} },
}

// Names of counts.
const (
	countFacts    = "facts"
	countVersions = "factVersions"
)

// Of returns a store of facts as a store of its contract, nil for nil.
func Of(s memory.LongTermStore) contract.Store {
	if s == nil {
		return nil
	}
	return &facts{s}
}

// In returns the store of facts among the stores of contracts, nil if there is none.
func In(stores []contract.Store) memory.LongTermStore {
	return contract.In[memory.LongTermStore](stores, Kind)
}

// facts implements [contract.Store] and [contract.Sweeper].
type facts struct{ memory.LongTermStore }

func (*facts) Kind() *contract.Kind { return Kind }

func (f *facts) Unwrap() any { return f.LongTermStore }

func (f *facts) Forget(ctx context.Context, owner string, removed func(count string, n int64)) error {
	r, err := f.ForgetSubject(ctx, owner)
	removed(countFacts, int64(r.Facts))
	removed(countVersions, int64(r.Versions))
	return err
}

// embedBatch is the number of facts for which one call computes embeddings.
const embedBatch = 32

func (f *facts) Sweeps() (all []contract.Sweep) {
	if s, ok := f.LongTermStore.(memory.Expirer); ok {
		all = append(all, contract.Expire(Kind.Name, s.Expire))
	}
	if s, ok := f.LongTermStore.(memory.Reembedder); ok {
		all = append(all, contract.Sweep{Kind: "embeddings of facts", Batch: func(ctx context.Context, _ time.Time) (int, bool, error) {
			n, err := s.EmbedPending(ctx, embedBatch)
			if errors.Is(err, memory.ErrNoEmbedder) {
				err = nil
			}
			return n, n == embedBatch, err
		}})
	}
	return all
}
