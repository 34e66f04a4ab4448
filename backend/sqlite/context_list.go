package sqlite

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// contextWalk is a statement that reads places of a list of contexts in the index
// of its order, on one shelf. The arguments: 1 the owner, 2 how many, 3 the shelf,
// 4 and 5 what is sorted by and the id after which to begin, 6 the label that is
// walked, 7 the JSON array of the others and 8 their number, 9 and 10 the bounds of
// the time of creation (after <= time < before).
type contextWalk struct {
	sort      store.ContextSort
	ascending bool
	fresh     bool // the shelf is that of new contexts
	labelled  bool
	others    bool
	bounded   bool
}

const (
	hasOthers = ` AND (SELECT count(*) FROM context_labels o WHERE o.owner = c.owner AND o.id = c.id
		AND o.label IN (SELECT value FROM json_each(?7))) = ?8`
	whereCreated = " AND created_at >= ?9 AND created_at < ?10"
)

// column is what is sorted by. New contexts have been updated when they were
// created, and stand in no index of the former.
func (k contextWalk) column() string {
	switch {
	case k.sort == store.ContextsByName:
		return "name"
	case k.sort == store.ContextsByCreated || k.fresh:
		return "created_at"
	}
	return "updated_at"
}

func (k contextWalk) from(column string) string {
	if k.labelled {
		return " FROM context_labels c INDEXED BY context_labels_" + strings.TrimSuffix(column, "_at") +
			" WHERE owner = ?1 AND label = ?6 AND shelf = ?3"
	}
	text := " FROM context_rows c INDEXED BY context_rows_" + strings.TrimSuffix(column, "_at") + " WHERE owner = ?1 AND shelf = ?3"
	if column != "created_at" {
		text += " AND shelf <> 'active.new'"
	}
	return text
}

// walk reads the next places. With bounds of the creation and another order it
// gathers all between the bounds, and sorts them.
func (k contextWalk) walk() string {
	by, index := k.column(), k.column()
	where, order := " AND (@, id) < (?4, ?5)", " ORDER BY @ DESC, id DESC"
	if k.ascending {
		where, order = " AND (@, id) > (?4, ?5)", " ORDER BY @, id"
	}
	if k.bounded {
		where, index = where+whereCreated, "created_at"
	}
	if k.others {
		where += hasOthers
	}
	return "SELECT " + by + ", id" + k.from(index) + strings.ReplaceAll(where+order, "@", by) + " LIMIT ?2"
}

func (k contextWalk) count() string {
	text := "SELECT count(*)" + k.from("created_at") + whereCreated
	if k.others {
		text += hasOthers
	}
	return text
}

// The statements of new contexts in the order of their ids, which is that of their
// names. Arguments: 1 the owner, 2 how many, 3 the shelf, 4 the id after which to
// begin.
const (
	sqlNewByID = `SELECT '', id FROM (SELECT id, shelf FROM context_rows WHERE owner = ?1 AND id < ?4 ORDER BY id DESC LIMIT 8192)
		WHERE shelf = ?3 LIMIT ?2`
	sqlNewByIDUp = `SELECT '', id FROM (SELECT id, shelf FROM context_rows WHERE owner = ?1 AND id > ?4 ORDER BY id LIMIT 8192)
		WHERE shelf = ?3 LIMIT ?2`
	sqlNewCutOff   = `SELECT '', id FROM context_rows WHERE owner = ?1 AND id < ?4 ORDER BY id DESC LIMIT 1 OFFSET 8192`
	sqlNewCutOffUp = `SELECT '', id FROM context_rows WHERE owner = ?1 AND id > ?4 ORDER BY id LIMIT 1 OFFSET 8192`
	sqlNewGather   = `SELECT '', id FROM context_rows INDEXED BY context_rows_created WHERE owner = ?1 AND shelf = ?3 AND id < ?4
		ORDER BY id DESC LIMIT ?2`
	sqlNewGatherUp = `SELECT '', id FROM context_rows INDEXED BY context_rows_created WHERE owner = ?1 AND shelf = ?3 AND id > ?4
		ORDER BY id LIMIT ?2`
)

