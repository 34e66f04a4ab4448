package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func chunk(seq int64, extend bool, parts ...a2a.Part) store.Event {
	return store.Event{
		Seq: seq, State: a2a.StateWorking, Time: time.UnixMilli(seq), Append: extend,
		Artifact: &a2a.Artifact{ID: "a", Name: "n", Parts: parts},
	}
}

func text(s string) a2a.Part { return a2a.TextPart{Text: s} }

func TestStreamedTextIsOnePart(t *testing.T) {
	t.Parallel()
	file := a2a.FilePart{File: a2a.FileWithBytes{Name: "f", Bytes: []byte{1}}}
	for _, test := range []struct {
		name   string
		events []store.Event
		want   []a2a.Part
	}{
		{"chunks", []store.Event{chunk(1, false, text("a")), chunk(2, true, text("b")), chunk(3, true, text("c"))}, []a2a.Part{text("abc")}},
		{"two parts in one chunk", []store.Event{chunk(1, false, text("a"), text("b"))}, []a2a.Part{text("a"), text("b")}},
		{"a file between", []store.Event{chunk(1, false, text("a")), chunk(2, true, file), chunk(3, true, text("b")), chunk(4, true, text("c"))}, []a2a.Part{text("a"), file, text("bc")}},
		{"replaced", []store.Event{chunk(1, false, text("a")), chunk(2, true, text("b")), chunk(3, false, text("x")), chunk(4, true, text("y"))}, []a2a.Part{text("xy")}},
		{"a closing chunk", []store.Event{chunk(1, false, file), chunk(2, true, text(""))}, []a2a.Part{file}},
		{"an empty text", []store.Event{chunk(1, false, text(""))}, []a2a.Part{text("")}},
	} {
		var task store.Task
		task.Apply(test.events...)
		if diff := cmp.Diff(test.want, task.Artifacts[0].Parts); diff != "" {
			t.Errorf("%s: parts (-want +got)\n%s", test.name, diff)
		}
	}
}

func TestApplyDoesNotChangeClones(t *testing.T) {
	t.Parallel()
	var task store.Task
	task.Apply(chunk(1, false, text("a")))
	before := task.Clone()
	fork := task.Clone()
	task.Apply(chunk(2, true, text("b")))
	middle := task.Clone()
	fork.Apply(chunk(2, true, text("X")))
	task.Apply(chunk(3, true, text("c")))
	for want, got := range map[string]*store.Task{"a": before, "ab": middle, "aX": fork, "abc": &task} {
		if diff := cmp.Diff([]a2a.Part{text(want)}, got.Artifacts[0].Parts); diff != "" {
			t.Errorf("clone with %q (-want +got)\n%s", want, diff)
		}
	}
}

func TestApplyTogetherOrOneByOneIsTheSame(t *testing.T) {
	t.Parallel()
	message := &a2a.Message{ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{text("hi")}}
	events := []store.Event{
		{Seq: 1, State: a2a.StateSubmitted, Time: time.UnixMilli(1), Received: message, Metadata: map[string]any{"a": 1.0}},
		{Seq: 2, State: a2a.StateWorking, Time: time.UnixMilli(2), Message: message, Progress: true},
		chunk(3, false, text("x")), chunk(4, true, text("y")),
		{Seq: 5, State: a2a.StateCompleted, Time: time.UnixMilli(5), Message: message, Metadata: map[string]any{"b": 2.0}},
	}
	var whole, stepwise store.Task
	whole.Apply(events...)
	for _, e := range events {
		stepwise = *stepwise.Clone()
		stepwise.Apply(e)
	}
	if diff := cmp.Diff(whole, stepwise, cmpopts.IgnoreUnexported(store.Task{})); diff != "" {
		t.Errorf("fold (-whole +stepwise)\n%s", diff)
	}
	if len(whole.History) != 2 || whole.ReceivedSeq != 1 || len(whole.Metadata) != 2 || !whole.CreatedAt.Equal(time.UnixMilli(1)) {
		t.Errorf("fold = %+v", whole)
	}
}

func BenchmarkStreamedText(b *testing.B) {
	piece := strings.Repeat("x", 50)
	b.ReportAllocs()
	for b.Loop() {
		var task store.Task
		for seq := range int64(10_000) {
			task.Apply(chunk(seq+1, seq > 0, text(piece)))
		}
	}
}

func TestTextWithEmbeddingsIsASeparatePart(t *testing.T) {
	t.Parallel()
	vector := a2a.TextPart{Text: "b", Embeddings: []float64{0.5}}
	var task store.Task
	task.Apply(chunk(1, false, text("a")), chunk(2, true, vector), chunk(3, true, text("c")))
	want := []a2a.Part{text("a"), vector, text("c")}
	if diff := cmp.Diff(want, task.Artifacts[0].Parts); diff != "" {
		t.Errorf("parts (-want +got)\n%s", diff)
	}
	copied := task.Copy()
	copied.Artifacts[0].Parts[1].(a2a.TextPart).Embeddings[0] = 1
	if vector.Embeddings[0] != 0.5 {
		t.Error("the copy shares embeddings with the task")
	}
}
