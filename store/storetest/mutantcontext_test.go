package storetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// contextMutants are the ways to be wrong about contexts, lists and feedback.
var contextMutants = map[string]func(*mutant){
	"lists by the status always":      func(m *mutant) { m.query = func(q *store.Query) { q.ByCreated = false } },
	"lists newest first always":       func(m *mutant) { m.query = func(q *store.Query) { q.Ascending = false } },
	"lists without an offset":         func(m *mutant) { m.query = func(q *store.Query) { q.Offset = 0 } },
	"lists whatever was created":      func(m *mutant) { m.query = func(q *store.Query) { q.CreatedAfter = q.After } },
	"lists until a creation and on":   func(m *mutant) { m.query = func(q *store.Query) { q.CreatedBefore = shifted(q.CreatedBefore) } },
	"lists more than a page may hold": func(m *mutant) { m.query = func(q *store.Query) { q.Bytes *= 2 } },

	"sorts contexts by their update always": func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Sort = store.ContextsByUpdated } },
	"lists newest contexts first always":    func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Ascending = false } },
	"lists contexts of any status":          func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Statuses = nil } },
	"lists contexts of any role":            func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Role = "" } },
	"lists contexts by one tag": func(m *mutant) {
		m.contexts = func(q *store.ContextQuery) { q.Tags = q.Tags[:min(1, len(q.Tags))] }
	},
	"lists contexts with an exclusive lower bound": func(m *mutant) {
		m.contexts = func(q *store.ContextQuery) { q.CreatedAfter = shifted(q.CreatedAfter) }
	},
	"lists contexts with an inclusive upper bound": func(m *mutant) {
		m.contexts = func(q *store.ContextQuery) { q.CreatedBefore = shifted(q.CreatedBefore) }
	},
	"lists contexts without an offset":   func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Offset = 0 } },
	"lists contexts without their tasks": func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Tasks = 0 } },
	"sorts contexts of a name by id":     func(m *mutant) { m.namesByID = true },
	"forgets where a name's contexts go on": func(m *mutant) {
		m.contexts = func(q *store.ContextQuery) {
			if q.Sort == store.ContextsByName && q.Cursor != nil {
				q.Cursor = &store.ContextCursor{Name: q.Cursor.Name, ID: q.Cursor.ID}
			}
		}
	},
	"lists contexts from the first always": func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Cursor = nil } },

	"changes contexts over their tasks": func(m *mutant) { m.save = func(c *store.ContextChange) { c.TasksOver = false } },
	"forgets parents":                   func(m *mutant) { m.save = func(c *store.ContextChange) { c.Context.ParentID = "" } },
	"forgets the tags of contexts":      func(m *mutant) { m.save = func(c *store.ContextChange) { c.Context.Tags = nil } },
	"forgets the extensions of contexts": func(m *mutant) {
		m.save = func(c *store.ContextChange) { c.Context.Extensions = nil }
	},
	"sorts references": func(m *mutant) {
		m.save = func(c *store.ContextChange) { c.Context.ReferenceIDs = sorted(c.Context.ReferenceIDs) }
	},
	"forgets the keys of contexts": func(m *mutant) { m.save = func(c *store.ContextChange) { c.Idempotency = nil } },
	"keeps every context open":     func(m *mutant) { m.save = func(c *store.ContextChange) { c.Context.Status = a2a.ContextActive } },

	"deletes all tasks at once":         func(m *mutant) { m.batch = func(int) int { return 1000 } },
	"deletes one task too many":         func(m *mutant) { m.batch = func(n int) int { return n + 1 } },
	"reports no pending deletions":      func(m *mutant) { m.forgetsDeletions = true },
	"deletes what is busy":              func(m *mutant) { m.ruthless = true },
	"finishes what was not begun":       func(m *mutant) { m.beginsAgain = true },
	"counts everybody's feedback":       func(m *mutant) { m.countsAll = true },
	"takes feedback twice":              func(m *mutant) { m.takesTwice = true },
	"lists feedback on every task":      func(m *mutant) { m.feedback = func(q *store.FeedbackQuery) { q.TaskID = "" } },
	"lists feedback from the newest on": func(m *mutant) { m.feedback = func(q *store.FeedbackQuery) { q.Cursor = nil } },
}

func sorted(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return texts
}

func (m *mutant) Contexts(ctx context.Context, q store.ContextQuery) (store.ContextPage, error) {
	if m.contexts != nil {
		m.contexts(&q)
	}
	page, err := m.Store.Contexts(ctx, q)
	if m.namesByID && q.Sort == store.ContextsByName && q.Ascending {
		slices.SortFunc(page.Contexts, func(a, b store.Context) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Key.ID, b.Key.ID))
		})
	}
	return page, err
}

func (m *mutant) SaveContext(ctx context.Context, c store.ContextChange) (store.Context, error) {
	if m.save != nil {
		m.save(&c)
	}
	return m.Store.SaveContext(ctx, c)
}

func (m *mutant) DeleteContext(ctx context.Context, owner, id string, limit int) (bool, error) {
	if m.batch != nil {
		limit = m.batch(limit)
	}
	more, err := m.Store.DeleteContext(ctx, owner, id, limit)
	if m.ruthless && errors.Is(err, store.ErrBusy) {
		page, _ := m.Store.Tasks(ctx, store.Query{Owner: owner, ContextID: id, Limit: 100})
		for _, t := range page.Tasks {
			_, _ = m.Store.Commit(ctx, store.Change{Key: t.Key, Version: t.Seq, Run: idle()})
		}
		return m.Store.DeleteContext(ctx, owner, id, limit)
	}
	return more, err
}

func (m *mutant) FinishDelete(ctx context.Context, owner, id string, limit int) (bool, error) {
	if m.batch != nil {
		limit = m.batch(limit)
	}
	if m.beginsAgain {
		return m.Store.DeleteContext(ctx, owner, id, limit)
	}
	return m.Store.FinishDelete(ctx, owner, id, limit)
}

func (m *mutant) PendingDeletions(ctx context.Context, limit int) ([]store.ContextKey, error) {
	if m.forgetsDeletions {
		return nil, ctx.Err()
	}
	return m.Store.PendingDeletions(ctx, limit)
}

func (m *mutant) AddFeedback(ctx context.Context, f store.Feedback) error {
	err := m.Store.AddFeedback(ctx, f)
	if m.takesTwice && errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

func (m *mutant) Feedback(ctx context.Context, q store.FeedbackQuery) (store.FeedbackPage, error) {
	if m.feedback != nil {
		m.feedback(&q)
	}
	return m.Store.Feedback(ctx, q)
}

func (m *mutant) FeedbackSummary(ctx context.Context, owner string) (store.FeedbackSummary, error) {
	if m.countsAll {
		owner = ""
	}
	return m.Store.FeedbackSummary(ctx, owner)
}
