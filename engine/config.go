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

// Handler runs one turn of a task. It returns nil or one of the outcomes that
// the Turn makes ([Turn.Reply], [Turn.RequireInput], ...): a plain error fails the
// task with its text, one made by [Retry] has the turn run again later. It must
// return soon after ctx is done.
type Handler func(ctx context.Context, t *Turn) error

// Config is what an Engine is made of. Zero fields take the documented default.
type Config struct {
	// Store keeps everything. Required.
	Store store.Store
	// Handler does the work. Required.
	Handler Handler
	// NewID makes ids, which should sort by time (UUIDv7). Required.
	NewID func() string
	// Worker names this process in leases, together with a new id: an earlier process
	// of the same name is another worker. Default: the id alone.
	Worker string
	// Logger gets what operators should know. Default: discards.
	Logger *slog.Logger

	// Concurrency is how many turns run at once. Default 256.
	Concurrency int
	// Reserved is how many of these are kept for owners that run few: an owner that runs an eighth of
	// Reserved or more gets none of them. Less than Concurrency; negative: none. Default: a quarter of
	// Concurrency with MultiOwner, else none.
	Reserved int
	// Lease is how long a run stays ours without a sign of life. Default 15 s; at
	// least 100 ms.
	Lease time.Duration
	// TaskTimeout is the longest a turn may run. Default 1 h; negative is no limit.
	TaskTimeout time.Duration
	// MaxAttempts is how often a turn is begun before the task fails. Default 5.
	MaxAttempts int
	// RetryDelay is the pause before the second attempt of a turn that asked for
	// one; it doubles with each, up to RetryDelayMax. Defaults 1 s and 1 min.
	RetryDelay, RetryDelayMax time.Duration
	// HandlerGrace is how long a handler may take to return once its context is
	// done, before it is left behind. Default 5 s.
	HandlerGrace time.Duration
	// FlushInterval is how long progress and artifact chunks may wait for others to
	// be committed with. Default 20 ms.
	FlushInterval time.Duration
	// Poll is how often the store is asked for due work that nobody announced.
	// Default 1 s.
	Poll time.Duration
	// Retention is how long data is kept, by kind.
	Retention Retention

	// MultiOwner says that the callers are several owners: then one of them may use only a part of
	// what all have, unless Limits says otherwise.
	MultiOwner bool
	// Limits bound what callers and handlers may ask for.
	Limits Limits
	// Memory is the budget that large content draws from. Default: no limit.
	Memory *memory.Budget
	// OutputModes are the media types the handler produces; a client that accepts
	// none of them is refused. Empty: not checked.
	OutputModes []string

	// clock is the wall clock; tests replace it.
	clock func() time.Time
}

// Limits bound the memory and the store. Zero fields take the default.
type Limits struct {
	// Queued is the number of tasks in the store that may wait to run. A process refuses
	// new tasks above it; processes that share a store may exceed it together by those
	// that they queue within Poll, or while a long queue is counted. Default 100,000.
	Queued int
	// QueuedPerOwner is the number of tasks of one owner that may wait to run, at most Queued.
	// New tasks, and messages for tasks that wait for their client, are refused above it. Default: half of
	// Queued with Config.MultiOwner, else Queued.
	QueuedPerOwner int
	// Inbox is how many messages may wait for one task. Default 1,000.
	Inbox int
	// Parts is how many parts a message or artifact chunk may have. Default 1,000.
	Parts int
	// References is how many referenceTaskIds a message, and how many
	// referenceContextIds a context may have. Default 32.
	References int
	// PageSize is the most tasks in a page of a list. Default 100.
	PageSize int
	// ListTotal is how many tasks or contexts are counted for the total of a list; more
	// are reported as that number, capped. Default 10,000.
	ListTotal int
	// PageBytes is how much content the tasks of a page of a list may hold: a page
	// ends with the task that exceeds it. A page of contexts ends before the context
	// that exceeds it, and no history of a context is longer. Default 8 MiB.
	PageBytes int
	// ArtifactBytes is how much content the artifacts of one turn may hold, and 64
	// bytes for each chunk. Default 64 MiB.
	ArtifactBytes int
	// TaskBytes is how much content all events of a task may have: its history, its artifacts with
	// those that were replaced, and what it reported. More is refused with a2a.CodeTooLarge before anything
	// is stored. Default 128 MiB. It is at most a third of what an owner may hold of Memory.
	TaskBytes int
	// ContextBytes is the most content that the tasks of a context may have together. The engine rejects
	// messages for a context that has reached it with a2a.CodeTooLarge. A context can exceed it by a 64th for
	// each process and by the content that running tasks add. Default 8 GiB.
	ContextBytes int
	// StepBytes is how large the result of a step may be. Default 4 MiB.
	StepBytes int
	// MetadataBytes is how long the metadata of a task, of a context or of feedback may
	// be as JSON, and the extensions of a context. Default 64 KiB.
	MetadataBytes int
	// FeedbackBytes is how long the text of feedback may be. Default 16 KiB.
	FeedbackBytes int
}

func orDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// withDefaults returns the config with its defaults, or all that is wrong with
// it.
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
	orDefault(&c.Limits.Queued, 100_000)
	if c.MultiOwner {
		orDefault(&c.Limits.QueuedPerOwner, max(c.Limits.Queued/2, 1))
	}
	orDefault(&c.Limits.QueuedPerOwner, c.Limits.Queued)
	orDefault(&c.Limits.Inbox, 1000)
	orDefault(&c.Limits.Parts, 1000)
	orDefault(&c.Limits.References, 32)
	orDefault(&c.Limits.PageSize, 100)
	orDefault(&c.Limits.ListTotal, 10_000)
	orDefault(&c.Limits.PageBytes, 8<<20)
	orDefault(&c.Limits.ArtifactBytes, 64<<20)
	orDefault(&c.Limits.TaskBytes, 128<<20)
	orDefault(&c.Limits.ContextBytes, 8<<30)
	orDefault(&c.Limits.StepBytes, 4<<20)
	orDefault(&c.Limits.MetadataBytes, 64<<10)
	orDefault(&c.Limits.FeedbackBytes, 16<<10)
	check(c.Concurrency < 1, "Concurrency is %d, want at least 1", c.Concurrency)
	check(c.Reserved > 0 && c.Reserved >= c.Concurrency, "Reserved is %d, want less than Concurrency, which is %d", c.Reserved, c.Concurrency)
	check(c.Lease < 100*time.Millisecond, "Lease is %s, want at least 100ms", c.Lease)
	check(c.MaxAttempts < 1, "MaxAttempts is %d, want at least 1", c.MaxAttempts)
	check(c.RetryDelay < 0 || c.RetryDelayMax < c.RetryDelay, "RetryDelay %s and RetryDelayMax %s are not in order", c.RetryDelay, c.RetryDelayMax)
	check(c.HandlerGrace < 0, "HandlerGrace is negative")
	check(c.FlushInterval < 0, "FlushInterval is negative")
	check(c.Poll <= 0, "Poll is %s, want more than 0", c.Poll)
	for name, n := range map[string]int{"Queued": c.Limits.Queued, "QueuedPerOwner": c.Limits.QueuedPerOwner, "Inbox": c.Limits.Inbox, "Parts": c.Limits.Parts, "References": c.Limits.References, "PageSize": c.Limits.PageSize, "ListTotal": c.Limits.ListTotal, "PageBytes": c.Limits.PageBytes, "ArtifactBytes": c.Limits.ArtifactBytes, "TaskBytes": c.Limits.TaskBytes, "ContextBytes": c.Limits.ContextBytes, "StepBytes": c.Limits.StepBytes, "MetadataBytes": c.Limits.MetadataBytes, "FeedbackBytes": c.Limits.FeedbackBytes} {
		check(n < 1, "Limits.%s is %d, want at least 1", name, n)
	}
	check(c.Limits.QueuedPerOwner > c.Limits.Queued, "Limits.QueuedPerOwner is %d, want at most Limits.Queued, which is %d", c.Limits.QueuedPerOwner, c.Limits.Queued)
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

// ErrShutdown is the answer to what would begin work once Stop has been called.
// Nothing has been stored: another process may be asked.
var ErrShutdown error = a2a.Errorf(a2a.CodeUnavailable, "the server is stopping; try again")
