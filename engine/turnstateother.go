package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/store/memory"
)

// other returns the store of states if they are not records of the engine's store.
func (s *State) other() memory.ShortTerm { return s.t.r.e.cfg.Contracts.State }

// storedState is a state as a result of a call. JSON would change its numbers.
type storedState struct {
	Values  json.RawMessage
	Version int64
	Expires time.Time
}

// onOther makes a call on the other store.
func (s *State) onOther(ctx context.Context, kind callKind, op string, args []any, do func(ctx context.Context, once string) (memory.State, error)) (memory.State, error) {
	var stored storedState
	err := s.t.onContract(ctx, contractCall{kind: kind, op: op, direct: kind == writeCall, args: args, result: &stored, do: func(ctx context.Context, c *recordCall, once string) error {
		st, err := do(ctx, once)
		if err != nil {
			return err
		}
		c.written = kind == writeCall
		stored = storedState{Version: st.Version, Expires: st.Expires}
		stored.Values, err = json.Marshal(st.Values)
		return err
	}})
	st := memory.State{Version: stored.Version, Expires: stored.Expires}
	if st.Version > 0 {
		if st.Values = memory.DecodeMetadata(string(stored.Values)); st.Values == nil {
			st.Values = map[string]any{}
		}
	}
	return st, err
}

func (s *State) updateOther(ctx context.Context, patch map[string]any) error {
	_, err := s.onOther(ctx, writeCall, "state.update", []any{patch}, func(ctx context.Context, once string) (memory.State, error) {
		if keyed, ok := s.other().(memory.OnceUpdater); ok {
			return keyed.UpdateOnce(ctx, s.key(), patch, memory.AnyVersion, once)
		}
		return s.other().Update(ctx, s.key(), patch, memory.AnyVersion)
	})
	return err
}

func (s *State) setOther(ctx context.Context, op string, values map[string]any, version int64) (memory.State, error) {
	return s.onOther(ctx, writeCall, op, []any{values, version}, func(ctx context.Context, once string) (memory.State, error) {
		if keyed, ok := s.other().(memory.OnceUpdater); ok {
			return keyed.SetOnce(ctx, s.key(), values, version, once)
		}
		return s.other().Set(ctx, s.key(), values, version)
	})
}

func (s *State) clearOther(ctx context.Context) error {
	_, err := s.onOther(ctx, writeCall, "state.clear", []any{}, func(ctx context.Context, once string) (st memory.State, err error) {
		if keyed, ok := s.other().(memory.OnceUpdater); ok {
			return st, keyed.ClearOnce(ctx, s.key(), once)
		}
		return st, s.other().Clear(ctx, s.key())
	})
	return err
}
