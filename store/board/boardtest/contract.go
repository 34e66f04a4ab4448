package boardtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var statuses = []board.Status{board.Planned, board.InProgress, board.Blocked, board.Succeeded, board.Failed, board.Abandoned}

func (f *fixture) equal(call string, got, want any) { f.Helper(); suite.Diff(f, call, got, want) }

// titles returns the titles of a board's tasks and checks their order.
func (f *fixture) titles(b board.Board) string {
	f.Helper()
	var all []string
	for i, t := range b.Tasks {
		suite.Equal(f, t.Order, i, "order of task %q", t.Title)
		all = append(all, t.Title)
	}
	return strings.Join(all, " ")
}

func create(f *fixture) {
	p := board.CreateParams{
		Owner: "alice", Conversation: "c1", Agent: "planner", Label: "Plan", ParentAgent: "boss", MaxRetries: 7, Titles: []string{"one", "two"},
	}
	b := suite.Call(f.s.Create(f.ctx, p)).Must(f, "Create()")
	if b.ID == "" {
		f.Errorf("Create() returned a board without id")
	}
	f.equal("Create()", b, board.Board{
		ID: b.ID, Owner: "alice", Conversation: "c1", Agent: "planner", Label: "Plan", ParentAgent: "boss", MaxRetries: 7, Version: 1, CreatedAt: f.clock.Now(),
		Tasks: []board.Task{{ID: b.Tasks[0].ID, Title: "one", Status: board.Planned}, {ID: b.Tasks[1].ID, Title: "two", Status: board.Planned, Order: 1}},
	})
	f.equal("Get()", f.get(b.Key()), b)
	if other := f.create("c1"); other.ID == b.ID || other.MaxRetries != board.DefaultMaxRetries || len(other.Tasks) != 0 {
		f.Errorf("Create() without tasks = %+v, want an empty board with another id", other)
	}
	none, err := f.s.Create(f.ctx, board.CreateParams{Owner: "alice", Conversation: "c1", MaxRetries: -1})
	if err != nil || none.MaxRetries != 0 {
		f.Errorf("Create() without retries = %+v, %v", none, err)
	}
	suite.Do(f.s.Delete(f.ctx, b.Key())).Check(f, "Delete()")
	f.wantNotFound(b.Key(), b.Tasks[0].ID)
	suite.Equal(f, len(suite.Call(f.s.List(f.ctx, "alice", "c1")).Check(f, "List() after Delete()")), 2, "number of results of List() after Delete()")
}

// calls calls every method that names a board.
func (f *fixture) calls(ctx context.Context, k board.Key, task string) map[string]error {
	errs := make(map[string]error)
	_, errs["Get"] = f.s.Get(ctx, k)
	_, errs["AddTasks"] = f.s.AddTasks(ctx, k, "t")
	_, errs["SetStatus"] = f.s.SetStatus(ctx, k, task, board.Planned, "")
	_, errs["Rename"] = f.s.Rename(ctx, k, task, "t")
	_, errs["SetNote"] = f.s.SetNote(ctx, k, task, "t")
	_, errs["Reorder"] = f.s.Reorder(ctx, k, []string{task})
	errs["DeleteTask"] = f.s.DeleteTask(ctx, k, task)
	_, errs["IncrementRetry"] = f.s.IncrementRetry(ctx, k, task)
	_, errs["ForceRetry"] = f.s.ForceRetry(ctx, k, task)
	errs["Delete"] = f.s.Delete(ctx, k)
	return errs
}

func (f *fixture) wantNotFound(k board.Key, task string) {
	f.Helper()
	for call, err := range f.calls(f.ctx, k, task) {
		if !errors.Is(err, board.ErrNotFound) {
			f.Errorf("%s(%+q) = %v, want ErrNotFound", call, k, err)
		}
	}
}

