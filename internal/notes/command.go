package notes

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// Command is the command holdfast notes.
var Command = command.Command{
	Name: "notes", Help: "List and add notes of an owner, in the store.", Details: "# holdfast notes list\nNotes are short texts.\n",
	New: func() any { return new(commands) },
}

type commands struct {
	List listCmd `cmd:"" help:"List notes."`
	Add  addCmd  `cmd:"" help:"Add a note."`
}

// of calls do with the opened store of notes.
func of(ctx context.Context, f *command.DataFlags, write bool, do func(n *Notes) error) error {
	return f.With(ctx, write, func(k *command.Data) error {
		n, ok := contract.Find(k.Stores, Kind).(*Notes)
		if !ok {
			return command.Without("notes")
		}
		return do(n)
	})
}

type listCmd struct{ command.DataFlags }

// Run lists notes.
func (c *listCmd) Run(ctx context.Context, a *command.Console) error {
	return of(ctx, &c.DataFlags, false, func(n *Notes) error {
		all, err := n.Of(string(c.Owner))
		switch {
		case err != nil:
			return err
		case a.JSON:
			return a.WriteResult(all)
		}
		t := command.NewTable(a, "notes", "EXPIRES:-7", "TEXT")
		for _, x := range all {
			t.Row(command.Until(x.Expires), x.Text)
		}
		return nil
	})
}

type addCmd struct {
	Text string `arg:"" help:"Text."`
	command.DataFlags
}

// Run adds a note.
func (c *addCmd) Run(ctx context.Context, a *command.Console) error {
	return of(ctx, &c.DataFlags, true, func(n *Notes) error {
		if err := n.Add(string(c.Owner), Note{strconv.Itoa(len(c.Text)), c.Text, store.Time(time.Now().Add(time.Hour))}); err != nil {
			return err
		}
		return a.Done(map[string]any{"text": c.Text}, "added "+c.Text)
	})
}

// Suite tests notes next to the stores of a backend.
var Suite = storetest.Suite{Name: "notes", Run: func(t storetest.T, h storetest.Harness) {
	t.Run("a note is added once per key", func(t storetest.T) {
		if s := h.Open(t); s.Close() != nil {
			t.Fatalf("the store cannot be closed")
		}
		n := New("")
		for range 2 {
			if err := n.Add("o", Note{Key: "k", Text: "x"}); err != nil {
				t.Fatalf("Add() = %v", err)
			}
		}
		if all, err := n.Of("o"); err != nil || len(all) != 1 {
			t.Errorf("Of() = %v, %v, want one note", all, err)
		}
	})
}}
