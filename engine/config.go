package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/store"
)

// Handler runs one turn of a task. It returns nil or one of the outcomes made by the Turn
// ([Turn.Reply], [Turn.RequireInput], ...). An error made by [Retry] schedules another attempt
// of the turn. Any other error fails the task with its text. The handler must return soon after
// ctx is done.
type Handler func(ctx context.Context, t *Turn) error

// Config configures an Engine. Zero fields take the documented default.
type Config struct {
	// Store stores all data. Required.
	Store Store
	// Handler runs the turns of tasks. Required.
	Handler Handler
	// NewID returns a new unique id. IDs should sort by time (UUIDv7). Required.
	NewID func() string
	// Worker is the first part of the worker ID in leases. New appends a new id, so a restarted
	// process with the same name is another worker. Default: the new id alone.
	Worker string
	// Logger receives messages for operators. Default: discards them.
	Logger *slog.Logger

	// Concurrency is the maximum number of turns that run at the same time. Default 256.
	Concurrency int
	// Reserved is the number of slots of Concurrency that are reserved for owners with few
	// running turns. An owner that runs Reserved/8 turns or more gets no reserved slot. It must
	// be less than Concurrency; a negative value reserves none. Default: a quarter of
	// Concurrency with MultiOwner, otherwise none.
	Reserved int
	// Lease is how long a worker may hold a task without renewing its lease. If the process
	// dies, another worker can claim the task after this time. Default 15 s, minimum 100 ms.
	Lease time.Duration
	// TaskTimeout is the maximum duration of a turn. Default 1 h; negative means no limit.
	TaskTimeout time.Duration
	// MaxAttempts is the maximum number of attempts of a turn before the task fails. Default 5.
	MaxAttempts int
	// RetryDelay is the pause before the second attempt of a turn whose handler returned an
	// error made by Retry. It doubles with each attempt, up to RetryDelayMax. Defaults 1 s and
	// 1 min.
	RetryDelay, RetryDelayMax time.Duration
	// HandlerGrace is how long the engine waits for a handler to return after its context is
	// done. After that the engine abandons the handler's goroutine. Default 5 s.
	HandlerGrace time.Duration
	// FlushInterval is the maximum time that progress and artifact chunks wait to be committed
	// together with others. Default 20 ms.
	FlushInterval time.Duration
	// Poll is the interval at which the engine checks the store for due work that no
	// notification announced. Default 1 s.
	Poll time.Duration
	// Retention is how long data is stored, by kind.
	Retention Retention

	// MultiOwner reports that callers belong to several owners. Each owner then may use only a
	// part of the queue and of the slots, unless Limits and Reserved are set.
	MultiOwner bool
	// Limits limits the requests of callers and handlers.
	Limits Limits
	// Memory is the memory budget for large content. Default: no limit.
	Memory *memory.Budget
	// OutputModes are the media types that the handler produces. The engine rejects a client
	// that accepts none of them. Empty: not checked.
	OutputModes []string

	// clock returns the wall clock time; tests replace it.
	clock func() time.Time
}

// Limits limits memory and stored data. Zero fields take the default.
type Limits struct {
	// Queued is the maximum number of tasks in the store that wait to run. The engine rejects
	// new tasks above it. Processes that share a store can exceed it together by the tasks that
	// they queue within Poll, or while the store counts a long queue. Default 100,000.
	Queued int
	// QueuedPerOwner is the maximum number of waiting tasks of one owner while no other owner
	// has any. It must not exceed Queued. If it is less than Queued, the limit falls in
	// proportion to the free places in the queue, so several owners cannot fill it either. The
	// engine rejects new tasks, and messages for tasks that wait for their client, above it.
	// Default: half of Queued with Config.MultiOwner, otherwise Queued.
	QueuedPerOwner int
	// Inbox is the maximum number of unread messages of one task. Default 1,000.
	Inbox int
	// Parts is the maximum number of parts in a message or artifact chunk. Default 1,000.
	Parts int
	// References is the maximum number of referenceTaskIds in a message and of
	// referenceContextIds in a context. Default 32.
	References int
	// PageSize is the maximum number of tasks in a page of a list. Default 100.
	PageSize int
	// ListTotal is the maximum number of tasks or contexts that are counted for the total of a
	// list. Larger totals are reported as this number, capped. Default 10,000.
	ListTotal int
	// PageBytes limits the content of the tasks in a page of a list, in bytes. A page of tasks
	// ends with the task that exceeds it; a page of contexts ends before the context that
	// exceeds it. It also limits the history of a context. Default 8 MiB.
	PageBytes int
	// ArtifactBytes limits the content of the artifacts of one turn, in bytes. Each chunk adds
	// 64 bytes. Default 64 MiB.
	ArtifactBytes int
	// TaskBytes limits the content of all events of a task, in bytes: its history, its
	// artifacts including replaced content, and its status messages. The engine rejects more
	// with a2a.CodeTooLarge before it stores anything. Default 128 MiB. The effective limit is
	// at most a third of what one owner may hold of Memory.
	TaskBytes int
	// ContextBytes limits the content of all tasks of a context, in bytes. The engine rejects
	// messages for a context that has reached it with a2a.CodeTooLarge. A context can exceed it
	// by a 64th for each process and by the content that running tasks add. Default 8 GiB.
	ContextBytes int
	// StepBytes limits the result of a step, in bytes. Default 4 MiB.
	StepBytes int
	// MetadataBytes limits the JSON encoding of the metadata of a task, context or feedback,
	// and of the extensions of a context, in bytes. Default 64 KiB.
	MetadataBytes int
	// FeedbackBytes limits the text of feedback, in bytes. Default 16 KiB.
	FeedbackBytes int
}

func orDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// setDefaults sets the zero limits to their defaults and returns an error for each invalid one.
func (l *Limits) setDefaults(multiOwner bool) (errs []error) {
	orDefault(&l.Queued, 100_000)
	perOwner := l.Queued
	if multiOwner {
		perOwner = max(l.Queued/2, 1)
	}
	for _, limit := range []struct {
		name     string
		value    *int
		standard int
	}{
		{"Queued", &l.Queued, l.Queued},
		{"QueuedPerOwner", &l.QueuedPerOwner, perOwner},
		{"Inbox", &l.Inbox, 1000},
		{"Parts", &l.Parts, 1000},
		{"References", &l.References, 32},
		{"PageSize", &l.PageSize, 100},
		{"ListTotal", &l.ListTotal, 10_000},
		{"PageBytes", &l.PageBytes, 8 << 20},
		{"ArtifactBytes", &l.ArtifactBytes, 64 << 20},
		{"TaskBytes", &l.TaskBytes, 128 << 20},
		{"ContextBytes", &l.ContextBytes, 8 << 30},
		{"StepBytes", &l.StepBytes, 4 << 20},
		{"MetadataBytes", &l.MetadataBytes, 64 << 10},
		{"FeedbackBytes", &l.FeedbackBytes, 16 << 10},
	} {
		orDefault(limit.value, limit.standard)
		if *limit.value < 1 {
			errs = append(errs, fmt.Errorf("Limits.%s is %d, want at least 1", limit.name, *limit.value))
		}
	}
	if l.QueuedPerOwner > l.Queued {
		errs = append(errs, fmt.Errorf("Limits.QueuedPerOwner is %d, want at most Limits.Queued, which is %d", l.QueuedPerOwner, l.Queued))
	}
	return errs
}

// withDefaults returns the config with defaults applied, or an error that lists all problems.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Store == nil, "Store is required")
	check(c.Handler == nil, "Handler is required")
	check(c.NewID == nil, "NewID is required")
	orDefault(&c.Concurrency, 256)
	if c.MultiOwner {
		orDefault(&c.Reserved, c.Concurrency/4)
	}
	orDefault(&c.Lease, 15*time.Second)
	orDefault(&c.TaskTimeout, time.Hour)
	orDefault(&c.MaxAttempts, 5)
	orDefault(&c.RetryDelay, time.Second)
	orDefault(&c.RetryDelayMax, time.Minute)
	orDefault(&c.HandlerGrace, 5*time.Second)
	orDefault(&c.FlushInterval, 20*time.Millisecond)
	orDefault(&c.Poll, time.Second)
	check(c.Concurrency < 1, "Concurrency is %d, want at least 1", c.Concurrency)
	check(c.Reserved > 0 && c.Reserved >= c.Concurrency, "Reserved is %d, want less than Concurrency, which is %d", c.Reserved, c.Concurrency)
	check(c.Lease < 100*time.Millisecond, "Lease is %s, want at least 100ms", c.Lease)
	check(c.MaxAttempts < 1, "MaxAttempts is %d, want at least 1", c.MaxAttempts)
	check(c.RetryDelay < 0, "RetryDelay is negative")
	check(c.RetryDelayMax < c.RetryDelay, "RetryDelayMax is %s, want at least RetryDelay, which is %s", c.RetryDelayMax, c.RetryDelay)
	check(c.HandlerGrace < 0, "HandlerGrace is negative")
	check(c.FlushInterval < 0, "FlushInterval is negative")
	check(c.Poll <= 0, "Poll is %s, want more than 0", c.Poll)
	errs = append(errs, c.Limits.setDefaults(c.MultiOwner)...)
	if err := c.Retention.check(); err != nil {
		errs = append(errs, fmt.Errorf("Retention: %w", err))
	}
	if len(errs) > 0 {
		return c, fmt.Errorf("engine config: %w", errors.Join(errs...))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.clock == nil {
		c.clock = time.Now
		if shared, ok := c.Store.(store.Clock); ok {
			c.clock = shared.Now
		}
	}
	return c, nil
}

// ErrShutdown is returned for new work after Stop has been called. Nothing has been stored, so
// the caller can retry with another process.
var ErrShutdown error = a2a.Errorf(a2a.CodeUnavailable, "the server is stopping; retry later")
