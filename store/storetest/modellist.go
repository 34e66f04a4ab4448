package storetest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Lists of tasks, made by filtering and sorting all tasks.

// pageOf returns the page of tasks that a query selects. It may modify the tasks.
func pageOf(tasks []*store.Task, q store.Query) store.Page {
	all := filterTasks(tasks, q)
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

// filterTasks returns all tasks that match a query, in order.
func filterTasks(tasks []*store.Task, q store.Query) []*store.Task {
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

// between reports whether after <= t < before. A zero time is no bound.
func between(t, after, before time.Time) bool {
	return (after.IsZero() || !t.Before(after)) && (before.IsZero() || t.Before(before))
}

func listOrder(q store.Query, a, b *store.Cursor) int {
	return inDirection(q.Ascending, cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID)))
}

// inDirection returns the order if ascending is set, else the reverse order.
func inDirection(ascending bool, order int) int {
	if ascending {
		return order
	}
	return -order
}
