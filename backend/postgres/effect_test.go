//go:build services

package postgres

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// effectRequest returns the request of a change that creates a task with effects.
func effectRequest(t *testing.T, s *Store, n int, effects ...store.Effect) *request {
	t.Helper()
	c := submitted(n)
	c.Effects = effects
	r := &request{changes: make([]change, 1), done: make(chan error, 1)}
	must(t, r.changes[0].prepare(&c))
	if !s.prepareEffects(t.Context(), r) {
		t.Errorf("the effects of request %d have no statements", n)
	}
	return r
}

func textEffect(t *testing.T, s *Store, session string, p history.AppendParams) store.Effect {
	t.Helper()
	p.Messages = []history.Message{{Role: "user", Body: []byte(`"text"`)}}
	e, err := historysql.Of(s).(history.Transactional).AppendEffect(history.Key{Owner: "o", Agent: "a", Session: session}, p)
	must(t, err)
	return e
}

func factEffect(t *testing.T, s *Store, text string) store.Effect {
	t.Helper()
	e, err := memorysql.Of(s, memory.LongTermConfig{}).(memory.Transactional).SaveEffect(bg, memory.Scope{Owner: "o", Agent: "a"}, text, memory.SaveParams{})
	must(t, err)
	return e
}

// wantTransactions checks the number of transactions that have written the rows of a table.
func wantTransactions(t *testing.T, s *Store, table string, want int64) {
	t.Helper()
	var n int64
	must(t, s.pool.QueryRow(bg, s.qualify(`SELECT count(DISTINCT xmin::text) FROM {s}.`+table)).Scan(&n))
	if n != want {
		t.Errorf("%d transactions have written the rows of %s, want %d", n, table, want)
	}
}

func TestEffectsAreGrouped(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	var group []*request
	for n := range 8 {
		group = append(group, effectRequest(t, s, n,
			textEffect(t, s, fmt.Sprint(n%2), history.AppendParams{Run: "run"}), factEffect(t, s, "The sky is blue."),
			textEffect(t, s, "keys", history.AppendParams{IdempotencyKey: fmt.Sprint(n)}), textEffect(t, s, fmt.Sprint("fenced", n), history.AppendParams{Run: "run", Fence: 1})))
	}
	s.newCommitter().run(group)
	for n, r := range group {
		if err := <-r.done; err != nil || !r.applied() {
			t.Errorf("request %d: applied = %t, %v", n, r.applied(), err)
		}
	}
	for session, want := range map[string]int64{"0": 4, "1": 4, "keys": 8, "fenced7": 1} {
		wantMessages(t, s, session, want)
	}
	for _, table := range []string{"history_messages", "memory_facts", "task_rows"} {
		wantTransactions(t, s, table, 1)
	}
}

func TestEffectThatFailsLeavesItsGroup(t *testing.T) {
	t.Parallel()
	for _, failing := range []int{1, 2, maxGroupAttempts + 2} {
		t.Run(fmt.Sprint(failing), func(t *testing.T) {
			t.Parallel()
			s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
			_, err := appendText(s, "changed", "text", history.AppendParams{})
			must(t, err)
			expected := int64(7)
			var group []*request
			for n := range failing {
				group = append(group, effectRequest(t, s, n, textEffect(t, s, "changed", history.AppendParams{Expected: &expected}), factEffect(t, s, "lost")))
			}
			group = append(group, effectRequest(t, s, 100, factEffect(t, s, "The sky is blue.")), effectRequest(t, s, 101))
			s.newCommitter().run(group)
			for n, r := range group[:failing] {
				if err := <-r.done; !errors.Is(err, errUngrouped) || r.applied() {
					t.Errorf("request %d: applied = %t, %v, want errUngrouped", n, r.applied(), err)
				}
				results, err := s.Commit(bg, *r.changes[0].Change)
				var refused *store.EffectError
				if err != nil || !errors.As(results[0].Err, &refused) || !errors.Is(refused, history.ErrConflict) {
					t.Errorf("Commit() = %+v, %v, want ErrConflict of its effect", results, err)
				}
			}
			fact, plain := group[failing], group[failing+1]
			if err := <-plain.done; err != nil {
				t.Errorf("request without effects: %v", err)
			}
			if err := <-fact.done; failing > maxGroupAttempts && !errors.Is(err, errUngrouped) || failing <= maxGroupAttempts && err != nil {
				t.Errorf("request with valid effects: %v", err)
			}
			wantMessages(t, s, "changed", 1)
		})
	}
}

