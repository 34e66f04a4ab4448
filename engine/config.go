package engine

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// Handler runs one turn of a task. It returns nil or one of the outcomes made by the Turn
// ([Turn.Reply], [Turn.RequireInput], ...). An error made by [Retry] schedules another attempt
// of the turn. Any other error fails the task with its text. The handler must return soon after
// ctx is done.
type Handler func(ctx context.Context, t *Turn) error

// Config configures an Engine. Zero fields have the documented default.
type Config struct {
	// Store stores all data. Required.
	Store Store
	// Contracts are the stores of the data that handlers keep besides tasks. Default: the parts of
	// Store.
	Contracts Contracts
	// Handler runs the turns of tasks. Required.
	Handler Handler
	// Agent names the agent in the keys of session states, and the boards that its handler
	// creates. Another name has other states. Default "agent".
	Agent string
	// NewID returns a new unique id. IDs should sort by time (UUIDv7). Required.
	NewID func() string
	// Worker is the first part of the worker ID in leases. New appends a new id, so a restarted
	// process with the same name is another worker. Default: the new id alone.
	Worker string
	// Logger receives messages for operators. Default: discards them.
	Logger *slog.Logger

	// Turns configures the execution of turns.
	Turns Turns
	// Limits limits the requests of callers and handlers.
	Limits Limits
	// Retention is how long data is stored, by kind.
	Retention Retention
	// Files configures how clients and webhooks get large files.
	Files Files
	// MultiOwner states that callers belong to several owners. The defaults of Turns.Reserved
	// and Limits.QueuedPerOwner then restrict each owner to a part of the slots and of the
	// queue.
	MultiOwner bool
	// Memory is the memory budget for large content. Default: no limit.
	Memory *memory.Budget
	// InputModes are the media types that the handler accepts. The engine rejects a message with
	// a part of another type. "text", "file" and "data" stand for all parts of that kind.
	// Default: not checked.
	InputModes []string
	// OutputModes are the media types that the handler produces. The engine rejects a message
	// if its client accepts none of them. Default: not checked.
	OutputModes []string

	// clock returns the wall clock time; tests replace it.
	clock func() time.Time
	// own are the contracts with a part of Store as their store.
	own map[*contract.Kind]bool
}

// Turns configures the execution of turns. Zero fields have the documented default.
type Turns struct {
	// Admit, if not nil, decides whether a message is accepted, before anything is stored, for
	// example by its contextId or its sender. To reject it, return an error of package a2a, such
	// as a2a.Invalid("message.contextId", "is unknown"). The client gets any other error as an
	// internal error. Admit may be called several times for a message, but not for a message that
	// repeats an accepted one: it gets the first response. Other changes of the message's task
	// wait for Admit. Default: all messages are accepted.
	Admit func(ctx context.Context, p AdmitParams) (Admission, error)

	// Concurrency is the maximum number of turns that run at the same time. Default 256.
	Concurrency int `default:"256" min:"1"`
	// Reserved is the number of slots of Concurrency that are reserved for owners with few
	// running turns. An owner that runs Reserved/8 turns or more gets no reserved slot. It must
	// be less than Concurrency; a negative value reserves none. Default: a quarter of
	// Concurrency if callers are authenticated ([Config.MultiOwner]), otherwise none.
	Reserved int
	// Timeout is the maximum duration of a turn. Default 1 h; negative means no limit.
	Timeout time.Duration `default:"1h"`
	// MaxAttempts is the maximum number of attempts of a turn before the task fails. Default 5.
	MaxAttempts int `default:"5" min:"1"`
	// RetryDelay is the pause before the second attempt of a turn, after its handler returned
	// an error made by Retry. It doubles with each attempt, up to RetryDelayMax. Default 1 s.
	RetryDelay time.Duration `default:"1s" min:"0s"`
	// RetryDelayMax is the maximum pause between two attempts. Default 1 min, or RetryDelay if
	// that is longer.
	RetryDelayMax time.Duration
	// Lease is how long a worker may hold a task without renewing its lease. If the process
	// dies, another worker can claim the task after this time. Default 15 s, minimum 100 ms.
	Lease time.Duration `default:"15s" min:"100ms"`
	// HandlerGrace is how long the engine waits for a handler to return after its context is
	// done. After that the engine abandons the handler's goroutine. Default 5 s.
	HandlerGrace time.Duration `default:"5s" min:"0s"`
	// FlushInterval is the maximum time that progress and artifact chunks wait to be committed
	// together with others. Default 20 ms.
	FlushInterval time.Duration `default:"20ms" min:"0s"`
	// Poll is the interval at which the engine checks the store for due work that no
	// notification announced. Default 1 s.
	Poll time.Duration `default:"1s" min:"1ns"`
}

// Files configures how clients and webhooks get large files. Zero fields have the documented default.
type Files struct {
	// InlineBytes is the maximum size of a file that clients and webhooks get within a response.
	// They get larger files as links. Files up to 64 KiB are always within the response. Default
	// 1 MiB. Negative makes all files above 64 KiB links.
	InlineBytes int64 `default:"1MiB"`
	// LinkTTL is how long a link to a file is valid. Default 1 h.
	LinkTTL time.Duration `default:"1h" min:"1s"`
}

