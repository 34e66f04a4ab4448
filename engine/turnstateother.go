package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/store/memory"
)

// onceUpdater is implemented by stores of states that apply a patch with a key once.
type onceUpdater interface {
	UpdateOnce(ctx context.Context, key memory.Key, patch map[string]any, once string) (memory.State, error)
}

// other returns the store of states if they are not records of the engine's store.
func (s *State) other() memory.ShortTerm { return s.t.r.e.cfg.Contracts.State }

// storedState is a state as a result of a call. JSON would change its numbers.
type storedState struct {
	Values  json.RawMessage
	Version int64
	Expires time.Time
}

// onOther makes a call on the other store.
func (s *State) onOther(ctx context.Context, kind callKind, op string, do func(ctx context.Context, once string) (memory.State, error)) (memory.State, error) {
	var stored storedState
	err := s.t.onContract(ctx, contractCall{kind: kind, op: op, result: &stored, do: func(ctx context.Context, c *recordCall, once string) error {
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

func (s *State) set(ctx context.Context, op string, values map[string]any, version int64) (memory.State, error) {
	return s.onOther(ctx, writeCall, op, func(ctx context.Context, _ string) (memory.State, error) {
		return s.other().Set(ctx, s.key(), values, version)
	})
}
