package sqlite

// dueContext is a context and its due tasks.
type dueContext struct {
	context string
	tasks   []dueTask
}

// addFair appends due queued tasks of an owner, one of each context in turn, until found
// has n tasks.
func (c *claim) addFair(w *writer, owner string, found []dueTask, n int) ([]dueTask, error) {
	contexts, err := c.dueContexts(w, owner, n-len(found))
	if err != nil {
		return found, err
	}
	if len(found)+len(contexts) < n { // more than one task per context fits
		for i := range contexts {
			t := &contexts[i]
			if t.tasks, err = w.collectDue(nil, n-len(found), sqlContextReady, owner, t.context); err != nil {
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
		err := w.query(sqlNextContext, func(r record) error {
			next = dueContext{r.text(0), []dueTask{{id: r.text(1)}}}
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
		at, found = next.context, append(found, next)
	}
	return found, nil
}
