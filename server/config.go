package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/push"
	"github.com/holdfast-dev/holdfast/rpc"
)

// Config is what a Server is made of. Zero fields take the documented default.
type Config struct {
	// Engine does the work. Required; the caller starts and stops it.
	Engine *engine.Engine
	// Push keeps the webhooks of tasks and delivers to them; the caller starts and stops
	// it. nil: there are none.
	Push *push.Service
	// Card describes the agent. Name is required. An empty URL is told as the
	// address a request came to; the protocol's version, transport, capabilities and
	// security are filled in by the server.
	Card a2a.AgentCard
	// Dialect is how answers are spelled. Default [rpc.A2A].
	Dialect rpc.Dialect
	// Tokens are the bearer tokens that callers must present. Empty: everybody is
	// the anonymous principal.
	Tokens []Token
	// Version is the server's own version, told to operators. Default: Card.Version.
	Version string

	// MaxBody is the largest request body in bytes. Default 10 MiB.
	MaxBody int64
	// Memory is the budget that request bodies and responses draw from. Default: no limit.
	Memory *memory.Budget
	// Files has a byte for each file that is fetched, for /health. nil: there are none.
	Files *memory.Budget
	// MaxBatch is how many requests a batch may have. Default 50.
	MaxBatch int
	// MaxBatchBytes is how large the responses of a batch may be together; items beyond
	// it get an error. Default 32 MiB.
	MaxBatchBytes int64
	// MaxStreams is how many streams may be open at once. With tokens, one owner may have
	// half of them. Default 10,000.
	MaxStreams int
	// MaxLists is how many lists are read from the store at once, at least 2; one owner
	// may read half of them. Others wait for 10 seconds and are refused then. Default 8.
	MaxLists int
	// ReadCache is the number of bytes of encoded tasks kept in memory, so that those that are
	// over are neither read from the store nor encoded again. Default 32 MiB; negative keeps none.
	ReadCache int64
	// Heartbeat is the longest silence on a stream. Default 15 s.
	Heartbeat time.Duration
	// ReadTimeout is how long a request may take to arrive. Default 1 min.
	ReadTimeout time.Duration
	// WriteTimeout is how long a client may take to accept an answer, or what is
	// ready of a stream. Default 30 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection is kept without a request. Default 2 min.
	IdleTimeout time.Duration
	// BlockingTimeout is how long a blocking message/send is held before it is
	// answered with the task as it stands. Default 5 min.
	BlockingTimeout time.Duration
	// StopGrace is how long requests under way may take when the server stops. Then
	// blocking ones are answered with the task as it stands. Default 10 s.
	StopGrace time.Duration

	// CORSOrigins are the web origins whose pages may call the agent, such as
	// "https://example.com"; "*" is any. Default none.
	CORSOrigins []string
	// Logger gets what operators should know; requests at debug level. Default:
	// discards.
	Logger *slog.Logger
}

// Token is a bearer token and the principal it stands for.
type Token struct {
	Token     string
	Principal a2a.Principal
}

// String hides the token from logs.
func (t Token) String() string { return "token of " + t.Principal.ID }

// GoString hides the token from logs.
func (t Token) GoString() string { return t.String() }

// LogValue hides the token from logs.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

func orDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// withDefaults returns the config with its defaults, or all that is wrong with
// it.
func (c Config) withDefaults() (Config, error) {
	orDefault(&c.Version, c.Card.Version)
	orDefault(&c.Dialect, rpc.A2A)
	orDefault(&c.MaxBody, 10<<20)
	orDefault(&c.MaxBatch, 50)
	orDefault(&c.MaxBatchBytes, 32<<20)
	orDefault(&c.MaxStreams, 10_000)
	orDefault(&c.MaxLists, 8)
	orDefault(&c.ReadCache, 32<<20)
	orDefault(&c.Heartbeat, 15*time.Second)
	orDefault(&c.ReadTimeout, time.Minute)
	orDefault(&c.WriteTimeout, 30*time.Second)
	orDefault(&c.IdleTimeout, 2*time.Minute)
	orDefault(&c.BlockingTimeout, 5*time.Minute)
	orDefault(&c.StopGrace, 10*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Engine == nil, "Engine is required")
	check(c.Card.Name == "", "Card.Name is required")
	if c.Card.URL != "" {
		err := CheckURL(c.Card.URL)
		check(err != nil, "Card.URL: %w", err)
	}
	check(!slices.Contains(rpc.Dialects(), c.Dialect), "Dialect is %q, want one of %q", c.Dialect, rpc.Dialects())
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
	errs = append(errs, checkTokens(c.Tokens)...)
	for _, origin := range c.CORSOrigins {
		err := CheckOrigin(origin)
		check(err != nil, "CORSOrigins: %w", err)
	}
	if len(errs) > 0 {
		return c, fmt.Errorf("server config: %w", errors.Join(errs...))
	}
	return c, nil
}

// CheckURL checks a URL for an agent card.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("want a URL such as https://agent.example.com/, but got %q", text)
	}
	return nil
}

// CheckOrigin checks an item of [Config.CORSOrigins].
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin) {
		return fmt.Errorf("want an origin such as https://example.com, but got %q", origin)
	}
	return nil
}

// checkTokens says what is wrong with tokens, without telling any.
func checkTokens(tokens []Token) (errs []error) {
	seen := make(map[string]int, len(tokens))
	for i, t := range tokens {
		if t.Token == "" || strings.ContainsFunc(t.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			errs = append(errs, fmt.Errorf("Tokens[%d]: the token must be printable ASCII without spaces, and not empty", i))
		}
		if t.Principal.ID == "" {
			errs = append(errs, fmt.Errorf("Tokens[%d]: Principal.ID is required", i))
		}
		if first, ok := seen[t.Token]; ok {
			errs = append(errs, fmt.Errorf("Tokens[%d] is the same token as Tokens[%d]", i, first))
		}
		seen[t.Token] = i
	}
	return errs
}