func editTasks(f *fixture) {
	b := f.create("c1", "a", "b")
	a, k := b.Tasks[0].ID, b.Key()
	added, err := f.s.AddTasks(f.ctx, k, "c", "d")
	if err != nil || len(added) != 2 || added[1].Title != "d" || added[1].Order != 3 || added[1].Status != board.Planned {
		f.Fatalf("AddTasks() = %+v, %v", added, err)
	}
	if t, err := f.s.Rename(f.ctx, k, a, "A"); err != nil || t.Title != "A" || t.ID != a {
		f.Errorf("Rename() = %+v, %v", t, err)
	}
	if t, err := f.s.SetNote(f.ctx, k, a, "note"); err != nil || t.Note != "note" {
		f.Errorf("SetNote() = %+v, %v", t, err)
	}
	if t, err := f.s.SetStatus(f.ctx, k, a, board.InProgress, ""); err != nil || t.Note != "note" || t.Status != board.InProgress {
		f.Errorf("SetStatus() without note = %+v, %v, want the note as before", t, err)
	}
	if t, err := f.s.SetStatus(f.ctx, k, a, board.Blocked, "waiting"); err != nil || t.Note != "waiting" {
		f.Errorf("SetStatus() = %+v, %v", t, err)
	}
	reordered, err := f.s.Reorder(f.ctx, k, []string{added[1].ID, a, b.Tasks[1].ID, added[0].ID})
	if got := f.titles(reordered); err != nil || got != "d A b c" {
		f.Errorf("Reorder() = %s, %v, want d A b c", got, err)
	}
	suite.Do(f.s.DeleteTask(f.ctx, k, added[1].ID)).Check(f, "DeleteTask()")
	suite.Do(f.s.DeleteTask(f.ctx, k, added[1].ID)).Fails(f, board.ErrNotFound, "DeleteTask() again")
	again, err := f.s.AddTasks(f.ctx, k, "e")
	if err != nil || again[0].ID == added[1].ID {
		f.Errorf("AddTasks() after DeleteTask() = %+v, %v, want a new id", again, err)
	}
	got := f.get(k)
	if f.titles(got) != "A b c e" || got.Version != 9 {
		f.Errorf("board = %s at version %d, want A b c e at 9", f.titles(got), got.Version)
	}
	for _, order := range [][]string{{}, {a}, {a, a, b.Tasks[1].ID, added[0].ID}, {a, b.Tasks[1].ID, added[0].ID, again[0].ID, "x"}} {
		if _, err := f.s.Reorder(f.ctx, k, order); err == nil {
			f.Errorf("Reorder(%q) = nil, want an error", order)
		}
	}
	f.equal("board after rejected changes", f.get(k), got)
}

// reach returns a board with a task in a state.
func (f *fixture) reach(s board.Status) board.Board {
	f.Helper()
	b := f.create(string(s), "t")
	path := map[board.Status][]board.Status{
		board.InProgress: {board.InProgress}, board.Blocked: {board.Blocked}, board.Succeeded: {board.InProgress, board.Succeeded},
		board.Failed: {board.InProgress, board.Failed}, board.Abandoned: {board.Abandoned},
	}
	for _, to := range path[s] {
		suite.Call(f.s.SetStatus(f.ctx, b.Key(), b.Tasks[0].ID, to, "")).Must(f, "SetStatus(%s)", to)
	}
	return f.get(b.Key())
}

// allowed is the table of moves, as in the documentation of package board.
var allowed = map[board.Status]string{
	board.Planned: "in_progress blocked abandoned", board.InProgress: "planned blocked succeeded failed abandoned",
	board.Blocked: "planned in_progress failed abandoned", board.Failed: "abandoned",
}

func everyMove(f *fixture) {
	for _, from := range statuses {
		for _, to := range statuses {
			b := f.reach(from)
			got, err := f.s.SetStatus(f.ctx, b.Key(), b.Tasks[0].ID, to, "note")
			ok := from == to || strings.Contains(" "+allowed[from]+" ", " "+string(to)+" ")
			var move *board.MoveError
			switch {
			case ok && (err != nil || got.Status != to || got.Note != "note"):
				f.Errorf("move from %s to %s = %+v, %v", from, to, got, err)
			case !ok && (!errors.As(err, &move) || !errors.Is(err, board.ErrMove) || move.From != from || move.To != to || a2a.CodeOf(err) != a2a.CodeConflict):
				f.Errorf("move from %s to %s = %v, want a MoveError", from, to, err)
			case !ok:
				f.equal("board after a rejected move", f.get(b.Key()), b)
			}
		}
	}
}

