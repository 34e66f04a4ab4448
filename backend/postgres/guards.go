package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// The reads of a guard snapshot. Keys are read last, so that a reader that sees a changed
// task also sees the key of that change. A key that is found acknowledges the change made
// with it. Therefore it is locked, which is a write that waits for the standbys.
var (
	sqlGuardTasks = `SELECT ` + rowColumns + `, c.status
		FROM unnest($1::text[], $2::text[]) AS u(owner, id)
		JOIN {s}.task_rows t ON t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX"
		LEFT JOIN {s}.context_rows c ON c.owner = t.owner COLLATE "POSIX" AND c.id = t.context_id COLLATE "POSIX"`
	sqlGuardContexts = `SELECT c.owner, c.id, c.status
		FROM unnest($1::text[], $2::text[]) AS u(owner, id)
		JOIN {s}.context_rows c ON c.owner = u.owner COLLATE "POSIX" AND c.id = u.id COLLATE "POSIX"`
	sqlGuardKeys = `SELECT k.owner, k.key, k.hash, k.task_id, k.seq, k.created_at
		FROM unnest($1::text[], $2::text[]) AS u(owner, key)
		JOIN {s}.idempotency_keys k ON k.owner = u.owner COLLATE "POSIX" AND k.key = u.key COLLATE "POSIX" FOR KEY SHARE OF k`
	sqlRecoverResults = `SELECT u.ord, t.seq, l.seq, l.n
		FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(owner, id, ord)
		JOIN {s}.task_rows t ON t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX"
		LEFT JOIN {s}.task_log l ON l.owner = t.owner AND l.task_pk = t.pk AND l.mark = $3::bigint
		ORDER BY u.ord, l.seq`
)

// guardSnapshot is the state that the guards of some changes depend on. apply updates it, so
// that later changes see earlier ones.
type guardSnapshot struct {
	tasks    map[store.Key]*guardedTask
	contexts map[store.Key]string // status by key
	keys     map[store.Key]store.IdempotencyRecord
	records  map[store.RecordKey]int64 // versions
}

type guardedTask struct {
	taskRow
	deleting bool
}