// A change that its guard refuses has no effect, in the group of others neither.
func TestRefusedChangeInAGroupHasNoEffect(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	must(t, commitOne(s, submitted(1)))
	stale := completed(submitted(1))
	stale.Lease.Fence++
	stale.Effects = []store.Effect{textEffect(t, s, "stale", history.AppendParams{})}
	r := &request{changes: make([]change, 1), done: make(chan error, 1)}
	must(t, r.changes[0].prepare(&stale))
	s.prepareEffects(t.Context(), r)
	group := []*request{effectRequest(t, s, 2, textEffect(t, s, "valid", history.AppendParams{})), r}
	s.newCommitter().run(group)
	must(t, <-group[0].done)
	if err := <-r.done; err != nil || !errors.Is(r.changes[0].result.Err, store.ErrLeaseLost) {
		t.Errorf("a change with a lost lease = %v, %v, want ErrLeaseLost", r.changes[0].result.Err, err)
	}
	wantMessages(t, s, "valid", 1)
	wantMessages(t, s, "stale", 0)
}

// The connection is cut at every byte of the answer to a change with effects.
func TestGroupedEffectsAreAppliedOnceWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	p, s, direct := openBehindProxy(t, Config{MaxRetries: 10})
	n, cuts := 0, 0
	for bytes := 0; bytes < 700; bytes += 23 {
		n++
		before := p.Cuts()
		c := submitted(n)
		c.Effects = []store.Effect{textEffect(t, s, "s", history.AppendParams{}), factEffect(t, s, fmt.Sprint("fact ", n))}
		p.CutAfter(bytes)
		if err := commitOne(s, c); err != nil {
			t.Errorf("Commit() cut after %d bytes = %v", bytes, err)
		}
		p.Disarm()
		cuts += p.Cuts() - before
		wantMessages(t, direct, "s", int64(n))
	}
	found, err := memorysql.Of(direct, memory.LongTermConfig{}).Search(bg, memory.Scope{Owner: "o", Agent: "a"}, memory.SearchParams{Limit: 100})
	if err != nil || len(found.Facts) != n {
		t.Errorf("Search() = %d facts, %v, want %d", len(found.Facts), err, n)
	}
	if cuts < 5 {
		t.Errorf("%d cuts, want at least 5", cuts)
	}
}

// While a session is locked by another transaction, changes of other sessions are applied.
func TestLockedSessionDelaysNoOtherEffects(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{CommandTimeout: 10 * time.Minute}))
	for _, session := range []string{"locked", "other"} {
		_, err := appendText(s, session, "text", history.AppendParams{})
		must(t, err)
	}
	release := hold(t, s, "locked")
	locked := make(chan error, 1)
	commit := func(n int, session string) error {
		c := submitted(n)
		c.Effects = []store.Effect{textEffect(t, s, session, history.AppendParams{})}
		return commitOne(s, c)
	}
	go func() { locked <- commit(0, "locked") }()
	within(t, "changes of another session", func() {
		for n := range 5 {
			must(t, commit(n+1, "other"))
		}
	})
	select {
	case err := <-locked:
		t.Errorf("Commit() of the locked session = %v before it was unlocked", err)
	default:
	}
	release()
	must(t, <-locked)
	wantMessages(t, s, "locked", 2)
	wantMessages(t, s, "other", 6)
}

// An effect that reads is applied in a transaction of its own, with all others of its request.
func TestEffectsThatReadAreNotGrouped(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	large := history.AppendParams{Messages: []history.Message{{Role: "user", Body: slices.Concat([]byte(`"`), slices.Repeat([]byte("x"), 65<<10), []byte(`"`))}}}
	h := historysql.Of(s).(history.Transactional)
	k := history.Key{Owner: "o", Agent: "a", Session: "s"}
	appendLarge, err := h.AppendEffect(k, large)
	must(t, err)
	remove, err := h.ClearEffect(k)
	must(t, err)
	keyed, err := memorysql.Of(s, memory.LongTermConfig{}).(memory.Transactional).SaveEffect(bg, memory.Scope{Owner: "o", Agent: "a"}, "red", memory.SaveParams{Key: "color"})
	must(t, err)
	for name, e := range map[string]store.Effect{"large": appendLarge, "clear": remove, "fact with a key": keyed} {
		c := submitted(0)
		c.Effects = []store.Effect{textEffect(t, s, "s", history.AppendParams{}), e}
		r := &request{changes: make([]change, 1)}
		must(t, r.changes[0].prepare(&c))
		if s.prepareEffects(t.Context(), r) {
			t.Errorf("%s: the effect has statements", name)
		}
	}
	other := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	foreign := submitted(0)
	foreign.Effects = []store.Effect{textEffect(t, other, "s", history.AppendParams{})}
	if err := commitOne(s, foreign); !errors.Is(err, store.ErrForeignEffect) || a2a.CodeOf(err) != a2a.CodeInternal {
		t.Errorf("Commit() with an effect of another store = %v, want ErrForeignEffect", err)
	}
}