func retries(f *fixture) {
	b := suite.Call(f.s.Create(f.ctx, board.CreateParams{Owner: "alice", Conversation: "c1", MaxRetries: 2, Titles: []string{"t"}})).Must(f, "Create()")
	k, id := b.Key(), b.Tasks[0].ID
	fail := func() {
		for _, to := range []board.Status{board.InProgress, board.Failed} {
			suite.Call(f.s.SetStatus(f.ctx, k, id, to, "")).Must(f, "SetStatus(%s)", to)
		}
	}
	for n := 1; n <= 2; n++ {
		fail()
		if t, err := f.s.IncrementRetry(f.ctx, k, id); err != nil || t.RetryCount != n || t.Status != board.Planned {
			f.Errorf("IncrementRetry() number %d = %+v, %v", n, t, err)
		}
	}
	fail()
	before := f.get(k)
	if _, err := f.s.IncrementRetry(f.ctx, k, id); !errors.Is(err, board.ErrRetriesExhausted) || a2a.CodeOf(err) != a2a.CodeConflict {
		f.Errorf("IncrementRetry() above the maximum = %v, want ErrRetriesExhausted", err)
	}
	f.equal("board after the refused retry", f.get(k), before)
	suite.Call(f.s.SetStatus(f.ctx, k, id, board.Abandoned, "")).Check(f, "SetStatus(abandoned)")
	if t, err := f.s.ForceRetry(f.ctx, k, id); err != nil || t.RetryCount != 0 || t.Status != board.Planned {
		f.Errorf("ForceRetry() of an abandoned task = %+v, %v", t, err)
	}
	for _, from := range statuses {
		b := f.reach(from)
		_, err := f.s.IncrementRetry(f.ctx, b.Key(), b.Tasks[0].ID)
		if ok := from == board.Failed; ok != (err == nil) || !ok && !errors.Is(err, board.ErrMove) {
			f.Errorf("IncrementRetry() of a task that is %s = %v", from, err)
		}
		b = f.reach(from)
		want := from
		if from == board.Failed || from.Terminal() {
			want = board.Planned
		}
		if t, err := f.s.ForceRetry(f.ctx, b.Key(), b.Tasks[0].ID); err != nil || t.Status != want {
			f.Errorf("ForceRetry() of a task that is %s = %+v, %v, want %s", from, t, err, want)
		}
	}
}

func conversations(f *fixture) {
	suite.Call(f.s.ByConversation(f.ctx, "alice", "c1")).Fails(f, board.ErrNotFound, "ByConversation() without boards")
	suite.Call(f.s.List(f.ctx, "alice", "c1")).Empty(f, "List() without boards")
	sub := func(agent string) board.Board {
		b := suite.Call(f.s.Create(f.ctx, board.CreateParams{Owner: "alice", Conversation: "c1", Agent: agent, ParentAgent: "main"})).Must(f, "Create()")
		f.clock.Add(time.Second)
		return b
	}
	want := []board.Board{sub("early")}
	suite.Call(f.s.ByConversation(f.ctx, "alice", "c1")).Fails(f, board.ErrNotFound, "ByConversation() without a root board")
	root := f.create("c1")
	f.clock.Add(time.Second)
	want = append(want, root, sub("late"))
	f.create("c2")
	want = append(want, f.create("c1"))
	boards := suite.Call(f.s.List(f.ctx, "alice", "c1")).Check(f, "List()")
	f.equal("List()", boards, want)
	b := suite.Call(f.s.ByConversation(f.ctx, "alice", "c1")).Check(f, "ByConversation()")
	f.equal("ByConversation()", b, root)
}

func isolation(f *fixture) {
	b := f.create("c1", "t")
	f.wantNotFound(board.Key{Owner: "bob", ID: b.ID}, b.Tasks[0].ID)
	f.wantNotFound(board.Key{Owner: "Alice", ID: b.ID}, b.Tasks[0].ID)
	for _, of := range [][2]string{{"bob", "c1"}, {"alice", "c"}, {"alice", "C1"}, {"alice", "c1 "}, {"%", "c1"}, {"alice", "_1"}} {
		suite.Call(f.s.List(f.ctx, of[0], of[1])).Empty(f, "List(%q)", of)
	}
	for _, task := range []string{"", "none", "%", "\x00", "\xff", strings.Repeat("9", 1000)} {
		_, err := f.s.SetNote(f.ctx, b.Key(), task, "")
		if !errors.Is(err, board.ErrNotFound) {
			f.Errorf("SetNote() of task %q = %v, want ErrNotFound", task, err)
		}
	}
	f.equal("board", f.get(b.Key()), b)
}