// checkGuards reads the guard snapshot of changes and sets the result of those that it
// rejects. It returns the others, with the versions before and after them. These are valid
// only if the guards of the statements succeed.
func (s *changeWriter) checkGuards(changes []*change) (accepted []*change, err error) {
	var snap *guardSnapshot
	err = s.runOnce(context.Background(), func(ctx context.Context, c *pgx.Conn) error {
		snap, err = s.readGuards(ctx, c, changes)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, ch := range changes {
		if ch.result = snap.apply(ch); ch.result.Err == nil {
			accepted = append(accepted, ch)
		}
	}
	return accepted, nil
}

// keyPairs collects distinct keys as two parameters of a statement.
type keyPairs struct {
	first, second []string
	seen          map[store.Key]bool
}

func (p *keyPairs) add(a, b string) {
	k := store.Key{Owner: a, ID: b}
	if p.seen == nil {
		p.seen = make(map[store.Key]bool)
	}
	if !p.seen[k] {
		p.seen[k] = true
		p.first, p.second = append(p.first, a), append(p.second, b)
	}
}

func (s *changeWriter) readGuards(ctx context.Context, c *pgx.Conn, changes []*change) (*guardSnapshot, error) {
	var tasks, contexts, keys keyPairs
	var records []store.RecordKey
	for _, ch := range changes {
		tasks.add(ch.Key.Owner, ch.Key.ID)
		if ch.Create != nil {
			contexts.add(ch.Key.Owner, ch.Create.ContextID)
		}
		for _, r := range ownedChanges(ch.Key.Owner, ch.Records) {
			records = append(records, r.RecordKey)
		}
		if r := ch.Idempotency; r != nil {
			keys.add(r.Owner, r.Key)
		}
	}
	snap := &guardSnapshot{
		tasks: make(map[store.Key]*guardedTask), contexts: make(map[store.Key]string), keys: make(map[store.Key]store.IdempotencyRecord),
	}
	err := s.eachRow(ctx, c, sqlGuardTasks, func(r record) error {
		t := &guardedTask{deleting: r.text(rowWidth) == ""}
		scanTask(&t.taskRow, r)
		snap.tasks[t.Key] = t
		return nil
	}, tasks.first, tasks.second)
	if err == nil && len(contexts.first) > 0 {
		err = s.eachRow(ctx, c, sqlGuardContexts, func(r record) error {
			snap.contexts[store.Key{Owner: r.text(0), ID: r.text(1)}] = r.text(2)
			return nil
		}, contexts.first, contexts.second)
	}
	if err == nil && len(keys.first) > 0 {
		err = s.eachRow(ctx, c, sqlGuardKeys, func(r record) error {
			k := scanKey(r)
			snap.keys[store.Key{Owner: k.Owner, ID: k.Key}] = k
			return nil
		}, keys.first, keys.second)
	}
	if err == nil {
		snap.records, err = s.readRecordVersions(ctx, c, records)
	}
	return snap, err
}

// apply applies a change to the snapshot or rejects it.
func (snap *guardSnapshot) apply(ch *change) store.Result {
	var key store.Key
	var known *store.IdempotencyRecord
	if r := ch.Idempotency; r != nil {
		key = store.Key{Owner: r.Owner, ID: r.Key}
		if existing, ok := snap.keys[key]; ok {
			known = &existing
		}
	}
	t := snap.tasks[ch.Key]
	var seen *rules.Task
	if t != nil {
		task := t.Seen()
		task.Deleting, seen = t.deleting, &task
	}
	status, exists := snap.contexts[store.Key{Owner: ch.Key.Owner, ID: ch.ContextID()}]
	if err := rules.Change(ch.Change, known, seen, exists && status != statusActive, snap.recordVersions(ch)); err != nil {
		return store.Result{Err: err, Record: known}
	}
	if ch.Create != nil {
		t = &guardedTask{taskRow: taskRow{Key: ch.Key, ContextID: ch.Create.ContextID}}
		snap.tasks[ch.Key] = t
		snap.contexts[store.Key{Owner: ch.Key.Owner, ID: ch.Create.ContextID}] = statusActive
	} else if ch.Idempotency != nil {
		ch.at = t.Seq // the key records the version after it
	}
	for _, r := range ownedChanges(ch.Key.Owner, ch.Records) {
		if snap.records[r.RecordKey] = r.Version + 1; r.Delete {
			delete(snap.records, r.RecordKey)
		}
	}
	t.Advance(ch.Events)
	if ch.Queue != nil {
		t.SetQueueEntry(ch.Queue)
	}
	ch.after = t.Seq
	if r := ch.Idempotency; r != nil {
		k := *r
		k.Seq, k.CreatedAt = t.Seq, store.Time(r.CreatedAt)
		snap.keys[key] = k
	}
	return store.Result{}
}

// statusActive is the status of contexts that accept new tasks.
const statusActive = "active"

// recoverResults sets the results of changes after their transaction was committed but
// its answer was lost. Changes that the transaction did not apply remain unapplied.
func (s *changeWriter) recoverResults(accepted []*change, mark int64) error {
	type loggedTask struct {
		version  int64
		versions []int64 // after each change with events
	}
	logged := make(map[store.Key]*loggedTask)
	var tasks keyPairs
	for _, ch := range accepted {
		tasks.add(ch.Key.Owner, ch.Key.ID)
	}
	err := s.retry(context.Background(), "recover the results of a commit", func(ctx context.Context, c *pgx.Conn) error {
		clear(logged)
		return s.eachRow(ctx, c, sqlRecoverResults, func(r record) error {
			i := r.int(0) - 1
			k := store.Key{Owner: tasks.first[i], ID: tasks.second[i]}
			if logged[k] == nil {
				logged[k] = &loggedTask{version: r.int(1)}
			}
			if !r.null(2) {
				logged[k].versions = append(logged[k].versions, r.int(2)+r.int(3)-1)
			}
			return nil
		}, tasks.first, tasks.second, mark)
	})
	if err != nil {
		return err
	}
	for _, ch := range accepted {
		t := logged[ch.Key]
		ch.movedLanes = true // possibly
		switch {
		case t == nil: // removed since
			ch.applied, ch.result.Seq = ch.strict, ch.newVersion()
		case len(ch.Events) > 0 && len(t.versions) > 0:
			ch.applied, ch.result.Seq, t.version, t.versions = true, t.versions[0], t.versions[0], t.versions[1:]
		default:
			ch.applied, ch.result.Seq = ch.strict, t.version
		}
	}
	return nil
}
