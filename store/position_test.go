package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func parts(all ...any) (out []a2a.Part) {
	for _, p := range all {
		if text, ok := p.(string); ok {
			out = append(out, a2a.TextPart{Text: text})
		} else {
			out = append(out, a2a.DataPart{Data: p})
		}
	}
	return out
}

func TestBetweenReturnsTheContentBetweenPositions(t *testing.T) {
	t.Parallel()
	chunks := [][]a2a.Part{
		parts("a"), parts("b"), parts(""), parts("c", "d"), parts(1.0), parts("", "e"), parts("f", 2.0, "g"), parts("h"), parts(3.0), parts(4.0, ""), parts("i"),
	}
	task := new(store.Task)
	at := []store.Position{{}}
	for i, chunk := range chunks {
		task.Apply(store.Event{Seq: int64(i + 1), Artifact: &a2a.Artifact{ID: "a", Parts: chunk}, Append: i > 0})
		at = append(at, at[i].After(chunk))
		if end := store.EndOf(task.Artifacts[0].Parts); at[i+1] != end {
			t.Fatalf("After(%v) = %v, but the artifact ends at %v", chunk, at[i+1], end)
		}
	}
	whole := task.Artifacts[0].Parts
	for i, from := range at {
		start, ok := store.Between(whole, store.Position{}, from)
		if !ok {
			t.Fatalf("Between(0, %v) = false", from)
		}
		for _, to := range at[i:] {
			chunk, ok := store.Between(whole, from, to)
			want, _ := store.Between(whole, store.Position{}, to)
			got := &store.Task{Artifacts: []a2a.Artifact{{Parts: start}}}
			if len(chunk) > 0 {
				got.Apply(store.Event{Artifact: &a2a.Artifact{Parts: chunk}, Append: true})
			}
			if diff := cmp.Diff(want, got.Artifacts[0].Parts); !ok || diff != "" {
				t.Errorf("Between(%v, %v) = %v, %v; appended at from (-want +got):\n%s", from, to, chunk, ok, diff)
			}
		}
	}
	for _, p := range []store.Position{{Parts: -1}, {Parts: 99}, {Parts: 1, Text: -1}, {Parts: 1, Text: 99}, {Text: 1}} {
		if _, ok := store.Between(whole, store.Position{}, p); ok {
			t.Errorf("Between(0, %v) = true for a position that the parts do not have", p)
		}
	}
}

func TestReplacementWithoutPartsRemovesTheArtifact(t *testing.T) {
	t.Parallel()
	task := new(store.Task)
	chunk := func(id string, more bool, p ...any) store.Event {
		return store.Event{Artifact: &a2a.Artifact{ID: id, Parts: parts(p...)}, Append: more}
	}
	task.Apply(chunk("a", false, "1"), chunk("b", false, "2"), chunk("a", true, "3"))
	before := task.Clone()
	task.Apply(chunk("a", false), chunk("none", false), chunk("a", false, "4"), chunk("a", true, "5"))
	want := []a2a.Artifact{{ID: "b", Parts: parts("2")}, {ID: "a", Parts: parts("45")}}
	if diff := cmp.Diff(want, task.Artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	if got := before.Artifacts; len(got) != 2 || got[0].Text() != "13" {
		t.Errorf("clone from before = %v, want it unchanged", got)
	}
}
