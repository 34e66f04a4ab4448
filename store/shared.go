package store

import (
	"context"
	"time"
)

// Clock is implemented by stores that several processes share and that have a
// clock of their own. It is then the only clock for leases, delays and the times of
// events: those of the processes may differ.
type Clock interface {
	// Now returns the store's time as well as it is known here. It costs no call to
	// the store, and does not depend on the wall clock of this machine.
	Now() time.Time
}

// Watcher is implemented by stores that can tell soon what other processes have
// done. What it tells are hints: notices may be late, repeated, or lost, and
// nothing may depend on them but how soon something is noticed.
type Watcher interface {
	// Watch calls f, from one goroutine, with what other users of the store have
	// committed, until ctx is done or the connection cannot be kept; the caller then
	// calls it again. What comes in while f runs is told together.
	Watch(ctx context.Context, f func(Notice)) error
}

// Notice tells what has been committed.
type Notice struct {
	// Tasks have changed.
	Tasks []Key
	// Work: tasks may have become due.
	Work bool
	// Lost: notices may have been lost, so anything may have changed.
	Lost bool
}
