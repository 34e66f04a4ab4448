package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Tests of lists of tasks in all orders.

var listQueryTests = []test{
	{"tasks are sorted by either time in both directions", queryOrders},
	{"a creation time range includes its start and excludes its end", queryCreated},
	{"every combination of filters and orders is correct", queryAll},
	{"an offset skips the first tasks", queryOffset},
	{"a page ends when it exceeds MaxBytes, in every order", queryBytes},
}

// orders returns the query in the four orders of a list of tasks.
func orders(q store.Query) []store.Query {
	var all []store.Query
	for _, q.ByCreated = range []bool{false, true} {
		for _, q.Ascending = range []bool{false, true} {
			all = append(all, q)
		}
	}
	return all
}

func queryOrders(f *fixture) {
	for _, t := range []struct {
		id              string
		created, status int
	}{{"a", 5, 9}, {"b", 1, 7}, {"c", 5, 7}, {"10", 1, 9}, {"9", 3, 3}, {"é", 5, 7}} {
		c := newTask(key(t.id), "c1", at(t.created))
		c.Events = append(c.Events, statusEvent(at(t.status), a2a.StateWorking))
		f.commit(c)
	}
	for byCreated, ascending := range map[bool][]string{
		false: {"9", "b", "c", "é", "10", "a"},
		true:  {"10", "b", "9", "a", "c", "é"},
	} {
		q := store.Query{Owner: owner, ByCreated: byCreated, Ascending: true, Limit: 10}
		f.equal(fmt.Sprintf("Tasks() ascending, ByCreated %t", byCreated), ids(f.list(q).Tasks), ascending)
		q.Ascending = false
		slices.Reverse(ascending)
		f.equal(fmt.Sprintf("Tasks() descending, ByCreated %t", byCreated), ids(f.list(q).Tasks), ascending)
	}
	f.commit(changeAt(key("9"), 2, statusEvent(at(50), a2a.StateWorking)))
	got := ids(f.list(store.Query{Owner: owner, ByCreated: true, Limit: 10}).Tasks)
	f.equal("Tasks() by creation after a change", got, []string{"é", "c", "a", "9", "b", "10"})
}

func queryCreated(f *fixture) {
	for ms := range 4 {
		f.commit(idleTask(key(fmt.Sprint(ms)), "c1", ms, a2a.StateWorking))
		f.commit(changeAt(key(fmt.Sprint(ms)), 2, statusEvent(at(90), a2a.StateCompleted)))
	}
	for _, test := range []struct {
		after, before time.Time
		want          []string
	}{
		{at(1), time.Time{}, []string{"1", "2", "3"}},
		{time.Time{}, at(2), []string{"0", "1"}},
		{at(1), at(3), []string{"1", "2"}},
		{at(2), at(2), []string{}},
		{at(90), time.Time{}, []string{}},
	} {
		q := store.Query{Owner: owner, CreatedAfter: test.after, CreatedBefore: test.before, Ascending: true, Limit: 9, Total: true}
		page := f.list(q)
		f.equal(fmt.Sprintf("Tasks() created from %v before %v", test.after, test.before), ids(page.Tasks), test.want)
		f.equal("page.Total", page.Total, len(test.want))
		q.After = at(91)
		f.equal("Tasks() changed later", ids(f.list(q).Tasks), []string{})
	}
}

// createRandomTasks creates tasks with random times, states and contexts, most of them of one
// owner, and returns them.
func (f *fixture) createRandomTasks(n int) []*store.Task {
	f.Helper()
	r := rand.New(rand.NewPCG(3, 5))
	states := []a2a.TaskState{a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted, a2a.StateFailed, a2a.StateInputRequired}
	var changes []store.Change
	var tasks []*store.Task
	for i := range n {
		k, contextID := key(fmt.Sprintf("t%03d", r.IntN(1000)*n+i)), fmt.Sprint("c", r.IntN(4))
		if r.IntN(8) == 0 {
			k.Owner = otherOwner
		}
		events := []store.Event{clientMessage(at(r.IntN(12)), "m1"), statusEvent(at(r.IntN(12)), states[r.IntN(len(states))])}
		changes = append(changes, store.Change{Key: k, Create: &store.Create{ContextID: contextID}, Events: events, Queue: idle()})
		tasks = append(tasks, fold(k, contextID, *idle(), events...))
	}
	for part := range slices.Chunk(changes, 100) {
		f.commit(part...)
	}
	return tasks
}

