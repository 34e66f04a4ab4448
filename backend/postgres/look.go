package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// The reads of a look. Keys come last: whoever finds a task changed also finds the
// key that was taken with the change. A key that is found acknowledges what was done
// under it. So it is locked: that is a write, which waits for the standbys.
const (
	sqlLookTasks = `SELECT ` + rowColumns + `, c.status
		FROM unnest($1::text[], $2::text[]) AS u(owner, id)
		JOIN {s}.task_rows t ON t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX"
		LEFT JOIN {s}.context_rows c ON c.owner = t.owner COLLATE "POSIX" AND c.id = t.context_id COLLATE "POSIX"`
	sqlLookContexts = `SELECT c.owner, c.id, c.status
		FROM unnest($1::text[], $2::text[]) AS u(owner, id)
		JOIN {s}.context_rows c ON c.owner = u.owner COLLATE "POSIX" AND c.id = u.id COLLATE "POSIX"`
	sqlLookKeys = `SELECT k.owner, k.key, k.hash, k.task_id, k.seq, k.created_at
		FROM unnest($1::text[], $2::text[]) AS u(owner, key)
		JOIN {s}.idempotency_keys k ON k.owner = u.owner COLLATE "POSIX" AND k.key = u.key COLLATE "POSIX" FOR KEY SHARE OF k`
	sqlRecall = `SELECT u.ord, t.seq, l.seq, l.n
		FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(owner, id, ord)
		JOIN {s}.task_rows t ON t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX"
		LEFT JOIN {s}.task_log l ON l.task_pk = t.pk AND l.mark = $3::bigint
		ORDER BY u.ord, l.seq`
)

// scene is the part of the database that some changes have to do with.
type scene struct {
	tasks    map[store.Key]*seenTask
	contexts map[store.Key]string // by status
	keys     map[store.Key]store.IdempotencyRecord
}

type seenTask struct {
	taskRow
	deleting bool
}

