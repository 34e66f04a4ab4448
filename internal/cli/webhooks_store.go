package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/push"
	"github.com/holdfast-dev/holdfast/store"
)

// operator are the flags to look into a store instead of asking a server.
type operator struct {
	Owner     given  `placeholder:"PRINCIPAL" xor:"owner" group:"Operator:" help:"Look into the store instead of asking a server, at the webhooks of this principal. Servers without tokens know one, anonymous."`
	AllOwners bool   `xor:"owner" group:"Operator:" help:"The same, at those of all principals."`
	Data      string `placeholder:"DIR" envvar:"HOLDFAST_DATA" default:"./holdfast-data" group:"Operator:" help:"The data directory of SQLite. Default: ${default}."`

	storageFlags
}

// direct reports whether no server is to be asked.
func (o *operator) direct() bool { return o.AllOwners || o.Owner != "" }

// remote refuses what only the store knows when a server is to be asked.
func (o *operator) remote(a *app, task string) error {
	for _, name := range append([]string{"data", "storage"}, forPostgres...) {
		if a.set.origins[name].rank == byFlag {
			return usagef("--%s needs --owner or --all-owners: without these a server is asked", name)
		}
	}
	if task == "" {
		return usagef("give a task's id, or look into the store with --owner or --all-owners")
	}
	return nil
}

// open opens the store, has f work with it, and closes it.
func (o *operator) open(ctx context.Context, a *app, task string, write bool, f func(*push.Operator) error) error {
	if task != "" && o.Owner == "" {
		return usagef("name the owner of the task with --owner: ids of tasks are unique per owner")
	}
	s, err := o.choose(a, o.Data)
	if err = errors.Join(err, s.lasting()); err != nil {
		return err
	}
	s.tell(a)
	st, err := s.openToRead(ctx, a)
	if err == nil && write && s.kind == kindSQLite {
		// It was there: to write must not make an empty one.
		if err = st.Close(); err != nil { //nolint:contextcheck // closed also when ctx is done
			return err
		}
		if st, err = s.open(ctx, a, nil); a2a.CodeOf(err) == a2a.CodeUnavailable {
			return &hinted{err, "with SQLite stop the server first, or ask it, as the owner, without --owner and --all-owners"}
		}
	}
	if err != nil {
		return err
	}
	op, err := push.NewOperator(st)
	if err == nil {
		err = f(op)
	}
	if hint := whichWebhook(err); hint != "" {
		err = &hinted{err, "`" + a.name + " webhooks list " + quoteShell(task) + "` with the same --owner and storage " + hint}
	}
	if err = errors.Join(err, st.Close()); err != nil && ctx.Err() != nil { //nolint:contextcheck // closed also when ctx is done
		return context.Cause(ctx)
	}
	return err
}

// deadCounted is how many dead letters are read to count those of each webhook.
const deadCounted = 100_000

// list shows webhooks; with --json one a line.
func (o *operator) list(ctx context.Context, a *app, task string) error {
	return o.open(ctx, a, task, false, func(op *push.Operator) error {
		table := webhookTable{a: a}
		var dead deadCounts
		if !a.json {
			var err error
			if dead.counts, dead.more, err = op.CountDead(ctx, string(o.Owner), task, deadCounted); err != nil {
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
			item, err := owned(w.Webhook, owner{Owner: w.Owner})
			if err != nil {
				return err
			}
			a.out.raw(append(item, '\n'))
		}
		if rows == 0 {
			a.say("no webhooks")
		}
		return nil
	})
}

func (o *operator) attempts(ctx context.Context, a *app, task, id string, p *page) error {
	return o.open(ctx, a, task, false, func(op *push.Operator) error {
		table := webhookTable{a: a}
		q := store.PushQuery{Owner: string(o.Owner), TaskID: task, ID: id, Limit: p.Limit}
		return p.each(a, "attempts", func(token string) (fetched, error) {
			q.Cursor = token
			attempts, next, err := op.Attempts(ctx, q)
			f := fetched{member: "attempts", rows: len(attempts), next: next}
			items := make([]json.RawMessage, len(attempts))
			for i, at := range attempts {
				if err == nil {
					items[i], err = owned(at.Attempt, owner{at.Owner, at.Address, at.Detail})
				}
			}
			f.show = func() {
				for i := range attempts {
					table.attempt(&owner{attempts[i].Owner, attempts[i].Address, attempts[i].Detail}, &attempts[i].Attempt)
				}
			}
			return f.pack(items, err)
		})
	})
}

func (o *operator) dead(ctx context.Context, a *app, task string, p *page) error {
	return o.open(ctx, a, task, false, func(op *push.Operator) error {
		table := webhookTable{a: a}
		q := store.PushQuery{Owner: string(o.Owner), TaskID: task, Limit: p.Limit}
		return p.each(a, "dead letters", func(token string) (fetched, error) {
			q.Cursor = token
			letters, next, err := op.DeadLetters(ctx, q)
			f := fetched{member: "deadLetters", rows: len(letters), next: next}
			items := make([]json.RawMessage, len(letters))
			for i, d := range letters {
				if err == nil {
					items[i], err = owned(d.Letter, owner{Owner: d.Owner})
				}
			}
			f.show = func() {
				for i := range letters {
					table.dead(letters[i].Owner, &letters[i].Letter)
				}
			}
			return f.pack(items, err)
		})
	})
}

func (o *operator) replay(ctx context.Context, a *app, task, id string, from int64) error {
	if task == "" && from > 0 {
		return usagef("--from needs a task: it is the sequence of one of its events")
	}
	return o.open(ctx, a, task, true, func(op *push.Operator) error {
		tell := func(r *push.OwnedReplay) error {
			item, err := owned(r.Replay, owner{Owner: r.Owner})
			if err == nil {
				a.changed(item, fmt.Sprintf("owner %s, task %s: %s", r.Owner, r.Replay.TaskID, replayed(&r.Replay)))
			}
			return err
		}
		if task != "" {
			r, err := op.Replay(ctx, store.Key{Owner: string(o.Owner), ID: task}, id, from)
			if err != nil {
				return err
			}
			return tell(r)
		}
		rows := 0
		for r, err := range op.ReplayDead(ctx, string(o.Owner)) {
			if err == nil {
				err = tell(&r)
			}
			if err != nil {
				return err
			}
			rows++
		}
		if rows == 0 {
			a.say("nothing to be sent again")
		}
		return nil
	})
}

// owner is what operators are told besides.
type owner struct {
	Owner   string `json:"owner"`
	Address string `json:"address,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// owned is v as JSON, with what operators are told besides in front.
func owned(v any, o owner) ([]byte, error) {
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

// pack makes the page's JSON.
func (f fetched) pack(items []json.RawMessage, err error) (fetched, error) {
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
