package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// Sender makes requests. *safehttp.Client is one; tests replace it.
type Sender interface {
	// Post makes one request. Its error is an *safehttp.Error. It returns by the end of
	// ctx.
	Post(ctx context.Context, r safehttp.Request) (safehttp.Response, error)
	// Check reports whether a URL may be registered: an *safehttp.Refusal if not. What
	// its name resolves to is looked at if that can be had soon.
	Check(ctx context.Context, rawURL string) error
}

// Config is what a Service is made of. Zero fields take the documented default.
type Config struct {
	// Store keeps everything. Required.
	Store store.Store
	// NewID makes ids, which should sort by time (UUIDv7). Required.
	NewID func() string
	// Sender makes the requests, as Policy allows. Default: a safehttp.Client with as many
	// to a public address as to an endpoint.
	Sender Sender
	Policy safehttp.Policy
	// Agent is told as the user agent, in printable ASCII; see UserAgent. Default
	// "holdfast".
	Agent string
	// Logger gets what operators should know. Default: discards.
	Logger *slog.Logger

	// Global is told of the tasks that have no webhook of their own. A zero URL: nobody.
	Global Global
	// Keys encrypt the secrets of webhooks before they are stored: the first those that
	// are new, and all of them are tried to read. Each has 32 bytes. Empty: secrets are
	// stored as they are.
	Keys [][]byte

	// PerTask is how many webhooks a task may have. Default 10.
	PerTask int
	// PerMinute is how many webhooks an owner may save in a minute. Default 100.
	PerMinute int
	// InFlight is how many requests are under way at once, PerEndpoint how many to one
	// endpoint, of which an owner leaves an eighth to others, and PerOwner how many of one
	// owner. Defaults 512, 8, 64.
	InFlight, PerEndpoint, PerOwner int
	// Memory is what requests take their memory from: each as much as its body and what it is
	// made of, at the expense of the task's owner. A lane that gets none waits. An event that
	// needs more than one owner may hold is a dead letter. Default: a budget of 256 MiB.
	Memory *memory.Budget
	// Timeout is the longest that an attempt may take. Default 15 s.
	Timeout time.Duration
	// Lease is how long a lane stays ours without a sign of life. Default 30 s; at least
	// twice Timeout less 5 s, and 100 ms.
	Lease time.Duration
	// Poll is how often the store is asked for due lanes that nobody announced. Default
	// 1 s.
	Poll time.Duration
	// Schedule are the pauses after failed attempts, with a fifth more or less by chance.
	// When they are used up the lane is parked. Default: twenty attempts over three days.
	Schedule []time.Duration
	// KeepAttempts and KeepDead are how long delivery attempts and dead letters are kept, for
	// as long as their webhooks exist. Default 30 days; negative keeps them.
	KeepAttempts, KeepDead time.Duration

	// clock is the wall clock, random returns a number from 0 to below 1; tests replace
	// them.
	clock  func() time.Time
	random func() float64
}

// Global is the webhook of all tasks without one of their own.
type Global struct {
	URL   string
	Token string
	// Secret is what signatures v1 are made with: "whsec_" and base64. "": none are.
	Secret string
}

// schedule is dense at first, so that a short outage costs little, and lasts three
// days.
var schedule = []time.Duration{
	500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

func orDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// withDefaults returns the config with its defaults, or all that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Store == nil, "Store is required")
	check(c.NewID == nil, "NewID is required")
	orDefault(&c.Agent, "holdfast")
	orDefault(&c.PerTask, 10)
	orDefault(&c.PerMinute, 100)
	orDefault(&c.InFlight, 512)
	orDefault(&c.PerEndpoint, 8)
	orDefault(&c.PerOwner, 64)
	if c.Memory == nil {
		c.Memory = memory.New(256 << 20)
	}
	orDefault(&c.Timeout, 15*time.Second)
	orDefault(&c.Lease, 30*time.Second)
	orDefault(&c.Poll, time.Second)
	orDefault(&c.KeepAttempts, keepByDefault)
	orDefault(&c.KeepDead, keepByDefault)
	if c.Schedule == nil {
		c.Schedule = schedule
	}
	least := max(2*c.Timeout-5*time.Second, 100*time.Millisecond)
	check(c.Timeout < time.Millisecond, "Timeout is %s, want at least 1ms", c.Timeout)
	check(c.Lease < least, "Lease is %s, want at least %s", c.Lease, least)
	check(!isUserAgent(c.Agent), "Agent is %q, want printable ASCII", c.Agent)
	check(c.Poll <= 0, "Poll is %s, want more than 0", c.Poll)
	check(len(c.Schedule) == 0, "Schedule is empty")
	for i, pause := range c.Schedule {
		check(pause <= 0 || i > 0 && pause < c.Schedule[i-1], "Schedule[%d] is %s, want more than 0 and no less than the one before", i, pause)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"PerTask", c.PerTask}, {"PerMinute", c.PerMinute}, {"InFlight", c.InFlight}, {"PerEndpoint", c.PerEndpoint}, {"PerOwner", c.PerOwner}} {
		check(n.value < 1, "%s is %d, want at least 1", n.name, n.value)
	}
	if len(errs) > 0 {
		return c, fmt.Errorf("push config: %w", errors.Join(errs...))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.random == nil {
		c.random = rand.Float64
	}
	if c.clock == nil {
		c.clock = time.Now
		if shared, ok := c.Store.(store.Clock); ok {
			c.clock = shared.Now
		}
	}
	return c, nil
}
