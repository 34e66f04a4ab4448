package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhook"
)

// operatorFlags select the store that a command uses directly, instead of a server.
type operatorFlags struct {
	Owner     command.NonEmpty `placeholder:"PRINCIPAL" xor:"owner" group:"Operator:" help:"Use the store directly instead of a server, for the webhooks of this principal. On servers without tokens it is anonymous."`
	AllOwners bool             `xor:"owner" group:"Operator:" help:"As --owner, for the webhooks of all principals."`
	Data      string           `placeholder:"DIR" envvar:"HOLDFAST_DATA" default:"./holdfast-data" group:"Operator:" help:"SQLite data directory."`

	storageFlags
}

// usesStore reports whether the command uses the store directly.
func (o *operatorFlags) usesStore() bool { return o.AllOwners || o.Owner != "" }

// checkRemote checks the flags of a command that uses a server.
func (o *operatorFlags) checkRemote(a *app, task string) error {
	for _, name := range append(backendFlags(), "storage") {
		if a.set.origins[name].rank == byFlag {
			return command.Usagef("--%s needs --owner or --all-owners: without these the command uses a server", name)
		}
	}
	if task == "" {
		return command.Usagef("a task id, --owner or --all-owners is required")
	}
	return nil
}

// withStore opens the store, calls f and closes the store.
func (o *operatorFlags) withStore(ctx context.Context, a *app, task string, write bool, f func(*webhook.Operator) error) error {
	if task != "" && o.Owner == "" {
		return command.Usagef("--owner is required with a task id: task ids are unique per owner")
	}
	s, err := o.resolve(a, o.Data)
	if err = errors.Join(err, s.requirePersistent()); err != nil {
		return err
	}
	s.printNotes(a)
	st, err := s.openToChange(ctx, a, write)
	if write && !s.shared && a2a.CodeOf(err) == a2a.CodeUnavailable {
		return command.WithHint(err, "with SQLite, stop the server first, or use the server, as the owner, without --owner and --all-owners")
	}
	if err != nil {
		return err
	}
	op, err := webhook.NewOperator(st)
	if err == nil {
		err = f(op)
	}
	if hint := webhookHint(err); hint != "" {
		err = command.WithHint(err, "`"+a.name+" webhooks list "+quoteShell(task)+"` with the same --owner and storage "+hint)
	}
	if err = errors.Join(err, st.Close()); err != nil && ctx.Err() != nil { // closed also when ctx is done
		return context.Cause(ctx)
	}
	return err
}

// maxDeadCounted is the maximum number of dead letters that are read to count them.
const maxDeadCounted = 100_000

// list prints webhooks; with --json one per line.
func (o *operatorFlags) list(ctx context.Context, a *app, task string) error {
	return o.withStore(ctx, a, task, false, func(op *webhook.Operator) error {
		t := webhookTable(a, true)
		var dead deadCounts
		if !a.JSON {
			var err error
			if dead.counts, dead.incomplete, err = op.CountDeadLetters(ctx, string(o.Owner), task, maxDeadCounted); err != nil {
				return err
			}
		}
		for w, err := range op.Webhooks(ctx, string(o.Owner), task) {
			if err != nil {
				return err
			}
			if addWebhook(t, w.Owner, &w.Webhook, dead.of(w.Owner, &w.Webhook)); !a.JSON {
				continue
			}
			item, err := withOperatorInfo(w.Webhook, operatorInfo{Owner: w.Owner})
			if err != nil {
				return err
			}
			a.Out.JSON(item)
		}
		if t.Rows == 0 {
			a.Info("no webhooks")
		}
		return nil
	})
}

