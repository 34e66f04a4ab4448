// Package boardcmd has the command holdfast boards.
package boardcmd

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/board"
)

//go:embed help.txt
var help string

// Command is the command of the contract.
var Command = command.Command{Name: "boards", Help: "List and show boards of an owner, in the store.", Details: help, New: func() any { return new(boardsCmd) }}

// boardsCmd has the commands for boards.
type boardsCmd struct {
	List boardsListCmd `cmd:"" help:"List boards."`
	Show boardsShowCmd `cmd:"" help:"Show a board with its tasks."`
}

// boardView is a board in the JSON output.
type boardView struct {
	ID          string          `json:"id"`
	ContextID   string          `json:"contextId"`
	Agent       string          `json:"agent,omitempty"`
	Label       string          `json:"label,omitempty"`
	ParentAgent string          `json:"parentAgent,omitempty"`
	MaxRetries  int             `json:"maxRetries"`
	Version     int64           `json:"version"`
	CreatedAt   time.Time       `json:"createdAt"`
	Tasks       []boardTaskView `json:"tasks"`
}

type boardTaskView struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Status  string `json:"status"`
	Retries int    `json:"retries"`
	Note    string `json:"note,omitempty"`
}

func viewBoard(b *board.Board) boardView {
	v := boardView{b.ID, b.Conversation, b.Agent, b.Label, b.ParentAgent, b.MaxRetries, b.Version, b.CreatedAt.UTC(), []boardTaskView{}}
	for _, t := range b.Tasks {
		v.Tasks = append(v.Tasks, boardTaskView{t.ID, t.Title, string(t.Status), t.RetryCount, t.Note})
	}
	return v
}

func boardsOf(k *command.Data) (*board.Records, error) {
	return board.New(board.Config{Records: store.NewUpdater(k.Tasks)})
}

type boardsListCmd struct {
	Context command.NonEmpty `placeholder:"ID" group:"Filter:" help:"Only boards of this context, the oldest first."`

	command.PageFlags `group:"Pages:" set:"items=Boards" set:"item=board" set:"but="`
	command.DataFlags
}

// Run lists boards.
func (c *boardsListCmd) Run(ctx context.Context, a *command.Console) error {
	t := command.NewTable(a, "boards", "ID:37", "CONTEXT:36", "DONE:-7", "CREATED:-7", "LABEL")
	t.Fit()
	return c.Pages(ctx, t, &c.PageFlags, func(k *command.Data, token string) (items []any, next string, err error) {
		boards, err := boardsOf(k)
		if err != nil {
			return nil, "", err
		}
		var found []board.Board
		more := false
		if c.Context != "" {
			found, err = boards.List(ctx, k.Owner, string(c.Context))
		} else {
			found, more, err = boards.OfOwner(ctx, k.Owner, token, c.Limit)
		}
		for i := range found {
			b := &found[i]
			done := 0
			for _, task := range b.Tasks {
				if task.Status.Terminal() {
					done++
				}
			}
			t.Row(b.ID, t.End(b.Conversation, 1), fmt.Sprintf("%d/%d", done, len(b.Tasks)), command.Age(b.CreatedAt), b.Label)
			items = append(items, viewBoard(b))
			if more {
				next = b.ID
			}
		}
		return items, next, err
	})
}

type boardsShowCmd struct {
	ID string `arg:"" help:"Id of the board."`

	command.DataFlags
}

// Run shows a board.
func (c *boardsShowCmd) Run(ctx context.Context, a *command.Console) error {
	return c.With(ctx, false, func(k *command.Data) error {
		boards, err := boardsOf(k)
		if err != nil {
			return err
		}
		b, err := boards.Get(ctx, board.Key{Owner: k.Owner, ID: c.ID})
		if errors.Is(err, board.ErrNotFound) {
			return k.NotFound("board", c.ID)
		}
		if err != nil {
			return err
		}
		if a.JSON {
			return a.WriteResult(viewBoard(&b))
		}
		a.Out.Line("%s", a.Out.Bold("board "+command.Clean(b.ID)))
		a.Out.Row("context", b.Conversation)
		a.Out.Row("label", b.Label)
		a.Out.Row("agent", b.Agent)
		a.Out.Row("parent", b.ParentAgent)
		a.Out.Row("created", command.TimeText(b.CreatedAt))
		if len(b.Tasks) > 0 {
			a.Out.Line("")
		}
		t := command.NewTable(a, "tasks", "TASK:5", "STATUS:11", "RETRIES:-7", "TITLE:40", "NOTE")
		t.Fit()
		for _, task := range b.Tasks {
			t.Row(task.ID, string(task.Status), fmt.Sprint(task.RetryCount), command.OneLine(task.Title, 40), task.Note)
		}
		return nil
	})
}
