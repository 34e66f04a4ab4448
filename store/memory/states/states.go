// Package states connects short-term memory, the states of sessions, to the server; see package
// contract.
package states

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// Kind is the contract of session states. They are records of the store of tasks, unless the server
// has another store for them.
var Kind = &contract.Kind{
	Name:      "session states",
	Setting:   "store-state",
	Retention: Retention,
	Part: func(tasks any, p contract.PartParams) contract.Store {
		s, ok := tasks.(store.Records)
		if !ok {
			return nil
		}
		cfg := memory.ShortTermConfig{Records: store.NewUpdater(s), Now: p.Now}
		if p.Age != nil {
			cfg.TTL = p.Age(Retention)
		}
		states, err := memory.NewShortTerm(cfg)
		if err != nil {
			return nil // the clock and the age are valid
		}
		return Of(states)
	},
	Lasting:        []error{memory.ErrStateConflict, memory.ErrStateTooLarge},
	SessionRecords: sessionRecords,
	Counts:         []string{countStates},
	Lines:          []contract.LineType{{Name: typeState, Counts: countStates}},
	Scan:           func(owner string) contract.Scanner { return &scanner{owner} },
	Records:        &contract.RecordForm{Namespace: memory.StateNamespace, Item: itemOf, Record: recordOf},
}

// Retention is the kind of the server's retention that session states have. It is also the kind of
// boards. Their age starts at the last change.
const Retention = "state"

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

// In returns the store of session states among the stores of contracts, nil if there is none.
func In(stores []contract.Store) memory.ShortTerm { return contract.In[memory.ShortTerm](stores, Kind) }

// states implements [contract.Store] and [contract.Clearer].
type states struct{ memory.ShortTerm }

func (*states) Kind() *contract.Kind { return Kind }

func (s *states) Unwrap() any { return s.ShortTerm }

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

func keyOf(s contract.Session) memory.Key {
	return memory.Key{Owner: s.Owner, Agent: s.Agent, Session: s.ID}
}

// sessionRecords replaces the state by an empty one that has expired, as memory.ShortTerm.Clear does.
func sessionRecords(ctx context.Context, r store.RecordUpdater, s contract.Session, now func() time.Time) ([]store.RecordChange, error) {
	k, err := keyOf(s).RecordKey()
	if err != nil {
		return nil, err
	}
	found, err := r.ReadRecord(ctx, k)
	if err != nil || found.Version == 0 {
		return nil, err
	}
	return []store.RecordChange{{Namespace: k.Namespace, Key: k.Key, Version: found.Version, Expires: now()}}, nil
}

// ClearSession implements [contract.Clearer].
func (s *states) ClearSession(ctx context.Context, session contract.Session) error {
	k := keyOf(session)
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
	return &item{key, jsonobject.Decode(string(r.Value))}, nil
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
	return &importer{ImportParams: p, states: s}, nil
}

type importer struct {
	contract.Immediate
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
