package storetest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var feedbackTests = []test{
	{"feedback is read back, newest first", feedbackRoundTrip},
	{"feedback on an absent task is not found", feedbackAbsent},
	{"a task accepts feedback with an id once", feedbackOnce},
	{"feedback does not change the task", feedbackChangesNoTask},
	{"pages of feedback have no gaps and no duplicates", feedbackPages},
	{"a page of feedback continues at its cursor after more was added", feedbackCursorStable},
	{"feedback is counted per owner and in total", feedbackSummaries},
}

func feedbackRoundTrip(f *fixture) {
	f.create(key("t1"), at(0))
	f.create(key("t2"), at(0))
	f.equal("Feedback() before there is any", f.feedbackOf(key("t1")), []store.Feedback{})
	all := []store.Feedback{
		{Key: key("t1"), ID: "m", Rating: 1, CreatedAt: at(2)},
		{Key: key("t1"), ID: "z", Rating: 5, Text: "good", Metadata: map[string]any{"n": 1.5, "list": []any{"a", nil, map[string]any{}}}, CreatedAt: at(1)},
		{Key: key("t1"), ID: "a", Text: "no rating 🦀", CreatedAt: at(1)},
	}
	elsewhere := store.Feedback{Key: key("t2"), ID: "z", Rating: 2, CreatedAt: at(3)}
	f.addFeedback(all[1], elsewhere, all[2], all[0])
	f.equal("Feedback()", f.feedbackOf(key("t1")), all)
	f.equal("Feedback()", f.feedbackOf(key("t2")), []store.Feedback{elsewhere})
	f.equal("Feedback() on all tasks", f.allFeedback(store.FeedbackQuery{Owner: owner, Limit: 9}), append([]store.Feedback{elsewhere}, all...))
}

func feedbackAbsent(f *fixture) {
	f.create(key("t1"), at(0))
	for _, k := range []store.Key{key("none"), {Owner: otherOwner, ID: "t1"}} {
		suite.Do(f.s.AddFeedback(f.ctx, store.Feedback{Key: k, ID: "f", Rating: 1, CreatedAt: at(1)})).Fails(f, store.ErrNotFound, "AddFeedback(%s)", taskName(k))
		f.equal("Feedback() on an absent task", f.feedbackOf(k), []store.Feedback{})
	}
	f.equal("Feedback()", f.feedbackOf(key("t1")), []store.Feedback{})
	f.equal("FeedbackSummary()", f.summary(""), store.FeedbackSummary{})
}

func feedbackOnce(f *fixture) {
	theirs := store.Key{Owner: otherOwner, ID: "t1"}
	f.commit(newTask(key("t1"), "c1", at(0)), newTask(key("t2"), "c1", at(0)), newTask(theirs, "c1", at(0)))
	first := store.Feedback{Key: key("t1"), ID: "f", Rating: 4, Text: "first", CreatedAt: at(1)}
	f.addFeedback(first)
	for _, again := range []store.Feedback{first, {Key: key("t1"), ID: "f", Rating: 1, Text: "again", CreatedAt: at(9)}} {
		suite.Do(f.s.AddFeedback(f.ctx, again)).Fails(f, store.ErrExists, "AddFeedback() of the same id")
	}
	f.equal("Feedback()", f.feedbackOf(key("t1")), []store.Feedback{first})
	f.equal("FeedbackSummary()", f.summary(owner), store.FeedbackSummary{Ratings: [6]int{4: 1}})
	for _, k := range []store.Key{key("t2"), theirs} {
		elsewhere := store.Feedback{Key: k, ID: "f", Rating: 2, CreatedAt: at(1)}
		f.addFeedback(elsewhere)
		f.equal("Feedback() on another task", f.feedbackOf(k), []store.Feedback{elsewhere})
	}
}

func feedbackChangesNoTask(f *fixture) {
	f.create(key("t1"), at(0))
	before, log := f.task(key("t1")), f.events(key("t1"))
	f.addFeedback(store.Feedback{Key: key("t1"), ID: "f", Rating: 4, CreatedAt: at(9)})
	f.equal("Task()", f.task(key("t1")), before)
	f.equal("Events()", f.events(key("t1")), log)
}

// createFeedback adds feedback with few different times and ids to three tasks of each of two
// owners.
func (f *fixture) createFeedback(n int) []store.Feedback {
	f.Helper()
	for i := range 3 {
		id := fmt.Sprint("t", i)
		f.commit(newTask(key(id), "c1", at(0)), newTask(store.Key{Owner: otherOwner, ID: id}, "c1", at(0)))
	}
	var all []store.Feedback
	for i := range n {
		j := i * 37 % n
		all = append(all, store.Feedback{
			Key: store.Key{Owner: []string{owner, otherOwner}[j%2], ID: fmt.Sprint("t", j/2%3)}, ID: fmt.Sprint("f", j/6),
			Rating: j % 5 * j % 6, CreatedAt: at(j / 12 % 3),
		})
	}
	f.addFeedback(all...)
	return all
}

func feedbackPages(f *fixture) {
	all := f.createFeedback(100)
	for _, o := range []string{owner, otherOwner, "nobody"} {
		for _, task := range []string{"", "t1", "none"} {
			want := feedbackPageOf(all, store.FeedbackQuery{Owner: o, TaskID: task, Limit: 1000})
			for _, limit := range []int{1, 2, 7, max(1, len(want.Feedback)), 1000} {
				q := store.FeedbackQuery{Owner: o, TaskID: task, Limit: limit}
				f.equal(fmt.Sprintf("the pages of Feedback(%+v)", q), f.allFeedback(q), want.Feedback)
			}
			q := store.FeedbackQuery{Owner: o, TaskID: task, Limit: max(1, len(want.Feedback))}
			if page, err := f.s.Feedback(f.ctx, q); err != nil || page.Next != nil {
				f.Errorf("Feedback() of everything = next %v, %v, want no Next", page.Next, err)
			}
		}
	}
}

func feedbackCursorStable(f *fixture) {
	f.create(key("t1"), at(0))
	for i := range 6 {
		f.addFeedback(store.Feedback{Key: key("t1"), ID: fmt.Sprint("f", i), CreatedAt: at(i)})
	}
	q := store.FeedbackQuery{Owner: owner, Limit: 3}
	page, err := f.s.Feedback(f.ctx, q)
	if err != nil || page.Next == nil {
		f.Fatalf("Feedback() = %+v, %v, want a page with a Next", page, err)
	}
	f.equal("page.Next", *page.Next, store.FeedbackCursor{Time: at(3), ID: "f3", TaskID: "t1"})
	f.addFeedback(store.Feedback{Key: key("t1"), ID: "f9", CreatedAt: at(9)})
	q.Cursor = page.Next
	var got []string
	for _, b := range f.allFeedback(q) {
		got = append(got, b.ID)
	}
	f.equal("Feedback() of the next page", got, []string{"f2", "f1", "f0"})
}

func feedbackSummaries(f *fixture) {
	f.equal("FeedbackSummary() of nothing", f.summary(""), store.FeedbackSummary{})
	want := make(map[string]store.FeedbackSummary)
	for _, b := range f.createFeedback(100) {
		for _, o := range []string{b.Key.Owner, ""} {
			s := want[o]
			s.Ratings[b.Rating]++
			want[o] = s
		}
	}
	for _, o := range []string{owner, otherOwner, "", "nobody"} {
		f.equal(fmt.Sprintf("FeedbackSummary(%q)", o), f.summary(o), want[o])
	}
}
