package sqlite

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// Notes are attempts and dead letters. Their rows are walked by time, the newest
// first; the rest of the order is made of those that a row or a time share.
const (
	sqlAttemptNotes = `SELECT n.pk, n.at, l.owner, l.task_id, l.id, n.attempts FROM webhook_attempts n INDEXED BY webhook_attempts_%s`
	sqlDeadNotes    = `SELECT n.pk, n.at, l.owner, l.task_id, l.id, n.seq, n.sequence, n.cursor_seq, n.cursor_sequence, n.cursor_state,
		n.attempts, n.status, n.reason FROM webhook_dead n INDEXED BY webhook_dead_%s`
	sqlNotesAll   = ` CROSS JOIN webhook_lanes l ON l.pk = n.lane_pk WHERE n.at <= ?1 ORDER BY n.at DESC`
	sqlNotesOwner = ` CROSS JOIN webhook_lanes l ON l.pk = n.lane_pk WHERE n.owner = ?2 AND n.at <= ?1 ORDER BY n.at DESC`
	sqlNotesTask  = ` CROSS JOIN webhook_lanes l ON l.pk = n.lane_pk
		WHERE n.task_pk = (SELECT pk FROM task_rows WHERE owner = ?2 AND id = ?3) AND n.at <= ?1 ORDER BY n.at DESC`
	sqlNotesLane = ` CROSS JOIN webhook_lanes l ON l.pk = n.lane_pk
		WHERE n.task_pk = (SELECT pk FROM task_rows WHERE owner = ?2 AND id = ?3) AND n.at <= ?1
		AND n.lane_pk = (SELECT pk FROM webhook_lanes WHERE owner = ?2 AND task_id = ?3 AND id = ?4) ORDER BY n.at DESC`
)

// noteWalk is a statement that lists notes of a kind.
type noteWalk struct{ notes, index, where string }

func (k noteWalk) text() string { return fmt.Sprintf(k.notes, k.index) + k.where }

func newNoteWalk(notes string, q *store.PushQuery) (k noteWalk, args []any) {
	switch {
	case q.Owner == "":
		return noteWalk{notes, "at", sqlNotesAll}, nil
	case q.TaskID == "":
		return noteWalk{notes, "owner", sqlNotesOwner}, []any{q.Owner}
	case q.ID == "":
		return noteWalk{notes, "task", sqlNotesTask}, []any{q.Owner, q.TaskID}
	}
	return noteWalk{notes, "task", sqlNotesLane}, []any{q.Owner, q.TaskID, q.ID}
}

// noteKey is the place of a note in a list.
type noteKey struct {
	At       int64  `json:"at"`
	Owner    string `json:"owner"`
	Task     string `json:"task"`
	ID       string `json:"id"`
	Sequence int64  `json:"sequence"`
	Attempt  int64  `json:"attempt"`
	// Row and Index tell notes apart that are alike.
	Row   int64 `json:"row"`
	Index int64 `json:"index"`
}

func (k *noteKey) compare(o *noteKey) int {
	return cmp.Or(cmp.Compare(o.At, k.At), strings.Compare(k.Owner, o.Owner), strings.Compare(k.Task, o.Task), strings.Compare(k.ID, o.ID),
		cmp.Compare(o.Sequence, k.Sequence), cmp.Compare(o.Attempt, k.Attempt), cmp.Compare(k.Row, o.Row), cmp.Compare(k.Index, o.Index))
}

// notePage gathers a page of notes from rows that come the newest first.
type notePage[V any] struct {
	*store.PushQuery
	after *noteKey // nil at the start
	keys  []noteKey
	found []V
}

// start is the time of the first row that may hold a note of the page.
func (p *notePage[V]) start() (at any, err error) {
	if p.Cursor == "" {
		return latest, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err == nil {
		p.after = new(noteKey)
		err = wire.Unmarshal(raw, p.after)
	}
	if err != nil {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "malformed cursor")
	}
	return p.after.At + attemptSpan, nil
}

