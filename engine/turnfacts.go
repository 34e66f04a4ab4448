package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/store"
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
	// RecencyHalfLife prefers newer facts; see [memory.SearchParams]. Default: it does not.
	RecencyHalfLife time.Duration
}

// scope returns the scope of facts, which belong to the owner and the agent.
func (t *Turn) factScope(namespace string) memory.Scope {
	return memory.Scope{Owner: t.Owner(), Namespace: namespace, Agent: t.r.e.cfg.agentKey()}
}

// Remember stores a fact for later tasks of the same owner, in all contexts. It is committed with
// the next commit of the turn, at the latest with its end, exactly once; Recall finds it before. As
// for [State], every attempt must make the same calls in the same order.
//
// If the agent has an embedder, Remember computes the embedding of the fact, which is committed with
// it. If the embedder fails, the agent computes it later.
//
// If the validity of a fact with a key does not fit the validity of the version to replace, the
// turn fails. If facts are not in the agent's database, a fact is stored at once. A fact without a
// key then gets a key from the call, so that a repeated attempt does not add it again.
func (t *Turn) Remember(ctx context.Context, content string, p RememberParams) error {
	c := &t.r.e.cfg
	if c.Contracts.Facts == nil {
		return unsupported("facts (memory)")
	}
	save := memory.SaveParams{TTL: p.TTL, Metadata: p.Metadata, Key: p.Key, Entities: p.Entities, ValidFrom: p.ValidFrom, ValidTo: p.ValidTo}
	var effect func(ctx context.Context) (store.Effect, error)
	if c.own.facts != nil {
		effect = func(ctx context.Context) (store.Effect, error) {
			return c.own.facts.SaveEffect(ctx, t.factScope(p.Namespace), content, save)
		}
	}
	return t.write(ctx, contractWrite{op: "facts.save", args: []any{content, p}, size: len(content), effect: effect, direct: func(ctx context.Context, once string) error {
		if save.Key == "" {
			save.Key = once
		}
		_, err := c.Contracts.Facts.Save(ctx, t.factScope(p.Namespace), content, save)
		return err
	}})
}

// Forget removes facts of a namespace with all their versions; "" is memory.DefaultNamespace. A fact
// that does not exist is no error. It is committed like Remember.
func (t *Turn) Forget(ctx context.Context, namespace string, ids ...string) error {
	c := &t.r.e.cfg
	if c.Contracts.Facts == nil {
		return unsupported("facts (memory)")
	}
	for _, id := range ids {
		var effect func(ctx context.Context) (store.Effect, error)
		if c.own.facts != nil {
			effect = func(context.Context) (store.Effect, error) {
				return c.own.facts.DeleteEffect(t.factScope(namespace), id)
			}
		}
		err := t.write(ctx, contractWrite{op: "facts.delete", args: []any{namespace, id}, effect: effect, direct: func(ctx context.Context, _ string) error {
			_, err := c.Contracts.Facts.Delete(ctx, t.factScope(namespace), id)
			return err
		}})
		if err != nil {
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
func (t *Turn) Recall(ctx context.Context, query string, p RecallParams) ([]memory.Memory, error) {
	facts := t.r.e.cfg.Contracts.Facts
	if facts == nil {
		return nil, unsupported("facts (memory)")
	}
	var stored []storedFact
	err := t.onContract(ctx, contractCall{kind: queryCall, op: "facts.search", result: &stored, do: func(ctx context.Context, _ *recordCall, _ string) error {
		found, err := facts.Search(ctx, t.factScope(p.Namespace), memory.SearchParams{
			Query: query, Limit: p.Limit, Filter: p.Filter, MinScore: p.MinScore, AsOf: p.AsOf, Mode: p.Mode, RecencyHalfLife: p.RecencyHalfLife,
		})
		if found.Fallback != "" {
			t.r.e.log.Warn("facts were searched by words only", "task", t.TaskID(), "reason", found.Fallback)
		}
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
		found[i].Metadata = memory.DecodeMetadata(string(s.Metadata))
	}
	return found, nil
}
