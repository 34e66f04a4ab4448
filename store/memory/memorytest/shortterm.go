package memorytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// ShortTermOptions are the settings of a store that a test opens.
type ShortTermOptions struct {
	Now      func() time.Time
	TTL      time.Duration
	MaxBytes int
}

// ShortTermHarness describes a store of session states to the suite.
type ShortTermHarness struct {
	// Open returns an empty store. The suite does not close it: use t.Cleanup.
	Open func(t storetest.T, o ShortTermOptions) memory.ShortTerm
	// Second opens the data of a store once more, as another process would. nil skips the
	// tests of several processes.
	Second func(t storetest.T, s memory.ShortTerm) memory.ShortTerm
	// Reopen closes a store and opens its data again. It is nil if the store is not durable.
	Reopen func(t storetest.T, s memory.ShortTerm) memory.ShortTerm
}

// ShortTermOverRecords returns the harness of memory.NewShortTerm over the records of a backend.
func ShortTermOverRecords(h storetest.Harness) ShortTermHarness {
	p := &storetest.Parts[memory.ShortTerm, ShortTermOptions]{Harness: h, Of: func(t storetest.T, s store.Store, o ShortTermOptions) memory.ShortTerm {
		return suite.Call(memory.NewShortTerm(memory.ShortTermConfig{Records: store.NewUpdater(s), Now: o.Now, TTL: o.TTL, MaxBytes: o.MaxBytes})).Must(t, "NewShortTerm()")
	}}
	out := ShortTermHarness{Open: p.Open, Second: p.Second}
	if h.Reopen != nil {
		out.Reopen = p.ReopenSame
	}
	return out
}

// RunShortTerm runs the suite.
func RunShortTerm(t *testing.T, h ShortTermHarness) { RunShortTermOn(storetest.Wrap(t), h) }

// RunShortTermOn runs the suite on any implementation of T.
func RunShortTermOn(t storetest.T, h ShortTermHarness) {
	suite.Each(t, slices.Concat(shortTermTests, onceTests), func(test shortTermTest) string { return test.name }, func(t storetest.T, test shortTermTest) {
		f := &shortTermFixture{T: t, h: h, ctx: t.Context(), clock: suite.NewClock(time.UnixMilli(1_700_000_000_000).UTC())}
		f.open(ShortTermOptions{})
		test.run(f)
	})
}

// shortTermTest is one test of the suite. Its name is a sentence.
type shortTermTest struct {
	name string
	run  func(*shortTermFixture)
}

var shortTermTests = []shortTermTest{
	{"contract: a state is replaced, patched and cleared", stateContract},
	{"contract: patches follow RFC 7396", statePatches},
	{"contract: an expected version is compared", stateVersions},
	{"contract: values keep all their digits", stateNumbers},
	{"isolation: owners, agents and sessions have states of their own", stateIsolation},
	{"concurrency: 64 patchers lose nothing", statePatchers},
	{"concurrency: one of 64 callers with the same version succeeds", stateRace},
	{"durability: a reopened store has its states", stateReopen},
	{"expiry: a state expires after its last write", stateExpiry},
	{"hostile input is an error that names the field, or is stored exactly", stateHostile},
	{"limits: a state that is too large is not stored", stateLimit},
	{"aliasing: a store keeps no memory of its caller", stateAliasing},
	{"cancel: a canceled context ends a call", stateCancel},
	{"list: pages have the keys of states that exist", stateList},
	{"model: random calls have the results of a simple model", stateModel},
}

type shortTermFixture struct {
	storetest.T
	h     ShortTermHarness
	ctx   context.Context
	s     memory.ShortTerm
	clock *suite.Clock
}

var stateKey = memory.Key{Owner: "alice", Agent: "shop", Session: "s1"}

func (f *shortTermFixture) open(o ShortTermOptions) {
	o.Now = f.clock.Now
	f.s = f.h.Open(f, o)
}

// want fails the test unless the state of a key has the JSON of values. It returns the version.
func (f *shortTermFixture) want(k memory.Key, values string) int64 {
	f.Helper()
	st := suite.Call(f.s.Get(f.ctx, k)).Must(f, "Get(%+v)", k)
	suite.Equal(f, stateJSON(st), values, "Get(%+v)", k)
	if (st.Values == nil) != (st.Version == 0) {
		f.Errorf("Get(%+v) has version %d with the values %v", k, st.Version, st.Values)
	}
	return st.Version
}

