package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func listTests() []test {
	return []test{
		{"a list of nothing is empty", listEmpty},
		{"tasks are listed newest status first", listOrderTest},
		{"tasks of the same time are listed by descending id", listTies},
		{"a change of status moves a task in the list", listMoves},
		{"a chunk of an artifact does not move a task", listChunkStays},
		{"every filter works alone and with the others", listFilters},
		{"pages follow one another without gap or repeat", listPages},
		{"a page ends early when it holds more than it may", listBytes},
		{"the last page has no next even when it is full", listFullLastPage},
		{"a page follows its cursor even when that task has moved", listCursorMoved},
		{"the total counts all that match, on request", listTotal},
		{"the total stops at its limit", listTotalLimit},
		{"listed tasks equal read tasks", listEqualsRead},
		{"a list has outlines of the tasks that the caller knows", listKnown},
		{"a list asks whether the caller knows the versions that there are", listKnownChanges},
	}
}

func listBytes(f *fixture) {
	const tasks, each = 7, 1000
	for i := range tasks {
		k := key(fmt.Sprint("t", i))
		message := &a2a.Message{ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: strings.Repeat("x", each)}}}
		f.commit(store.Change{
			Key: k, Create: &store.Create{ContextID: "c"}, Run: &store.Run{Phase: store.PhaseIdle},
			Events: []store.Event{{Time: at(i), State: a2a.StateCompleted, Received: message}},
		})
	}
	q := store.Query{Owner: owner, Limit: 5, Bytes: 2*each + 1}
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
	f.equal("the sizes of pages of 2 tasks and a byte", sizes, []int{3, 3, 1})
	f.equal("the pages of Tasks()", paged, []string{"t6", "t5", "t4", "t3", "t2", "t1", "t0"})
	none := 0
	whole := f.list(store.Query{Owner: owner, Limit: 5, Bytes: 1, Options: store.TaskOptions{History: &none}})
	f.equal("the length of a page of which nothing large is read", len(whole.Tasks), 5)
	one := f.list(store.Query{Owner: owner, Limit: 5, Bytes: 1})
	f.equal("the length of a page that may hold next to nothing", len(one.Tasks), 1)
}

