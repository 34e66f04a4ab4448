package store

import (
	"maps"
	"slices"
)

// Turns remembers where a worker's claims stopped, so that owners and contexts take
// turns from one claim to the next. The zero value remembers nothing. It is for one
// goroutine at a time.
type Turns struct {
	owner    string
	contexts map[string]string // by owner
	claims   [2]int            // without and with ClaimParams.Skip
}

const (
	// turnOwners is how many owners are remembered. Beyond them one is forgotten for
	// each that is added, whichever.
	turnOwners = 256
	// oldestEvery is how many claims there are for one by age alone.
	oldestEvery = 4
)

// Next fills in AfterOwner, AfterContexts and OldestFirst of a claim, whose Skip has been set. It must
// have been made before Turns is used again.
func (t *Turns) Next(p *ClaimParams) {
	n := &t.claims[min(len(p.Skip), 1)]
	*n++
	p.AfterOwner, p.AfterContexts, p.OldestFirst = t.owner, t.contexts, *n%oldestEvery == 0
}

// Claimed takes note of what a claim returned.
func (t *Turns) Claimed(p *ClaimParams, tasks []*Task) {
	if len(tasks) < p.Limit { // nothing is left that waits for its turn
		maps.DeleteFunc(t.contexts, func(owner, _ string) bool { return !slices.Contains(p.Skip, owner) })
	}
	for _, task := range tasks {
		t.owner = task.Key.Owner
		if len(tasks) == p.Limit && !p.OldestFirst {
			t.stopped(task)
		}
	}
}

func (t *Turns) stopped(task *Task) {
	if t.contexts == nil {
		t.contexts = make(map[string]string)
	}
	if _, known := t.contexts[task.Key.Owner]; !known && len(t.contexts) >= turnOwners {
		for other := range t.contexts {
			delete(t.contexts, other)
			break
		}
	}
	t.contexts[task.Key.Owner] = task.ContextID
}
