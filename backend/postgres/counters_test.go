//go:build services

package postgres

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

const tagOwner = "o"

var (
	someTags     = []string{"common", "rare", "third"}
	someStatuses = []a2a.ContextStatus{a2a.ContextActive, a2a.ContextArchived, a2a.ContextCompleted, a2a.ContextPaused}
)

// taggedContext returns the change that creates a context with tags, which must be sorted.
func taggedContext(id string, tags ...string) store.ContextChange {
	return store.ContextChange{Create: true, Context: store.Context{
		Key: store.ContextKey{Owner: tagOwner, ID: id}, Status: a2a.ContextActive, Role: store.DefaultContextRole, Tags: tags,
		CreatedAt: testStart, UpdatedAt: testStart,
	}}
}

func saveContext(t testing.TB, s *Store, c store.ContextChange) store.Context {
	t.Helper()
	saved, err := s.SaveContext(bg, c)
	must(t, err)
	return saved
}

// randomize sets random tags, role and status of a context.
func randomize(r *mathrand.Rand, c *store.Context) {
	c.Tags, c.Role = nil, store.DefaultContextRole
	for i, tag := range someTags {
		if r.IntN(2+i) == 0 {
			c.Tags = append(c.Tags, tag)
		}
	}
	if r.IntN(3) == 0 {
		c.Role = "critic"
	}
	c.Status = someStatuses[r.IntN(len(someStatuses))]
	c.Name = fmt.Sprint("name ", r.IntN(5))
	c.UpdatedAt = testStart.Add(time.Duration(r.IntN(20)) * time.Second)
}

// labelQueries returns queries with all combinations of labels and statuses.
func labelQueries() (all []store.ContextQuery) {
	for _, tags := range [][]string{nil, {"common"}, {"rare"}, {"absent"}, {"common", "rare"}, {"common", "rare", "third"}} {
		for _, role := range []string{"", "critic", store.DefaultContextRole} {
			for _, statuses := range [][]a2a.ContextStatus{nil, {a2a.ContextActive}, {a2a.ContextPaused, a2a.ContextActive, a2a.ContextPaused}} {
				all = append(all, store.ContextQuery{
					Owner: tagOwner, Tags: tags, Role: role, Statuses: statuses, Sort: store.ContextsByUpdated, Limit: 1000,
				})
			}
		}
	}
	return all
}

// checkLists compares totals and pages to the results of queries that use no counters.
func checkLists(t *testing.T, s *Store) {
	t.Helper()
	for _, q := range labelQueries() {
		labels := queryLabels(&q)
		var statuses []string
		for _, status := range q.Statuses {
			statuses = append(statuses, string(status))
		}
		var want []string
		rows, err := s.pool.Query(bg, s.qualify(`SELECT id FROM {s}.context_rows WHERE owner = $1 AND status <> '' AND (status = ANY ($2) OR $2 IS NULL)
			AND (labels @> $3 OR $3 IS NULL) AND (NOT $4 OR labels IS NULL OR $5 = ANY (labels)) ORDER BY id`),
			q.Owner, statuses, labels, q.Role == store.DefaultContextRole, label(q.Owner, "role", q.Role))
		must(t, err)
		want, err = pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		page, err := s.Contexts(bg, q)
		must(t, err)
		got := make([]string, 0, len(page.Contexts))
		for i := range page.Contexts {
			got = append(got, page.Contexts[i].Key.ID)
		}
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" || page.Total != len(want) {
			t.Errorf("Contexts(%v, role %q, %v): total %d, want %d; ids (-want +got):\n%s", q.Tags, q.Role, q.Statuses, page.Total, len(want), d)
		}
	}
}

// sqlAddLabelCounters counts the labels of contexts that a test has inserted with SQL.
const sqlAddLabelCounters = `INSERT INTO {s}.label_counters SELECT owner, label, status, 1 FROM {s}.context_rows, unnest(labels) label`

// mergeCounters merges counters as maintenance does.
func mergeCounters(t testing.TB, s *Store) {
	t.Helper()
	must(t, s.runOnce(bg, s.mergeCounters))
}

func countRows(t testing.TB, s *Store, text string, args ...any) (n int) {
	t.Helper()
	must(t, s.pool.QueryRow(bg, s.qualify("SELECT count(*) FROM "+text), args...).Scan(&n))
	return n
}

