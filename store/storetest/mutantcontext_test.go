package storetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// contextMutants are the ways to break the contexts, lists and feedback of a store.
var contextMutants = map[string]func(*mutant){
	"ignores ByCreated":      func(m *mutant) { m.query = func(q *store.Query) { q.ByCreated = false } },
	"ignores Ascending":      func(m *mutant) { m.query = func(q *store.Query) { q.Ascending = false } },
	"ignores Offset":         func(m *mutant) { m.query = func(q *store.Query) { q.Offset = 0 } },
	"ignores CreatedAfter":   func(m *mutant) { m.query = func(q *store.Query) { q.CreatedAfter = q.After } },
	"includes CreatedBefore": func(m *mutant) { m.query = func(q *store.Query) { q.CreatedBefore = addMillisecond(q.CreatedBefore) } },
	"lists more than Bytes":  func(m *mutant) { m.query = func(q *store.Query) { q.MaxBytes *= 2 } },

	"ignores Sort of contexts":      func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Sort = store.ContextsByUpdated } },
	"ignores Ascending of contexts": func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Ascending = false } },
	"ignores Statuses of contexts":  func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Statuses = nil } },
	"ignores Role of contexts":      func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Role = "" } },
	"ignores all Tags but one": func(m *mutant) {
		m.contexts = func(q *store.ContextQuery) { q.Tags = q.Tags[:min(1, len(q.Tags))] }
	},
	"lists contexts with an exclusive lower bound": func(m *mutant) {
		m.contexts = func(q *store.ContextQuery) { q.CreatedAfter = addMillisecond(q.CreatedAfter) }
	},
	"lists contexts with an inclusive upper bound": func(m *mutant) {
		m.contexts = func(q *store.ContextQuery) { q.CreatedBefore = addMillisecond(q.CreatedBefore) }
	},
	"ignores Offset of contexts":            func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Offset = 0 } },
	"lists contexts without task ids":       func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.MaxTaskIDs = 0 } },
	"sorts contexts with equal names by id": func(m *mutant) { m.sortsNamesByID = true },
	"ignores the time in cursors by name": func(m *mutant) {
		m.contexts = func(q *store.ContextQuery) {
			if q.Sort == store.ContextsByName && q.Cursor != nil {
				q.Cursor = &store.ContextCursor{Name: q.Cursor.Name, ID: q.Cursor.ID}
			}
		}
	},
	"ignores the cursor of contexts": func(m *mutant) { m.contexts = func(q *store.ContextQuery) { q.Cursor = nil } },

	"ignores RequireFinished": func(m *mutant) { m.save = func(c *store.ContextChange) { c.RequireFinished = false } },
	"loses parents":           func(m *mutant) { m.save = func(c *store.ContextChange) { c.Context.ParentID = "" } },
	"loses tags of contexts":  func(m *mutant) { m.save = func(c *store.ContextChange) { c.Context.Tags = nil } },
	"loses extensions of contexts": func(m *mutant) {
		m.save = func(c *store.ContextChange) { c.Context.Extensions = nil }
	},
	"sorts references": func(m *mutant) {
		m.save = func(c *store.ContextChange) { c.Context.ReferenceIDs = sortedCopy(c.Context.ReferenceIDs) }
	},
	"loses idempotency keys of contexts": func(m *mutant) { m.save = func(c *store.ContextChange) { c.Idempotency = nil } },
	"ignores the status of contexts":     func(m *mutant) { m.save = func(c *store.ContextChange) { c.Context.Status = a2a.ContextActive } },

	"deletes all tasks at once":               func(m *mutant) { m.batch = func(int) int { return 1000 } },
	"deletes one task more than the limit":    func(m *mutant) { m.batch = func(n int) int { return n + 1 } },
	"reports no pending deletions":            func(m *mutant) { m.hidesDeletions = true },
	"deletes busy contexts":                   func(m *mutant) { m.deletesBusy = true },
	"finishes deletions that are not pending": func(m *mutant) { m.finishesAnything = true },
	"counts feedback of all owners":           func(m *mutant) { m.countsAllOwners = true },
	"accepts duplicate feedback":              func(m *mutant) { m.acceptsDuplicates = true },
	"ignores the task of feedback":            func(m *mutant) { m.feedback = func(q *store.FeedbackQuery) { q.TaskID = "" } },
	"ignores the cursor of feedback":          func(m *mutant) { m.feedback = func(q *store.FeedbackQuery) { q.Cursor = nil } },
}

func sortedCopy(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return texts
}

func (m *mutant) Contexts(ctx context.Context, q store.ContextQuery) (store.ContextPage, error) {
	suite.Mutate(m.contexts, &q)
	page, err := m.Store.Contexts(ctx, q)
	if m.sortsNamesByID && q.Sort == store.ContextsByName && q.Ascending {
		slices.SortFunc(page.Contexts, func(a, b store.Context) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Key.ID, b.Key.ID))
		})
	}
	return page, err
}

func (m *mutant) SaveContext(ctx context.Context, c store.ContextChange) (store.Context, error) {
	suite.Mutate(m.save, &c)
	return m.Store.SaveContext(ctx, c)
}

func (m *mutant) DeleteContext(ctx context.Context, owner, id string, limit int) (bool, error) {
	if m.batch != nil {
		limit = m.batch(limit)
	}
	more, err := m.Store.DeleteContext(ctx, owner, id, limit)
	if m.deletesBusy && errors.Is(err, store.ErrBusy) {
		page, _ := m.Store.Tasks(ctx, store.Query{Owner: owner, ContextID: id, Limit: 100})
		for _, t := range page.Tasks {
			_, _ = m.Store.Commit(ctx, store.Change{Key: t.Key, Version: t.Seq, Queue: idle()})
		}
		return m.Store.DeleteContext(ctx, owner, id, limit)
	}
	return more, err
}

func (m *mutant) FinishDelete(ctx context.Context, owner, id string, limit int) (bool, error) {
	if m.batch != nil {
		limit = m.batch(limit)
	}
	if m.finishesAnything {
		return m.Store.DeleteContext(ctx, owner, id, limit)
	}
	return m.Store.FinishDelete(ctx, owner, id, limit)
}

func (m *mutant) PendingDeletions(ctx context.Context, limit int) ([]store.ContextKey, error) {
	if m.hidesDeletions {
		return nil, ctx.Err()
	}
	return m.Store.PendingDeletions(ctx, limit)
}

func (m *mutant) AddFeedback(ctx context.Context, f store.Feedback) error {
	err := m.Store.AddFeedback(ctx, f)
	if m.acceptsDuplicates && errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

func (m *mutant) Feedback(ctx context.Context, q store.FeedbackQuery) (store.FeedbackPage, error) {
	suite.Mutate(m.feedback, &q)
	return m.Store.Feedback(ctx, q)
}

func (m *mutant) FeedbackSummary(ctx context.Context, owner string) (store.FeedbackSummary, error) {
	if m.countsAllOwners {
		owner = ""
	}
	return m.Store.FeedbackSummary(ctx, owner)
}
