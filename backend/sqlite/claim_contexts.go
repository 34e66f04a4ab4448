package sqlite

import "context"

// dueContext is a context and its due tasks.
type dueContext struct {
	context string
	tasks   []dueTask
}

// addFair appends due queued tasks of an owner, taking one from each context in turn,
// up to n in total.
func (c *claim) addFair(w *writer, owner string, found []dueTask, n int) ([]dueTask, error) {
	contexts, err := c.dueContexts(w, owner, n-len(found))
	if err != nil {
		return found, err
	}
	if len(found)+len(contexts) < n { // more than one task per context fits
		for i := range contexts {
			if err := c.dueInContext(w, owner, &contexts[i], n-len(found)); err != nil {
				return found, err
			}
		}
	}
	for round, more := 0, true; more; round++ {
		more = false
		for _, t := range contexts {
			if round < len(t.tasks) && len(found) < n {
				t.tasks[round].context = t.context
				found, more = append(found, t.tasks[round]), true
			}
		}
	}
	return found, nil
}

// dueContexts returns the first n contexts of an owner with due tasks, in the order in
// which they are served. Each has its first due task.
func (c *claim) dueContexts(w *writer, owner string, n int) (found []dueContext, err error) {
	start, ok := c.lastContext[owner]
	if !ok {
		start = c.AfterContexts[owner]
	}
	at, wrapped := start, false
	for len(found) < n {
		var next dueContext
		err := w.nextContext.query(context.Background(), func(r record) error {
			next = dueContext{r.text(0), []dueTask{{at: r.int(1), id: r.text(2)}}}
			return nil
		}, owner, at)
		switch {
		case err != nil:
			return nil, err
		case next.context == "" && !wrapped && start != "":
			at, wrapped = "", true
			continue
		case next.context == "" || wrapped && next.context > start:
			return found, nil
		}
		at = next.context
		if first := next.tasks[0].at; first > c.now && first <= c.horizon {
			if next.tasks, err = c.addBeyond(w, owner, next.context, nil, 1); err != nil {
				return nil, err
			}
		}
		if len(next.tasks) > 0 {
			found = append(found, next)
		}
	}
	return found, nil
}

// dueInContext reads the first n due tasks of a context.
func (c *claim) dueInContext(w *writer, owner string, t *dueContext, n int) (err error) {
	if t.tasks, err = collectDue(nil, n, w.contextDue, owner, t.context, c.now); err == nil {
		t.tasks, err = c.addBeyond(w, owner, t.context, t.tasks, n)
	}
	return err
}

// addBeyond appends tasks of a context that are due after the horizon, up to n in
// total.
func (c *claim) addBeyond(w *writer, owner, context string, found []dueTask, n int) ([]dueTask, error) {
	if c.Horizon <= 0 {
		return found, nil
	}
	return collectDue(found, n, w.contextBeyond, owner, context, c.horizon)
}
