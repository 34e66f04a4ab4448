package store

import (
	"maps"
	"slices"
)

// FairnessCursor records where the claims of a worker stopped, so that its next claim
// continues with the next owner and the next context of each owner. The zero value is
// ready to use. A FairnessCursor is not safe for concurrent use.
type FairnessCursor struct {
	owner    string
	contexts map[string]string // by owner
	claims   [2]int            // number of claims without [0] and with [1] ClaimParams.Skip
}

const (
	// maxCursorOwners is the maximum number of owners with a recorded last context. Beyond it,
	// each new owner replaces an arbitrary one.
	maxCursorOwners = 256
	// oldestFirstInterval is the interval, in claims, at which a claim sets OldestFirst.
	oldestFirstInterval = 4
)

// Next sets AfterOwner, AfterContexts and OldestFirst of a claim. Set its Skip before. Make
// the claim before the next call of a method of c, because p shares memory with c.
func (c *FairnessCursor) Next(p *ClaimParams) {
	n := &c.claims[min(len(p.Skip), 1)]
	*n++
	p.AfterOwner, p.AfterContexts, p.OldestFirst = c.owner, c.contexts, *n%oldestFirstInterval == 0
}

// Claimed records the tasks that a claim returned.
func (c *FairnessCursor) Claimed(p *ClaimParams, tasks []*Task) {
	if len(tasks) < p.Limit { // the claim returned all due tasks of the owners that it did not skip
		maps.DeleteFunc(c.contexts, func(owner, _ string) bool { return !slices.Contains(p.Skip, owner) })
	}
	for _, task := range tasks {
		c.owner = task.Key.Owner
		if len(tasks) == p.Limit && !p.OldestFirst {
			c.setContext(task)
		}
	}
}

func (c *FairnessCursor) setContext(task *Task) {
	if c.contexts == nil {
		c.contexts = make(map[string]string)
	}
	if _, ok := c.contexts[task.Key.Owner]; !ok && len(c.contexts) >= maxCursorOwners {
		for other := range c.contexts {
			delete(c.contexts, other)
			break
		}
	}
	c.contexts[task.Key.Owner] = task.ContextID
}
