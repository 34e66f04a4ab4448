package memorytest

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// onceTests are the tests of [memory.OnceUpdater].
var onceTests = []shortTermTest{
	{"once: a change with the same idempotency key has no effect", onceRepeated},
	{"once: an idempotency key belongs to one state", onceIsolation},
	{"once: a change that fails does not use its key", onceFailed},
	{"once: a key is valid after the state was cleared", onceCleared},
	{"once: one of 64 changes with the same key has an effect", onceRace},
	{"once: keys are checked", onceHostile},
}

// once returns the store as a memory.OnceUpdater, or skips the test.
func (f *shortTermFixture) once() memory.OnceUpdater {
	f.Helper()
	return suite.Optional[memory.OnceUpdater](f, f.s)
}

func (f *shortTermFixture) updateOnce(k memory.Key, patch map[string]any, once string) memory.State {
	f.Helper()
	return suite.Call(f.once().UpdateOnce(f.ctx, k, patch, memory.AnyVersion, once)).Must(f, "UpdateOnce(%+v, %q)", k, once)
}

func onceRepeated(f *shortTermFixture) {
	f.once()
	first := f.updateOnce(stateKey, map[string]any{"a": 1}, "k1")
	f.update(stateKey, map[string]any{"a": 2})
	for _, s := range f.instances() {
		s := s.(memory.OnceUpdater)
		st, err := s.UpdateOnce(f.ctx, stateKey, map[string]any{"a": 1}, first.Version-1, "k1")
		if err != nil || st.Version != first.Version+1 || stateJSON(st) != `{"a":2}` {
			f.Errorf("UpdateOnce() repeated = %+v, %v, want the current state", st, err)
		}
		if st, err = s.SetOnce(f.ctx, stateKey, nil, memory.AnyVersion, "k1"); err != nil || stateJSON(st) != `{"a":2}` {
			f.Errorf("SetOnce() with a used key = %+v, %v, want the current state", st, err)
		}
		suite.Do(s.ClearOnce(f.ctx, stateKey, "k1")).Check(f, "ClearOnce() with a used key")
	}
	f.want(stateKey, `{"a":2}`)
	if st, err := f.once().SetOnce(f.ctx, stateKey, map[string]any{"b": 1}, first.Version+1, "k2"); err != nil || stateJSON(st) != `{"b":1}` {
		f.Errorf("SetOnce() = %+v, %v", st, err)
	}
	f.updateOnce(stateKey, map[string]any{"c": 1}, "k3")
	f.want(stateKey, `{"b":1,"c":1}`)
}

func onceIsolation(f *shortTermFixture) {
	f.once()
	keys := []memory.Key{
		stateKey,
		{Owner: "bob", Agent: stateKey.Agent, Session: stateKey.Session},
		{Owner: stateKey.Owner, Agent: "a", Session: stateKey.Session},
		{Owner: stateKey.Owner, Agent: stateKey.Agent, Session: stateKey.Session + ":k"},
	}
	for _, once := range []string{"k", ":k", "%_'\"{}\\"} {
		for i, k := range keys {
			f.updateOnce(k, map[string]any{once: i}, once)
			f.updateOnce(k, map[string]any{once: "again"}, once)
		}
	}
	for i, k := range keys {
		if st, err := f.s.Get(f.ctx, k); err != nil || len(st.Values) != 3 || st.Values["k"] != float64(i) {
			f.Errorf("Get(%+v) = %+v, %v, want one change with each key", k, st, err)
		}
	}
}

func onceFailed(f *shortTermFixture) {
	f.open(ShortTermOptions{MaxBytes: 100})
	f.wantError("UpdateOnce() of another version", suite.Err(f.once().UpdateOnce(f.ctx, stateKey, map[string]any{"a": 1}, 7, "k")), memory.ErrStateConflict)
	f.wantError("UpdateOnce() above the limit", suite.Err(f.once().UpdateOnce(f.ctx, stateKey, map[string]any{"a": strings.Repeat("x", 100)}, memory.AnyVersion, "k")), memory.ErrStateTooLarge)
	f.updateOnce(stateKey, map[string]any{"a": 1}, "k")
	f.want(stateKey, `{"a":1}`)
}

func onceCleared(f *shortTermFixture) {
	clear := func(once string) {
		f.Helper()
		suite.Do(f.once().ClearOnce(f.ctx, stateKey, once)).Check(f, "ClearOnce(%q)", once)
	}
	clear("c1") // of no state
	f.updateOnce(stateKey, map[string]any{"a": 1}, "k1")
	clear("c1")
	f.want(stateKey, `{"a":1}`)
	clear("c2")
	f.want(stateKey, "null")
	if st := f.updateOnce(stateKey, map[string]any{"a": 1}, "k1"); st.Version != 0 {
		f.Errorf("UpdateOnce() repeated = %+v, want no state", st)
	}
	f.want(stateKey, "null")
}

func onceRace(f *shortTermFixture) {
	f.once()
	all := f.instances()
	suite.Concurrently(64, func(p int) {
		s := all[p%len(all)].(memory.OnceUpdater)
		suite.Call(s.UpdateOnce(f.ctx, stateKey, map[string]any{fmt.Sprint(p): 1}, memory.AnyVersion, "k")).Check(f, "UpdateOnce()")
	})
	if st, err := f.s.Get(f.ctx, stateKey); err != nil || len(st.Values) != 1 {
		f.Errorf("Get() = %+v, %v, want the change of one caller", st, err)
	}
}

func onceHostile(f *shortTermFixture) {
	for _, once := range []string{"", "\x00", "\xff", strings.Repeat("k", memory.MaxOnce+1)} {
		for call, err := range map[string]error{
			"UpdateOnce": suite.Err(f.once().UpdateOnce(f.ctx, stateKey, nil, memory.AnyVersion, once)),
			"SetOnce":    suite.Err(f.once().SetOnce(f.ctx, stateKey, nil, memory.AnyVersion, once)), "ClearOnce": f.once().ClearOnce(f.ctx, stateKey, once),
		} {
			if a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(fmt.Sprint(err), "once") {
				f.Errorf("%s(%.9q) = %v, want an invalid once", call, once, err)
			}
		}
	}
	f.updateOnce(stateKey, nil, strings.Repeat("k", memory.MaxOnce))
	f.want(stateKey, "{}")
}
