package postgres

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// batchSpan bounds, in milliseconds, how far apart the attempts of one row may be. So a
// walk by the time of the last knows where those of a time may still come.
const batchSpan = 60_000

// attemptBatch are the attempts of one row, by time.
type attemptBatch []keptAttempt

// keptAttempt is a store.PushAttempt as it is kept.
type keptAttempt struct {
	Seq      int64  `json:"seq"`
	Sequence int64  `json:"sequence"`
	Attempt  int    `json:"attempt"`
	At       int64  `json:"at"`
	Millis   int64  `json:"ms,omitempty"`
	Status   int    `json:"status,omitempty"`
	Outcome  string `json:"outcome,omitempty"`
	Address  string `json:"address,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

func (b attemptBatch) encode() ([]byte, error) { return json.Marshal(b) }

// attemptBatches parts attempts into rows.
func attemptBatches(attempts []store.PushAttempt) (batches []attemptBatch) {
	all := make(attemptBatch, len(attempts))
	for i := range attempts {
		a := &attempts[i]
		all[i] = keptAttempt{
			a.Seq, a.Sequence, a.Attempt, millis(a.At), a.Duration.Milliseconds(), a.Status, a.Outcome, a.Address, a.Detail,
		}
	}
	slices.SortStableFunc(all, func(a, b keptAttempt) int { return cmp.Compare(a.At, b.At) })
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].At-all[0].At <= batchSpan {
			n++
		}
		batches, all = append(batches, all[:n]), all[n:]
	}
	return batches
}

// notePlace is where an attempt or a dead letter stands in its list.
type notePlace struct {
	At       int64
	Owner    string
	Task     string
	ID       string
	Sequence int64
	Attempt  int // 0 of dead letters
}

func (p *notePlace) compare(o *notePlace) int {
	return cmp.Or(cmp.Compare(o.At, p.At), strings.Compare(p.Owner, o.Owner), strings.Compare(p.Task, o.Task), strings.Compare(p.ID, o.ID),
		cmp.Compare(o.Sequence, p.Sequence), cmp.Compare(o.Attempt, p.Attempt))
}

// cursor writes the place as the cursor of a page that ends there.
func (p *notePlace) cursor() string {
	raw, _ := json.Marshal(p) // plain strings and numbers: cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

// placeOf reads a cursor; nil when there is none.
func placeOf(cursor string) (*notePlace, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // none
	}
	var p notePlace
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil || !storable(p.Owner, p.Task, p.ID) {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "malformed cursor")
	}
	return &p, nil
}

// noteFilter writes the conditions of a query on the table n and returns what it is
// within: an owner, a task or all.
func noteFilter(w *walk, q *store.PushQuery) (within string) {
	if q.Owner == "" {
		return ""
	}
	w.filter("n.owner = %s", w.arg(q.Owner, "text"))
	if q.TaskID == "" {
		return "owner"
	}
	w.filter("n.task_id = %s", w.arg(q.TaskID, "text"))
	if q.ID != "" {
		w.filter("n.config_id = %s", w.arg(q.ID, "text"))
	}
	return "task"
}

// attemptRows writes the statement that reads rows of attempts, the latest first,
// from a place on: behind the row of the time last and the number id.
func attemptRows(q *store.PushQuery, place *notePlace, last, id int64, limit int) (string, []any) {
	var w walk
	noteFilter(&w, q)
	if place != nil {
		w.filter("n.first_at <= %s", w.arg(place.At, "bigint"))
	}
	w.filter("(n.last_at, n.id) < (%s, %s)", w.arg(last, "bigint"), w.arg(id, "bigint"))
	return fmt.Sprintf(`SELECT n.id, n.owner, n.task_id, n.config_id, n.last_at, n.data FROM {s}.push_attempts n
		WHERE %s ORDER BY n.last_at DESC, n.id DESC LIMIT %s`, strings.Join(w.where, " AND "), w.arg(limit, "bigint")), w.args
}

// attemptLister gathers the attempts of a page from rows, the latest first.
type attemptLister struct {
	q     *store.PushQuery
	place *notePlace
	found []foundAttempt
	// The last row that was read, and how many there were.
	last, id int64
	rows     int
}

type foundAttempt struct {
	notePlace
	kept keptAttempt
}

func (l *attemptLister) add(r record) error {
	var batch attemptBatch
	if err := json.Unmarshal(r[5], &batch); err != nil {
		return fmt.Errorf("attempts %d: %w", r.int(0), err)
	}
	l.id, l.last = r.int(0), r.int(4)
	l.rows++
	for _, a := range batch {
		f := foundAttempt{notePlace{a.At, r.text(1), r.text(2), r.text(3), a.Sequence, a.Attempt}, a}
		if (l.place == nil || f.compare(l.place) > 0) && (l.q.Sequence == 0 || l.q.Sequence == a.Sequence) {
			l.found = append(l.found, f)
		}
	}
	return nil
}

// settle sorts what was found and reports whether the page is complete: whether
// enough is later than all that may still come. What was noted twice, since its
// acknowledgement had to be repeated, is told once.
func (l *attemptLister) settle(limit int, ended bool) bool {
	slices.SortStableFunc(l.found, func(a, b foundAttempt) int { return a.compare(&b.notePlace) })
	l.found = slices.CompactFunc(l.found, func(a, b foundAttempt) bool { return a == b })
	return ended || len(l.found) > limit && l.found[limit].At > l.last
}

func (f *foundAttempt) attempt() store.PushAttempt {
	k := &f.kept
	return store.PushAttempt{
		Task: store.Key{Owner: f.Owner, ID: f.Task}, ConfigID: f.ID, Seq: k.Seq, Sequence: k.Sequence, Attempt: k.Attempt,
		At: fromMillis(k.At), Duration: time.Duration(k.Millis) * time.Millisecond,
		Status: k.Status, Outcome: k.Outcome, Address: k.Address, Detail: k.Detail,
	}
}

// PushAttempts implements [store.PushStore].
func (s *Store) PushAttempts(ctx context.Context, q store.PushQuery) (page store.PushAttemptPage, err error) {
	place, err := placeOf(q.Cursor)
	if err != nil {
		return page, err
	}
	err = s.readList(ctx, "list attempts", func(ctx context.Context, c *pgx.Conn) error {
		page = store.PushAttemptPage{}
		if !storable(q.Owner, q.TaskID, q.ID) {
			return nil
		}
		l := attemptLister{q: &q, place: place, last: math.MaxInt64, id: math.MaxInt64}
		if place != nil {
			l.last = place.At + batchSpan
		}
		for ended := false; !l.settle(q.Limit, ended); {
			l.rows = 0
			limit := q.Limit + 16
			text, args := attemptRows(&q, place, l.last, l.id, limit)
			if err := s.each(ctx, c, text, l.add, args...); err != nil {
				return err
			}
			ended = l.rows < limit
		}
		if len(l.found) > q.Limit {
			l.found = l.found[:q.Limit]
			page.Next = l.found[q.Limit-1].cursor()
		}
		for i := range l.found {
			page.Attempts = append(page.Attempts, l.found[i].attempt())
		}
		return nil
	})
	return page, err
}
