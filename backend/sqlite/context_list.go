package sqlite

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// contextWalk builds a statement that reads positions in a list of contexts, from one
// bucket, in the index of the list's order. Its arguments are:
//
//	?1        owner
//	?2        limit
//	?3        bucket
//	?4 ?5 ?6  name, time and id after which the page starts
//	?7        label that it looks up in the index
//	?8 ?9     JSON array of the other labels, and their number
//	?10 ?11   bounds of the creation time: ?10 <= time < ?11
type contextWalk struct {
	sort       store.ContextSort
	ascending  bool
	isNew      bool // the bucket is bucketNew
	nameless   bool // no context of the bucket has a name
	byLabel    bool
	moreLabels bool
	bounded    bool
}

const (
	hasMoreLabels = ` AND (SELECT count(*) FROM context_labels o WHERE o.owner = c.owner AND o.id = c.id
		AND o.label IN (SELECT value FROM json_each(?8))) = ?9`
	whereCreated = " AND created_at >= ?10 AND created_at < ?11"
)

// order returns the name of the index that has the list's order. New contexts were last
// updated at creation, and contexts without a name sort by creation. They are therefore
// only in the index by creation.
func (k contextWalk) order() string {
	switch {
	case k.sort == store.ContextsByName && !k.nameless:
		return "name"
	case k.sort == store.ContextsByUpdated && !k.isNew:
		return "updated"
	}
	return "created"
}

func (k contextWalk) from(index string) string {
	if k.byLabel {
		return " FROM context_labels c INDEXED BY context_labels_" + index + " WHERE owner = ?1 AND label = ?7 AND bucket = ?3"
	}
	text := " FROM context_rows c INDEXED BY context_rows_" + index + " WHERE owner = ?1 AND bucket = ?3"
	switch index {
	case "updated":
		text += " AND bucket <> 'active.new'"
	case "name":
		text += " AND bucket <> 'active.new' AND bucket <> 'active.used'"
	}
	return text
}

// walk returns the statement that reads the next positions: name (empty unless the list is
// sorted by name), time and id. With bounds on the creation time and another order, it reads all
// contexts between the bounds and sorts them.
func (k contextWalk) walk() string {
	index := k.order()
	columns, place, selected := []string{"created_at", "id"}, "(?5, ?6)", "'', created_at, id"
	switch index {
	case "updated":
		columns[0], selected = "updated_at", "'', updated_at, id"
	case "name":
		columns, place, selected = []string{"name", "created_at", "id"}, "(?4, ?5, ?6)", "name, created_at, id"
	}
	cmp, direction := " < ", " DESC"
	if k.ascending {
		cmp, direction = " > ", ""
	}
	where := " AND (" + strings.Join(columns, ", ") + ")" + cmp + place
	if k.bounded {
		where, index = where+whereCreated, "created"
	}
	if k.moreLabels {
		where += hasMoreLabels
	}
	return "SELECT " + selected + k.from(index) + where + " ORDER BY " + strings.Join(columns, direction+", ") + direction + " LIMIT ?2"
}

func (k contextWalk) count() string {
	match := "1"
	if k.moreLabels {
		match += hasMoreLabels
	}
	return countOf(match, k.from("created")+whereCreated)
}

// afterAllText sorts after all texts in SQLite, because it is a blob.
var afterAllText = []byte{0}

