package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var contextListTests = []test{
	{"a list of no contexts is empty", contextsEmpty},
	{"contexts are sorted by every order and direction", contextsSorted},
	{"contexts with equal names are sorted by creation time", contextsWithEqualNames},
	{"every filter of contexts works alone and combined", contextsFiltered},
	{"a filter by tags requires all of them", contextsTagged},
	{"a creation time range includes its start and excludes its end", contextsBetween},
	{"pages of contexts have no gaps and no duplicates", contextsPaged},
	{"a full last page of contexts has no Next", contextsFullLastPage},
	{"unchanged contexts are listed once while others change", contextsMoving},
	{"listed contexts equal read contexts", contextsEqualRead},
	{"contexts of other owners are not listed", contextsOfOthers},
}

var contextSorts = []store.ContextSort{store.ContextsByUpdated, store.ContextsByCreated, store.ContextsByName}

// createContexts creates contexts with few different names, times and tags, and equal ones of
// another owner. It returns the contexts of the owner without their tasks.
func (f *fixture) createContexts(n int) []store.Context {
	f.Helper()
	names := []string{"", "a", "A", "b", "é", "e\u0301", "a b", "🦀", "a"}
	statuses := []a2a.ContextStatus{a2a.ContextActive, a2a.ContextPaused, a2a.ContextCompleted, a2a.ContextArchived}
	tags := [][]string{nil, {"x"}, {"x", "y"}, {"x", "y", "é z"}, {"y"}, {"xy"}}
	odd := []string{"", "🦀", "%", "_", "'", `"`, "\\", " ", "\t", "\u2028", "é", "E"}
	all := make([]store.Context, n)
	for i := range all {
		j := i * 37 % n
		c := fullContext(owner, fmt.Sprintf("c%s%03d", odd[j%len(odd)], j), j%7)
		c.Name, c.Status, c.Tags, c.Role = names[j%len(names)], statuses[j/2%4], tags[j/3%len(tags)], []string{"analyst", "assistant"}[j/5%2]
		c.UpdatedAt = at(7 + j/4%5)
		all[i] = f.saveContext(store.ContextChange{Context: c, Create: true})
		theirs := c.Copy()
		theirs.Key.Owner = otherOwner
		f.saveContext(store.ContextChange{Context: theirs, Create: true})
	}
	return all
}

// checkContexts reads a list in one page and in several, and compares it with the expected
// result.
func (f *fixture) checkContexts(all []store.Context, q store.ContextQuery, limit int) {
	f.Helper()
	q.Limit = len(all) + 1
	var want store.ContextPage
	for _, q.TotalLimit = range []int{1, 3, 0} {
		want = contextPageOf(all, q)
		f.equal(fmt.Sprintf("Contexts(%+v)", q), f.contexts(q), want)
	}
	q.Limit = limit
	var got []string
	for range len(all)/limit + 2 {
		page := f.contexts(q)
		got = append(got, contextIDs(page.Contexts)...)
		suite.Equal(f, page.Total, want.Total, "total of Contexts(%+v)", q)
		if page.Next == nil {
			break
		}
		suite.Equal(f, len(page.Contexts), limit, "Contexts() with limit %d", limit)
		q.Cursor, q.Offset = page.Next, 0
	}
	f.equal(fmt.Sprintf("the pages of Contexts(%+v)", q), got, contextIDs(want.Contexts))
}

func contextsEmpty(f *fixture) {
	theirs := newContext("c1", 0)
	theirs.Context.Key.Owner = otherOwner
	f.saveContext(theirs)
	for _, sort := range contextSorts {
		f.equal("Contexts() of an owner without contexts", f.contexts(store.ContextQuery{Owner: owner, Sort: sort, Offset: 1}), store.ContextPage{})
	}
}

