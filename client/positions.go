package client

import (
	"container/list"
	"context"
	"slices"
	"sync"
)

// Bounds of a Position.
const (
	maxRanges = 64
	maxIDs    = 64
)

// Position is the set of a task's events that a receiver has processed. It can be stored as JSON.
// Its size is bounded: it keeps the newest 64 gaps, and events in older gaps count as processed. It
// also keeps the ids of the newest 64 events without a sequence.
type Position struct {
	// Sequence is the sequence of the newest event, 0 if no event has a sequence.
	Sequence int64 `json:"sequence,omitempty"`
	// Missing are the ranges of sequences before it that were not processed, first and last
	// included, in ascending order.
	Missing [][2]int64 `json:"missing,omitempty"`
	// IDs are the ids of the newest events without a sequence, oldest first.
	IDs []string `json:"ids,omitempty"`
}

func (p *Position) clone() Position {
	return Position{Sequence: p.Sequence, Missing: slices.Clone(p.Missing), IDs: slices.Clone(p.IDs)}
}

// advance adds an event. It returns the number of missing events between the newest event so far
// and this one, and reports whether this event is older than the newest and whether it is new.
func (p *Position) advance(id string, sequence int64) (missing int64, late, isNew bool) {
	if sequence == 0 {
		if slices.Contains(p.IDs, id) {
			return 0, false, false
		}
		p.IDs = append(p.IDs, id)
		p.IDs = p.IDs[max(0, len(p.IDs)-maxIDs):]
		return 0, false, true
	}
	if sequence <= p.Sequence {
		return 0, true, p.fill(sequence)
	}
	if sequence > p.Sequence+1 {
		p.Missing = append(p.Missing, [2]int64{p.Sequence + 1, sequence - 1})
		p.Missing = p.Missing[max(0, len(p.Missing)-maxRanges):]
		if p.Sequence > 0 { // else the webhook was registered later
			missing = sequence - 1 - p.Sequence
		}
	}
	p.Sequence = sequence
	return missing, false, true
}

// fill removes a sequence from the missing sequences and reports whether it was missing.
func (p *Position) fill(sequence int64) bool {
	for i, r := range p.Missing {
		if sequence < r[0] || sequence > r[1] {
			continue
		}
		var rest [][2]int64
		if sequence > r[0] {
			rest = append(rest, [2]int64{r[0], sequence - 1})
		}
		if sequence < r[1] {
			rest = append(rest, [2]int64{sequence + 1, r[1]})
		}
		p.Missing = slices.Replace(p.Missing, i, i+1, rest...)
		p.Missing = p.Missing[max(0, len(p.Missing)-maxRanges):]
		return true
	}
	return false
}

// positionCache has the positions of the tasks with the newest events, and lends each to one request
// at a time.
type positionCache struct {
	limit int
	store Positions // may be nil

	mu    sync.Mutex
	tasks map[string]*list.Element // of *taskPosition
	order *list.List               // most recently used first
}

type taskPosition struct {
	id     string
	users  int           // requests that have or wait for it
	turn   chan struct{} // has an item while a request has it
	loaded bool
	Position
}

func newPositionCache(limit int, store Positions) *positionCache {
	return &positionCache{limit: limit, store: store, tasks: map[string]*list.Element{}, order: list.New()}
}

// acquire returns the position of a task, which the caller may change until it calls release.
func (c *positionCache) acquire(ctx context.Context, id string) (p *Position, release func(), err error) {
	t := c.use(id)
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		c.leave(t)
		return nil, nil, context.Cause(ctx)
	}
	release = func() {
		<-t.turn
		c.leave(t)
	}
	if !t.loaded && c.store != nil {
		if t.Position, err = c.store.Load(ctx, id); err != nil {
			release()
			return nil, nil, err
		}
	}
	t.loaded = true
	return &t.Position, release, nil
}

func (c *positionCache) use(id string) *taskPosition {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.tasks[id]
	if e == nil {
		e = c.order.PushFront(&taskPosition{id: id, turn: make(chan struct{}, 1)})
		c.tasks[id] = e
	}
	c.order.MoveToFront(e)
	t := e.Value.(*taskPosition)
	t.users++
	return t
}

// leave ends the use of a position and removes the least recently used ones that exceed the limit.
func (c *positionCache) leave(t *taskPosition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.users--
	for e := c.order.Back(); e != nil && len(c.tasks) > c.limit; {
		before := e.Prev()
		if old := e.Value.(*taskPosition); old.users == 0 {
			c.order.Remove(e)
			delete(c.tasks, old.id)
		}
		e = before
	}
}
