package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var listTests = []test{
	{"a list of no tasks is empty", listEmpty},
	{"tasks are listed by status time, newest first", listOrderTest},
	{"tasks with equal times are listed by id, descending", listTies},
	{"a change of status moves a task in the list", listMoves},
	{"a chunk of an artifact does not move a task", listChunkStays},
	{"every filter works alone and combined", listFilters},
	{"pages have no gaps and no duplicates", listPages},
	{"a page ends when it exceeds MaxBytes", listBytes},
	{"a full last page has no Next", listFullLastPage},
	{"a page continues at its cursor after the task at it moved", listCursorMoved},
	{"Total counts all matching tasks", listTotal},
	{"Total stops at TotalLimit", listTotalLimit},
	{"listed tasks equal read tasks", listEqualsRead},
	{"a list returns outlines of tasks that the caller has cached", listCached},
	{"Cached is called with the current versions of the tasks", listCachedVersions},
}

func listBytes(f *fixture) {
	const tasks, each = 7, 1000
	for i := range tasks {
		k := key(fmt.Sprint("t", i))
		message := &a2a.Message{ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: strings.Repeat("x", each)}}}
		f.commit(store.Change{
			Key: k, Create: &store.Create{ContextID: "c"}, Queue: &store.QueueEntry{Phase: store.PhaseIdle},
			Events: []store.Event{{Time: at(i), State: a2a.StateCompleted, Received: message}},
		})
	}
	q := store.Query{Owner: owner, Limit: 5, MaxBytes: 2*each + 1}
	var sizes []int
	var paged []string
	for range tasks + 1 {
		page := f.list(q)
		sizes = append(sizes, len(page.Tasks))
		paged = append(paged, ids(page.Tasks)...)
		if q.Cursor = page.Next; q.Cursor == nil {
			break
		}
	}
	f.equal("Tasks() page sizes with MaxBytes for 2 tasks", sizes, []int{3, 3, 1})
	f.equal("Tasks() over all pages", paged, []string{"t6", "t5", "t4", "t3", "t2", "t1", "t0"})
	none := 0
	whole := f.list(store.Query{Owner: owner, Limit: 5, MaxBytes: 1, Options: store.TaskOptions{History: &none}})
	f.equal("number of Tasks() without history and MaxBytes 1", len(whole.Tasks), 5)
	one := f.list(store.Query{Owner: owner, Limit: 5, MaxBytes: 1})
	f.equal("number of Tasks() with MaxBytes 1", len(one.Tasks), 1)
}

func listEmpty(f *fixture) {
	f.create(store.Key{Owner: otherOwner, ID: "t1"}, at(0))
	page := f.list(store.Query{Owner: owner, Limit: 10, Total: true})
	if len(page.Tasks) != 0 || page.Next != nil || page.Total != 0 {
		f.Errorf("Tasks() of an owner without tasks = %+v, want an empty page", page)
	}
}

func listOrderTest(f *fixture) {
	for i, ms := range []int{30, 10, 50, 20, 40} {
		f.create(key(fmt.Sprint("t", i)), at(ms))
	}
	got := ids(f.list(store.Query{Owner: owner, Limit: 10}).Tasks)
	f.equal("Tasks()", got, []string{"t2", "t4", "t0", "t3", "t1"})
}

func listTies(f *fixture) {
	for _, id := range []string{"b", "a", "B", "10", "9", "é", "a-b", "a b"} {
		f.create(key(id), at(0))
	}
	want := []string{"é", "b", "a-b", "a b", "a", "B", "9", "10"}
	f.equal("Tasks()", ids(f.list(store.Query{Owner: owner, Limit: 10}).Tasks), want)
	var paged []string
	q := store.Query{Owner: owner, Limit: 3}
	for {
		page := f.list(q)
		paged = append(paged, ids(page.Tasks)...)
		if q.Cursor = page.Next; q.Cursor == nil {
			break
		}
	}
	f.equal("Tasks() over all pages", paged, want)
}