// newByName adds the first n new contexts after a place in a list by name. They
// are found among all contexts, unless they are few, or far between there.
func (l *contextList) newByName(ctx context.Context, s labelledShelf, start contextPlace, n int, each func(record) error) error {
	var from any = start.id
	walk, cutOff, gather := sqlNewByID, sqlNewCutOff, sqlNewGather
	switch {
	case l.q.Ascending && start.name != "":
		return nil
	case l.q.Ascending:
		walk, cutOff, gather = sqlNewByIDUp, sqlNewCutOffUp, sqlNewGatherUp
	case start.at == latest || start.name != "":
		from = afterAll
	}
	run := func(text string, each func(record) error) error {
		statement, err := l.list(text)
		if err != nil {
			return err
		}
		return statement.query(ctx, each, l.q.Owner, int64(n), s.shelf, from)
	}
	if s.n > newFew {
		var found []record
		err := run(walk, func(rec record) error {
			found = append(found, slices.Clone(rec))
			return nil
		})
		if err != nil {
			return err
		}
		cut := false
		if len(found) < n {
			err = run(cutOff, func(record) error {
				cut = true
				return nil
			})
		}
		for i := 0; i < len(found) && err == nil && !cut; i++ {
			err = each(found[i])
		}
		if err != nil || !cut {
			return err
		}
	}
	return run(gather, each)
}

// newFew is how many new contexts are sorted rather than looked for.
const newFew = 2048

// afterAll is after all texts in the order of SQLite.
var afterAll = []byte{0}

// Contexts implements store.Store.
func (s *Store) Contexts(ctx context.Context, q store.ContextQuery) (page store.ContextPage, err error) {
	err = s.read(ctx, func(r *reader) error {
		return r.atOnce(func() (err error) {
			l := &contextList{reader: r, q: &q, created: spanOf(q.CreatedAfter, q.CreatedBefore)}
			page, err = l.read(ctx)
			return err
		})
	})
	if err != nil {
		return store.ContextPage{}, err
	}
	return page, nil
}

// contextList is a list of contexts that is being read.
type contextList struct {
	*reader
	q       *store.ContextQuery
	created span
	// The list is the merge of walks on shelves.
	shelves []labelledShelf
	// others is the JSON array of the labels that are looked up, not walked.
	others  string
	nOthers int
}

// labelledShelf are the contexts on a shelf that have a label, "" for all.
type labelledShelf struct {
	label, shelf string
	n            int
}

// contextPlace is a context's place in a list: of at and name that which it is
// sorted by.
type contextPlace struct {
	at       int64
	name, id string
}

func (l *contextList) read(ctx context.Context) (page store.ContextPage, err error) {
	if err = l.findShelves(); err != nil {
		return page, err
	}
	if page.Total, err = l.total(ctx); err != nil {
		return page, err
	}
	places, err := l.page(ctx)
	if err != nil {
		return page, err
	}
	more := len(places) > l.q.Limit
	for _, p := range places[:min(len(places), l.q.Limit)] {
		c, err := l.readContext(store.ContextKey{Owner: l.q.Owner, ID: p.id}, l.q.Tasks)
		if err != nil {
			return page, err
		}
		page.Contexts = append(page.Contexts, c)
	}
	if more {
		page.Next = l.q.Sort.Cursor(&page.Contexts[l.q.Limit-1])
	}
	return page, nil
}

// findShelves finds what is to be walked: the shelves of the rarest label, or all
// when the query names none. Contexts that nobody described have no labels; so the
// default role is that label and they.
func (l *contextList) findShelves() error {
	var labels []string
	for _, tag := range l.q.Tags {
		labels = append(labels, tagLabel(tag))
	}
	if l.q.Role != "" {
		labels = append(labels, roleLabel(l.q.Role))
	}
	slices.Sort(labels)
	labels = slices.Compact(labels)
	if len(labels) == 0 {
		return l.addShelves(labelAll)
	}
	rarest, fewest := "", -1
	for _, label := range labels {
		before := len(l.shelves)
		if err := l.addShelves(label); err != nil {
			return err
		}
		n := 0
		for _, s := range l.shelves[before:] {
			n += s.n
		}
		if fewest < 0 || n < fewest {
			rarest, fewest = label, n
		}
	}
	l.shelves = slices.DeleteFunc(l.shelves, func(s labelledShelf) bool { return s.label != rarest })
	if l.nOthers = len(labels) - 1; l.nOthers > 0 {
		buf, err := wire.Marshal(slices.DeleteFunc(labels, func(s string) bool { return s == rarest }))
		l.others = string(buf)
		return err
	}
	if len(l.q.Tags) == 0 && l.q.Role == store.DefaultContextRole {
		return l.addShelves(labelAll, shelfNew, shelfUsed)
	}
	return nil
}

