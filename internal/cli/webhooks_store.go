package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhook"
)

// operatorFlags select the store that a command uses directly, instead of a server.
type operatorFlags struct {
	Owner     nonEmpty `placeholder:"PRINCIPAL" xor:"owner" group:"Operator:" help:"Use the store directly instead of a server, for the webhooks of this principal. On servers without tokens it is anonymous."`
	AllOwners bool     `xor:"owner" group:"Operator:" help:"As --owner, for the webhooks of all principals."`
	Data      string   `placeholder:"DIR" envvar:"HOLDFAST_DATA" default:"./holdfast-data" group:"Operator:" help:"SQLite data directory (default ${default})."`

	storageFlags
}

// usesStore reports whether the command uses the store directly.
func (o *operatorFlags) usesStore() bool { return o.AllOwners || o.Owner != "" }

// checkRemote checks the flags of a command that uses a server.
func (o *operatorFlags) checkRemote(a *app, task string) error {
	for _, name := range append([]string{"data", "storage"}, postgresFlags...) {
		if a.set.origins[name].rank == byFlag {
			return usagef("--%s needs --owner or --all-owners: without these the command uses a server", name)
		}
	}
	if task == "" {
		return usagef("a task id, --owner or --all-owners is required")
	}
	return nil
}

// withStore opens the store, calls f and closes the store.
func (o *operatorFlags) withStore(ctx context.Context, a *app, task string, write bool, f func(*webhook.Operator) error) error {
	if task != "" && o.Owner == "" {
		return usagef("--owner is required with a task id: task ids are unique per owner")
	}
	s, err := o.resolve(a, o.Data)
	if err = errors.Join(err, s.requirePersistent()); err != nil {
		return err
	}
	s.printNotes(a)
	st, err := s.openExisting(ctx, a)
	if err == nil && write && s.kind == kindSQLite {
		// The store exists: opening it for writing does not create an empty one.
		if err = st.Close(); err != nil { // closed also when ctx is done
			return err
		}
		if st, err = s.open(ctx, a, nil); a2a.CodeOf(err) == a2a.CodeUnavailable {
			return &hintError{err, "with SQLite, stop the server first, or use the server, as the owner, without --owner and --all-owners"}
		}
	}
	if err != nil {
		return err
	}
	op, err := webhook.NewOperator(st)
	if err == nil {
		err = f(op)
	}
	if hint := webhookHint(err); hint != "" {
		err = &hintError{err, "`" + a.name + " webhooks list " + quoteShell(task) + "` with the same --owner and storage " + hint}
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
		table := webhookTable{a: a}
		var dead deadCounts
		if !a.json {
			var err error
			if dead.counts, dead.incomplete, err = op.CountDeadLetters(ctx, string(o.Owner), task, maxDeadCounted); err != nil {
				return err
			}
		}
		rows := 0
		for w, err := range op.Webhooks(ctx, string(o.Owner), task) {
			if err != nil {
				return err
			}
			rows++
			if !a.json {
				table.webhook(w.Owner, &w.Webhook, dead.of(w.Owner, &w.Webhook))
				continue
			}
			item, err := withOperatorInfo(w.Webhook, operatorInfo{Owner: w.Owner})
			if err != nil {
				return err
			}
			a.out.raw(append(item, '\n'))
		}
		if rows == 0 {
			a.info("no webhooks")
		}
		return nil
	})
}

func (o *operatorFlags) attempts(ctx context.Context, a *app, task, id string, p *pageFlags) error {
	return o.withStore(ctx, a, task, false, func(op *webhook.Operator) error {
		table := webhookTable{a: a}
		q := store.WebhookQuery{Owner: string(o.Owner), TaskID: task, ID: id, Limit: p.Limit}
		return p.each(a, "attempts", func(token string) (fetchedPage, error) {
			q.Cursor = token
			attempts, next, err := op.Attempts(ctx, q)
			f := fetchedPage{member: "attempts", rows: len(attempts), next: next}
			items := make([]json.RawMessage, len(attempts))
			for i, at := range attempts {
				if err == nil {
					items[i], err = withOperatorInfo(at.Attempt, operatorInfo{at.Owner, at.Address, at.Detail})
				}
			}
			f.show = func() {
				for i := range attempts {
					table.attempt(&operatorInfo{attempts[i].Owner, attempts[i].Address, attempts[i].Detail}, &attempts[i].Attempt)
				}
			}
			return f.withItems(items, err)
		})
	})
}

func (o *operatorFlags) dead(ctx context.Context, a *app, task string, p *pageFlags) error {
	return o.withStore(ctx, a, task, false, func(op *webhook.Operator) error {
		table := webhookTable{a: a}
		q := store.WebhookQuery{Owner: string(o.Owner), TaskID: task, Limit: p.Limit}
		return p.each(a, "dead letters", func(token string) (fetchedPage, error) {
			q.Cursor = token
			letters, next, err := op.DeadLetters(ctx, q)
			f := fetchedPage{member: "deadLetters", rows: len(letters), next: next}
			items := make([]json.RawMessage, len(letters))
			for i, d := range letters {
				if err == nil {
					items[i], err = withOperatorInfo(d.Letter, operatorInfo{Owner: d.Owner})
				}
			}
			f.show = func() {
				for i := range letters {
					table.dead(letters[i].Owner, &letters[i].Letter)
				}
			}
			return f.withItems(items, err)
		})
	})
}

func (o *operatorFlags) replay(ctx context.Context, a *app, task, id string, from int64) error {
	if task == "" && from > 0 {
		return usagef("--from needs a task id: it is the sequence number of an event of the task")
	}
	return o.withStore(ctx, a, task, true, func(op *webhook.Operator) error {
		show := func(r *webhook.OwnedReplay) error {
			item, err := withOperatorInfo(r.Replay, operatorInfo{Owner: r.Owner})
			if err == nil {
				a.printChange(item, fmt.Sprintf("owner %s, task %s: %s", r.Owner, r.Replay.TaskID, replayText(&r.Replay)))
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
			a.info("nothing to resend")
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

// withItems sets the JSON of the page.
func (f fetchedPage) withItems(items []json.RawMessage, err error) (fetchedPage, error) {
	if err != nil {
		return f, err
	}
	page := map[string]any{f.member: items}
	if f.next != "" {
		page["nextPageToken"] = f.next
	}
	f.raw, err = json.Marshal(page)
	return f, err
}
