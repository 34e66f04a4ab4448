package states

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// State is the state of a turn's session: a JSON object that belongs to the task's owner and
// context and to the agent. Tasks of the same context share it.
//
// Set, Update and Clear are committed with the next commit of the turn, at the latest with its
// end; calls of the same turn see them before. They are applied exactly once: after a crash, a
// lost lease or a retry, a later attempt of the turn gets the results of the calls that are
// already committed, and does not repeat them. Therefore every attempt must make the same calls
// on the turn's data in the same order, within each step and outside of steps, where a
// call belongs to the step that its context comes from. Concurrent calls belong in different
// steps. A concurrent change by another task is kept: Update is applied again to the newer
// state.
//
// The state expires when it was not changed for the age [Retention] of the server's retention. It may
// have [memory.MaxStateBytes] of JSON.
//
// If the server has another store for session states, a change is made at once. A repeated
// attempt does not repeat it if that store is a [memory.OnceUpdater], as the Redis store is.
type State struct{ t contract.Turn }

// For returns the state of a turn's session.
func For(t contract.Turn) *State { return &State{t} }

func (s *State) key() memory.Key { return keyOf(s.t.Session()) }

// store returns the state's store for one operation.
func (s *State) store(silent bool) (*memory.ShortTermRecords, error) {
	r, now := s.t.Records(silent)
	return memory.NewShortTerm(memory.ShortTermConfig{Records: r, Now: now, TTL: s.t.Age(Retention)})
}

// Get returns the state with the changes of this turn. Without a state, its Version is 0.
func (s *State) Get(ctx context.Context) (memory.State, error) {
	if other := s.other(); other != nil {
		return s.getOther(ctx, other)
	}
	m, err := s.store(false)
	if err != nil {
		return memory.State{}, err
	}
	return m.Get(ctx, s.key())
}

// Update applies a JSON merge patch (RFC 7396): nil removes a member, objects (map[string]any)
// merge recursively, any other value replaces.
func (s *State) Update(ctx context.Context, patch map[string]any) error {
	if s.other() != nil {
		return s.updateOther(ctx, patch)
	}
	m, err := s.store(true)
	if err == nil {
		_, err = m.Update(ctx, s.key(), patch, memory.AnyVersion)
	}
	return err
}

// Set replaces the state. It also replaces concurrent changes by other tasks; see Replace.
func (s *State) Set(ctx context.Context, values map[string]any) error {
	if s.other() != nil {
		_, err := s.setOther(ctx, "state.set", values, memory.AnyVersion)
		return err
	}
	m, err := s.store(true)
	if err == nil {
		_, err = m.Set(ctx, s.key(), values, memory.AnyVersion)
	}
	return err
}

// Replace replaces the state if it has the given version, 0 if there is no state. It commits the
// change before it returns the new state. It returns memory.ErrStateConflict if the version
// differs.
func (s *State) Replace(ctx context.Context, values map[string]any, version int64) (memory.State, error) {
	if s.other() != nil {
		return s.setOther(ctx, "state.replace", values, version)
	}
	m, err := s.store(false)
	if err != nil {
		return memory.State{}, err
	}
	return m.Set(ctx, s.key(), values, version)
}

// Clear removes the state.
func (s *State) Clear(ctx context.Context) error {
	if s.other() != nil {
		return s.clearOther(ctx)
	}
	m, err := s.store(true)
	if err != nil {
		return err
	}
	return m.Clear(ctx, s.key())
}

// other returns the store of states if they are not records of the engine's store.
func (s *State) other() memory.ShortTerm {
	other, _, _ := contract.ForTurn[memory.ShortTerm, any](s.t, Kind) // without one, states are records
	return other
}

// storedState is a state as a result of a call. JSON would change its numbers.
type storedState struct {
	Values  json.RawMessage
	Version int64
	Expires time.Time
}

func (s *storedState) set(st memory.State) (err error) {
	*s = storedState{Version: st.Version, Expires: st.Expires}
	s.Values, err = json.Marshal(st.Values)
	return err
}

func (s *storedState) state() memory.State {
	st := memory.State{Version: s.Version, Expires: s.Expires}
	if st.Version > 0 {
		if st.Values = jsonobject.Decode(string(s.Values)); st.Values == nil {
			st.Values = map[string]any{}
		}
	}
	return st
}

func (s *State) getOther(ctx context.Context, other memory.ShortTerm) (memory.State, error) {
	var stored storedState
	err := s.t.Call(ctx, contract.Call{Op: "state.get", Result: &stored, Read: func(ctx context.Context) error {
		st, err := other.Get(ctx, s.key())
		if err != nil {
			return err
		}
		return stored.set(st)
	}})
	return stored.state(), err
}

// changeOther makes a change of the other store.
func (s *State) changeOther(ctx context.Context, op string, args []any, do func(ctx context.Context, once string) (memory.State, error)) (memory.State, error) {
	var stored storedState
	err := s.t.Call(ctx, contract.Call{Op: op, Args: args, Result: &stored, Direct: func(ctx context.Context, once string) error {
		st, err := do(ctx, once)
		if err != nil {
			return err
		}
		return stored.set(st)
	}})
	return stored.state(), err
}

func (s *State) updateOther(ctx context.Context, patch map[string]any) error {
	_, err := s.changeOther(ctx, "state.update", []any{patch}, func(ctx context.Context, once string) (memory.State, error) {
		if keyed, ok := s.other().(memory.OnceUpdater); ok {
			return keyed.UpdateOnce(ctx, s.key(), patch, memory.AnyVersion, once)
		}
		return s.other().Update(ctx, s.key(), patch, memory.AnyVersion)
	})
	return err
}

func (s *State) setOther(ctx context.Context, op string, values map[string]any, version int64) (memory.State, error) {
	return s.changeOther(ctx, op, []any{values, version}, func(ctx context.Context, once string) (memory.State, error) {
		if keyed, ok := s.other().(memory.OnceUpdater); ok {
			return keyed.SetOnce(ctx, s.key(), values, version, once)
		}
		return s.other().Set(ctx, s.key(), values, version)
	})
}

func (s *State) clearOther(ctx context.Context) error {
	_, err := s.changeOther(ctx, "state.clear", []any{}, func(ctx context.Context, once string) (st memory.State, err error) {
		if keyed, ok := s.other().(memory.OnceUpdater); ok {
			return st, keyed.ClearOnce(ctx, s.key(), once)
		}
		return st, s.other().Clear(ctx, s.key())
	})
	return err
}