// addShelves adds those shelves on which there is something that has a label and a
// status that is asked for; if only is given, no others.
func (l *contextList) addShelves(label string, only ...string) error {
	return l.tallied(l.q.Owner, label, func(shelf string, n int) {
		asked := len(l.q.Statuses) == 0 || slices.Contains(l.q.Statuses, statusOf(shelf))
		if n > 0 && asked && (len(only) == 0 || slices.Contains(only, shelf)) {
			l.shelves = append(l.shelves, labelledShelf{label, shelf, n})
		}
	})
}

func (l *contextList) kind(s labelledShelf) contextWalk {
	return contextWalk{
		sort: l.q.Sort, ascending: l.q.Ascending, fresh: s.shelf == shelfNew,
		labelled: s.label != labelAll, others: l.nOthers > 0, bounded: !l.created.open(),
	}
}

// total adds up the tallies; with bounds or several labels it counts.
func (l *contextList) total(ctx context.Context) (total int, err error) {
	for _, s := range l.shelves {
		kind := l.kind(s)
		if !kind.bounded && !kind.others {
			total += s.n
			continue
		}
		count, err := l.list(kind.count())
		if err != nil {
			return 0, err
		}
		err = count.query(ctx, func(rec record) error {
			total += int(rec.int(0))
			return nil
		}, l.args(s, contextPlace{}, 0)...)
		if err != nil {
			return 0, err
		}
	}
	return total, nil
}

// page returns the places of the page and, if there are more, one after it.
func (l *contextList) page(ctx context.Context) ([]contextPlace, error) {
	start := l.start()
	for left := l.q.Offset; left > 0; left -= stride {
		skipped, err := l.after(ctx, start, min(left, stride))
		if err != nil || len(skipped) < min(left, stride) {
			return nil, err
		}
		start = skipped[len(skipped)-1]
	}
	return l.after(ctx, start, l.q.Limit+1)
}

func (l *contextList) start() contextPlace {
	switch {
	case l.q.Cursor != nil:
		return contextPlace{millis(l.q.Cursor.Time), l.q.Cursor.Name, l.q.Cursor.ID}
	case l.q.Ascending:
		return contextPlace{at: earliest}
	}
	return contextPlace{at: latest}
}

// args are the arguments of a walk. A list by name that descends from the very end
// begins at a value that is after all texts.
func (l *contextList) args(s labelledShelf, start contextPlace, n int) []any {
	var from any = start.at
	if l.q.Sort == store.ContextsByName {
		if from = start.name; start.at == latest {
			from = afterAll
		}
	}
	return []any{
		l.q.Owner, int64(n), s.shelf, from, start.id, s.label, l.others, int64(l.nOthers), l.created.from, l.created.before,
	}
}

// after returns the first n places after one.
func (l *contextList) after(ctx context.Context, start contextPlace, n int) (places []contextPlace, err error) {
	each := func(rec record) error {
		p := contextPlace{at: rec.int(0), id: rec.text(1)}
		if l.q.Sort == store.ContextsByName {
			p.at, p.name = 0, rec.text(0)
		}
		places = append(places, p)
		return nil
	}
	for _, s := range l.shelves {
		kind := l.kind(s)
		if kind.fresh && !kind.bounded && kind.sort == store.ContextsByName {
			if err := l.newByName(ctx, s, start, n, each); err != nil {
				return nil, err
			}
			continue
		}
		walk, err := l.list(kind.walk())
		if err != nil {
			return nil, err
		}
		if err := walk.query(ctx, each, l.args(s, start, n)...); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(places, func(a, b contextPlace) int {
		order := cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.name, b.name), strings.Compare(a.id, b.id))
		if l.q.Ascending {
			return order
		}
		return -order
	})
	return places[:min(len(places), n)], nil
}