func (o *operatorFlags) attempts(ctx context.Context, a *app, task, id string, p *command.PageFlags) error {
	q := store.WebhookQuery{Owner: string(o.Owner), TaskID: task, ID: id, Limit: p.Limit}
	return o.pages(ctx, a, p, attemptTable(a, true), &q, func(op *webhook.Operator, t *command.Table) (items []json.RawMessage, next string, err error) {
		attempts, next, err := op.Attempts(ctx, q)
		for i := range attempts {
			info := operatorInfo{attempts[i].Owner, attempts[i].Address, attempts[i].Detail}
			addAttempt(t, &info, &attempts[i].Attempt)
			item, ierr := withOperatorInfo(attempts[i].Attempt, info)
			items, err = append(items, item), errors.Join(err, ierr)
		}
		return items, next, err
	})
}

func (o *operatorFlags) dead(ctx context.Context, a *app, task string, p *command.PageFlags) error {
	q := store.WebhookQuery{Owner: string(o.Owner), TaskID: task, Limit: p.Limit}
	return o.pages(ctx, a, p, deadTable(a, true), &q, func(op *webhook.Operator, t *command.Table) (items []json.RawMessage, next string, err error) {
		letters, next, err := op.DeadLetters(ctx, q)
		for i := range letters {
			addDead(t, letters[i].Owner, &letters[i].Letter)
			item, ierr := withOperatorInfo(letters[i].Letter, operatorInfo{Owner: letters[i].Owner})
			items, err = append(items, item), errors.Join(err, ierr)
		}
		return items, next, err
	})
}

// pages opens the store and shows one page, or all pages with --all. fetch reads the page of q, adds its
// items to the table and returns them as JSON.
func (o *operatorFlags) pages(ctx context.Context, a *app, p *command.PageFlags, t *command.Table, q *store.WebhookQuery,
	fetch func(*webhook.Operator, *command.Table) (items []json.RawMessage, next string, err error),
) error {
	if err := p.Check(); err != nil {
		return err
	}
	return o.withStore(ctx, a, q.TaskID, false, func(op *webhook.Operator) error {
		return p.Each(t, func(token string) (json.RawMessage, string, error) {
			q.Cursor = token
			items, next, err := fetch(op, t)
			if err != nil {
				return nil, "", err
			}
			page := map[string]any{t.Member: items}
			if items == nil {
				page[t.Member] = []any{}
			}
			if next != "" {
				page["nextPageToken"] = next
			}
			raw, err := json.Marshal(page)
			return raw, next, err
		})
	})
}

func (o *operatorFlags) replay(ctx context.Context, a *app, task, id string, from int64) error {
	if task == "" && from > 0 {
		return command.Usagef("--from needs a task id: it is the sequence number of an event of the task")
	}
	return o.withStore(ctx, a, task, true, func(op *webhook.Operator) error {
		show := func(r *webhook.OwnedReplay) error {
			if !a.JSON {
				a.Out.Line("%s", command.Clean(fmt.Sprintf("owner %s, task %s: %s", r.Owner, r.Replay.TaskID, replayText(&r.Replay))))
				return nil
			}
			item, err := withOperatorInfo(r.Replay, operatorInfo{Owner: r.Owner})
			if err == nil {
				a.Out.JSON(item)
			}
			return err
		}
		if task != "" {
			r, err := op.Replay(ctx, store.Key{Owner: string(o.Owner), ID: task}, id, from)
			if err != nil {
				return err
			}
			return show(r)
		}
		rows := 0
		for r, err := range op.ReplayDeadLetters(ctx, string(o.Owner)) {
			if err == nil {
				err = show(&r)
			}
			if err != nil {
				return err
			}
			rows++
		}
		if rows == 0 {
			a.Info("nothing to resend")
		}
		return nil
	})
}

// operatorInfo has the members that the output has for operators only.
type operatorInfo struct {
	Owner   string `json:"owner"`
	Address string `json:"address,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// withOperatorInfo returns v as JSON with the members of o at the start.
func withOperatorInfo(v any, o operatorInfo) ([]byte, error) {
	front, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	raw, err := wire.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(append(front[:len(front)-1], ','), raw[1:]...), nil
}
