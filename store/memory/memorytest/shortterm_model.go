package memorytest

import (
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// stateModel compares random calls with a map of JSON texts.
func stateModel(f *shortTermFixture) {
	f.open(ShortTermOptions{TTL: time.Minute})
	seed := testseed.Of(f)
	r := rand.New(rand.NewPCG(seed, 1))
	type entry struct {
		values  map[string]any
		version int64
		until   time.Time
	}
	model := make(map[memory.Key]entry)
	all := f.instances()
	for n := range 400 {
		k := memory.Key{Owner: pick(r, "alice", "bob"), Agent: pick(r, "a", "b"), Session: pick(r, "s", "t")}
		s := all[r.IntN(len(all))]
		e := model[k]
		if e.until.Compare(f.clock.Now()) <= 0 {
			e = entry{}
		}
		version := memory.AnyVersion
		if r.IntN(3) == 0 {
			version = e.version + r.Int64N(2)
		}
		var got memory.State
		var err error
		conflict := version != memory.AnyVersion && version != e.version
		switch patch := randomObject(r, 2); r.IntN(6) {
		case 0:
			f.clock.Add(time.Duration(r.IntN(40)) * time.Second)
			continue
		case 1:
			conflict, err = false, s.Clear(f.ctx, k)
			e = entry{}
		case 2:
			if got, err = s.Set(f.ctx, k, patch, version); !conflict {
				e = entry{patch, got.Version, f.clock.Now().Add(time.Minute)}
			}
		case 3, 4:
			if got, err = s.Update(f.ctx, k, patch, version); !conflict {
				e = entry{mergePatch(e.values, patch), got.Version, f.clock.Now().Add(time.Minute)}
			}
		default:
			conflict = false
			got, err = s.Get(f.ctx, k)
		}
		if conflict != errors.Is(err, memory.ErrStateConflict) || err != nil && !conflict {
			f.Fatalf("seed %d, call %d of %+v with version %d: %v, want a conflict: %t", seed, n, k, version, err, conflict)
		}
		model[k] = e
		if got, err = f.s.Get(f.ctx, k); err != nil || got.Version != e.version || stateJSON(got) != stateJSON(memory.State{Values: e.values}) {
			f.Fatalf("seed %d, call %d: Get(%+v) = %s at %d, %v, want %s at %d", seed, n, k, stateJSON(got), got.Version, err, stateJSON(memory.State{Values: e.values}), e.version)
		}
	}
}

func pick[T any](r *rand.Rand, options ...T) T { return options[r.IntN(len(options))] }

func randomObject(r *rand.Rand, depth int) map[string]any {
	m := make(map[string]any)
	for range r.IntN(4) {
		var v any
		switch n := r.IntN(5); {
		case n == 0:
		case n == 1 && depth > 0:
			v = randomObject(r, depth-1)
		case n == 2:
			v = []any{float64(r.IntN(9)), nil}
		default:
			v = pick[any](r, "text", 1.5, true, float64(r.IntN(99)))
		}
		m[pick(r, "a", "b", "c")] = v
	}
	return m
}

// mergePatch is RFC 7396, section 2, for objects.
func mergePatch(target, patch map[string]any) map[string]any {
	out := make(map[string]any)
	maps.Copy(out, target)
	for name, v := range patch {
		if v == nil {
			delete(out, name)
			continue
		}
		if object, ok := v.(map[string]any); ok {
			before, _ := out[name].(map[string]any)
			v = mergePatch(before, object)
		}
		out[name] = v
	}
	return out
}
