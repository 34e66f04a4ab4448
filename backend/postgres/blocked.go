package postgres

import (
	"slices"
	"sync"
	"time"
)

const (
	// shortLockTimeout is the lock timeout of transactions while requests are blocked, and of requestGroups.
	shortLockTimeout = 20 * time.Millisecond
	// blockedRetryInterval is the pause between attempts of blocked requests.
	blockedRetryInterval = 100 * time.Millisecond
)

// blockedRequests holds requests that wait for a lock of another transaction, such as an
// interactive session or a replica that hangs. Each is retried in a transaction of its own
// until it succeeds or reaches its deadline, and delays no other request.
type blockedRequests struct {
	mu       sync.Mutex
	requests []*request
	retrying bool // retryBlocked is running
}

// lockTimeout returns the lock timeout for a new group, 0 for the session's: a short one
// while requests are blocked.
func (w *blockedRequests) lockTimeout() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retrying {
		return shortLockTimeout
	}
	return 0
}

// take returns the requests and removes them. If there are none, retrying becomes false and
// the caller must stop.
func (w *blockedRequests) take() []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.requests
	w.requests, w.retrying = nil, len(all) > 0
	return all
}

// add adds a request. It reports whether the caller must start retryBlocked.
func (w *blockedRequests) add(r *request) (start bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, r)
	start, w.retrying = !w.retrying, true
	return start
}

// split applies a group that timed out waiting for a lock in halves. A single request that
// remains is added to the blocked requests.
func (c *committer) split(group []*request, cause error) {
	var rest []*request
	for _, r := range group {
		if r.ungrouped || r.applied() { // by an earlier transaction than the one that failed
			c.finish(r, nil)
		} else {
			rest = append(rest, r)
		}
	}
	if len(rest) == 0 {
		return
	}
	if len(rest) > 1 {
		c.lockTimeout = shortLockTimeout
		half := len(rest) / 2
		c.run(rest[:half])
		c.run(rest[half:])
		return
	}
	c.s.log.Debug("change waits for a lock of another transaction", "error", cause)
	rest[0].deadline = time.Now().Add(c.s.cfg.CommandTimeout)
	if c.s.blocked.add(rest[0]) {
		c.s.workers.Go(c.s.retryBlocked)
	}
}

// retryBlocked retries blocked requests until there are none.
func (s *changeWriter) retryBlocked() {
	c := s.newCommitter()
	c.lockTimeout = shortLockTimeout
	for requests := s.blocked.take(); len(requests) > 0; requests = s.blocked.take() {
		time.Sleep(blockedRetryInterval)
		for group := range slices.Chunk(requests, 1) {
			if err := c.apply(group); lockTimedOut(err) && time.Now().Before(group[0].deadline) {
				s.blocked.add(group[0])
			} else {
				c.finish(group[0], err)
			}
		}
	}
}