// Several replicas concurrently save, change and delete contexts and merge counters.
func TestLabelTotalsStayCorrect(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	stores := []*Store{open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)}
	seed := testseed.Of(t)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			s, r := stores[worker%2], mathrand.New(mathrand.NewPCG(seed, uint64(worker)))
			for range 80 {
				if err := randomChange(s, r); err != nil {
					t.Errorf("worker %d: %v", worker, err)
					return
				}
			}
		})
	}
	wg.Wait()
	checkLists(t, stores[0])
	for _, s := range stores {
		mergeCounters(t, s)
	}
	checkLists(t, stores[1])

	for n := range 12 {
		for more := true; more; {
			var err error
			if more, err = stores[0].DeleteContext(bg, tagOwner, fmt.Sprint("c", n), 10); err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
		}
	}
	mergeCounters(t, stores[0])
	checkLists(t, stores[1])
	if n := countRows(t, stores[0], `(SELECT owner FROM {s}.label_counters UNION ALL SELECT owner FROM {s}.counters) x`); n != 0 {
		t.Errorf("%d counters remain of an owner without contexts, want 0", n)
	}
}

// randomChange applies a random change to one of a dozen contexts.
func randomChange(s *Store, r *mathrand.Rand) error {
	c := taggedContext(fmt.Sprint("c", r.IntN(12)))
	var err error
	switch r.IntN(8) {
	case 0, 1:
		randomize(r, &c.Context)
		_, err = s.SaveContext(bg, c)
	case 2:
		_, err = s.DeleteContext(bg, tagOwner, c.Context.Key.ID, r.IntN(2))
	case 3: // a task creates the context or is counted in it
		task := submitted(r.IntN(1 << 40))
		task.Key.Owner, task.Create.ContextID = tagOwner, c.Context.Key.ID
		task.Queue = &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1}
		err = commitOne(s, task)
	case 4:
		for _, tag := range someTags {
			s.labelRows.add(labelKey{tagOwner, label(tagOwner, "tag", tag)}, mergeThreshold)
		}
		err = s.runOnce(bg, s.mergeCounters)
	default:
		var old store.Context
		if old, err = s.Context(bg, tagOwner, c.Context.Key.ID, 0); err == nil {
			randomize(r, &old)
			_, err = s.SaveContext(bg, store.ContextChange{Context: old, Version: old.Version})
		}
	}
	for _, refusal := range []error{store.ErrExists, store.ErrNotFound, store.ErrConflict, store.ErrContextClosed} {
		if errors.Is(err, refusal) {
			return nil
		}
	}
	return err
}

// A walk and a lookup by label find the same pages.
func TestWalkAndLookupFindTheSamePages(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	r := mathrand.New(mathrand.NewPCG(1, 2))
	for n := range 40 {
		c := taggedContext(fmt.Sprint("c", n))
		randomize(r, &c.Context)
		saveContext(t, s, c)
	}
	ids := func(q *store.ContextQuery, few bool) (ids []string) {
		t.Helper()
		text, args := contextRows(q, few)
		must(t, s.runOnce(bg, func(ctx context.Context, c *pgx.Conn) error {
			return s.eachRowPlanned(ctx, c, few, text, func(r record) error {
				ids = append(ids, r.text(1))
				return nil
			}, args...)
		}))
		return ids
	}
	pages := 0
	for _, q := range labelQueries() {
		if len(queryLabels(&q)) == 0 {
			continue
		}
		q.Limit, q.Offset = 3, r.IntN(2)
		for _, q.Sort = range []store.ContextSort{store.ContextsByUpdated, store.ContextsByCreated, store.ContextsByName} {
			for _, q.Ascending = range []bool{false, true} {
				for q.Cursor = nil; ; {
					walked, gathered := ids(&q, false), ids(&q, true)
					if d := cmp.Diff(walked, gathered); d != "" {
						t.Errorf("Contexts(%+v) (-walked +gathered):\n%s", q, d)
					}
					page, err := s.Contexts(bg, q)
					must(t, err)
					if pages++; page.Next == nil {
						break
					}
					q.Cursor = page.Next
				}
			}
		}
	}
	if pages < 300 {
		t.Errorf("%d pages were read, want at least 300", pages)
	}
}

