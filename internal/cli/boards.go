package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/store/board"
)

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

type boardsListCmd struct {
	Context nonEmpty `placeholder:"ID" group:"Filter:" help:"Only boards of this context, the oldest first."`

	pageFlags `group:"Pages:" set:"items=Boards" set:"item=board" set:"but="`
	keptFlags
}

// Run lists boards.
func (c *boardsListCmd) Run(ctx context.Context, a *app) error {
	t := &table{a: a, what: "boards", member: "boards", columns: []column{{"ID", 37}, {"CONTEXT", 36}, {"DONE", -7}, {"CREATED", -7}, {"LABEL", 0}}}
	t.fit()
	return c.pages(ctx, t, &c.pageFlags, func(k *kept, token string) (items []any, next string, err error) {
		var boards []board.Board
		more := false
		if c.Context != "" {
			boards, err = k.boards.List(ctx, k.owner, string(c.Context))
		} else {
			boards, more, err = k.boards.OfOwner(ctx, k.owner, token, c.Limit)
		}
		for i := range boards {
			b := &boards[i]
			done := 0
			for _, task := range b.Tasks {
				if task.Status.Terminal() {
					done++
				}
			}
			t.row(b.ID, t.end(b.Conversation, 1), fmt.Sprintf("%d/%d", done, len(b.Tasks)), age(b.CreatedAt), b.Label)
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

	keptFlags
}

// Run shows a board.
func (c *boardsShowCmd) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, false, func(k *kept) error {
		b, err := k.boards.Get(ctx, board.Key{Owner: k.owner, ID: c.ID})
		if errors.Is(err, board.ErrNotFound) {
			return k.notFound("board", c.ID)
		}
		if err != nil {
			return err
		}
		if a.json {
			return a.writeResult(viewBoard(&b))
		}
		a.out.line("%s", a.out.bold("board "+clean(b.ID)))
		a.out.row("context", b.Conversation)
		a.out.row("label", b.Label)
		a.out.row("agent", b.Agent)
		a.out.row("parent", b.ParentAgent)
		a.out.row("created", timeText(b.CreatedAt))
		if len(b.Tasks) > 0 {
			a.out.line("")
		}
		t := &table{a: a, columns: []column{{"TASK", 5}, {"STATUS", 11}, {"RETRIES", -7}, {"TITLE", 40}, {"NOTE", 0}}}
		t.fit()
		for _, task := range b.Tasks {
			t.row(task.ID, string(task.Status), fmt.Sprint(task.RetryCount), oneLine(task.Title, 40), task.Note)
		}
		return nil
	})
}