func listEmpty(f *fixture) {
	f.create(store.Key{Owner: other, ID: "t1"}, at(0))
	page := f.list(store.Query{Owner: owner, Limit: 10, Total: true})
	if len(page.Tasks) != 0 || page.Next != nil || page.Total != 0 {
		f.Errorf("Tasks() of nobody's tasks = %+v, want an empty page", page)
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
	f.equal("the pages of Tasks()", paged, want)
}

func listMoves(f *fixture) {
	f.create(key("t1"), at(1))
	f.create(key("t2"), at(2))
	f.commit(next(key("t1"), 1, status(at(3), a2a.StateWorking)))
	f.equal("Tasks()", ids(f.list(store.Query{Owner: owner, Limit: 10}).Tasks), []string{"t1", "t2"})
	f.claim(claimAt(worker, at(4), 2))
	f.equal("Tasks() that are working", ids(f.list(store.Query{Owner: owner, Limit: 10, States: []a2a.TaskState{a2a.StateWorking}}).Tasks), []string{"t2", "t1"})
	f.equal("Tasks() that are submitted", ids(f.list(store.Query{Owner: owner, Limit: 10, States: []a2a.TaskState{a2a.StateSubmitted}}).Tasks), []string{})
	f.commit(next(key("t2"), 2, status(at(-9), a2a.StateWorking)))
	f.equal("Tasks()", ids(f.list(store.Query{Owner: owner, Limit: 10}).Tasks), []string{"t1", "t2"})
}

func listChunkStays(f *fixture) {
	f.create(key("t1"), at(1))
	f.create(key("t2"), at(2))
	f.commit(next(key("t1"), 1, chunk(at(3), "a", "text", false)))
	f.equal("Tasks()", ids(f.list(store.Query{Owner: owner, Limit: 10}).Tasks), []string{"t2", "t1"})
}

// crowd makes tasks in three contexts, four states and few distinct times, and
// returns them as they are.
func (f *fixture) crowd(n int) []*store.Task {
	f.Helper()
	states := []a2a.TaskState{a2a.StateSubmitted, a2a.StateWorking, a2a.StateCompleted, a2a.StateFailed}
	var changes []store.Change
	var tasks []*store.Task
	for i := range n {
		k, contextID := key(fmt.Sprintf("t%03d", i*7919%n)), fmt.Sprint("c", i%3)
		events := []store.Event{received(at(i%10), "m1"), status(at(i/5%20), states[i*31/7%4])}
		changes = append(changes, store.Change{Key: k, Create: &store.Create{ContextID: contextID}, Events: events, Run: queued()})
		tasks = append(tasks, fold(k, contextID, *queued(), events...))
		foreign := newTask(store.Key{Owner: other, ID: k.ID}, contextID, at(i%10))
		changes = append(changes, foreign)
	}
	for part := range slices.Chunk(changes, 100) {
		f.commit(part...)
	}
	return tasks
}

// paged reads a list to its end and checks each page.
func (f *fixture) paged(q store.Query, want []*store.Task) {
	f.Helper()
	var got []string
	for range len(want)/q.Limit + 2 {
		page := f.list(q)
		got = append(got, ids(page.Tasks)...)
		if page.Next == nil {
			break
		}
		if len(page.Tasks) != q.Limit {
			f.Errorf("Tasks() of at most %d = %d and a next page", q.Limit, len(page.Tasks))
		}
		q.Cursor = page.Next
	}
	if d := diff(got, ids(want)); d != "" {
		f.Errorf("the pages of Tasks(%+v) are not as wanted (-got +want):\n%s", q, d)
	}
}

func listFilters(f *fixture) {
	tasks := f.crowd(120)
	var queries []store.Query
	for _, contextID := range []string{"", "c1", "none"} {
		for _, states := range [][]a2a.TaskState{
			nil, {a2a.StateCompleted}, {a2a.StateFailed, a2a.StateWorking, a2a.StateFailed}, {a2a.StateRejected}, {"unheard-of", a2a.StateSubmitted},
		} {
			for _, span := range [][2]time.Time{{}, {at(5), {}}, {{}, at(5)}, {at(3), at(12)}, {at(7), at(8)}, {at(8), at(8)}, {at(900), {}}} {
				queries = append(queries, store.Query{Owner: owner, ContextID: contextID, States: states, After: span[0], Before: span[1]})
			}
		}
	}
	for _, q := range queries {
		want := selected(tasks, q)
		q.Limit, q.Total = 1000, true
		page := f.list(q)
		if d := diff(ids(page.Tasks), ids(want)); d != "" {
			f.Errorf("Tasks(%+v) is not as wanted (-got +want):\n%s", q, d)
		}
		if page.Total != len(want) || page.Next != nil {
			f.Errorf("Tasks(%+v) = total %d, next %v, want %d and no next", q, page.Total, page.Next, len(want))
		}
		q.Limit, q.Total = 7, false
		f.paged(q, want)
	}
}

func listPages(f *fixture) {
	n := min(f.h.Tasks, 600)
	tasks := f.crowd(n)
	for _, limit := range []int{1, 2, 50, n - 1, n, n + 1} {
		q := store.Query{Owner: owner, Limit: limit}
		f.paged(q, selected(tasks, q))
	}
}

func listFullLastPage(f *fixture) {
	f.crowd(6)
	page := f.list(store.Query{Owner: owner, Limit: 3})
	if page.Next == nil {
		f.Fatalf("Tasks() of half of the list = no next page")
	}
	last := f.list(store.Query{Owner: owner, Limit: 3, Cursor: page.Next})
	if len(last.Tasks) != 3 || last.Next != nil {
		f.Errorf("Tasks() of the other half = %d tasks, next %v, want 3 and no next", len(last.Tasks), last.Next)
	}
	q := store.Query{Owner: owner, Limit: 3}
	q.Cursor = q.CursorOf(last.Tasks[2])
	beyond := f.list(q)
	if len(beyond.Tasks) != 0 || beyond.Next != nil {
		f.Errorf("Tasks() beyond the end = %v, want nothing", ids(beyond.Tasks))
	}
}

func listCursorMoved(f *fixture) {
	for i := range 6 {
		f.create(key(fmt.Sprint("t", i)), at(i))
	}
	page := f.list(store.Query{Owner: owner, Limit: 3})
	f.equal("Tasks()", ids(page.Tasks), []string{"t5", "t4", "t3"})
	f.commit(next(key("t3"), 1, status(at(100), a2a.StateWorking)))
	f.create(key("t9"), at(101))
	page = f.list(store.Query{Owner: owner, Limit: 3, Cursor: page.Next})
	f.equal("Tasks() of the next page", ids(page.Tasks), []string{"t2", "t1", "t0"})
}

func listTotal(f *fixture) {
	f.crowd(30)
	page := f.list(store.Query{Owner: owner, Limit: 4})
	if page.Total != -1 {
		f.Errorf("Tasks() without Total = total %d, want -1", page.Total)
	}
	page = f.list(store.Query{Owner: owner, Limit: 4, Cursor: page.Next, Total: true})
	if page.Total != 30 {
		f.Errorf("Tasks() of a later page = total %d, want 30", page.Total)
	}
	page = f.list(store.Query{Owner: owner, ContextID: "c2", Limit: 4, Total: true})
	if page.Total != 10 {
		f.Errorf("Tasks() of a context = total %d, want 10", page.Total)
	}
}

// A total stops at its limit, also where what is counted is found among others.
func listTotalLimit(f *fixture) {
	tasks := f.crowd(60)
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
		n := len(selected(tasks, q))
		if n < 2 {
			f.Fatalf("%+v selects %d tasks: too few to test with", q, n)
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
	tasks := f.crowd(40)
	page := f.list(store.Query{Owner: owner, Limit: 100})
	f.equal("Tasks()", page.Tasks, selected(tasks, store.Query{Owner: owner}))
	for _, t := range page.Tasks {
		f.equal("Task()", f.task(t.Key), t)
	}
}
