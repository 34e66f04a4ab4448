package memorytest

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/store/memory"
)

func stateList(f *shortTermFixture) {
	lister, ok := f.s.(memory.StateLister)
	if !ok {
		f.Skipf("the store does not implement memory.StateLister")
	}
	var want []memory.Key
	for _, agent := range []string{"a", "1:b"} {
		for i := range 5 {
			k := memory.Key{Owner: stateKey.Owner, Agent: agent, Session: fmt.Sprint("s:", i)}
			if _, err := f.s.Set(f.ctx, k, map[string]any{"n": i}, memory.AnyVersion); err != nil {
				f.Fatalf("Set() = %v", err)
			}
			if i == 2 {
				if err := f.s.Clear(f.ctx, k); err != nil {
					f.Fatalf("Clear() = %v", err)
				}
				continue
			}
			want = append(want, k)
		}
	}
	if _, err := f.s.Set(f.ctx, memory.Key{Owner: "bob", Agent: "a", Session: "s"}, map[string]any{}, memory.AnyVersion); err != nil {
		f.Fatalf("Set() = %v", err)
	}
	var got []memory.Key
	for q := (memory.StateQuery{Owner: stateKey.Owner, Limit: 3}); ; {
		page, err := lister.States(f.ctx, q)
		if err != nil || len(page.Keys) > 3 || page.More && len(page.Keys) < 3 {
			f.Fatalf("States(%+v) = %+v, %v", q, page, err)
		}
		got = append(got, page.Keys...)
		if !page.More {
			break
		}
		q.After = page.Keys[2]
	}
	for _, k := range want {
		if !slices.Contains(got, k) {
			f.Errorf("States() lacks %+v", k)
		}
	}
	if len(got) != len(want) {
		f.Errorf("States() = %+v, want %+v in any order", got, want)
	}
}
