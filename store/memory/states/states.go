// Package states connects short-term memory, the states of sessions, to the server; see package
// contract.
package states

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// Kind is the contract of session states. They are records of the store of tasks, unless the server
// has another store for them.
var Kind = &contract.Kind{
	Name:    "session states",
	Counts:  []string{countStates},
	Lines:   []contract.LineType{{Name: typeState, Counts: countStates}},
	Scan:    func(owner string) contract.Scanner { return &scanner{owner} },
	Records: &contract.RecordForm{Namespace: memory.StateNamespace, Item: itemOf, Record: recordOf},
}

const (
	typeState   = "state"
	countStates = "states"
)

// Of returns a store of states as a store of its contract, nil for nil.
func Of(s memory.ShortTerm) contract.Store {
	if s == nil {
		return nil
	}
	return &states{s}
}

// states implements [contract.Store] and [contract.Clearer].
type states struct{ memory.ShortTerm }

func (*states) Kind() *contract.Kind { return Kind }

// lister returns the store as one that lists its states.
func (s *states) lister() (memory.StateLister, error) {
	if lister, ok := s.ShortTerm.(memory.StateLister); ok {
		return lister, nil
	}
	return nil, contract.Unlisted("their store does not list them")
}

func (s *states) Forget(ctx context.Context, owner string, removed func(count string, n int64)) error {
	lister, err := s.lister()
	if err != nil {
		return err
	}
	for {
		page, err := lister.States(ctx, memory.StateQuery{Owner: owner, Limit: memory.MaxLimit})
		if err != nil || len(page.Keys) == 0 {
			return err
		}
		for _, key := range page.Keys {
			if err := s.Clear(ctx, key); err != nil {
				return fmt.Errorf("state of session %s: %w", key.Session, err)
			}
			removed(countStates, 1)
		}
	}
}

// ClearSession implements [contract.Clearer].
func (s *states) ClearSession(ctx context.Context, session contract.Session) error {
	k := memory.Key{Owner: session.Owner, Agent: session.Agent, Session: session.ID}
	if k.Check() != nil {
		return nil // no state has this key
	}
	return s.Clear(ctx, k)
}

type stateLine struct {
	_       struct{}       `wire:"const=type:state,required"`
	Agent   string         `json:"agent" wire:"required"`
	Session string         `json:"session" wire:"required"`
	Values  map[string]any `json:"values" wire:"required"`
}

func (s *states) Export(ctx context.Context, owner string, line func(typ string, v any) error) error {
	lister, err := s.lister()
	if err != nil {
		return err
	}
	for q := (memory.StateQuery{Owner: owner, Limit: memory.MaxLimit}); ; {
		page, err := lister.States(ctx, q)
		if err != nil {
			return err
		}
		for _, key := range page.Keys {
			q.After = key
			state, err := s.Get(ctx, key)
			if err != nil {
				return err
			}
			if state.Version == 0 {
				continue // cleared meanwhile
			}
			if err := line(typeState, &stateLine{Agent: key.Agent, Session: key.Session, Values: state.Values}); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
	}
}

// item is a state of a document.
type item struct {
	key    memory.Key
	values map[string]any
}

// scanner implements [contract.Scanner].
type scanner struct{ owner string }

func (s *scanner) Scan(_ string, raw []byte) (any, error) {
	var l stateLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	state := &item{memory.Key{Owner: s.owner, Agent: l.Agent, Session: l.Session}, l.Values}
	return state, state.key.Check()
}

func (*scanner) End() error { return nil }

// itemOf returns the state that a record contains.
func itemOf(owner string, r store.RecordChange, now time.Time) (any, error) {
	key, err := memory.StateKey(owner, r.Key)
	if err != nil || len(r.Value) == 0 || !r.Expires.IsZero() && !r.Expires.After(now) {
		return nil, err
	}
	return &item{key, memory.DecodeMetadata(string(r.Value))}, nil
}

// recordOf returns the record of a state.
func recordOf(owner string, x any) (store.RecordChange, error) {
	state := x.(*item)
	state.key.Owner = owner
	key, err := state.key.RecordKey()
	if err != nil {
		return store.RecordChange{}, err
	}
	value, err := json.Marshal(state.values)
	return store.RecordChange{Namespace: key.Namespace, Key: key.Key, Value: value}, err
}

func (s *states) Import(p *contract.ImportParams) (contract.Importer, error) {
	return &importer{p, s}, nil
}

type importer struct {
	*contract.ImportParams
	states *states
}

func (m *importer) Add(ctx context.Context, x any) error {
	state := x.(*item)
	state.key.Owner = m.Owner
	existing, err := m.states.Get(ctx, state.key)
	switch {
	case err != nil:
		return err
	case existing.Version > 0 && !contract.Equal(&stateLine{Values: existing.Values}, &stateLine{Values: state.values}):
		return m.Conflict("the state of session %s of agent %s exists with other values", a2a.Quote(state.key.Session), a2a.Quote(state.key.Agent))
	case existing.Version > 0 || !m.Write:
		return nil
	}
	if _, err := m.states.Set(ctx, state.key, state.values, 0); err != nil {
		return fmt.Errorf("state of session %s: %w", state.key.Session, err)
	}
	m.Added(countStates, 1)
	return nil
}

func (*importer) Flush(context.Context) error { return nil }

func (*importer) Abort() {}