func reopen(f *fixture) {
	if f.h.Reopen == nil {
		f.Skipf("the store is not durable")
	}
	b := f.create("c1", "t")
	suite.Call(f.s.SetStatus(f.ctx, b.Key(), b.Tasks[0].ID, board.Blocked, "waits\x01\u2028")).Must(f, "SetStatus()")
	b = f.get(b.Key())
	f.s = f.h.Reopen(f, f.s)
	f.equal("Get() after reopening", f.get(b.Key()), b)
}

func openRoot(f *fixture) {
	open := func(conversation, label string, titles ...string) board.Board {
		b := suite.Call(f.s.OpenRoot(f.ctx, board.CreateParams{Owner: "alice", Conversation: conversation, Label: label, Titles: titles})).Must(f, "OpenRoot()")
		f.clock.Add(time.Second)
		return b
	}
	suite.Call(f.s.Create(f.ctx, board.CreateParams{Owner: "alice", Conversation: "c1", ParentAgent: "main"})).Must(f, "Create()")
	f.clock.Add(time.Second)
	first := open("c1", "first", "a", "b")
	f.equal("titles", f.titles(first), "a b")
	f.equal("second OpenRoot()", open("c1", "second", "c"), first)
	f.equal("ByConversation()", f.get(first.Key()), first)
	if other := open("c2", "other"); other.ID == first.ID || other.Label != "other" {
		f.Errorf("OpenRoot() of another conversation = %+v", other)
	}
	if other, err := f.s.OpenRoot(f.ctx, board.CreateParams{Owner: "bob", Conversation: "c1"}); err != nil || other.Owner != "bob" || len(other.Tasks) != 0 {
		f.Errorf("OpenRoot() of another owner = %+v, %v", other, err)
	}
	suite.Do(f.s.Delete(f.ctx, first.Key())).Must(f, "Delete()")
	if again := open("c1", "again"); again.Label != "again" || len(again.Tasks) != 0 {
		f.Errorf("OpenRoot() after Delete() = %+v, want a new board", again)
	}
	created := f.create("c3", "t")
	f.equal("OpenRoot() of a board that was created", open("c3", "second"), created)
	suite.Call(f.s.OpenRoot(f.ctx, board.CreateParams{Owner: "alice", Conversation: "c1", ParentAgent: "main"})).Rejected(f, a2a.CodeInvalid, "OpenRoot() with ParentAgent")
}

func expiry(f *fixture) {
	f.open(time.Minute)
	b := f.create("c1", "t")
	f.clock.Add(59 * time.Second)
	suite.Call(f.s.SetNote(f.ctx, b.Key(), b.Tasks[0].ID, "note")).Check(f, "SetNote()")
	f.clock.Add(59 * time.Second)
	f.get(b.Key())
	f.clock.Add(time.Second)
	f.wantNotFound(b.Key(), b.Tasks[0].ID)
	suite.Call(f.s.List(f.ctx, "alice", "c1")).Empty(f, "List() after the expiry")
	for i := range 2 {
		root, err := f.s.OpenRoot(f.ctx, board.CreateParams{Owner: "alice", Conversation: "c1", Label: fmt.Sprint(i)})
		if err != nil || root.Label != fmt.Sprint(i) {
			f.Errorf("OpenRoot() after the expiry = %+v, %v, want a new board", root, err)
		}
		f.clock.Add(time.Minute)
	}
}

