package postgres

import (
	"slices"
	"sync"
	"time"
)

const (
	// glance is how long those wait for a lock who know that something is locked.
	glance = 20 * time.Millisecond
	// stuckEvery is how often requests that are stuck are tried.
	stuckEvery = 100 * time.Millisecond
)

// stuck are requests that wait for what others have locked for long: somebody at a
// prompt, or a replica that hangs. Each is tried by itself, over and over, until it
// can be applied or a command's time is over, so that nobody waits for it.
type stuck struct {
	mu       sync.Mutex
	requests []*request
	busy     bool // somebody tries them
}

// patience is how long a new group is to wait for locks, as in committer. While
// something is locked, others do not wait with those who need it.
func (w *stuck) patience() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy {
		return glance
	}
	return 0
}

// take returns the requests. When there are none, whoever tries them is done.
func (w *stuck) take() []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.requests
	w.requests, w.busy = nil, len(all) > 0
	return all
}

// add has a request be tried from now on. It reports whether somebody is to begin.
func (w *stuck) add(r *request) (begin bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, r)
	begin, w.busy = !w.busy, true
	return begin
}

// part applies a group in which something was blocked in halves: what is left of it
// in the end is stuck.
func (c *committer) part(group []*request, cause error) {
	var rest []*request
	for _, r := range group {
		if r.applied() { // by a transaction before the one that failed
			c.answer(r, nil)
		} else {
			rest = append(rest, r)
		}
	}
	if len(rest) == 0 {
		return
	}
	if len(rest) > 1 {
		c.patience = glance
		half := len(rest) / 2
		c.run(rest[:half])
		c.run(rest[half:])
		return
	}
	c.s.log.Debug("change waits for a lock that others hold", "error", cause)
	rest[0].until = time.Now().Add(c.s.cfg.CommandTimeout)
	if c.s.stuck.add(rest[0]) {
		c.s.workers.Go(c.s.untangle)
	}
}

// untangle tries the requests that are stuck until there are none.
func (s *Store) untangle() {
	c := s.newCommitter()
	c.patience = glance
	for requests := s.stuck.take(); len(requests) > 0; requests = s.stuck.take() {
		time.Sleep(stuckEvery)
		for group := range slices.Chunk(requests, 1) {
			if err := c.apply(group); blocked(err) && time.Now().Before(group[0].until) {
				s.stuck.add(group[0])
			} else {
				c.answer(group[0], err)
			}
		}
	}
}