func stateJSON(st memory.State) string {
	raw, err := json.Marshal(st.Values)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func (f *shortTermFixture) set(k memory.Key, values map[string]any) memory.State {
	f.Helper()
	return suite.Call(f.s.Set(f.ctx, k, values, memory.AnyVersion)).Must(f, "Set(%+v)", k)
}

func (f *shortTermFixture) update(k memory.Key, patch map[string]any) memory.State {
	f.Helper()
	return suite.Call(f.s.Update(f.ctx, k, patch, memory.AnyVersion)).Must(f, "Update(%+v)", k)
}

func (f *shortTermFixture) wantError(call string, err error, want error) {
	f.Helper()
	if !errors.Is(err, want) || a2a.CodeOf(err) != a2a.CodeOf(want) {
		f.Errorf("%s = %v, want %v", call, err, want)
	}
}

func stateContract(f *shortTermFixture) {
	f.want(stateKey, "null")
	st := f.set(stateKey, map[string]any{"a": 1, "b": map[string]any{"c": "d"}})
	if st.Version == 0 || stateJSON(st) != `{"a":1,"b":{"c":"d"}}` || !st.Expires.IsZero() {
		f.Errorf("Set() = %+v, want the values with a version and no expiry", st)
	}
	suite.Equal(f, f.want(stateKey, `{"a":1,"b":{"c":"d"}}`), st.Version, "version of Get()")
	after := f.update(stateKey, map[string]any{"a": nil, "b": map[string]any{"e": true}})
	if after.Version != st.Version+1 || stateJSON(after) != `{"b":{"c":"d","e":true}}` {
		f.Errorf("Update() = %+v, want the patched values at version %d", after, st.Version+1)
	}
	f.want(stateKey, `{"b":{"c":"d","e":true}}`)
	f.set(stateKey, nil)
	f.want(stateKey, `{}`)
	f.set(stateKey, map[string]any{"x": []any{nil, 1}})
	f.want(stateKey, `{"x":[null,1]}`)
	for range 2 {
		suite.Do(f.s.Clear(f.ctx, stateKey)).Check(f, "Clear()")
		f.want(stateKey, "null")
	}
	f.update(stateKey, map[string]any{"new": 1})
	f.want(stateKey, `{"new":1}`)
}

func statePatches(f *shortTermFixture) {
	for i, test := range []struct{ before, patch, after string }{ // RFC 7396, appendix A, for objects
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"a":1}`, `{}`, `{"a":1}`},
	} {
		k := memory.Key{Owner: "alice", Agent: "shop", Session: fmt.Sprint(i)}
		f.set(k, object(f, test.before))
		f.update(k, object(f, test.patch))
		f.want(k, test.after)
	}
}

func object(f *shortTermFixture, text string) (m map[string]any) {
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		f.Fatalf("%v", err)
	}
	return m
}

func stateVersions(f *shortTermFixture) {
	f.wantError("Set() of version 1 of no state", suite.Err(f.s.Set(f.ctx, stateKey, nil, 1)), memory.ErrStateConflict)
	st := suite.Call(f.s.Update(f.ctx, stateKey, map[string]any{"a": 1}, 0)).Must(f, "Update() of version 0")
	for _, version := range []int64{0, st.Version + 1} {
		f.wantError("Update() of another version", suite.Err(f.s.Update(f.ctx, stateKey, map[string]any{"a": 2}, version)), memory.ErrStateConflict)
		f.wantError("Set() of another version", suite.Err(f.s.Set(f.ctx, stateKey, nil, version)), memory.ErrStateConflict)
	}
	suite.Call(f.s.Set(f.ctx, stateKey, map[string]any{"a": 3}, st.Version)).Check(f, "Set() of the version")
	last := f.want(stateKey, `{"a":3}`)
	suite.Do(f.s.Clear(f.ctx, stateKey)).Check(f, "Clear()")
	suite.Call(f.s.Set(f.ctx, stateKey, nil, last)).Fails(f, memory.ErrStateConflict, "Set() of a version before Clear()")
	if st, err := f.s.Set(f.ctx, stateKey, nil, 0); err != nil || st.Version <= last {
		f.Errorf("Set() after Clear() = %+v, %v, want a version above %d", st, err, last)
	}
	suite.Call(f.s.Set(f.ctx, stateKey, nil, -2)).Rejected(f, a2a.CodeInvalid, "Set() of version -2")
}

func stateNumbers(f *shortTermFixture) {
	f.set(stateKey, map[string]any{"big": json.Number("12345678901234567890"), "id": int64(1) << 60, "half": 0.5})
	f.update(stateKey, map[string]any{"other": uint8(7)})
	f.want(stateKey, `{"big":12345678901234567890,"half":0.5,"id":1152921504606846976,"other":7}`)
}

func stateIsolation(f *shortTermFixture) {
	keys := []memory.Key{
		stateKey,
		{Owner: "bob", Agent: "shop", Session: "s1"},
		{Owner: "alice", Agent: "shop2", Session: "s1"},
		{Owner: "alice", Agent: "shop", Session: "2s1"},
		{Owner: "alice", Agent: "sho", Session: "ps1"},
		{Owner: "alice", Agent: "4:shop", Session: "s1"},
		{Owner: "%", Agent: "_", Session: "'\"\\"},
		{Owner: "alice", Agent: "SHOP", Session: "s1"},
		{Owner: "alice", Agent: "shop", Session: "S1"},
		{Owner: "alice", Agent: "shop ", Session: "s1"},
	}
	for i, k := range keys {
		f.set(k, map[string]any{"of": i})
	}
	for i, k := range keys {
		f.want(k, fmt.Sprintf(`{"of":%d}`, i))
	}
	suite.Do(f.s.Clear(f.ctx, keys[0])).Check(f, "Clear()")
	f.want(keys[0], "null")
	for i, k := range keys[1:] {
		f.want(k, fmt.Sprintf(`{"of":%d}`, i+1))
	}
}

// instances returns the store, and another one on the same data if the harness can open it.
func (f *shortTermFixture) instances() []memory.ShortTerm {
	all := []memory.ShortTerm{f.s}
	if f.h.Second != nil {
		all = append(all, f.h.Second(f, f.s))
	}
	return all
}

func statePatchers(f *shortTermFixture) {
	const patchers, each = 64, 4
	all := f.instances()
	suite.Concurrently(patchers, func(p int) {
		for n := range each {
			patch := map[string]any{fmt.Sprintf("p%d_%d", p, n): n, "shared": map[string]any{fmt.Sprint(p): n}}
			suite.Call(all[p%len(all)].Update(f.ctx, stateKey, patch, memory.AnyVersion)).Check(f, "Update()")
		}
	})
	st := suite.Call(f.s.Get(f.ctx, stateKey)).Must(f, "Get()")
	if shared, _ := st.Values["shared"].(map[string]any); len(st.Values) != patchers*each+1 || len(shared) != patchers {
		f.Errorf("Get() has %d members and %d shared ones, want %d and %d", len(st.Values), len(shared), patchers*each+1, patchers)
	}
	if want := int64(patchers * each); st.Version < want {
		f.Errorf("version after %d updates = %d", want, st.Version)
	}
}

func stateRace(f *shortTermFixture) {
	at := f.set(stateKey, map[string]any{"winner": nil}).Version
	all := f.instances()
	var winner atomic.Int64
	won := suite.Winners(f, 64, memory.ErrStateConflict, func(p int) error {
		_, err := all[p%len(all)].Set(f.ctx, stateKey, map[string]any{"winner": p}, at)
		if err == nil {
			winner.Store(int64(p))
		}
		return err
	})
	if won != 1 {
		f.Fatalf("%d callers succeeded, want 1", won)
	}
	f.want(stateKey, fmt.Sprintf(`{"winner":%d}`, winner.Load()))
}

func stateReopen(f *shortTermFixture) {
	if f.h.Reopen == nil {
		f.Skipf("the store is not durable")
	}
	st := f.set(stateKey, map[string]any{"a": "\x00\u2028\U0001f600"})
	f.s = f.h.Reopen(f, f.s)
	suite.Equal(f, f.want(stateKey, "{\"a\":\"\\u0000\\u2028\U0001f600\"}"), st.Version, "version after reopening")
	f.update(stateKey, map[string]any{"b": 1})
	f.want(stateKey, "{\"a\":\"\\u0000\\u2028\U0001f600\",\"b\":1}")
}

func stateExpiry(f *shortTermFixture) {
	f.open(ShortTermOptions{TTL: time.Minute})
	first := f.set(stateKey, map[string]any{"a": 1})
	if want := f.clock.Now().Add(time.Minute); !first.Expires.Equal(want) {
		f.Errorf("Set() expires at %s, want %s", first.Expires, want)
	}
	f.clock.Add(59 * time.Second)
	second := f.update(stateKey, map[string]any{"b": 2})
	f.clock.Add(59 * time.Second)
	f.want(stateKey, `{"a":1,"b":2}`)
	f.clock.Add(time.Second)
	f.want(stateKey, "null")
	for _, s := range f.instances() {
		suite.Call(s.Update(f.ctx, stateKey, nil, second.Version)).Fails(f, memory.ErrStateConflict, "Update() of an expired version")
	}
	third := f.update(stateKey, map[string]any{"c": 3})
	if third.Version <= second.Version {
		f.Errorf("version after the expiry = %d, want more than %d", third.Version, second.Version)
	}
	f.want(stateKey, `{"c":3}`)
}

func stateHostile(f *shortTermFixture) {
	long := strings.Repeat("x", memory.MaxSession)
	for _, test := range []struct {
		field string
		k     memory.Key
	}{
		{"owner", memory.Key{Agent: "a", Session: "s"}},
		{"agent", memory.Key{Owner: "o", Session: "s"}},
		{"session", memory.Key{Owner: "o", Agent: "a"}},
		{"owner", memory.Key{Owner: "o\x00", Agent: "a", Session: "s"}},
		{"agent", memory.Key{Owner: "o", Agent: "a\xff", Session: "s"}},
		{"session", memory.Key{Owner: "o", Agent: "a", Session: "s\x00"}},
		{"session", memory.Key{Owner: "o", Agent: "a", Session: long + "x"}},
		{"agent", memory.Key{Owner: "o", Agent: strings.Repeat("x", memory.MaxAgent+1), Session: "s"}},
	} {
		for call, err := range map[string]error{
			"Get": suite.Err(f.s.Get(f.ctx, test.k)), "Set": suite.Err(f.s.Set(f.ctx, test.k, nil, memory.AnyVersion)),
			"Update": suite.Err(f.s.Update(f.ctx, test.k, nil, memory.AnyVersion)), "Clear": f.s.Clear(f.ctx, test.k),
		} {
			if a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(fmt.Sprint(err), test.field) {
				f.Errorf("%s(%+q) = %v, want an invalid %s", call, test.k, err, test.field)
			}
		}
	}
	itself := map[string]any{}
	itself["itself"] = []any{itself}
	for _, v := range []any{"\xff", map[string]any{"\xff": 1}, []any{map[string]any{"a": "\xff"}}, func() {}, make(chan int), itself} {
		_, set := f.s.Set(f.ctx, stateKey, map[string]any{"a": v}, memory.AnyVersion)
		_, update := f.s.Update(f.ctx, stateKey, map[string]any{"a": v}, memory.AnyVersion)
		if a2a.CodeOf(set) != a2a.CodeInvalid || a2a.CodeOf(update) != a2a.CodeInvalid {
			f.Errorf("Set(), Update() with %T = %v, %v, want invalid values", v, set, update)
		}
	}
	f.want(stateKey, "null")
	k := memory.Key{Owner: "%_'\"\\", Agent: "'; DROP TABLE records --", Session: long}
	values := map[string]any{"": "", "\x00": "\x00", "%_'\"\\": "$1 ?1 {s}", "a.b": map[string]any{"$": "\U0010ffff"}}
	f.set(k, values)
	st, err := f.s.Get(f.ctx, k)
	if diff := cmp.Diff(values, st.Values); err != nil || diff != "" {
		f.Errorf("Get() = %v (-want +got):\n%s", err, diff)
	}
}

func stateLimit(f *shortTermFixture) {
	f.open(ShortTermOptions{MaxBytes: 100})
	f.set(stateKey, map[string]any{"a": strings.Repeat("x", 92)}) // 100 bytes of JSON
	f.wantError("Update() above the limit", suite.Err(f.s.Update(f.ctx, stateKey, map[string]any{"b": 1}, memory.AnyVersion)), memory.ErrStateTooLarge)
	f.wantError("Set() above the limit", suite.Err(f.s.Set(f.ctx, stateKey, map[string]any{"a": strings.Repeat("x", 93)}, memory.AnyVersion)), memory.ErrStateTooLarge)
	f.update(stateKey, map[string]any{"a": nil, "b": strings.Repeat("x", 92)})
	f.want(stateKey, `{"b":"`+strings.Repeat("x", 92)+`"}`)
}

func stateAliasing(f *shortTermFixture) {
	in := map[string]any{"a": map[string]any{"b": []any{"c"}}}
	modify := func(values map[string]any) {
		values["a"].(map[string]any)["b"].([]any)[0] = "modified"
		values["more"] = true
	}
	st := f.set(stateKey, in)
	modify(in)
	modify(st.Values)
	f.want(stateKey, `{"a":{"b":["c"]}}`)
	patch := map[string]any{"a": map[string]any{"b": []any{"d"}}}
	st = f.update(stateKey, patch)
	modify(patch)
	modify(st.Values)
	got := suite.Call(f.s.Get(f.ctx, stateKey)).Must(f, "Get()")
	modify(got.Values)
	f.want(stateKey, `{"a":{"b":["d"]}}`)
	f.update(stateKey, nil)
	f.want(stateKey, `{"a":{"b":["d"]}}`)
}

func stateCancel(f *shortTermFixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	suite.Canceled(f, map[string]error{
		"Get": suite.Err(f.s.Get(ctx, stateKey)), "Set": suite.Err(f.s.Set(ctx, stateKey, nil, memory.AnyVersion)),
		"Update": suite.Err(f.s.Update(ctx, stateKey, nil, memory.AnyVersion)), "Clear": f.s.Clear(ctx, stateKey),
	})
	f.want(stateKey, "null")
}
