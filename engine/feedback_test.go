package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

func TestFeedbackIsStoredAndListed(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Store: s, Handler: commandHandler})
		finished, runs := sendWait(t, e, message("x")), send(t, e, message("run"))
		var want []store.Feedback
		for i, params := range []a2a.TaskFeedbackParams{
			{TaskID: finished.Key.ID, Feedback: "good", Rating: ptr(5), Metadata: map[string]any{"k": "v"}},
			{TaskID: runs.Key.ID, Feedback: "slow"},
			{TaskID: finished.Key.ID, Rating: ptr(2)},
		} {
			f, err := e.AddFeedback(t.Context(), alice, params, engine.SendOptions{})
			if err != nil {
				t.Fatalf("AddFeedback(%d) = %v", i, err)
			}
			want = append([]store.Feedback{f}, want...)
		}
		summary := store.FeedbackSummary{Ratings: [6]int{0: 1, 2: 1, 5: 1}}
		var got []store.Feedback
		params := a2a.ListTaskFeedbackParams{PageSize: ptr(2)}
		for {
			list, err := e.Feedback(t.Context(), alice, params)
			if err != nil || list.PageSize != 2 || list.Summary != summary {
				t.Fatalf("Feedback() = size %d, %+v, %v; want 2, %+v", list.PageSize, list.Summary, err, summary)
			}
			got = append(got, list.Feedback...)
			if params.PageToken = list.NextPageToken; list.NextPageToken == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Feedback() (-want +got):\n%s", diff)
		}
		list, err := e.Feedback(t.Context(), alice, a2a.ListTaskFeedbackParams{TaskID: finished.Key.ID})
		if diff := cmp.Diff([]store.Feedback{want[0], want[2]}, list.Feedback); err != nil || diff != "" || list.Summary != summary {
			t.Errorf("Feedback(task) = %v (-want +got):\n%s", err, diff)
		}
		bobs, err := e.Feedback(t.Context(), a2a.Principal{ID: "bob"}, a2a.ListTaskFeedbackParams{TaskID: finished.Key.ID})
		if err != nil || len(bobs.Feedback) != 0 || bobs.Summary.Count() != 0 {
			t.Errorf("Feedback() of another owner = %+v, %v; want none", bobs, err)
		}
	})
}

func TestInvalidFeedbackIsRejected(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: commandHandler, Limits: engine.Limits{FeedbackBytes: 10, MetadataBytes: 10}})
	task := sendWait(t, e, message("x"))
	for _, c := range []struct {
		params a2a.TaskFeedbackParams
		code   a2a.Code
		field  string
	}{
		{a2a.TaskFeedbackParams{TaskID: "nobody", Feedback: "x"}, a2a.CodeTaskNotFound, "nobody"},
		{a2a.TaskFeedbackParams{TaskID: "", Feedback: "x"}, a2a.CodeTaskNotFound, "not found"},
		{a2a.TaskFeedbackParams{TaskID: "a\nb", Feedback: "x"}, a2a.CodeTaskNotFound, "not found"},
		{a2a.TaskFeedbackParams{TaskID: task.Key.ID}, a2a.CodeInvalid, "feedback is required"},
		{a2a.TaskFeedbackParams{TaskID: task.Key.ID, Feedback: " \n"}, a2a.CodeInvalid, "feedback is required"},
		{a2a.TaskFeedbackParams{TaskID: task.Key.ID, Feedback: "a\x00"}, a2a.CodeInvalid, "feedback must be text"},
		{a2a.TaskFeedbackParams{TaskID: task.Key.ID, Feedback: strings.Repeat("x", 11)}, a2a.CodeInvalid, "feedback has 11 bytes"},
		{a2a.TaskFeedbackParams{TaskID: task.Key.ID, Feedback: "x", Rating: ptr(0)}, a2a.CodeInvalid, "rating is 0"},
		{a2a.TaskFeedbackParams{TaskID: task.Key.ID, Feedback: "x", Rating: ptr(6)}, a2a.CodeInvalid, "rating is 6"},
		{a2a.TaskFeedbackParams{TaskID: task.Key.ID, Feedback: "x", Metadata: map[string]any{"k": "123456789"}}, a2a.CodeInvalid, "metadata has"},
	} {
		_, err := e.AddFeedback(t.Context(), alice, c.params, engine.SendOptions{})
		wantError(t, "AddFeedback()", err, c.code, c.field)
	}
	for field, params := range map[string]a2a.ListTaskFeedbackParams{
		"pageSize": {PageSize: ptr(0)}, "taskId": {TaskID: "a\nb"}, "pageToken": {PageToken: "x"},
	} {
		_, err := e.Feedback(t.Context(), alice, params)
		wantError(t, "Feedback()", err, a2a.CodeInvalid, field)
	}
	list, err := e.Feedback(t.Context(), alice, a2a.ListTaskFeedbackParams{})
	if err != nil || len(list.Feedback) != 0 {
		t.Errorf("Feedback() = %d, %v; want none", len(list.Feedback), err)
	}
}

func TestFeedbackWithKeyIsStoredOnce(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Store: s, Handler: commandHandler, Limits: engine.Limits{PageSize: 2}})
		task := sendWait(t, e, message("x"))
		params := a2a.TaskFeedbackParams{TaskID: task.Key.ID, Feedback: "good", Rating: ptr(4), Metadata: map[string]any{"n": 1.5}}
		key := engine.SendOptions{IdempotencyKey: "k"}
		first, err := e.AddFeedback(t.Context(), alice, params, key)
		wantError(t, "AddFeedback()", err, "")
		for range 5 { // so that the first is not on the first page
			_, err := e.AddFeedback(t.Context(), alice, params, engine.SendOptions{})
			wantError(t, "AddFeedback(no key)", err, "")
		}
		again, err := e.AddFeedback(t.Context(), alice, params, key)
		if diff := cmp.Diff(first, again); err != nil || diff != "" {
			t.Errorf("AddFeedback(again) = %v (-want +got):\n%s", err, diff)
		}
		second := params
		second.TaskID = sendWait(t, e, message("y")).Key.ID
		if other, err := e.AddFeedback(t.Context(), alice, second, key); err != nil || other.ID == first.ID {
			t.Errorf("AddFeedback(another task, same key) = %s, %v; want feedback with an id of its own", other.ID, err)
		}
		for name, other := range map[string]func(p *a2a.TaskFeedbackParams){
			"text":     func(p *a2a.TaskFeedbackParams) { p.Feedback = "bad" },
			"rating":   func(p *a2a.TaskFeedbackParams) { p.Rating = nil },
			"metadata": func(p *a2a.TaskFeedbackParams) { p.Metadata = map[string]any{"n": 2.0} },
		} {
			p := params
			other(&p)
			_, err := e.AddFeedback(t.Context(), alice, p, key)
			wantError(t, "AddFeedback(other "+name+", same key)", err, a2a.CodeConflict, "Idempotency-Key")
		}
		wantError(t, "archive", setStatus(t.Context(), e, task.ContextID, a2a.ContextArchived, false), "")
		if again, err = e.AddFeedback(t.Context(), alice, params, key); err != nil || again.ID != first.ID {
			t.Errorf("AddFeedback(again, once archived) = %v, %v; want the first", again.ID, err)
		}
		if late, err := e.AddFeedback(t.Context(), alice, params, engine.SendOptions{IdempotencyKey: "new"}); err != nil || late.ID == first.ID {
			t.Errorf("AddFeedback(new, once archived) = %v, %v; want it stored", late.ID, err)
		}
	})
}
