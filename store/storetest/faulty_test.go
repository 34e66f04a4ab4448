package storetest

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

func TestFaultyFailsTheCallOfThePlan(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, test := range []struct {
		name  string
		fault Fault
		made  bool
	}{{"before", FailBefore, false}, {"after", FailAfter, true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inner := newModel()
			s := Faulty(inner, FailCall("Commit", 2, test.fault))
			suite.Call(s.Commit(ctx, newTask(key("t1"), "c1", at(0)))).Must(t, "Commit() call 1")
			results, err := s.Commit(ctx, newTask(key("t2"), "c1", at(0)))
			if !errors.Is(err, a2a.ErrUnavailable) || results != nil {
				t.Errorf("Commit() call 2 = %v, %v, want only an unavailable error", results, err)
			}
			_, err = inner.Task(ctx, key("t2"), store.TaskOptions{})
			if made := err == nil; made != test.made {
				t.Errorf("failed Commit() was applied: %t, want %t", made, test.made)
			}
			suite.Call(s.Commit(ctx, newTask(key("t3"), "c1", at(0)))).Check(t, "Commit() call 3")
		})
	}
}

func TestFaultyReturnsTheFirstClaimedTask(t *testing.T) {
	t.Parallel()
	s := Faulty(newModel(), FailCall("Claim", 1, FailAfter))
	for _, id := range []string{"t1", "t2"} {
		if _, err := s.Commit(t.Context(), newTask(key(id), "c1", at(0))); err != nil {
			t.Fatal(err)
		}
	}
	var partly *store.ClaimError
	tasks, err := s.Claim(t.Context(), claimAt(worker, at(1), 9))
	if len(tasks) != 1 || !errors.As(err, &partly) || !errors.Is(partly.Indeterminate, a2a.ErrUnavailable) {
		t.Errorf("Claim() = %d tasks, %v, want one task and lost leases", len(tasks), err)
	}
}

func TestFaultyCoversEveryMethod(t *testing.T) {
	t.Parallel()
	all := calls(t.Context(), newModel())
	for m := range reflect.TypeFor[store.Store]().Methods() {
		infallible := slices.Contains([]string{"Close", "Info", "WatchLanes"}, m.Name)
		if _, ok := all[m.Name]; ok == infallible {
			t.Errorf("calls() has %s: %t, want %t", m.Name, ok, !infallible)
		}
	}
	var methods []string
	s := Faulty(newModel(), func(c Call) Fault {
		methods = append(methods, c.Method)
		return FailBefore
	})
	for method, call := range calls(t.Context(), s) {
		suite.Do(call()).Fails(t, a2a.ErrUnavailable, "%s()", method)
		if got := methods[len(methods)-1]; got != method {
			t.Errorf("%s() asked the plan for %s", method, got)
		}
	}
}

func TestFaultyPassesChangesToThePlan(t *testing.T) {
	t.Parallel()
	s := Faulty(newModel(), func(c Call) Fault {
		if len(c.Changes) == 1 && c.Changes[0].Key.ID == "bad" {
			return FailBefore
		}
		return Pass
	})
	suite.Call(s.Commit(t.Context(), newTask(key("good"), "c1", at(0)))).Check(t, "Commit() of task good")
	if _, err := s.Commit(t.Context(), newTask(key("bad"), "c1", at(0))); err == nil {
		t.Errorf("Commit() of task bad = nil, want an error")
	}
}

// A faulty store without faults passes the suite.
func TestFaultyPassesTheSuite(t *testing.T) {
	t.Parallel()
	h := modelHarness()
	h.Open = func(T) store.Store { return Faulty(newModel(), FailRandomly(1, 0)) }
	Run(t, h)
}

func TestFailRandomlyFailsTheGivenShare(t *testing.T) {
	t.Parallel()
	plan, again := FailRandomly(7, 0.5), FailRandomly(7, 0.5)
	count := make(map[Fault]int)
	for range 10_000 {
		fault := plan(Call{})
		count[fault]++
		if fault != again(Call{}) {
			t.Fatalf("two plans with the same seed differ")
		}
	}
	if count[Pass] < 4700 || count[Pass] > 5300 || count[FailBefore] < 2200 || count[FailAfter] < 2200 {
		t.Errorf("faults of 10000 calls = %v, want half of them, before and after in equal parts", count)
	}
}