func listMoves(f *fixture) {
	f.create(key("t1"), at(1))
	f.create(key("t2"), at(2))
	f.commit(changeAt(key("t1"), 1, statusEvent(at(3), a2a.StateWorking)))
	f.equal("Tasks()", ids(f.list(store.Query{Owner: owner, Limit: 10}).Tasks), []string{"t1", "t2"})
	f.claim(claimAt(worker, at(4), 2))
	f.equal("Tasks() that are working", ids(f.list(store.Query{Owner: owner, Limit: 10, States: []a2a.TaskState{a2a.StateWorking}}).Tasks), []string{"t2", "t1"})
	f.equal("Tasks() that are submitted", ids(f.list(store.Query{Owner: owner, Limit: 10, States: []a2a.TaskState{a2a.StateSubmitted}}).Tasks), []string{})
	f.commit(changeAt(key("t2"), 2, statusEvent(at(-9), a2a.StateWorking)))
	f.equal("Tasks()", ids(f.list(store.Query{Owner: owner, Limit: 10}).Tasks), []string{"t1", "t2"})
}

func listChunkStays(f *fixture) {
	f.create(key("t1"), at(1))
	f.create(key("t2"), at(2))
	f.commit(changeAt(key("t1"), 1, chunkEvent(at(3), "a", "text", false)))
	f.equal("Tasks()", ids(f.list(store.Query{Owner: owner, Limit: 10}).Tasks), []string{"t2", "t1"})
}

// createTasks creates tasks in three contexts, four states and few different times, and returns
// them.
func (f *fixture) createTasks(n int) []*store.Task {
	f.Helper()
	states := []a2a.TaskState{a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted, a2a.StateFailed}
	var changes []store.Change
	var tasks []*store.Task
	for i := range n {
		k, contextID := key(fmt.Sprintf("t%03d", i*7919%n)), fmt.Sprint("c", i%3)
		events := []store.Event{clientMessage(at(i%10), "m1"), statusEvent(at(i/5%20), states[i*31/7%4])}
		changes = append(changes, store.Change{Key: k, Create: &store.Create{ContextID: contextID}, Events: events, Queue: queued()})
		tasks = append(tasks, fold(k, contextID, *queued(), events...))
		foreign := newTask(store.Key{Owner: otherOwner, ID: k.ID}, contextID, at(i%10))
		changes = append(changes, foreign)
	}
	for part := range slices.Chunk(changes, 100) {
		f.commit(part...)
	}
	return tasks
}

// checkPages reads all pages of a list and checks them.
func (f *fixture) checkPages(q store.Query, want []*store.Task) {
	f.Helper()
	var got []string
	for range len(want)/q.Limit + 2 {
		page := f.list(q)
		got = append(got, ids(page.Tasks)...)
		if page.Next == nil {
			break
		}
		suite.Equal(f, len(page.Tasks), q.Limit, "Tasks() with limit %d", q.Limit)
		q.Cursor = page.Next
	}
	if d := diff(got, ids(want)); d != "" {
		f.Errorf("Tasks(%+v): unexpected tasks over all pages (-got +want):\n%s", q, d)
	}
}

func listFilters(f *fixture) {
	tasks := f.createTasks(120)
	var queries []store.Query
	for _, contextID := range []string{"", "c1", "none"} {
		for _, states := range [][]a2a.TaskState{
			nil, {a2a.StateCompleted}, {a2a.StateFailed, a2a.StateWorking, a2a.StateFailed}, {a2a.StateRejected}, {"unknown", a2a.StateSubmitted},
		} {
			for _, span := range [][2]time.Time{{}, {at(5), {}}, {{}, at(5)}, {at(3), at(12)}, {at(7), at(8)}, {at(8), at(8)}, {at(900), {}}} {
				queries = append(queries, store.Query{Owner: owner, ContextID: contextID, States: states, After: span[0], Before: span[1]})
			}
		}
	}
	for _, q := range queries {
		want := filterTasks(tasks, q)
		q.Limit, q.Total = 1000, true
		page := f.list(q)
		if d := diff(ids(page.Tasks), ids(want)); d != "" {
			f.Errorf("Tasks(%+v): unexpected tasks (-got +want):\n%s", q, d)
		}
		if page.Total != len(want) || page.Next != nil {
			f.Errorf("Tasks(%+v) = total %d, next %v, want %d and no Next", q, page.Total, page.Next, len(want))
		}
		q.Limit, q.Total = 7, false
		f.checkPages(q, want)
	}
}