// full reports whether no note of a row of a time, or of a later row, belongs to
// the page or tells that there are more.
func (p *notePage[V]) full(at int64) bool { return len(p.keys) > p.Limit && p.keys[p.Limit].At > at }

func (p *notePage[V]) add(k noteKey, v V) {
	if p.Sequence != 0 && k.Sequence != p.Sequence || p.after != nil && k.compare(p.after) <= 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(p.keys, &k, func(a noteKey, b *noteKey) int { return a.compare(b) })
	if i > p.Limit {
		return
	}
	end := min(len(p.keys), p.Limit)
	p.keys = slices.Insert(p.keys[:end], i, k)
	p.found = slices.Insert(p.found[:end], i, v)
}

// result returns the page and the cursor behind it.
func (p *notePage[V]) result() (values []V, next string, err error) {
	if len(p.keys) <= p.Limit {
		return p.found, "", nil
	}
	raw, err := wire.Marshal(&p.keys[p.Limit-1])
	return p.found[:p.Limit], base64.RawURLEncoding.EncodeToString(raw), err
}

// readNotes fills a page; row adds the notes of one.
func readNotes[V any](ctx context.Context, s *Store, notes string, p *notePage[V], row func(k noteKey, rec record) error) ([]V, string, error) {
	err := s.readList(ctx, func(r *reader) error {
		start, err := p.start()
		if err != nil {
			return err
		}
		k, args := newNoteWalk(notes, p.PushQuery)
		walk, err := r.list(k.text())
		if err != nil {
			return err
		}
		return walk.query(ctx, func(rec record) error {
			k := noteKey{Row: rec.int(0), At: rec.int(1), Owner: rec.text(2), Task: rec.text(3), ID: rec.text(4)}
			if p.full(k.At) {
				return errEnough
			}
			return row(k, rec)
		}, append([]any{start}, args...)...)
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, "", err
	}
	return p.result()
}

// PushAttempts implements store.Store.
func (s *Store) PushAttempts(ctx context.Context, q store.PushQuery) (store.PushAttemptPage, error) {
	p := &notePage[store.PushAttempt]{PushQuery: &q}
	all, next, err := readNotes(ctx, s, sqlAttemptNotes, p, func(k noteKey, rec record) error {
		var kept []attempt
		if err := wire.Unmarshal(rec.json(5), &kept); err != nil {
			return fmt.Errorf("attempts %d: %w", k.Row, err)
		}
		task := store.Key{Owner: k.Owner, ID: k.Task}
		for i := range kept {
			a := &kept[i]
			k.At, k.Sequence, k.Attempt, k.Index = a.At, a.Sequence, a.Attempt, int64(i)
			p.add(k, a.value(task, k.ID))
		}
		return nil
	})
	return store.PushAttemptPage{Attempts: all, Next: next}, err
}

// DeadLetters implements store.Store.
func (s *Store) DeadLetters(ctx context.Context, q store.PushQuery) (store.DeadLetterPage, error) {
	p := &notePage[store.DeadLetter]{PushQuery: &q}
	all, next, err := readNotes(ctx, s, sqlDeadNotes, p, func(k noteKey, rec record) error {
		k.Sequence = rec.int(6)
		p.add(k, store.DeadLetter{
			Task: store.Key{Owner: k.Owner, ID: k.Task}, ConfigID: k.ID, Seq: rec.int(5), Sequence: k.Sequence,
			Cursor:   store.PushCursor{Seq: rec.int(7), Sequence: rec.int(8), State: a2a.TaskState(rec.text(9))},
			Attempts: int(rec.int(10)), Status: int(rec.int(11)), Reason: rec.text(12), At: fromMillis(k.At),
		})
		return nil
	})
	return store.DeadLetterPage{Letters: all, Next: next}, err
}