// Limits limits memory and stored data. Zero fields have the documented default.
type Limits struct {
	// Queued is the maximum number of tasks in the store that wait to run. The engine rejects
	// new tasks above it. Processes that share a store can exceed it together by the tasks that
	// they queue within Poll, or while the store counts a long queue. Default 100,000.
	Queued int `default:"100000" min:"1"`
	// QueuedPerOwner is the maximum number of waiting tasks of one owner while no other owner
	// has any. It must not exceed Queued. If it is less than Queued, the limit decreases as the
	// queue fills, in proportion to the free places, so several owners together cannot fill the
	// queue either. The engine rejects new tasks, and messages for tasks that wait for their
	// client, above it. Default: half of Queued if callers are authenticated
	// ([Config.MultiOwner]), otherwise Queued.
	QueuedPerOwner int
	// Inbox is the maximum number of unread messages of one task. Default 1,000.
	Inbox int `default:"1000" min:"1"`
	// Parts is the maximum number of parts in a message or artifact chunk. Default 1,000.
	Parts int `default:"1000" min:"1"`
	// References is the maximum number of referenceTaskIds in a message and of
	// referenceContextIds in a context. Default 32.
	References int `default:"32" min:"1"`
	// PageSize is the maximum number of tasks in a page of a list. Default 100.
	PageSize int `default:"100" min:"1"`
	// ListTotal is the maximum number of tasks or contexts that are counted for the total of a
	// list. Larger totals are reported as this number, capped. Default 10,000.
	ListTotal int `default:"10000" min:"1"`
	// PageBytes limits the content of the tasks in a page of a list, in bytes. A page of tasks
	// ends with the task that exceeds it; a page of contexts ends before the context that
	// exceeds it. It also limits the history of a context. Default 8 MiB.
	PageBytes int `default:"8MiB" min:"1"`
	// ArtifactBytes limits the content of the artifacts of one turn, in bytes. Each chunk adds
	// 64 bytes. Default 64 MiB.
	ArtifactBytes int `default:"64MiB" min:"1"`
	// TaskBytes limits the content of all events of a task, in bytes: its history, its
	// artifacts including replaced content, and its status messages. The engine rejects more
	// with a2a.CodeTooLarge before it stores anything. Default 128 MiB. The effective limit is
	// at most a third of the share of Memory that one owner may hold.
	TaskBytes int `default:"128MiB" min:"1"`
	// ContextBytes limits the content of all tasks of a context, in bytes. The engine rejects
	// messages for a context that has reached it with a2a.CodeTooLarge. A context can exceed it
	// by a 64th for each process and by the content that running tasks add. Default 8 GiB.
	ContextBytes int `default:"8GiB" min:"1"`
	// StepBytes limits the result of a step, in bytes. Default 4 MiB.
	StepBytes int `default:"4MiB" min:"1"`
	// MetadataBytes limits the JSON encoding of the metadata of a task, context or feedback,
	// and of the extensions of a context, in bytes. Default 64 KiB.
	MetadataBytes int `default:"64KiB" min:"1"`
	// FeedbackBytes limits the text of feedback, in bytes. Default 16 KiB.
	FeedbackBytes int `default:"16KiB" min:"1"`
}

// Check returns an error that lists all invalid settings. It does not check Store, Handler and NewID.
func (c Config) Check() error {
	_, e := c.settings()
	return e.OrNil()
}

// settings returns the config with defaults applied to its settings, and the invalid settings.
func (c Config) settings() (Config, *config.Error) {
	e := config.Apply("engine", &c)
	t := &c.Turns
	if c.MultiOwner && t.Reserved == 0 {
		t.Reserved = t.Concurrency / 4
	}
	t.RetryDelayMax = cmp.Or(t.RetryDelayMax, max(t.RetryDelay, time.Minute))
	// A setting is compared only to a valid one.
	e.Reject(t.Concurrency > 0 && t.Reserved > 0 && t.Reserved >= t.Concurrency, "Turns.Reserved", t.Reserved, "less than the number of concurrent turns, which is %d", t.Concurrency)
	e.Reject(t.RetryDelayMax < t.RetryDelay, "Turns.RetryDelayMax", t.RetryDelayMax, "Turns.RetryDelay, which is %s, or more", t.RetryDelay)
	l := &c.Limits
	switch {
	case l.QueuedPerOwner == 0 && c.MultiOwner:
		l.QueuedPerOwner = max(l.Queued/2, 1)
	case l.QueuedPerOwner == 0:
		l.QueuedPerOwner = l.Queued
	}
	e.Reject(l.Queued > 0 && (l.QueuedPerOwner < 1 || l.QueuedPerOwner > l.Queued), "Limits.QueuedPerOwner", l.QueuedPerOwner, "1 to %d, the limit of the whole queue", l.Queued)
	e.Add("Retention", c.Retention.check(c.Contracts.kinds()))
	e.Add("Contracts", c.Contracts.check())
	return c, e
}

// withDefaults returns the config with defaults applied, or an error that lists all problems.
func (c Config) withDefaults() (Config, error) {
	c, e := c.settings()
	e.Require(c.Store == nil, "Store")
	e.Require(c.Handler == nil, "Handler")
	e.Require(c.NewID == nil, "NewID")
	if err := e.OrNil(); err != nil {
		return c, err
	}
	c.Agent = cmp.Or(c.Agent, "agent")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.clock == nil {
		c.clock = time.Now
		if shared, ok := c.Store.(store.Clock); ok {
			c.clock = shared.Now
		}
	}
	named := c.Contracts
	c.Contracts = named.WithParts(c.Store, c.clock)
	c.own = make(map[*contract.Kind]bool)
	for _, s := range c.Contracts.Stores {
		c.own[s.Kind()] = contract.Find(named.Stores, s.Kind()) == nil
	}
	return c, nil
}

// ErrShutdown is returned for new work while the engine is not running, in particular after
// Stop has been called. Nothing has been stored, so the caller can retry with another process.
var ErrShutdown error = a2a.Errorf(a2a.CodeUnavailable, "the server is stopping; retry later")