// Contexts implements store.Contexts.
func (s *contextStore) Contexts(ctx context.Context, q store.ContextQuery) (page store.ContextPage, err error) {
	err = s.readList(ctx, func(r *reader) error {
		return r.readTx(func() (err error) {
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

// contextList reads one page of a list of contexts.
type contextList struct {
	*reader
	q       *store.ContextQuery
	created span
	// The list merges the contexts of these buckets.
	buckets []labelBucket
	// moreLabels is the JSON array of the labels that are checked for each context, not
	// read by index.
	moreLabels     string
	moreLabelCount int
}

// labelBucket is a bucket restricted to the contexts with a label, "" for all. n is the
// number of contexts.
type labelBucket struct {
	label, bucket string
	n             int
}

// contextPosition is the position of a context in a list. name is "" unless the list is
// sorted by name. at is the time by which it is sorted.
type contextPosition struct {
	name string
	at   int64
	id   string
}

func (l *contextList) read(ctx context.Context) (page store.ContextPage, err error) {
	if err = l.findBuckets(); err != nil {
		return page, err
	}
	if page.Total, page.TotalCapped, err = l.total(ctx); err != nil {
		return page, err
	}
	positions, err := l.page(ctx)
	if err != nil {
		return page, err
	}
	more := len(positions) > l.q.Limit
	ids := make([]string, min(len(positions), l.q.Limit))
	for i := range ids {
		ids[i] = positions[i].id
	}
	if len(ids) == 0 {
		return page, nil
	}
	if page.Contexts, err = l.readContexts(l.q.Owner, ids, l.q.MaxTaskIDs); err != nil {
		return page, err
	}
	if more {
		page.Next = l.q.Sort.Cursor(&page.Contexts[l.q.Limit-1])
	}
	return page, nil
}

// findBuckets sets the buckets to read: the buckets of the rarest label, or all if the
// query names no label. Contexts without a description have no labels but have the
// default role, so a query for that role reads their buckets too.
func (l *contextList) findBuckets() error {
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
		return l.addBuckets(labelAll)
	}
	rarest, fewest := "", -1
	for _, label := range labels {
		before := len(l.buckets)
		if err := l.addBuckets(label); err != nil {
			return err
		}
		n := 0
		for _, s := range l.buckets[before:] {
			n += s.n
		}
		if fewest < 0 || n < fewest {
			rarest, fewest = label, n
		}
	}
	l.buckets = slices.DeleteFunc(l.buckets, func(s labelBucket) bool { return s.label != rarest })
	if l.moreLabelCount = len(labels) - 1; l.moreLabelCount > 0 {
		buf, err := wire.Marshal(slices.DeleteFunc(labels, func(s string) bool { return s == rarest }))
		l.moreLabels = string(buf)
		return err
	}
	if len(l.q.Tags) == 0 && l.q.Role == store.DefaultContextRole {
		return l.addBuckets(labelAll, bucketNew, bucketUsed)
	}
	return nil
}

// addBuckets adds the non-empty buckets of a label if the query selects their status. If
// only is given, it adds no other buckets.
func (l *contextList) addBuckets(label string, only ...string) error {
	return l.eachCounter(l.q.Owner, label, func(bucket string, n int) {
		selected := len(l.q.Statuses) == 0 || slices.Contains(l.q.Statuses, statusOf(bucket))
		if n > 0 && selected && (len(only) == 0 || slices.Contains(only, bucket)) {
			l.buckets = append(l.buckets, labelBucket{label, bucket, n})
		}
	})
}

func (l *contextList) walkOf(s labelBucket) contextWalk {
	return contextWalk{
		sort: l.q.Sort, ascending: l.q.Ascending, isNew: s.bucket == bucketNew, nameless: s.bucket == bucketNew || s.bucket == bucketUsed,
		byLabel: s.label != labelAll, moreLabels: l.moreLabelCount > 0, bounded: !l.created.unbounded(),
	}
}

// total returns the sum of the counters. With time bounds or several labels it counts
// rows instead, up to the query's limit.
func (l *contextList) total(ctx context.Context) (total int, capped bool, err error) {
	limit, exact := l.q.CountLimit(), l.moreLabelCount == 0
	found, passed := 0, 0
	for _, s := range l.buckets {
		kind := l.walkOf(s)
		if !kind.bounded && !kind.moreLabels {
			found, passed = found+s.n, passed+s.n
			continue
		}
		rows := store.CountRows(limit, exact) - passed
		if rows <= 0 {
			break
		}
		err := l.queryContext(ctx, kind.count(), func(rec record) error {
			found, passed = found+int(rec.int(0)), passed+int(rec.int(1))
			return nil
		}, l.args(s, contextPosition{}, rows)...)
		if err != nil {
			return 0, false, err
		}
	}
	total, capped = store.CapTotal(found, passed, limit, exact)
	return total, capped, nil
}

// page returns the positions of the page and, if more follow, one after it.
func (l *contextList) page(ctx context.Context) ([]contextPosition, error) {
	start := l.start()
	for left := l.q.Offset; left > 0; left -= skipBatch {
		skipped, err := l.after(ctx, start, min(left, skipBatch))
		if err != nil || len(skipped) < min(left, skipBatch) {
			return nil, err
		}
		start = skipped[len(skipped)-1]
	}
	return l.after(ctx, start, l.q.Limit+1)
}

func (l *contextList) start() contextPosition {
	switch {
	case l.q.Cursor != nil:
		return contextPosition{l.q.Cursor.Name, millis(l.q.Cursor.Time), l.q.Cursor.ID}
	case l.q.Ascending:
		return contextPosition{at: earliest}
	}
	return contextPosition{at: latest}
}

// args returns the arguments of a walk. A descending list by name starts after all
// texts. A bucket without names sorts before any name. A list by creation starts within
// the time bounds.
func (l *contextList) args(s labelBucket, start contextPosition, n int) []any {
	var name any = start.name
	if start.at == latest {
		name = afterAllText
	}
	kind := l.walkOf(s)
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
		l.q.Owner, int64(n), s.bucket, name, start.at, start.id, s.label, l.moreLabels, int64(l.moreLabelCount), l.created.from, l.created.before,
	}
}

// after returns the first n positions after start.
func (l *contextList) after(ctx context.Context, start contextPosition, n int) (positions []contextPosition, err error) {
	each := func(rec record) error {
		positions = append(positions, contextPosition{name: rec.text(0), at: rec.int(1), id: rec.text(2)})
		return nil
	}
	for _, s := range l.buckets {
		if err := l.queryContext(ctx, l.walkOf(s).walk(), each, l.args(s, start, n)...); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(positions, func(a, b contextPosition) int {
		order := cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.at, b.at), strings.Compare(a.id, b.id))
		if l.q.Ascending {
			return order
		}
		return -order
	})
	return positions[:min(len(positions), n)], nil
}
