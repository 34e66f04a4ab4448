package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/webhook"
)

// Config configures a [Server]. Zero fields take the documented default.
type Config struct {
	// Engine executes tasks. Required. The caller starts and stops it.
	Engine *engine.Engine
	// Webhook stores the webhooks of tasks and delivers to them. The caller starts and stops
	// it. If nil, webhooks are not supported.
	Webhook *webhook.Service
	// Card describes the agent. Its Name is required. If its URL is empty, the card has the
	// address to which the request for it was sent. The server sets the protocol version,
	// transport, capabilities and security.
	Card a2a.AgentCard
	// Codecs are the protocol versions that the server supports, the default first. Default:
	// A2A 0.3.
	Codecs []rpc.Codec
	// Authenticator identifies callers, see [NewTokens]. If nil, every caller is the anonymous
	// principal.
	Authenticator Authenticator
	// Interceptors surround every call, for example to measure it. They run before the server
	// authorizes and limits the call.
	Interceptors []rpc.Interceptor
	// Version is the version of the server for operators. Default: Card.Version.
	Version string

	// MaxBody is the maximum size of a request body in bytes. Default 10 MiB.
	MaxBody int64
	// Memory is the budget for request bodies and responses. Default: no limit.
	Memory *memory.Budget
	// FileSlots counts the files that are being fetched, for /health; one unit is one file. It
	// may be nil.
	FileSlots *memory.Budget
	// MaxBatch is the maximum number of requests in a batch. Default 50.
	MaxBatch int
	// MaxBatchBytes is the maximum total size of the responses of a batch. Items that exceed
	// it get an error. Default 32 MiB.
	MaxBatchBytes int64
	// MaxStreams is the maximum number of open streams. With an Authenticator, one owner
	// may have half of them. Default 10,000.
	MaxStreams int
	// MaxLists is the number of lists that the server reads from the store at once, at least
	// 2. One owner may read half of them. Further list requests wait up to 10 s and are then
	// rejected. Default 8.
	MaxLists int
	// ReadCache is the size in bytes of the cache of encoded finished tasks. Reading a cached
	// task neither loads it from the store nor encodes it again. Default 32 MiB. Negative
	// disables the cache.
	ReadCache int64
	// Heartbeat is the maximum time without data on a stream. Default 15 s.
	Heartbeat time.Duration
	// ReadTimeout is the maximum time to receive a request. Default 1 min.
	ReadTimeout time.Duration
	// WriteTimeout is the maximum time to send a response, or the pending events of a stream.
	// Default 30 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection without requests stays open. Default 2 min.
	IdleTimeout time.Duration
	// BlockingTimeout is how long a blocking message/send may wait for its task. After that
	// it returns the task in its current state. Default 5 min.
	BlockingTimeout time.Duration
	// StopGrace is how long requests in progress may take after the server starts to stop.
	// After that, blocking requests return the task in its current state. Default 10 s.
	StopGrace time.Duration

	// CORSOrigins are the web origins from which browsers may call the agent, such as
	// "https://example.com". "*" allows any. Default none.
	CORSOrigins []string
	// Logger receives messages for operators, and requests at debug level. Default: discards
	// them.
	Logger *slog.Logger
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// withDefaults returns c with defaults, or an error that lists all problems of c.
func (c Config) withDefaults() (Config, error) {
	setDefault(&c.Version, c.Card.Version)
	setDefault(&c.MaxBody, 10<<20)
	setDefault(&c.MaxBatch, 50)
	setDefault(&c.MaxBatchBytes, 32<<20)
	setDefault(&c.MaxStreams, 10_000)
	setDefault(&c.MaxLists, 8)
	setDefault(&c.ReadCache, 32<<20)
	setDefault(&c.Heartbeat, 15*time.Second)
	setDefault(&c.ReadTimeout, time.Minute)
	setDefault(&c.WriteTimeout, 30*time.Second)
	setDefault(&c.IdleTimeout, 2*time.Minute)
	setDefault(&c.BlockingTimeout, 5*time.Minute)
	setDefault(&c.StopGrace, 10*time.Second)
	if len(c.Codecs) == 0 {
		c.Codecs = []rpc.Codec{v03.Codec{}}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var errs []error
	check := func(invalid bool, format string, args ...any) {
		if invalid {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Engine == nil, "Engine is required")
	check(c.Card.Name == "", "Card.Name is required")
	if c.Card.URL != "" {
		err := CheckURL(c.Card.URL)
		check(err != nil, "Card.URL: %w", err)
	}
	check(c.MaxBody < 0, "MaxBody is %d, want more than 0", c.MaxBody)
	check(c.MaxBatch < 0, "MaxBatch is %d, want more than 0", c.MaxBatch)
	check(c.MaxBatchBytes < 0, "MaxBatchBytes is %d, want more than 0", c.MaxBatchBytes)
	check(c.MaxLists < 2, "MaxLists is %d, want 2 or more", c.MaxLists)
	check(c.MaxStreams < 0, "MaxStreams is %d, want more than 0", c.MaxStreams)
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"Heartbeat", c.Heartbeat},
		{"ReadTimeout", c.ReadTimeout},
		{"WriteTimeout", c.WriteTimeout},
		{"IdleTimeout", c.IdleTimeout},
		{"BlockingTimeout", c.BlockingTimeout},
		{"StopGrace", c.StopGrace},
	} {
		check(d.d < 0, "%s is %s, want more than 0", d.name, d.d)
	}
	for _, origin := range c.CORSOrigins {
		err := CheckOrigin(origin)
		check(err != nil, "CORSOrigins: %w", err)
	}
	if len(errs) > 0 {
		return c, fmt.Errorf("server config: %w", errors.Join(errs...))
	}
	return c, nil
}

// CheckURL returns an error if text is not a valid URL for an agent card.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("%q is not a URL such as https://agent.example.com/", text)
	}
	return nil
}

// CheckOrigin returns an error if origin is not valid for [Config.CORSOrigins].
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin) {
		return fmt.Errorf("%q is not an origin such as https://example.com", origin)
	}
	return nil
}
