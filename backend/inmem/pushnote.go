package inmem

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// note is an attempt or a dead letter. In an index it stands under its time,
// negated, so that the newest come first. It is never changed once it is here.
type note[V any] struct {
	noteKey
	at    int64 // see newest
	lane  *lane
	value V
}

// noteKey is what notes of one time are ordered by.
type noteKey struct {
	Owner, Task, ID string
	Sequence        int64
	Attempt         int
	// Number tells notes apart that are alike.
	Number int64
}

func (k noteKey) compare(o noteKey) int {
	return cmp.Or(strings.Compare(k.Owner, o.Owner), strings.Compare(k.Task, o.Task), strings.Compare(k.ID, o.ID),
		cmp.Compare(o.Sequence, k.Sequence), cmp.Compare(o.Attempt, k.Attempt), cmp.Compare(k.Number, o.Number))
}

func (n *note[V]) compare(o *note[V]) int { return n.noteKey.compare(o.noteKey) }

// newest returns the number under which a time stands.
func newest(at time.Time) int64 { return -max(millis(at), -math.MaxInt64) }

func (p *push) noteKey(l *lane, sequence int64, attempt int) noteKey {
	p.notes++
	k := l.task.fold.Key
	return noteKey{Owner: k.Owner, Task: k.ID, ID: l.Config.ID, Sequence: sequence, Attempt: attempt, Number: p.notes}
}

func (p *push) addAttempt(l *lane, a store.PushAttempt) {
	a.At, a.Duration = store.Time(a.At), a.Duration.Truncate(time.Millisecond)
	n := &note[store.PushAttempt]{p.noteKey(l, a.Sequence, a.Attempt), newest(a.At), l, a}
	l.attempts.add(n.at, n)
	l.task.owner.attempts.add(n.at, n)
	p.attempts.add(n.at, n)
}

func (p *push) removeAttempt(n *note[store.PushAttempt]) {
	n.lane.attempts.remove(n.at, n)
	n.lane.task.owner.attempts.remove(n.at, n)
	p.attempts.remove(n.at, n)
}

func (p *push) addLetter(l *lane, d store.DeadLetter) {
	d.At = store.Time(d.At)
	n := &note[store.DeadLetter]{p.noteKey(l, d.Sequence, 0), newest(d.At), l, d}
	l.letters.add(n.at, n)
	l.task.owner.letters.add(n.at, n)
	p.letters.add(n.at, n)
}

func (p *push) removeLetter(n *note[store.DeadLetter]) {
	n.lane.letters.remove(n.at, n)
	n.lane.task.owner.letters.remove(n.at, n)
	p.letters.remove(n.at, n)
}

// removeNotes removes the attempts and the dead letters of a lane.
func (p *push) removeNotes(l *lane) {
	for _, n := range slices.Collect(l.attempts.records()) {
		p.removeAttempt(n)
	}
	for _, n := range slices.Collect(l.letters.records()) {
		p.removeLetter(n)
	}
}

// records yields the records of an index, which is not changed meanwhile.
func (x *index[R]) records() iter.Seq[R] {
	return func(yield func(R) bool) {
		for e := range x.ascend(nil) {
			if !yield(e.rec) {
				return
			}
		}
	}
}

// DeadLetters implements [store.PushStore].
func (s *Store) DeadLetters(ctx context.Context, q store.PushQuery) (store.DeadLetterPage, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.DeadLetterPage{}, err
	}
	of := func(o *owner) *index[*note[store.DeadLetter]] { return &o.letters }
	letters, next, err := notes(s, q, &s.push.letters, of, func(l *lane) *index[*note[store.DeadLetter]] { return &l.letters })
	return store.DeadLetterPage{Letters: letters, Next: next}, err
}

// PushAttempts implements [store.PushStore].
func (s *Store) PushAttempts(ctx context.Context, q store.PushQuery) (store.PushAttemptPage, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.PushAttemptPage{}, err
	}
	of := func(o *owner) *index[*note[store.PushAttempt]] { return &o.attempts }
	attempts, next, err := notes(s, q, &s.push.attempts, of, func(l *lane) *index[*note[store.PushAttempt]] { return &l.attempts })
	return store.PushAttemptPage{Attempts: attempts, Next: next}, err
}

// notePlace is what a cursor says: the last note of a page.
type notePlace struct {
	At  int64
	Key noteKey
}

// notes returns a page of notes, which are in all, or in those of an owner or a
// lane.
func notes[V any](s *Store, q store.PushQuery, all *index[*note[V]],
	ofOwner func(*owner) *index[*note[V]], ofLane func(*lane) *index[*note[V]],
) (values []V, next string, err error) {
	w := walk[*note[V]]{ascending: true, after: math.MinInt64, before: math.MaxInt64}
	if q.Cursor != "" {
		var last notePlace
		raw, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err == nil {
			err = json.Unmarshal(raw, &last)
		}
		if err != nil {
			return nil, "", a2a.Wrap(a2a.CodeInvalid, err, "malformed cursor")
		}
		end := entry[*note[V]]{last.At, &note[V]{noteKey: last.Key}}
		w.skip = func(e entry[*note[V]]) bool { return e.compare(end) <= 0 }
	}
	if q.Sequence != 0 {
		w.keep = func(n *note[V]) bool { return n.Sequence == q.Sequence }
	}
	switch o := s.owners[q.Owner]; {
	case q.Owner == "":
		w.indexes = append(w.indexes, all)
	case o == nil:
	case q.TaskID == "":
		w.indexes = append(w.indexes, ofOwner(o))
	case o.tasks[q.TaskID] != nil:
		for _, l := range o.tasks[q.TaskID].lanes {
			if q.ID == "" || q.ID == l.Config.ID {
				w.indexes = append(w.indexes, ofLane(l))
			}
		}
	}
	return notePage(w, q.Limit)
}

func notePage[V any](w walk[*note[V]], limit int) (values []V, next string, err error) {
	var last *note[V]
	for steps := w.begin(); ; {
		n, ok := w.next(steps)
		if !ok {
			return values, "", nil
		}
		if len(values) == limit {
			raw, err := json.Marshal(notePlace{last.at, last.noteKey})
			return values, base64.RawURLEncoding.EncodeToString(raw), err
		}
		values, last = append(values, n.value), n
	}
}
