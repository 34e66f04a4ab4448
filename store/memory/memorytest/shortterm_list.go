package memorytest

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/suite"
)

func stateList(f *shortTermFixture) {
	lister := suite.Optional[memory.StateLister](f, f.s)
	var want []memory.Key
	for _, agent := range []string{"a", "1:b"} {
		for i := range 5 {
			k := memory.Key{Owner: stateKey.Owner, Agent: agent, Session: fmt.Sprint("s:", i)}
			suite.Call(f.s.Set(f.ctx, k, map[string]any{"n": i}, memory.AnyVersion)).Must(f, "Set()")
			if i == 2 {
				suite.Do(f.s.Clear(f.ctx, k)).Must(f, "Clear()")
				continue
			}
			want = append(want, k)
		}
	}
	suite.Call(f.s.Set(f.ctx, memory.Key{Owner: "bob", Agent: "a", Session: "s"}, map[string]any{}, memory.AnyVersion)).Must(f, "Set()")
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