// The counter of a label, not the statistics of the database, decides whether a page is found by
// a walk or by a lookup.
func TestContextsWithRareLabelsAreLookedUp(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	tag := func(text string) int64 { return label(tagOwner, "tag", text) }
	_, err := s.pool.Exec(bg, s.qualify(`INSERT INTO {s}.context_rows SELECT $1, 'c' || n, CASE WHEN n % 2 = 0 THEN 'active' ELSE 'archived' END, '', '', n, n, 1, 0,
		CASE WHEN n % 1000 = 0 THEN $2::bigint[] WHEN n = 1 THEN $3::bigint[] WHEN n % 2 = 0 THEN $4::bigint[] END, NULL FROM generate_series(1, 6000) n`),
		tagOwner, []int64{tag("common"), tag("rare")}, []int64{tag("once archived")}, []int64{tag("common"), tag("once archived")})
	must(t, err)
	_, err = s.pool.Exec(bg, s.qualify(`INSERT INTO {s}.counters SELECT owner, status, count(*) FROM {s}.context_rows GROUP BY 1, 2`))
	must(t, err)
	_, err = s.pool.Exec(bg, s.qualify(sqlAddLabelCounters))
	must(t, err)
	active := []a2a.ContextStatus{a2a.ContextActive}
	for _, test := range []struct {
		tags     []string
		statuses []a2a.ContextStatus
		n        int
		few      bool
	}{
		{nil, nil, 0, false},
		{[]string{"absent"}, nil, 0, false},
		{[]string{"common"}, nil, 3000, false},
		{[]string{"common", "once archived"}, active, 2994, false},
		{[]string{"rare"}, nil, 6, true},
		{[]string{"common", "rare"}, nil, 6, true},
		{[]string{"once archived"}, active, 2994, false},
		{[]string{"once archived"}, []a2a.ContextStatus{a2a.ContextArchived}, 1, true},
	} {
		q := store.ContextQuery{Owner: tagOwner, Tags: test.tags, Statuses: test.statuses, Sort: store.ContextsByUpdated, Limit: 20}
		must(t, s.runOnce(bg, func(ctx context.Context, c *pgx.Conn) error {
			n, few, err := s.rarest(ctx, c, &q)
			if n != test.n || few != test.few {
				t.Errorf("rarest(%v, %v) = %d, few %t, want %d, %t", test.tags, test.statuses, n, few, test.n, test.few)
			}
			return err
		}))
		page, err := s.Contexts(bg, q)
		must(t, err)
		if len(test.tags) == 1 && (page.Total != test.n || len(page.Contexts) != min(test.n, q.Limit)) {
			t.Errorf("Contexts(%v, %v) = %d of %d, want %d", test.tags, test.statuses, len(page.Contexts), page.Total, test.n)
		}
	}
}

// A replica is suspended in a transaction that has counted a label or merged its rows.
func TestSuspendedCounterTransactionsBlockNoOther(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{CommandTimeout: time.Minute})
	s := open(storetest.Wrap(t), cfg)
	common := labelKey{tagOwner, label(tagOwner, "tag", "common")}
	for n := range 3 {
		saveContext(t, s, taggedContext(fmt.Sprint("c", n), "common"))
	}
	suspend := func(text string, args ...any) pgx.Tx {
		t.Helper()
		tx, err := s.pool.Begin(bg)
		must(t, err)
		t.Cleanup(func() { _ = tx.Rollback(bg) })
		_, err = tx.Exec(bg, s.qualify(text), args...)
		must(t, err)
		return tx
	}
	use := func(n int) {
		t.Helper()
		made := saveContext(t, s, taggedContext(fmt.Sprint("d", n), "common"))
		made.Status = a2a.ContextPaused
		saveContext(t, s, store.ContextChange{Context: made, Version: made.Version})
		s.labelRows.add(common, mergeThreshold)
		mergeCounters(t, s)
		checkLists(t, s)
	}
	counted := suspend(sqlInsertContext, insertedContext.Args(&contextParams{
		Key: store.ContextKey{Owner: tagOwner, ID: "x"}, Status: "active", Name: []byte{}, CreatedAt: 1, UpdatedAt: 1,
		Labels: []int64{common.label}, Record: `{"role":"assistant"}`,
	})...)
	_, err := counted.Exec(bg, s.qualify(sqlAddCounter), tagOwner, "active", 1)
	must(t, err)
	use(1)
	must(t, counted.Commit(bg))
	checkLists(t, s)
	folded := suspend(sqlMergeLabelCounters, []string{tagOwner}, []int64{common.label})
	use(2)
	must(t, folded.Commit(bg))
	s.labelRows.add(common, mergeThreshold)
	mergeCounters(t, s)
	checkLists(t, s)
	if n := countRows(t, s, `{s}.label_counters WHERE label = $1`, common.label); n != 2 {
		t.Errorf("%d rows remain of a tag in two statuses, want 2", n)
	}
}

// A read of many rows of a label causes a merge.
func TestReadsOfManyLabelRowsMergeThem(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	common := label(tagOwner, "tag", "common")
	_, err := s.pool.Exec(bg, s.qualify(`INSERT INTO {s}.context_rows SELECT $1, 'c' || n, 'active', '', '', 1, 1, 1, 0, $2, NULL FROM generate_series(1, $3::int) n`),
		tagOwner, []int64{common}, mergeReadThreshold+1)
	must(t, err)
	_, err = s.pool.Exec(bg, s.qualify(sqlAddLabelCounters))
	must(t, err)
	for _, want := range []int{mergeReadThreshold + 1, 1} {
		if n := countRows(t, s, `{s}.label_counters`); n != want {
			t.Errorf("%d rows, want %d", n, want)
		}
		page, err := s.Contexts(bg, store.ContextQuery{Owner: tagOwner, Tags: []string{"common"}, Sort: store.ContextsByName, Limit: 1})
		if err != nil || page.Total != mergeReadThreshold+1 {
			t.Errorf("Contexts() = total %d, %v, want %d", page.Total, err, mergeReadThreshold+1)
		}
		mergeCounters(t, s)
	}
}
