package sqlite

import "context"

// turn is a context with what is due in it.
type turn struct {
	context string
	found   []due
}

// inTurn adds an owner's queued tasks that are due, up to n in all, those of its contexts
// in turn.
func (c *claim) inTurn(w *writer, owner string, found []due, n int) ([]due, error) {
	turns, err := c.turns(w, owner, n-len(found))
	if err != nil {
		return found, err
	}
	if len(found)+len(turns) < n { // there is room for more than one of each
		for i := range turns {
			if err := c.dueIn(w, owner, &turns[i], n-len(found)); err != nil {
				return found, err
			}
		}
	}
	for round, more := 0, true; more; round++ {
		more = false
		for _, t := range turns {
			if round < len(t.found) && len(found) < n {
				t.found[round].context = t.context
				found, more = append(found, t.found[round]), true
			}
		}
	}
	return found, nil
}

// turns returns the first n contexts of an owner with something due, each with the first
// of it, in the order in which they are visited.
func (c *claim) turns(w *writer, owner string, n int) (found []turn, err error) {
	start, ok := c.after[owner]
	if !ok {
		start = c.AfterContexts[owner]
	}
	at, wrapped := start, false
	for len(found) < n {
		var next turn
		err := w.nextContext.query(context.Background(), func(r record) error {
			next = turn{r.text(0), []due{{at: r.int(1), id: r.text(2)}}}
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
		if first := next.found[0].at; first > c.now && first <= c.far {
			if next.found, err = c.beyond(w, owner, next.context, nil, 1); err != nil {
				return nil, err
			}
		}
		if len(next.found) > 0 {
			found = append(found, next)
		}
	}
	return found, nil
}

// dueIn finds the first n tasks of a context that are due.
func (c *claim) dueIn(w *writer, owner string, t *turn, n int) (err error) {
	if t.found, err = collect(nil, n, w.contextDue, owner, t.context, c.now); err == nil {
		t.found, err = c.beyond(w, owner, t.context, t.found, n)
	}
	return err
}

// beyond adds tasks of a context that wait for longer than the horizon, up to n in all.
func (c *claim) beyond(w *writer, owner, context string, found []due, n int) ([]due, error) {
	if c.Horizon <= 0 {
		return found, nil
	}
	return collect(found, n, w.contextFar, owner, context, c.far)
}
