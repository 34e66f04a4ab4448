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
// 4, 5 and 6 the name, the time and the id after which to begin, 7 the label that
// is walked, 8 the JSON array of the others and 9 their number, 10 and 11 the bounds
// of the time of creation (after <= time < before).
type contextWalk struct {
	sort      store.ContextSort
	ascending bool
	fresh     bool // the shelf is that of new contexts
	nameless  bool // no context of the shelf has a name
	labelled  bool
	others    bool
	bounded   bool
}

const (
	hasOthers = ` AND (SELECT count(*) FROM context_labels o WHERE o.owner = c.owner AND o.id = c.id
		AND o.label IN (SELECT value FROM json_each(?8))) = ?9`
	whereCreated = " AND created_at >= ?10 AND created_at < ?11"
)

// order is the index of the list's order. New contexts have been updated when they
// were created, and those without a name are listed as they were created: they
// stand in no index but that.
func (k contextWalk) order() string {
	switch {
	case k.sort == store.ContextsByName && !k.nameless:
		return "name"
	case k.sort == store.ContextsByUpdated && !k.fresh:
		return "updated"
	}
	return "created"
}

func (k contextWalk) from(index string) string {
	if k.labelled {
		return " FROM context_labels c INDEXED BY context_labels_" + index + " WHERE owner = ?1 AND label = ?7 AND shelf = ?3"
	}
	text := " FROM context_rows c INDEXED BY context_rows_" + index + " WHERE owner = ?1 AND shelf = ?3"
	switch index {
	case "updated":
		text += " AND shelf <> 'active.new'"
	case "name":
		text += " AND shelf <> 'active.new' AND shelf <> 'active.used'"
	}
	return text
}

// walk reads the next places: names, where they are sorted by, times and ids. With
// bounds of the creation and another order it gathers all between the bounds, and
// sorts them.
func (k contextWalk) walk() string {
	index := k.order()
	columns, place, shown := []string{"created_at", "id"}, "(?5, ?6)", "'', created_at, id"
	switch index {
	case "updated":
		columns[0], shown = "updated_at", "'', updated_at, id"
	case "name":
		columns, place, shown = []string{"name", "created_at", "id"}, "(?4, ?5, ?6)", "name, created_at, id"
	}
	behind, turn := " < ", " DESC"
	if k.ascending {
		behind, turn = " > ", ""
	}
	where := " AND (" + strings.Join(columns, ", ") + ")" + behind + place
	if k.bounded {
		where, index = where+whereCreated, "created"
	}
	if k.others {
		where += hasOthers
	}
	return "SELECT " + shown + k.from(index) + where + " ORDER BY " + strings.Join(columns, turn+", ") + turn + " LIMIT ?2"
}

func (k contextWalk) count() string {
	match := "1"
	if k.others {
		match += hasOthers
	}
	return countOf(match, k.from("created")+whereCreated)
}

// afterAll is after all texts in the order of SQLite.
var afterAll = []byte{0}

// Contexts implements store.Store.
func (s *Store) Contexts(ctx context.Context, q store.ContextQuery) (page store.ContextPage, err error) {
	err = s.readList(ctx, func(r *reader) error {
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

// contextPlace is a context's place in a list. name is "" unless it is sorted by
// that, and at is what else it is sorted by.
type contextPlace struct {
	name string
	at   int64
	id   string
}

func (l *contextList) read(ctx context.Context) (page store.ContextPage, err error) {
	if err = l.findShelves(); err != nil {
		return page, err
	}
	if page.Total, page.TotalCapped, err = l.total(ctx); err != nil {
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
		sort: l.q.Sort, ascending: l.q.Ascending, fresh: s.shelf == shelfNew, nameless: s.shelf == shelfNew || s.shelf == shelfUsed,
		labelled: s.label != labelAll, others: l.nOthers > 0, bounded: !l.created.open(),
	}
}

// total adds up the tallies. With bounds or several labels it counts, up to the query's
// limit, what is between the bounds and has the rarest label.
func (l *contextList) total(ctx context.Context) (total int, capped bool, err error) {
	limit, exact := l.q.CountLimit(), l.nOthers == 0
	found, passed := 0, 0
	for _, s := range l.shelves {
		kind := l.kind(s)
		if !kind.bounded && !kind.others {
			found, passed = found+s.n, passed+s.n
			continue
		}
		rows := store.CountRows(limit, exact) - passed
		if rows <= 0 {
			break
		}
		count, err := l.list(kind.count())
		if err != nil {
			return 0, false, err
		}
		err = count.query(ctx, func(rec record) error {
			found, passed = found+int(rec.int(0)), passed+int(rec.int(1))
			return nil
		}, l.args(s, contextPlace{}, rows)...)
		if err != nil {
			return 0, false, err
		}
	}
	total, capped = store.CapTotal(found, passed, limit, exact)
	return total, capped, nil
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
		return contextPlace{l.q.Cursor.Name, millis(l.q.Cursor.Time), l.q.Cursor.ID}
	case l.q.Ascending:
		return contextPlace{at: earliest}
	}
	return contextPlace{at: latest}
}

// args are the arguments of a walk. A list by name that descends from the very end
// begins at a value that is after all texts. Where there are no names, all is before
// a place with a name; and where the order is that of creation, a list begins within
// the bounds.
func (l *contextList) args(s labelledShelf, start contextPlace, n int) []any {
	var name any = start.name
	if start.at == latest {
		name = afterAll
	}
	kind := l.kind(s)
	if kind.nameless && start.name != "" {
		start.at = latest
	}
	if kind.order() == "created" {
		switch {
		case kind.ascending && start.at < l.created.from:
			start.at, start.id = l.created.from, ""
		case !kind.ascending && start.at >= l.created.before:
			start.at, start.id = l.created.before, ""
		}
	}
	return []any{
		l.q.Owner, int64(n), s.shelf, name, start.at, start.id, s.label, l.others, int64(l.nOthers), l.created.from, l.created.before,
	}
}

// after returns the first n places after one.
func (l *contextList) after(ctx context.Context, start contextPlace, n int) (places []contextPlace, err error) {
	each := func(rec record) error {
		places = append(places, contextPlace{name: rec.text(0), at: rec.int(1), id: rec.text(2)})
		return nil
	}
	for _, s := range l.shelves {
		walk, err := l.list(l.kind(s).walk())
		if err != nil {
			return nil, err
		}
		if err := walk.query(ctx, each, l.args(s, start, n)...); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(places, func(a, b contextPlace) int {
		order := cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.at, b.at), strings.Compare(a.id, b.id))
		if l.q.Ascending {
			return order
		}
		return -order
	})
	return places[:min(len(places), n)], nil
}