func contextsSorted(f *fixture) {
	for i, c := range []struct {
		id, name         string
		created, updated int
	}{{"1", "b", 1, 9}, {"2", "", 2, 5}, {"9", "", 2, 7}, {"10", "a", 3, 7}, {"é", "é", 0, 7}, {"B", "B", 2, 6}} {
		record := fullContext(owner, c.id, c.created)
		record.Name, record.UpdatedAt = c.name, at(c.updated)
		if f.saveContext(store.ContextChange{Context: record, Create: true}).Version != 1 {
			f.Errorf("SaveContext() of context %d returned a version other than 1", i)
		}
	}
	for sort, ascending := range map[store.ContextSort][]string{
		store.ContextsByUpdated: {"2", "B", "10", "9", "é", "1"},
		store.ContextsByCreated: {"é", "1", "2", "9", "B", "10"},
		store.ContextsByName:    {"2", "9", "B", "10", "1", "é"},
	} {
		q := store.ContextQuery{Owner: owner, Sort: sort, Ascending: true}
		f.equal(fmt.Sprintf("Contexts() ascending by %s", sort), contextIDs(f.contexts(q).Contexts), ascending)
		q.Ascending = false
		slices.Reverse(ascending)
		f.equal(fmt.Sprintf("Contexts() descending by %s", sort), contextIDs(f.contexts(q).Contexts), ascending)
	}
}

// contextsWithEqualNames lists contexts without a name, saved and not, and contexts with equal
// names, starting at every position.
func contextsWithEqualNames(f *fixture) {
	f.commit(newTask(key("t5"), "5", at(5)), newTask(key("t4"), "4", at(20)), newTask(key("t3"), "3", at(10)), newTask(key("t2"), "2", at(20)))
	for _, id := range []string{"t5", "t4"} { // updated by messages, but never saved
		f.commit(store.Change{Key: key(id), Version: 1, Events: []store.Event{clientMessage(at(30), "more")}, Queue: idle()})
	}
	for _, c := range []struct {
		id, name string
		created  int
		status   a2a.ContextStatus
	}{
		{"1", "", 15, a2a.ContextPaused},
		{"0", "", 20, a2a.ContextActive},
		{"a", "", 1, a2a.ContextActive},
		{"9", "n", 3, a2a.ContextActive},
		{"8", "n", 7, a2a.ContextPaused},
		{"7", "n", 7, a2a.ContextActive},
		{"6", "n", 30, a2a.ContextActive},
		{"b", "m", 40, a2a.ContextActive},
		{"c", "o", 0, a2a.ContextActive},
	} {
		record := fullContext(owner, c.id, c.created)
		record.Name, record.Status, record.UpdatedAt = c.name, c.status, at(50-c.created)
		f.saveContext(store.ContextChange{Context: record, Create: true})
	}
	want := []string{"a", "5", "3", "1", "0", "2", "4", "b", "9", "7", "8", "6", "c"}
	for _, ascending := range []bool{true, false} {
		all := f.contexts(store.ContextQuery{Owner: owner, Sort: store.ContextsByName, Ascending: ascending}).Contexts
		f.equal(fmt.Sprintf("Contexts() by name, ascending %t", ascending), contextIDs(all), want)
		for i := range all {
			after := f.contexts(store.ContextQuery{
				Owner: owner, Sort: store.ContextsByName, Ascending: ascending, Cursor: store.ContextsByName.Cursor(&all[i]),
			})
			f.equal(fmt.Sprintf("Contexts() by name, ascending %t, after %s", ascending, want[i]), contextIDs(after.Contexts), want[i+1:])
			skipped := f.contexts(store.ContextQuery{Owner: owner, Sort: store.ContextsByName, Ascending: ascending, Offset: i})
			f.equal(fmt.Sprintf("Contexts() by name, ascending %t, from %s", ascending, want[i]), contextIDs(skipped.Contexts), want[i:])
		}
		slices.Reverse(want)
	}
}