func hostile(f *fixture) {
	long := strings.Repeat("x", board.MaxNote+1)
	for _, test := range []struct {
		field string
		p     board.CreateParams
	}{
		{"owner", board.CreateParams{Conversation: "c"}},
		{"owner", board.CreateParams{Owner: "o\x00", Conversation: "c"}},
		{"conversation", board.CreateParams{Owner: "o"}},
		{"conversation", board.CreateParams{Owner: "o", Conversation: "\xff"}},
		{"conversation", board.CreateParams{Owner: "o", Conversation: long}},
		{"agent", board.CreateParams{Owner: "o", Conversation: "c", Agent: long}},
		{"label", board.CreateParams{Owner: "o", Conversation: "c", Label: "\x00"}},
		{"parent agent", board.CreateParams{Owner: "o", Conversation: "c", ParentAgent: long}},
		{"max retries", board.CreateParams{Owner: "o", Conversation: "c", MaxRetries: board.MaxMaxRetries + 1}},
		{"title 2", board.CreateParams{Owner: "o", Conversation: "c", Titles: []string{"t", " "}}},
		{"title 1", board.CreateParams{Owner: "o", Conversation: "c", Titles: []string{long}}},
	} {
		if _, err := f.s.Create(f.ctx, test.p); a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(err.Error(), test.field) {
			f.Errorf("Create() = %v, want an invalid %s", err, test.field)
		}
	}
	b := f.create("c", "t")
	k, id := b.Key(), b.Tasks[0].ID
	errs := make(map[string]error)
	_, errs["title 1"] = f.s.AddTasks(f.ctx, k, "")
	_, errs["title"] = f.s.Rename(f.ctx, k, id, "a\x00")
	_, errs["note"] = f.s.SetNote(f.ctx, k, id, long)
	_, errs["note:"] = f.s.SetStatus(f.ctx, k, id, board.Blocked, "\xff")
	_, errs["status"] = f.s.SetStatus(f.ctx, k, id, "done", "")
	for field, err := range errs {
		if a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(fmt.Sprint(err), field) {
			f.Errorf("call with an invalid %s = %v", field, err)
		}
	}
	f.equal("board after rejected changes", f.get(k), b)
	for _, id := range []string{"", "none", "%", "a\x00", "\xff", strings.Repeat("x", 5000), k.ID + "x", k.ID[:len(k.ID)-1]} {
		f.wantNotFound(board.Key{Owner: "alice", ID: id}, "1")
	}
	odd := "%_'\"\\ $1 ?1 {s} \U0010ffff"
	p := board.CreateParams{Owner: odd, Conversation: odd, Agent: odd, Label: odd, ParentAgent: odd, Titles: []string{odd}}
	created, err := f.s.Create(f.ctx, p)
	if err != nil || created.Conversation != odd || created.Tasks[0].Title != odd {
		f.Errorf("Create() = %+v, %v", created, err)
	}
	f.equal("Get()", f.get(created.Key()), created)
}

func limits(f *fixture) {
	titles := make([]string, board.MaxTasks)
	for i := range titles {
		titles[i] = fmt.Sprint("t", i)
	}
	b := f.create("c1", titles...)
	if _, err := f.s.AddTasks(f.ctx, b.Key(), "more"); !errors.Is(err, board.ErrTooLarge) || a2a.CodeOf(err) != a2a.CodeTooLarge {
		f.Errorf("AddTasks() above the limit = %v, want ErrTooLarge", err)
	}
	var err error
	for i := 0; i < len(b.Tasks) && err == nil; i++ {
		_, err = f.s.SetNote(f.ctx, b.Key(), b.Tasks[i].ID, strings.Repeat("\x01", board.MaxNote))
	}
	if !errors.Is(err, board.ErrTooLarge) {
		f.Errorf("SetNote() of all tasks = %v, want ErrTooLarge", err)
	}
	f.equal("titles", f.titles(f.get(b.Key())), strings.Join(titles, " "))
	for range board.MaxBoards - 1 {
		f.create("c1")
	}
	suite.Call(f.s.Create(f.ctx, board.CreateParams{Owner: "alice", Conversation: "c1"})).Fails(f, board.ErrTooLarge, "Create() above the limit")
	f.create("c2")
}

func aliasing(f *fixture) {
	titles := []string{"t"}
	b := f.create("c1", titles...)
	want := f.get(b.Key())
	want.Tasks = slices.Clone(want.Tasks)
	titles[0] = "modified"
	b.Tasks[0].Title = "modified"
	f.get(want.Key()).Tasks[0].Title = "modified"
	boards := suite.Call(f.s.List(f.ctx, "alice", "c1")).Must(f, "List()")
	boards[0].Tasks[0].Title = "modified"
	f.equal("Get()", f.get(want.Key()), want)
	added := suite.Call(f.s.AddTasks(f.ctx, b.Key(), "more")).Must(f, "AddTasks()")
	added[0].Title = "modified"
	f.equal("titles", f.titles(f.get(want.Key())), "t more")
}

func cancel(f *fixture) {
	b := f.create("c1", "t")
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	errs := f.calls(ctx, b.Key(), b.Tasks[0].ID)
	_, errs["Create"] = f.s.Create(ctx, board.CreateParams{Owner: "alice", Conversation: "c1"})
	_, errs["List"] = f.s.List(ctx, "alice", "c1")
	_, errs["ByConversation"] = f.s.ByConversation(ctx, "alice", "c1")
	suite.Canceled(f, errs)
	f.equal("board", f.get(b.Key()), b)
}
