package store_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/store"
)

func task(owner, context string) *store.Task {
	return &store.Task{Key: store.Key{Owner: owner, ID: "t"}, ContextID: context}
}

func TestFairnessCursorContinuesAfterTheLastClaim(t *testing.T) {
	t.Parallel()
	var c store.FairnessCursor
	type position struct {
		owner    string
		contexts map[string]string
		oldest   bool
	}
	for i, step := range []struct {
		want    position
		claimed []*store.Task
	}{
		{position{}, []*store.Task{task("a", "c1"), task("b", "c1"), task("a", "c2")}},
		{position{"a", map[string]string{"a": "c2", "b": "c1"}, false}, []*store.Task{task("b", "c2"), task("b", "c3"), task("c", "c1")}},
		{position{"c", map[string]string{"a": "c2", "b": "c3", "c": "c1"}, false}, []*store.Task{task("a", "c3"), task("a", "c4"), task("b", "c4")}},
		// A claim with OldestFirst does not move the positions of contexts.
		{position{"b", map[string]string{"a": "c4", "b": "c4", "c": "c1"}, true}, []*store.Task{task("c", "c2"), task("a", "c1"), task("b", "c1")}},
		// A claim below its limit clears the positions of contexts.
		{position{"b", map[string]string{"a": "c4", "b": "c4", "c": "c1"}, false}, []*store.Task{task("c", "c2")}},
		{position{"c", map[string]string{}, false}, nil},
	} {
		p := store.ClaimParams{Limit: 3}
		c.Next(&p)
		got := position{p.AfterOwner, p.AfterContexts, p.OldestFirst}
		if diff := cmp.Diff(fmt.Sprint(step.want), fmt.Sprint(got)); diff != "" {
			t.Errorf("Next() call %d (-want +got)\n%s", i+1, diff)
		}
		c.Claimed(&p, step.claimed)
	}
}

func TestFairnessCursorLimitsRecordedOwners(t *testing.T) {
	t.Parallel()
	var c store.FairnessCursor
	p := store.ClaimParams{Limit: 1}
	for i := range 2000 {
		p.OldestFirst = false
		owner := fmt.Sprint("owner ", i)
		c.Claimed(&p, []*store.Task{task(owner, "c")})
		c.Next(&p)
		if n := len(p.AfterContexts); n > 256 || p.AfterContexts[owner] != "c" {
			t.Fatalf("Next() after %d owners returns %d contexts and %q for the last owner, want up to 256 and c", i+1, n, p.AfterContexts[owner])
		}
	}
}