func contextsFiltered(f *fixture) {
	all := f.createContexts(40)
	n := 0
	for _, statuses := range [][]a2a.ContextStatus{nil, {a2a.ContextPaused}, {a2a.ContextArchived, a2a.ContextActive, a2a.ContextActive}, {"unknown"}} {
		for _, tags := range [][]string{nil, {"x"}, {"y", "x", "y"}, {"é z"}, {"none"}} {
			for _, role := range []string{"", "analyst", "Analyst"} {
				for _, span := range [][2]time.Time{{}, {at(3), {}}, {at(2), at(5)}} {
					n++
					f.checkContexts(all, store.ContextQuery{
						Owner: owner, Statuses: statuses, Tags: tags, Role: role, CreatedAfter: span[0], CreatedBefore: span[1],
						Sort: contextSorts[n%3], Ascending: n%2 == 0,
					}, 7)
				}
			}
		}
	}
}

func contextsTagged(f *fixture) {
	for id, tags := range map[string][]string{"none": nil, "a": {"a"}, "ab": {"a", "b"}, "abc": {"a", "b", "c"}, "joined": {"ab"}, "quoted": {`"a"`, "A"}} {
		c := newContext(id, 0)
		c.Context.Tags = tags
		f.saveContext(c)
	}
	for _, test := range []struct{ tags, want []string }{
		{nil, []string{"a", "ab", "abc", "joined", "none", "quoted"}},
		{[]string{"a"}, []string{"a", "ab", "abc"}},
		{[]string{"b", "a"}, []string{"ab", "abc"}},
		{[]string{"a", "b", "c"}, []string{"abc"}},
		{[]string{"a", "c"}, []string{"abc"}},
		{[]string{"a", "ab"}, nil},
		{[]string{"ab"}, []string{"joined"}},
		{[]string{`"a"`}, []string{"quoted"}},
		{[]string{"A", "a"}, nil},
		{[]string{"%"}, nil},
		{[]string{""}, nil},
	} {
		page := f.contexts(store.ContextQuery{Owner: owner, Tags: test.tags, Ascending: true})
		f.equal(fmt.Sprintf("Contexts() with tags %q", test.tags), contextIDs(page.Contexts), test.want)
		f.equal("page.Total", page.Total, len(test.want))
	}
}

func contextsBetween(f *fixture) {
	for ms := range 4 {
		f.saveContext(newContext(fmt.Sprint(ms), ms))
	}
	for _, test := range []struct {
		after, before time.Time
		want          []string
	}{
		{at(1), time.Time{}, []string{"1", "2", "3"}},
		{time.Time{}, at(2), []string{"0", "1"}},
		{at(1), at(3), []string{"1", "2"}},
		{at(2), at(2), nil},
		{at(3), at(1), nil},
		{at(-9), at(9), []string{"0", "1", "2", "3"}},
	} {
		page := f.contexts(store.ContextQuery{
			Owner: owner, CreatedAfter: test.after, CreatedBefore: test.before, Sort: store.ContextsByCreated, Ascending: true,
		})
		f.equal(fmt.Sprintf("Contexts() from %v before %v", test.after, test.before), contextIDs(page.Contexts), test.want)
	}
}

func contextsPaged(f *fixture) {
	const n = 24
	all := f.createContexts(n)
	for _, sort := range contextSorts {
		for _, ascending := range []bool{false, true} {
			q := store.ContextQuery{Owner: owner, Sort: sort, Ascending: ascending}
			for _, limit := range []int{1, 7, n - 1, n} {
				f.checkContexts(all, q, limit)
			}
			for _, offset := range []int{1, 7, n - 1, n + 9} {
				q.Offset = offset
				f.checkContexts(all, q, 11)
			}
		}
	}
}

