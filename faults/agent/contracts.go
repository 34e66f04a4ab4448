package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// useContracts writes one entry with each contract and reads it back. Other turns of the context use the same state,
// board and transcript; the turn removes its entries of the state and the board.
func (a *act) useContracts(ctx context.Context) error {
	entry := fmt.Sprintf("%s-%d", a.t.TaskID(), a.t.Number())
	root, err := a.t.Board().OpenRoot(ctx, boards.Params{Label: "shared"})
	if err != nil {
		return err
	}
	var task board.Task
	var ref string
	move := func(to board.Status) func() error {
		return func() error {
			_, err := a.t.Board().SetStatus(ctx, root.ID, task.ID, to, entry)
			return err
		}
	}
	recall := facts.RecallParams{Namespace: entry, Limit: 10}
	for i, do := range []func() error{
		func() error { return a.t.State().Update(ctx, map[string]any{entry: a.t.Number()}) },
		func() error {
			added, err := a.t.Board().AddTasks(ctx, root.ID, entry)
			if err == nil {
				task = added[0]
			}
			return err
		},
		move(board.InProgress),
		func() error { return a.t.Transcript().AppendText(ctx, "agent", entry) },
		func() error { return a.t.Remember(ctx, entry, facts.RememberParams{Namespace: entry}) },
		func() error {
			_, err := a.t.Documents("entries").Upsert(ctx, vector.WriteParams{Documents: []vector.Document{{ID: entry, Text: entry, Embedding: []float32{1, 2}}}})
			return err
		},
		func() error {
			_, _, err := a.t.Graph("entries").Write(ctx, graph.Batch{
				Entities:      []graph.Entity{{ID: entry, Label: "Turn"}, {ID: a.t.ContextID(), Label: "Context"}},
				Relationships: []graph.Relationship{{ID: entry, Source: entry, Type: "in", Target: a.t.ContextID()}},
			})
			return err
		},
		func() (err error) {
			ref, err = a.t.Blobs().Store(ctx, []byte(entry), "text/plain")
			return err
		},
		move(board.Succeeded),
		func() error {
			state, err := a.t.State().Get(ctx)
			return want(err, "state", fmt.Sprint(state.Values[entry]), fmt.Sprint(a.t.Number()))
		},
		func() error {
			got, err := a.t.Board().Get(ctx, root.ID)
			if err != nil {
				return err
			}
			at := slices.IndexFunc(got.Tasks, func(t board.Task) bool { return t.ID == task.ID })
			if at < 0 {
				return fmt.Errorf("the board has no task %s", task.ID)
			}
			return want(nil, "board", fmt.Sprint(got.Tasks[at].Title, got.Tasks[at].Status), fmt.Sprint(entry, board.Succeeded))
		},
		func() error {
			found, err := a.t.Recall(ctx, "", recall)
			text := ""
			for _, f := range found {
				text += f.Content
			}
			return want(err, "facts", text, entry)
		},
		func() error {
			found, err := a.t.Documents("entries").Get(ctx, entry)
			text := ""
			for _, d := range found {
				text += d.Text
			}
			return want(err, "documents", text, entry)
		},
		func() error {
			near, err := a.t.Graph("entries").Neighbors(ctx, graph.NeighborParams{IDs: []string{entry}})
			text := ""
			for _, r := range near.Relationships {
				text += r.Source + r.Target
			}
			return want(err, "relationships", text, entry+a.t.ContextID())
		},
		func() error {
			data, err := a.t.Blobs().Resolve(ctx, ref)
			return want(err, "blob", string(data), entry)
		},
		func() error { return a.t.Board().DeleteTask(ctx, root.ID, task.ID) },
		func() error { return a.t.State().Update(ctx, map[string]any{entry: nil}) },
	} {
		if err := do(); err != nil {
			return fmt.Errorf("call %d of the contracts: %w", i, err)
		}
		a.note("used", fmt.Sprint(i))
	}
	return nil
}

func want(err error, what, got, want string) error {
	if err == nil && got != want {
		err = fmt.Errorf("%s %q, want %q", what, got, want)
	}
	return err
}

// audit: reply with the numbers of values in the state and of tasks on the board, and the transcript's sorted entries.
func (a *act) audit(ctx context.Context) error {
	messages, err := a.t.Transcript().Messages(ctx, 0, 0)
	if err != nil {
		return err
	}
	state, err := a.t.State().Get(ctx)
	if err != nil {
		return err
	}
	root, err := a.t.Board().Root(ctx)
	if err != nil && a2a.CodeOf(err) != a2a.CodeNotFound {
		return err
	}
	var entries []string
	for _, m := range messages {
		entries = append(entries, strings.Trim(string(m.Body), `"`))
	}
	slices.Sort(entries)
	return a.t.Reply(fmt.Sprintf("%d values, %d tasks, turns %s", len(state.Values), len(root.Tasks), strings.Join(entries, " ")))
}
