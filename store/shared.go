package store

import (
	"context"
	"time"
)

// Clock is implemented by stores that several processes share and that have a clock of
// their own. It is then the only clock for leases, delays and the times of events, since
// the clocks of the processes may differ.
type Clock interface {
	// Now returns an estimate of the store's time. It does not call the store and does
	// not depend on the wall clock of this machine.
	Now() time.Time
}

// Watcher is implemented by stores that can notify a process of the commits of other
// processes. Notifications are hints: they may be late, repeated or lost. Correctness
// must not depend on them; they only reduce latency.
type Watcher interface {
	// Watch calls f from one goroutine with the commits of other users of the store. It
	// returns when ctx is done or the connection fails; the caller then calls it again.
	// Commits that arrive while f runs are combined into one notification.
	Watch(ctx context.Context, f func(Notification)) error
}

// Notification describes commits of other processes.
type Notification struct {
	// Tasks are the tasks that changed.
	Tasks []Key
	// Work reports that tasks may have become due.
	Work bool
	// Lost reports that notifications may have been lost, so anything may have changed.
	Lost bool
}
