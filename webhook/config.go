package webhook

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// Sender makes HTTP requests. *safehttp.Client implements it; tests replace it.
type Sender interface {
	// Post makes one request. It returns when ctx is done at the latest. Errors are of
	// type *safehttp.Error.
	Post(ctx context.Context, r safehttp.Request) (safehttp.Response, error)
	// Check returns a *safehttp.Refusal if the URL must not be registered. It checks the
	// addresses of the host too, unless the name lookup is slow.
	Check(ctx context.Context, rawURL string) error
}

// Config configures a Service. Zero fields have the documented default.
type Config struct {
	Settings

	// Store holds tasks, webhooks and delivery state. Required.
	Store Store
	// NewID returns a new unique id. Ids should sort by time (UUIDv7). Required.
	NewID func() string
	// Sender makes the requests. Default: a safehttp.Client that applies the Settings.
	Sender Sender
	// Logger receives log records for operators. Default: discard.
	Logger *slog.Logger
	// Memory is the budget for request bodies and the events they are built from. It is
	// charged to the owner of the task. A lane waits while no memory is free. An event that
	// needs more than the share of one owner becomes a dead letter. Default: 256 MiB.
	Memory *memory.Budget
	// KeepAttempts and KeepDead are the retention of delivery attempts and dead letters. Attempts
	// and dead letters are also removed with their webhook. Default 30 days; negative disables
	// expiry.
	KeepAttempts time.Duration `default:"720h"`
	KeepDead     time.Duration `default:"720h"`
	// Files has the files of tasks that are stored as blobs. It may be nil if there are none.
	Files *fileref.Files
	// URL is the address of the agent for links to files. Default: links are relative to that
	// address, such as /blobs/REF?....
	URL string

	// clock returns the wall-clock time, random a number in [0, 1). Tests replace them.
	clock  func() time.Time
	random func() float64
}

// Settings configures the delivery of task events to webhooks. Zero fields have the documented
// default.
type Settings struct {
	// Off rejects new webhooks and pauses delivery to registered ones: [New] returns no Service.
	Off bool
	// Global receives the events of all tasks that have no webhook of their own. An
	// empty URL disables it.
	Global Global
	// Keys encrypt the secrets of webhooks in the store. The first key encrypts, all keys
	// decrypt. Each has 32 bytes. Without keys, secrets are stored in plain text.
	Keys [][]byte
	// Format is the format of the requests to webhooks without a PayloadFormat, and to the
	// global webhook: "event", "task" (the task, as A2A 0.3 describes it) or "stream-response"
	// (A2A 1.0). Registrations by A2A 1.0 get "stream-response" in any case. Default
	// [a2a.PayloadEvent].
	Format a2a.PayloadFormat

	// AllowNets are networks ("10.1.0.0/16") and AllowHosts are hosts with a port
	// ("localhost:8888") that webhooks may use although their addresses are not public.
	// Everyone who can send a message can cause requests to them, so New logs a warning.
	// Default: none.
	AllowNets, AllowHosts []string
	// RequireHTTPS rejects URLs with a scheme other than https.
	RequireHTTPS bool
	// NAT64 are prefixes of IPv6 addresses that embed IPv4 addresses (RFC 6052) in the network
	// of the agent. The embedded address is checked. Default: none.
	NAT64 []string
	// EgressProxy is the URL of an HTTP proxy for all requests. Default: none. The proxy
	// variables of the environment are ignored.
	EgressProxy string
	// UserAgent is the value of the User-Agent header, in printable ASCII, as "name/version";
	// see [UserAgent]. Default "holdfast", in an Agent with the version of this module.
	UserAgent string

	// Limits limits the webhooks and their requests.
	Limits Limits
	// Timeout is the maximum duration of a delivery attempt. Default 15 s.
	Timeout time.Duration `default:"15s" min:"1ms"`
	// Lease is how long this process may hold a lane without renewing its lease. If the process
	// dies or hangs, another process continues the delivery after this time. The minimum is
	// 2*Timeout - 5 s, and 100 ms. Default 30 s, or twice Timeout if that is longer.
	Lease time.Duration
	// Poll is the interval at which the service checks for due lanes that no notification
	// announced. Default 1 s.
	Poll time.Duration `default:"1s" min:"1ns"`
	// Schedule lists the backoff after each failed attempt, to which a jitter of 20 % is applied.
	// After the last attempt the lane is parked. Default: 20 attempts over three days.
	Schedule []time.Duration
}

