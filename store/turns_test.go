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

func TestTurnsGoOnWhereTheLastClaimStopped(t *testing.T) {
	t.Parallel()
	var turns store.Turns
	type place struct {
		owner    string
		contexts map[string]string
		oldest   bool
	}
	for i, step := range []struct {
		want    place
		claimed []*store.Task
	}{
		{place{}, []*store.Task{task("a", "c1"), task("b", "c1"), task("a", "c2")}},
		{place{"a", map[string]string{"a": "c2", "b": "c1"}, false}, []*store.Task{task("b", "c2"), task("b", "c3"), task("c", "c1")}},
		{place{"c", map[string]string{"a": "c2", "b": "c3", "c": "c1"}, false}, []*store.Task{task("a", "c3"), task("a", "c4"), task("b", "c4")}},
		// What goes by age moves no turn of contexts.
		{place{"b", map[string]string{"a": "c4", "b": "c4", "c": "c1"}, true}, []*store.Task{task("c", "c2"), task("a", "c1"), task("b", "c1")}},
		// Nothing waits for its turn any more.
		{place{"b", map[string]string{"a": "c4", "b": "c4", "c": "c1"}, false}, []*store.Task{task("c", "c2")}},
		{place{"c", map[string]string{}, false}, nil},
	} {
		p := store.ClaimParams{Limit: 3}
		turns.Next(&p)
		got := place{p.AfterOwner, p.AfterContexts, p.OldestFirst}
		if diff := cmp.Diff(fmt.Sprint(step.want), fmt.Sprint(got)); diff != "" {
			t.Errorf("Next() number %d: -want +got\n%s", i+1, diff)
		}
		turns.Claimed(&p, step.claimed)
	}
}

func TestTurnsRememberSoManyOwners(t *testing.T) {
	t.Parallel()
	var turns store.Turns
	p := store.ClaimParams{Limit: 1}
	for i := range 2000 {
		p.OldestFirst = false
		owner := fmt.Sprint("owner ", i)
		turns.Claimed(&p, []*store.Task{task(owner, "c")})
		turns.Next(&p)
		if n := len(p.AfterContexts); n > 256 || p.AfterContexts[owner] != "c" {
			t.Fatalf("Next() after %d owners remembers %d and %q of the last, want up to 256 and c", i+1, n, p.AfterContexts[owner])
		}
	}
}