func contextsFullLastPage(f *fixture) {
	f.createContexts(6)
	for _, sort := range contextSorts {
		q := store.ContextQuery{Owner: owner, Sort: sort, Limit: 3}
		first := f.contexts(q)
		if first.Next == nil {
			f.Fatalf("Contexts() of the first half has no Next")
		}
		f.equal("page.Next", first.Next, sort.Cursor(&first.Contexts[2]))
		q.Cursor = first.Next
		last := f.contexts(q)
		if len(last.Contexts) != 3 || last.Next != nil {
			f.Errorf("Contexts() of the second half = %d contexts, next %v, want 3 and no Next", len(last.Contexts), last.Next)
		}
		q.Cursor = sort.Cursor(&last.Contexts[2])
		beyond := f.contexts(q)
		if len(beyond.Contexts) != 0 || beyond.Next != nil || beyond.Total != 6 {
			f.Errorf("Contexts() after the end = %+v, want none of 6", beyond)
		}
	}
}

// contextsMoving changes the list between two pages: it renames, creates and deletes contexts
// and updates their times.
func contextsMoving(f *fixture) {
	const n = 20
	for _, sort := range contextSorts {
		for i := range n {
			c := newContext(fmt.Sprint(sort, i), i)
			c.Context.Name, c.Context.Tags = fmt.Sprint("n", i), []string{string(sort)}
			f.saveContext(c)
		}
		q := store.ContextQuery{Owner: owner, Tags: []string{string(sort)}, Sort: sort, Limit: 3}
		seen := make(map[string]int)
		for i := 0; i < n; i++ {
			page := f.contexts(q)
			for _, id := range contextIDs(page.Contexts) {
				seen[id]++
			}
			if q.Cursor = page.Next; q.Cursor == nil {
				break
			}
			moved := f.context(owner, fmt.Sprint(sort, i*3%n/2*2)) // contexts with even numbers
			moved.Name, moved.UpdatedAt = fmt.Sprint("n", i*7%n), at(100+i)
			f.saveContext(store.ContextChange{Context: moved, Version: moved.Version})
			made := newContext(fmt.Sprint("new ", sort, i), i)
			made.Context.Tags = q.Tags
			f.saveContext(made)
			if i > 0 {
				f.deleteContext(fmt.Sprint("new ", sort, i-1), 0, 1)
			}
		}
		for i := 1; i < n; i += 2 {
			if id := fmt.Sprint(sort, i); seen[id] != 1 {
				f.Errorf("all pages of Contexts() by %s contain %s %d times, want once", sort, id, seen[id])
			}
		}
	}
}

func contextsEqualRead(f *fixture) {
	all := f.createContexts(24)
	for i, c := range all {
		if c.Status == a2a.ContextActive {
			f.commit(newTask(key(fmt.Sprint("t", i)), c.Key.ID, at(50+i)), idleTask(key(fmt.Sprint("u", i)), c.Key.ID, i, a2a.StateCompleted))
		}
	}
	f.commit(newTask(key("t"), "implicit", at(0)))
	page := f.contexts(store.ContextQuery{Owner: owner, MaxTaskIDs: 100})
	f.equal("number of Contexts()", len(page.Contexts), len(all)+1)
	for _, c := range page.Contexts {
		f.equal("Context()", f.context(owner, c.Key.ID), c)
	}
	for _, c := range f.contexts(store.ContextQuery{Owner: owner}).Contexts {
		want := f.context(owner, c.Key.ID)
		want.TaskIDs = nil
		f.equal("Contexts() without task ids", c, want)
	}
}

func contextsOfOthers(f *fixture) {
	owners := []string{"alice", "Alice", "alice ", "alic_", "alic%", "a", "a/b"}
	for i, o := range owners {
		f.commit(newTask(store.Key{Owner: o, ID: "t"}, "c", at(i)))
		f.commit(newTask(store.Key{Owner: o, ID: "u"}, "b/c", at(i)))
	}
	for i, o := range owners {
		for _, sort := range contextSorts {
			want := []store.Context{implicitContext(o, "b/c", i, "u"), implicitContext(o, "c", i, "t")}
			got := f.contexts(store.ContextQuery{Owner: o, Sort: sort, Ascending: true, MaxTaskIDs: 3})
			f.equal(fmt.Sprintf("Contexts() of %q", o), got, store.ContextPage{Contexts: want, Total: 2})
		}
	}
}