// Limits limits webhooks and their requests. Zero fields have the documented default.
type Limits struct {
	// PerTask is the maximum number of webhooks of a task. Default 10.
	PerTask int `default:"10" min:"1" max:"100000"`
	// PerMinute is the maximum number of webhooks that an owner may save in a minute.
	// Default 100.
	PerMinute int `default:"100" min:"1"`
	// InFlight, PerEndpoint and PerOwner limit concurrent requests: in total, to one
	// endpoint, and of one owner. One owner uses at most seven eighths of PerEndpoint.
	// Defaults 512, 8, 64.
	InFlight    int `default:"512" min:"1" max:"100000"`
	PerEndpoint int `default:"8" min:"1" max:"100000"`
	PerOwner    int `default:"64" min:"1" max:"100000"`
	// PerAddress limits the concurrent requests to one public IP address regardless of host
	// names. Default 8.
	PerAddress int `default:"8" min:"1" max:"100000"`
}

// Global configures the webhook for all tasks that have no webhook of their own.
type Global struct {
	URL   string
	Token string
	// Secret is the key of v1 signatures: "whsec_" followed by base64. If empty, requests
	// are not signed.
	Secret string
}

// defaultSchedule retries quickly at first, which keeps the delay after a short outage
// small, and lasts three days.
var defaultSchedule = []time.Duration{
	500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// Check returns an error that lists all invalid settings. It does not check Store and NewID.
func (c Config) Check() error {
	_, e := c.settings()
	return e.OrNil()
}

// settings returns the config with defaults applied to its settings, and the invalid settings.
func (c Config) settings() (Config, *config.Error) {
	e := config.Apply("webhook", &c)
	if c.UserAgent == "" {
		c.UserAgent = "holdfast"
	}
	if c.Schedule == nil {
		c.Schedule = defaultSchedule
	}
	c.Lease = cmp.Or(c.Lease, max(30*time.Second, 2*c.Timeout))
	minLease := max(2*c.Timeout-5*time.Second, 100*time.Millisecond)
	e.Reject(c.Lease < minLease, "Settings.Lease", c.Lease, "%s or more", minLease)
	e.Reject(!isUserAgent(c.UserAgent), "Settings.UserAgent", c.UserAgent, "printable ASCII")
	e.Require(len(c.Schedule) == 0, "Settings.Schedule")
	for i, pause := range c.Schedule {
		e.Reject(pause <= 0 || i > 0 && pause < c.Schedule[i-1], fmt.Sprintf("Settings.Schedule[%d]", i), pause, "more than 0 and no less than the previous value")
	}
	e.Reject(c.Format != "" && !slices.Contains(c.Format.EnumValues(), string(c.Format)), "Settings.Format", c.Format, "one of %s", strings.Join(c.Format.EnumValues(), ", "))
	c.Global.check(e, c.policy(e))
	_, err := safehttp.ParseProxy(c.EgressProxy)
	e.Add("Settings.EgressProxy", err)
	_, err = newSealer(c.Keys)
	e.Add("Settings.Keys", err)
	return c, e
}

// policy returns the addresses that webhooks may have: public ones, and the allowed ones. It adds
// the problems of the settings to e.
func (s *Settings) policy(e *config.Error) safehttp.Policy {
	parse := func(field string, params safehttp.PolicyParams) safehttp.Policy {
		policy, err := safehttp.ParsePolicy(params)
		e.Add("Settings."+field, err)
		return policy
	}
	return safehttp.Policy{
		AllowNets:    parse("AllowNets", safehttp.PolicyParams{AllowNets: s.AllowNets}).AllowNets,
		AllowHosts:   parse("AllowHosts", safehttp.PolicyParams{AllowHosts: s.AllowHosts}).AllowHosts,
		NAT64:        parse("NAT64", safehttp.PolicyParams{NAT64: s.NAT64}).NAT64,
		RequireHTTPS: s.RequireHTTPS,
	}
}

// check adds the problems of the global webhook to e. Their texts contain neither the token
// nor the secret.
func (g *Global) check(e *config.Error, policy safehttp.Policy) {
	if g.URL != "" {
		_, err := policy.CheckURL(g.URL)
		e.Add("Settings.Global.URL", err)
	}
	if err := validateSecret(g.Token); err != nil {
		e.Reject(true, "Settings.Global.Token", nil, "%s", err)
	}
	if g.Secret != "" {
		if _, err := decodeSecret(g.Secret); err != nil {
			e.Reject(true, "Settings.Global.Secret", nil, "%s", err)
		}
	}
}

// withDefaults returns the config with defaults applied, or an error with all problems.
func (c Config) withDefaults() (Config, error) {
	c, e := c.settings()
	e.Require(c.Store == nil, "Store")
	e.Require(c.NewID == nil, "NewID")
	if err := e.OrNil(); err != nil {
		return c, err
	}
	if c.Memory == nil {
		c.Memory = memory.New(256 << 20)
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