func listPages(f *fixture) {
	n := min(f.h.Tasks, 600)
	tasks := f.createTasks(n)
	for _, limit := range []int{1, 2, 50, n - 1, n, n + 1} {
		q := store.Query{Owner: owner, Limit: limit}
		f.checkPages(q, filterTasks(tasks, q))
	}
}

func listFullLastPage(f *fixture) {
	f.createTasks(6)
	page := f.list(store.Query{Owner: owner, Limit: 3})
	if page.Next == nil {
		f.Fatalf("Tasks() of the first half has no Next")
	}
	last := f.list(store.Query{Owner: owner, Limit: 3, Cursor: page.Next})
	if len(last.Tasks) != 3 || last.Next != nil {
		f.Errorf("Tasks() of the second half = %d tasks, next %v, want 3 and no Next", len(last.Tasks), last.Next)
	}
	q := store.Query{Owner: owner, Limit: 3}
	q.Cursor = q.CursorOf(last.Tasks[2])
	beyond := f.list(q)
	if len(beyond.Tasks) != 0 || beyond.Next != nil {
		f.Errorf("Tasks() after the end = %v, want nothing", ids(beyond.Tasks))
	}
}

func listCursorMoved(f *fixture) {
	for i := range 6 {
		f.create(key(fmt.Sprint("t", i)), at(i))
	}
	page := f.list(store.Query{Owner: owner, Limit: 3})
	f.equal("Tasks()", ids(page.Tasks), []string{"t5", "t4", "t3"})
	f.commit(changeAt(key("t3"), 1, statusEvent(at(100), a2a.StateWorking)))
	f.create(key("t9"), at(101))
	page = f.list(store.Query{Owner: owner, Limit: 3, Cursor: page.Next})
	f.equal("Tasks() of the next page", ids(page.Tasks), []string{"t2", "t1", "t0"})
}

func listTotal(f *fixture) {
	f.createTasks(30)
	page := f.list(store.Query{Owner: owner, Limit: 4})
	suite.Equal(f, page.Total, -1, "total of Tasks() without Total")
	page = f.list(store.Query{Owner: owner, Limit: 4, Cursor: page.Next, Total: true})
	suite.Equal(f, page.Total, 30, "total of Tasks() of a later page")
	page = f.list(store.Query{Owner: owner, ContextID: "c2", Limit: 4, Total: true})
	suite.Equal(f, page.Total, 10, "total of Tasks() of a context")
}

// listTotalLimit uses queries with a counter or an index, and queries without one.
func listTotalLimit(f *fixture) {
	tasks := f.createTasks(60)
	start := tasks[0].CreatedAt
	for _, t := range tasks {
		if t.CreatedAt.Before(start) {
			start = t.CreatedAt
		}
	}
	for _, q := range []store.Query{
		{},
		{States: []a2a.TaskState{a2a.StateWorking, a2a.StateCompleted}},
		{ContextID: "c1"},
		{ContextID: "c1", States: []a2a.TaskState{a2a.StateWorking}},
		{After: start},
		{CreatedAfter: start},
		{CreatedAfter: start, States: []a2a.TaskState{a2a.StateCompleted}},
		{CreatedAfter: start, ContextID: "c1"},
		{CreatedAfter: start, ContextID: "c1", States: []a2a.TaskState{a2a.StateCompleted}},
		{CreatedAfter: start.Add(time.Millisecond), After: start},
	} {
		q.Owner = owner
		n := len(filterTasks(tasks, q))
		if n < 2 {
			f.Fatalf("%+v selects %d tasks, want at least 2", q, n)
		}
		q.Limit, q.Total = 1, true
		for _, q.TotalLimit = range []int{1, n - 1, n, n + 1} {
			for _, q := range orders(q) {
				page := f.list(q)
				if page.Total != min(n, q.TotalLimit) || page.TotalCapped != (n > q.TotalLimit) {
					f.Errorf("Tasks(%+v) = total %d, capped %t, of %d", q, page.Total, page.TotalCapped, n)
				}
			}
		}
	}
}

func listEqualsRead(f *fixture) {
	tasks := f.createTasks(40)
	page := f.list(store.Query{Owner: owner, Limit: 100})
	f.equal("Tasks()", page.Tasks, filterTasks(tasks, store.Query{Owner: owner}))
	for _, t := range page.Tasks {
		f.equal("Task()", f.task(t.Key), t)
	}
}
