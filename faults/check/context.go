package check

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

// contexts checks the contexts of an owner: each has the number and the order of its tasks, and
// the context of every task exists.
func contexts(ctx context.Context, s source, owner string, tasks []*store.Task) error {
	members := make(map[string][]*store.Task)
	for _, t := range tasks {
		members[t.ContextID] = append(members[t.ContextID], t)
	}
	var errs []error
	found := 0
	q := store.ContextQuery{Owner: owner, Sort: store.ContextsByCreated, Limit: 100, MaxTaskIDs: len(tasks)}
	for {
		page, err := s.Contexts(ctx, q)
		if err != nil {
			return fmt.Errorf("list contexts: %w", err)
		}
		for i := range page.Contexts {
			c := &page.Contexts[i]
			found++
			if err := sameTasks(c, members[c.Key.ID]); err != nil {
				errs = append(errs, fmt.Errorf("context %s: %w", c.Key.ID, err))
			}
			delete(members, c.Key.ID)
		}
		if page.Next == nil {
			if page.Total != found {
				errs = append(errs, fmt.Errorf("%d contexts are listed, their total is %d", found, page.Total))
			}
			break
		}
		q.Cursor = page.Next
	}
	for id, tasks := range members {
		errs = append(errs, fmt.Errorf("context %s has %d tasks and does not exist", id, len(tasks)))
	}
	return errors.Join(errs...)
}

func sameTasks(c *store.Context, tasks []*store.Task) error {
	var errs []error
	if c.TaskCount != len(tasks) {
		errs = append(errs, fmt.Errorf("it counts %d tasks and has %d", c.TaskCount, len(tasks)))
	}
	listed, want := slices.Clone(c.TaskIDs), make([]string, len(tasks))
	for i, t := range tasks {
		want[i] = t.Key.ID
		if t.CreatedAt.Before(c.CreatedAt) {
			errs = append(errs, fmt.Errorf("task %s is older than it", t.Key.ID))
		}
	}
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		errs = append(errs, fmt.Errorf("it lists tasks %v and has %v", listed, want))
	}
	return errors.Join(errs...)
}