// queryAll reads every combination of filters, each in two of the four orders. To save time, it
// reads no history, and only one list in three in pages.
func queryAll(f *fixture) {
	tasks := f.createRandomTasks(min(f.h.Tasks, 200))
	spans := [][2]time.Time{{}, {at(4), {}}, {{}, at(8)}, {at(3), at(7)}}
	n := 0
	for _, contextID := range []string{"", "c1"} {
		for _, states := range [][]a2a.TaskState{nil, {a2a.StateCompleted}, {a2a.StateFailed, a2a.StateWorking, a2a.StateRejected}} {
			for _, changed := range spans {
				for _, created := range spans {
					n++
					four := orders(store.Query{
						Owner: owner, ContextID: contextID, States: states, After: changed[0], Before: changed[1],
						CreatedAfter: created[0], CreatedBefore: created[1], Options: store.TaskOptions{History: ptr(0)},
					})
					f.checkTasks(tasks, four[n%2], n)
					f.checkTasks(tasks, four[2+n/2%2], n+1)
				}
			}
		}
	}
}

// checkTasks reads a list, or every third list in pages, and compares it with the expected
// result.
func (f *fixture) checkTasks(tasks []*store.Task, q store.Query, n int) {
	f.Helper()
	want := filterTasks(tasks, q)
	if n%3 == 0 {
		q.Limit = 1 + n%17
		f.checkPages(q, want)
		return
	}
	q.Limit, q.Total = len(tasks)+1, true
	page := f.list(q)
	if d := diff(ids(page.Tasks), ids(want)); d != "" {
		f.Errorf("Tasks(%+v): unexpected tasks (-got +want):\n%s", q, d)
	}
	if page.Total != len(want) || page.Next != nil {
		f.Errorf("Tasks(%+v) = total %d, next %v, want %d and no Next", q, page.Total, page.Next, len(want))
	}
}

func queryOffset(f *fixture) {
	tasks := f.createRandomTasks(40)
	for _, states := range [][]a2a.TaskState{nil, {a2a.StateCompleted, a2a.StateWorking}} {
		for _, q := range orders(store.Query{Owner: owner, States: states, Total: true}) {
			total := len(filterTasks(tasks, q))
			for _, q.Offset = range []int{1, 5, total - 1, total, total + 7} {
				for _, q.Limit = range []int{1, 6, 100} {
					got, want := f.list(q), pageOf(tasks, q)
					if d := diff(ids(got.Tasks), ids(want.Tasks)) + diff(got.Next, want.Next); d != "" || got.Total != total {
						f.Errorf("Tasks(%+v) of %d tasks, total %d: unexpected page (-got +want):\n%s", q, total, got.Total, d)
					}
				}
			}
		}
	}
}

func queryBytes(f *fixture) {
	const n, each = 7, 1000
	for i := range n {
		c := newTask(key(fmt.Sprint("t", i)), "c1", at(i/2))
		c.Events[0].Received = message(a2a.RoleUser, "m1", strings.Repeat("x", each))
		f.commit(c)
	}
	for _, q := range orders(store.Query{Owner: owner, Limit: 5, MaxBytes: 2*each + 1, Offset: 1}) {
		var sizes []int
		var got []string
		for range n + 1 {
			page := f.list(q)
			sizes, got = append(sizes, len(page.Tasks)), append(got, ids(page.Tasks)...)
			if q.Cursor, q.Offset = page.Next, 0; q.Cursor == nil {
				break
			}
		}
		want := sequence("t", n)
		if !q.Ascending {
			slices.Reverse(want)
		}
		f.equal("Tasks() page sizes with MaxBytes for 2 tasks", sizes, []int{3, 3})
		f.equal("Tasks() over all pages", got, want[1:])
	}
}
