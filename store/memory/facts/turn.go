package facts

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// RememberParams are the arguments of Remember. The zero value stores a fact that is valid and kept
// without limit.
type RememberParams struct {
	// Namespace divides the facts of the agent. Default: memory.DefaultNamespace.
	Namespace string
	// Key names the fact. A fact of this name is replaced. "" adds a fact without a name.
	Key string
	// Metadata is a JSON object, for filters of Recall.
	Metadata map[string]any
	// Entities are names of what the fact is about, up to memory.MaxEntities. Recall finds the facts
	// of the entities that the query names, and of those that share facts with them.
	Entities []string
	// TTL is how long the fact is stored. 0 stores it without limit.
	TTL time.Duration
	// ValidFrom and ValidTo limit the time in which the fact is true; see [memory.SaveParams].
	ValidFrom, ValidTo time.Time
}

// RecallParams are the arguments of Recall.
type RecallParams struct {
	// Namespace is the namespace of the facts. Default: memory.DefaultNamespace.
	Namespace string
	// Limit is the maximum number of facts. Default 10.
	Limit int
	// Filter selects facts by their metadata.
	Filter filter.Filter
	// MinScore excludes facts with a lower score, from 0 to 1.
	MinScore float64
	// AsOf returns the facts that were true at this time. The zero time means now.
	AsOf time.Time
	// Mode is the kind of search. Default: the best one that the agent has: by words and entities
	// and, if it has an embedder, by meaning.
	Mode memory.Mode
	// RecencyHalfLife prefers newer facts; see [memory.SearchParams]. 0 does not prefer them.
	RecencyHalfLife time.Duration
}

// Facts are the facts of a turn's owner and agent.
type Facts struct{ t contract.Turn }

// For returns the facts of a turn.
func For(t contract.Turn) *Facts { return &Facts{t} }

// store returns the agent's facts. It also returns the facts of the agent's own store, if they can be
// written with the task.
func (f *Facts) store() (s memory.LongTermStore, own memory.Transactional, err error) {
	return contract.ForTurn[memory.LongTermStore, memory.Transactional](f.t, Kind)
}

func (f *Facts) scope(namespace string) memory.Scope {
	s := f.t.Session()
	return memory.Scope{Owner: s.Owner, Namespace: namespace, Agent: s.Agent}
}

// Remember stores a fact for later tasks of the same owner, in all contexts. It is committed with
// the next commit of the turn, at the latest with its end, exactly once; Recall finds it before. Every
// attempt must make the same calls in the same order.
//
// If the agent has an embedder, Remember computes the embedding of the fact, which is committed with
// it. If the embedder fails, the agent computes it later.
//
// If the validity of a fact with a key does not fit the validity of the version to replace, the
// turn fails. If facts are not in the agent's database, a fact is stored at once. A fact without a
// key then gets a key from the call, so that a repeated attempt does not add it again.
func (f *Facts) Remember(ctx context.Context, content string, p RememberParams) error {
	s, own, err := f.store()
	if err != nil {
		return err
	}
	save := memory.SaveParams{TTL: p.TTL, Metadata: p.Metadata, Key: p.Key, Entities: p.Entities, ValidFrom: p.ValidFrom, ValidTo: p.ValidTo}
	call := contract.Call{Op: "facts.save", Args: []any{content, p}}
	if own != nil {
		call.Effect = func(ctx context.Context, _ string) (store.Effect, int, error) {
			e, err := own.SaveEffect(ctx, f.scope(p.Namespace), content, save)
			return e, len(content), err
		}
	} else {
		call.Direct = func(ctx context.Context, once string) error {
			if save.Key == "" {
				save.Key = once
			}
			_, err := s.Save(ctx, f.scope(p.Namespace), content, save)
			return err
		}
	}
	return f.t.Call(ctx, call)
}

// Forget removes facts of a namespace with all their versions; "" is memory.DefaultNamespace. A fact
// that does not exist is no error. It is committed like Remember.
func (f *Facts) Forget(ctx context.Context, namespace string, ids ...string) error {
	s, own, err := f.store()
	if err != nil {
		return err
	}
	for _, id := range ids {
		call := contract.Call{Op: "facts.delete", Args: []any{namespace, id}}
		if own != nil {
			call.Effect = func(context.Context, string) (store.Effect, int, error) {
				e, err := own.DeleteEffect(f.scope(namespace), id)
				return e, 0, err
			}
		} else {
			call.Direct = func(ctx context.Context, _ string) error {
				_, err := s.Delete(ctx, f.scope(namespace), id)
				return err
			}
		}
		if err := f.t.Call(ctx, call); err != nil {
			return err
		}
	}
	return nil
}

// storedFact is a fact as a result of a call. JSON would change the numbers of Metadata.
type storedFact struct {
	memory.Memory
	Metadata json.RawMessage
}

// Recall returns the facts that match a query, by falling score. An empty query returns the newest
// facts. It commits what the turn has remembered. If the embedder of the agent fails, it searches by
// words and entities, and the semantic scores are 0.
func (f *Facts) Recall(ctx context.Context, query string, p RecallParams) ([]memory.Memory, error) {
	s, _, err := f.store()
	if err != nil {
		return nil, err
	}
	var stored []storedFact
	err = f.t.Call(ctx, contract.Call{Op: "facts.search", Result: &stored, Read: func(ctx context.Context) error {
		found, err := s.Search(ctx, f.scope(p.Namespace), memory.SearchParams{
			Query: query, Limit: p.Limit, Filter: p.Filter, MinScore: p.MinScore, AsOf: p.AsOf, Mode: p.Mode, RecencyHalfLife: p.RecencyHalfLife,
		})
		if found.Fallback != "" {
			f.t.Log().Warn("facts were searched by words only", "task", f.t.TaskID(), "reason", found.Fallback)
		}
		stored = nil
		for _, m := range found.Facts {
			metadata, err := json.Marshal(m.Metadata)
			if err != nil {
				return err
			}
			stored = append(stored, storedFact{m, metadata})
		}
		return err
	}})
	if err != nil {
		return nil, err
	}
	found := make([]memory.Memory, len(stored))
	for i, s := range stored {
		found[i] = s.Memory
		found[i].Metadata = jsonobject.Decode(string(s.Metadata))
	}
	return found, nil
}
