package storetest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Lists of tasks, made by filtering and sorting all there is.

// pageOf returns what a query reads of tasks, which it may cut.
func pageOf(tasks []*store.Task, q store.Query) store.Page {
	all := selected(tasks, q)
	page := store.Page{Total: -1}
	if q.Total {
		page.Total, page.TotalCapped = store.CapTotal(len(all), len(all), q.TotalLimit, true)
	}
	if q.Cursor != nil {
		all = slices.DeleteFunc(all, func(t *store.Task) bool { return listOrder(q, q.CursorOf(t), q.Cursor) <= 0 })
	}
	all = all[min(q.Offset, len(all)):]
	if len(all) > q.Limit {
		all = all[:q.Limit]
		page.Next = q.CursorOf(all[len(all)-1])
	}
	page.Tasks = all
	page.Fit(q)
	return page
}

// selected returns all that a query asks for in order, wherever the page is.
func selected(tasks []*store.Task, q store.Query) []*store.Task {
	var all []*store.Task
	for _, t := range tasks {
		if matches(q, t) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *store.Task) int { return listOrder(q, q.CursorOf(a), q.CursorOf(b)) })
	return all
}

func matches(q store.Query, t *store.Task) bool {
	return t.Key.Owner == q.Owner &&
		(q.ContextID == "" || t.ContextID == q.ContextID) &&
		(len(q.States) == 0 || slices.Contains(q.States, t.Status.State)) &&
		between(t.Status.Timestamp, q.After, q.Before) &&
		between(t.CreatedAt, q.CreatedAfter, q.CreatedBefore)
}

// between reports whether after <= t < before; the zero time is no bound.
func between(t, after, before time.Time) bool {
	return (after.IsZero() || !t.Before(after)) && (before.IsZero() || t.Before(before))
}

func listOrder(q store.Query, a, b *store.Cursor) int {
	return turned(q.Ascending, cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID)))
}

// turned returns an order as it is when it ascends, else the other way round.
func turned(ascending bool, order int) int {
	if ascending {
		return order
	}
	return -order
}
