package memorytest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// mutant is a store of states that changes the arguments or the results of some calls.
type mutant struct {
	memory.ShortTerm
	key     func(*memory.Key)
	version func(*int64)
	patch   func(map[string]any) map[string]any
	update  func(ctx context.Context, s memory.ShortTerm, k memory.Key, patch map[string]any, version int64) (memory.State, error)
	keeps   bool
	shared  map[memory.Key]memory.State
	cancel  bool
}

func (m *mutant) args(ctx context.Context, k memory.Key, version int64) (context.Context, memory.Key, int64) {
	suite.Mutate(m.key, &k)
	suite.Mutate(m.version, &version)
	if m.cancel {
		ctx = context.WithoutCancel(ctx)
	}
	return ctx, k, version
}

func (m *mutant) Get(ctx context.Context, k memory.Key) (memory.State, error) {
	ctx, k, _ = m.args(ctx, k, 0)
	if st, ok := m.shared[k]; ok {
		return st, nil
	}
	st, err := m.ShortTerm.Get(ctx, k)
	if m.shared != nil && st.Version > 0 {
		m.shared[k] = st
	}
	return st, err
}

func (m *mutant) Set(ctx context.Context, k memory.Key, values map[string]any, version int64) (memory.State, error) {
	ctx, k, version = m.args(ctx, k, version)
	delete(m.shared, k)
	return m.ShortTerm.Set(ctx, k, values, version)
}

func (m *mutant) Update(ctx context.Context, k memory.Key, patch map[string]any, version int64) (memory.State, error) {
	ctx, k, version = m.args(ctx, k, version)
	delete(m.shared, k)
	if m.patch != nil {
		patch = m.patch(patch)
	}
	if m.update != nil {
		return m.update(ctx, m.ShortTerm, k, patch, version)
	}
	return m.ShortTerm.Update(ctx, k, patch, version)
}

func (m *mutant) Clear(ctx context.Context, k memory.Key) error {
	if ctx, k, _ = m.args(ctx, k, 0); m.keeps {
		return ctx.Err()
	}
	delete(m.shared, k)
	return m.ShortTerm.Clear(ctx, k)
}

var mutants = map[string]func(*mutant, *ShortTermOptions){
	"mixes up owners":   func(m *mutant, _ *ShortTermOptions) { m.key = func(k *memory.Key) { k.Owner = "x" } },
	"mixes up agents":   func(m *mutant, _ *ShortTermOptions) { m.key = func(k *memory.Key) { k.Agent = "x" } },
	"mixes up sessions": func(m *mutant, _ *ShortTermOptions) { m.key = func(k *memory.Key) { k.Session = "x" } },
	"ignores versions":  func(m *mutant, _ *ShortTermOptions) { m.version = func(v *int64) { *v = memory.AnyVersion } },
	"loses null": func(m *mutant, _ *ShortTermOptions) {
		m.patch = func(patch map[string]any) map[string]any {
			out := map[string]any{}
			for name, v := range patch {
				if v != nil {
					out[name] = v
				}
			}
			return out
		}
	},
	"reads and writes without a transaction": func(m *mutant, _ *ShortTermOptions) {
		m.update = func(ctx context.Context, s memory.ShortTerm, k memory.Key, patch map[string]any, version int64) (memory.State, error) {
			before, err := s.Get(ctx, k)
			if err != nil {
				return before, err
			}
			if version != memory.AnyVersion {
				return s.Update(ctx, k, patch, version)
			}
			time.Sleep(time.Millisecond)
			return s.Set(ctx, k, store.MergePatch(before.Values, patch), version)
		}
	},
	"clears nothing":            func(m *mutant, _ *ShortTermOptions) { m.keeps = true },
	"returns its own memory":    func(m *mutant, _ *ShortTermOptions) { m.shared = map[memory.Key]memory.State{} },
	"ignores canceled contexts": func(m *mutant, _ *ShortTermOptions) { m.cancel = true },
	"never expires":             func(_ *mutant, o *ShortTermOptions) { o.TTL = 0 },
	"expires too early":         tooEarly,
	"has no limit":              func(_ *mutant, o *ShortTermOptions) { o.MaxBytes = 0 },
}

func TestSuiteCatchesBrokenStores(t *testing.T) {
	t.Parallel()
	inner := ShortTermOverRecords(storetest.Harness{Open: func(storetest.T) store.Store { return inmem.New() }})
	inner.Second = nil
	correct := suite.NewRecorder(t.Context())
	if RunShortTermOn(correct, inner); correct.Failed() {
		t.Fatalf("a correct store fails: %v", correct.Failures())
	}
	suite.Mutants(t, mutants, func(t suite.T, mutate func(*mutant, *ShortTermOptions)) {
		h := inner
		h.Open = func(t storetest.T, o ShortTermOptions) memory.ShortTerm {
			m := &mutant{}
			mutate(m, &o)
			m.ShortTerm = inner.Open(t, o)
			return m
		}
		RunShortTermOn(t, h)
	})
}

// tooEarly lets a state expire before its time.
func tooEarly(_ *mutant, o *ShortTermOptions) {
	if o.TTL > 0 {
		o.TTL = o.TTL * 2 / 3
	}
}