// look reads what changes have to do with, tells those their result that are
// refused, and returns the others with what they will do. They are right as long
// as the guards of their statements hold.
func (s *Store) look(changes []*change) (live []*change, err error) {
	var sc *scene
	err = s.once(context.Background(), func(ctx context.Context, c *pgx.Conn) error {
		sc, err = s.readScene(ctx, c, changes)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, ch := range changes {
		if ch.result = sc.apply(ch); ch.result.Err == nil {
			live = append(live, ch)
		}
	}
	return live, nil
}

// pairs gathers keys as two parameters.
type pairs struct {
	first, second []string
	seen          map[store.Key]bool
}

func (p *pairs) add(a, b string) {
	k := store.Key{Owner: a, ID: b}
	if p.seen == nil {
		p.seen = make(map[store.Key]bool)
	}
	if !p.seen[k] {
		p.seen[k] = true
		p.first, p.second = append(p.first, a), append(p.second, b)
	}
}

func (s *Store) readScene(ctx context.Context, c *pgx.Conn, changes []*change) (*scene, error) {
	var tasks, contexts, keys pairs
	for _, ch := range changes {
		tasks.add(ch.Key.Owner, ch.Key.ID)
		if ch.Create != nil {
			contexts.add(ch.Key.Owner, ch.Create.ContextID)
		}
		if r := ch.Idempotency; r != nil {
			keys.add(r.Owner, r.Key)
		}
	}
	sc := &scene{
		tasks: make(map[store.Key]*seenTask), contexts: make(map[store.Key]string), keys: make(map[store.Key]store.IdempotencyRecord),
	}
	err := s.each(ctx, c, sqlLookTasks, func(r record) error {
		t := &seenTask{deleting: r.text(rowWidth) == ""}
		t.scan(r)
		sc.tasks[t.key] = t
		return nil
	}, tasks.first, tasks.second)
	if err == nil && len(contexts.first) > 0 {
		err = s.each(ctx, c, sqlLookContexts, func(r record) error {
			sc.contexts[store.Key{Owner: r.text(0), ID: r.text(1)}] = r.text(2)
			return nil
		}, contexts.first, contexts.second)
	}
	if err == nil && len(keys.first) > 0 {
		err = s.each(ctx, c, sqlLookKeys, func(r record) error {
			k := scanKey(r)
			sc.keys[store.Key{Owner: k.Owner, ID: k.Key}] = k
			return nil
		}, keys.first, keys.second)
	}
	return sc, err
}

// apply makes a change in the scene or refuses it.
func (sc *scene) apply(ch *change) store.Result {
	var key store.Key
	if r := ch.Idempotency; r != nil {
		key = store.Key{Owner: r.Owner, ID: r.Key}
		if taken, ok := sc.keys[key]; ok {
			return store.Result{Err: store.ErrDuplicate, Record: &taken}
		}
	}
	t := sc.tasks[ch.Key]
	if err := sc.refusal(t, ch); err != nil {
		return store.Result{Err: err}
	}
	if ch.Create != nil {
		t = &seenTask{taskRow: taskRow{key: ch.Key, contextID: ch.Create.ContextID}}
		sc.tasks[ch.Key] = t
		sc.contexts[store.Key{Owner: ch.Key.Owner, ID: ch.Create.ContextID}] = statusActive
	} else if ch.Idempotency != nil {
		ch.at = t.seq // the record tells the version after it
	}
	t.advance(ch.Events)
	if ch.Run != nil {
		t.setRun(ch.Run)
	}
	ch.after = t.seq
	if r := ch.Idempotency; r != nil {
		k := *r
		k.Seq, k.CreatedAt = t.seq, store.Time(r.CreatedAt)
		sc.keys[key] = k
	}
	return store.Result{}
}

func (sc *scene) refusal(t *seenTask, ch *change) error {
	switch {
	case ch.Create != nil && t != nil:
		return store.ErrExists
	case ch.Create != nil:
		status, ok := sc.contexts[store.Key{Owner: ch.Key.Owner, ID: ch.Create.ContextID}]
		if ok && status != statusActive {
			return store.ErrContextClosed
		}
		return nil
	case t == nil, t.deleting && ch.touches != 0:
		return store.ErrNotFound
	case ch.Version > 0 && t.seq != ch.Version:
		return store.ErrConflict
	case ch.Lease != nil && !t.holds(ch.Lease):
		return store.ErrLeaseLost
	case ch.Seen > 0 && t.receivedSeq > ch.Seen:
		return store.ErrUnread
	}
	return nil
}

// statusActive is that of contexts which take new tasks.
const statusActive = "active"

// recall tells changes their results whose transaction is known to have been
// committed though its answer was lost. Those that it did not change are left as
// they are.
func (s *Store) recall(live []*change, mark int64) error {
	type trace struct {
		now   int64
		lasts []int64 // versions after each change with events
	}
	traces := make(map[store.Key]*trace)
	var tasks pairs
	for _, ch := range live {
		tasks.add(ch.Key.Owner, ch.Key.ID)
	}
	err := s.repeat(context.Background(), "recall", func(ctx context.Context, c *pgx.Conn) error {
		clear(traces)
		return s.each(ctx, c, sqlRecall, func(r record) error {
			i := r.int(0) - 1
			k := store.Key{Owner: tasks.first[i], ID: tasks.second[i]}
			if traces[k] == nil {
				traces[k] = &trace{now: r.int(1)}
			}
			if !r.null(2) {
				traces[k].lasts = append(traces[k].lasts, r.int(2)+r.int(3)-1)
			}
			return nil
		}, tasks.first, tasks.second, mark)
	})
	if err != nil {
		return err
	}
	for _, ch := range live {
		t := traces[ch.Key]
		ch.followed = true // perhaps
		switch {
		case t == nil: // removed since
			ch.applied, ch.result.Seq = ch.strict, ch.leaves()
		case len(ch.Events) > 0 && len(t.lasts) > 0:
			ch.applied, ch.result.Seq, t.now, t.lasts = true, t.lasts[0], t.lasts[0], t.lasts[1:]
		default:
			ch.applied, ch.result.Seq = ch.strict, t.now
		}
	}
	return nil
}
