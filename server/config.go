package server

import (
	"cmp"
	"context"
	"crypto"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/cardsig"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/webhook"
)

// Config configures a [Server]. Zero fields have the documented default.
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
	// A2A 0.3 and 1.0.
	Codecs []rpc.Codec
	// Security configures how callers and the agent prove who they are.
	Security Security
	// Requests configures how requests are served.
	Requests Requests
	// Version is the version of the server for operators. Default: Card.Version.
	Version string
	// Memory is the budget for request bodies and responses. Default: no limit.
	Memory *memory.Budget
	// FileSlots counts the files that are being fetched, for /health; one unit is one file. It
	// may be nil.
	FileSlots *memory.Budget
	// StopGrace is how long requests in progress may take after the server starts to stop.
	// After that, blocking requests return the task in its current state. Default 10 s.
	StopGrace time.Duration `default:"10s" min:"1ns"`
	// Logger receives messages for operators, and requests at debug level. Default: discards
	// them.
	Logger *slog.Logger
}

// Security configures how callers and the agent prove who they are, and which web pages and
// proxies are trusted. Zero fields have the documented default.
type Security struct {
	// Authenticator identifies callers, for example by bearer tokens (see [NewTokens]), JSON web
	// tokens or client certificates. If nil, every caller is the anonymous principal.
	Authenticator Authenticator
	// Authorizer decides which calls a caller may make. Default: a caller may make the calls that its scopes cover,
	// and act for no other owner.
	Authorizer Authorizer
	// ExtendedCard returns the agent card of an authenticated caller, for example with more skills
	// than the public one, or nil if the caller has none. card is a copy of the public card. The
	// server sets the interfaces of the result. It needs an Authenticator and must be safe for
	// concurrent use. If nil, the agent has no extended card.
	ExtendedCard func(ctx context.Context, caller a2a.Principal, card a2a.AgentCard) (*a2a.AgentCard, error)
	// Warnings are texts for operators about how the agent is exposed; /health shows them. Default none.
	Warnings []string
	// Routes are public paths beside the server's own paths, such as /.well-known/did.json. Default none.
	Routes []Route
	// CardKeys are Ed25519 keys, ECDSA keys on P-256, or RSA keys of 2048 to 8192 bits. The first key signs the agent
	// cards. The key set at /.well-known/jwks.json contains all keys, so that cards that the other keys signed remain
	// valid. All replicas must have the same keys. Default: cards are not signed.
	CardKeys []crypto.Signer
	// CORSOrigins are the web origins from which browsers may call the agent, such as
	// "https://example.com". "*" allows any. Default none.
	CORSOrigins []string
	// TrustedProxies are the networks ("10.1.0.0/16") and addresses of proxies that set X-Forwarded-Proto,
	// X-Forwarded-Host and X-Forwarded-Prefix. Without a Card.URL, cards and links to files have the
	// address that these headers of a request name. Default none: the headers have no effect.
	TrustedProxies []string
}

// Requests configures how requests are served. Zero fields have the documented default.
type Requests struct {
	// Interceptors surround every call of every transport, for example to count and time calls by
	// method. They run before the server authorizes and limits the call. Default: none.
	Interceptors []rpc.Interceptor
	// StreamingOff rejects the streaming methods, and the agent card declares no streaming, for
	// example behind a proxy that buffers responses.
	StreamingOff bool
	// JSONErrors makes the error of a call over JSON-RPC a JSON response in every case, as the
	// official kit for A2A 1.0 requires. By default the error of a streaming method is an event if
	// the client accepts only events: the official client in Go reads no other errors.
	JSONErrors bool

	// MaxBodyBytes is the maximum size of a request body in bytes. Default 10 MiB.
	MaxBodyBytes int64 `default:"10MiB" min:"1"`
	// MaxBatch is the maximum number of requests in a batch. Default 50.
	MaxBatch int `default:"50" min:"1"`
	// MaxBatchBytes is the maximum total size of the responses of a batch. Items that exceed
	// it get an error. Default 32 MiB.
	MaxBatchBytes int64 `default:"32MiB" min:"1"`
	// MaxStreams is the maximum number of open streams. With an Authenticator, one owner
	// may have half of them. Default 10,000.
	MaxStreams int `default:"10000" min:"1"`
	// MaxLists is the number of lists that the server reads from the store at once, at least
	// 2. One owner may read half of them. Further list requests wait up to 10 s and are then
	// rejected. Default 8.
	MaxLists int `default:"8" min:"2"`
	// ReadCacheBytes is the size in bytes of the cache of encoded finished tasks. Reading a cached
	// task neither loads it from the store nor encodes it again. Negative disables the cache.
	// Default 32 MiB, but at most 1/8 of the budget [Config.Memory], which is 1/16 of the memory of
	// an Agent's process.
	ReadCacheBytes int64

	// BlockingTimeout is how long a blocking message/send may wait for its task, and a GetTask of A2A
	// 1.1 for a later generation. After that it returns the task in its current state. Default 5 min.
	BlockingTimeout time.Duration `default:"5m" min:"1ns"`
	// MessageWait is how long a stream that starts a task waits, before its first item, for a
	// handler that answers with a message alone; see [engine.Turn.Say]. The wait ends earlier when
	// the handler reports a status or an artifact, or ends its turn; then the stream starts with the
	// task. Set it, such as to 1 s, for a handler that uses Say. Default 0: streams start with the
	// task at once.
	MessageWait time.Duration `min:"0s"`
	// Heartbeat is the maximum time without data on a stream. Default 15 s.
	Heartbeat time.Duration `default:"15s" min:"1ns"`
	// ReadTimeout is the maximum time to receive a request. Default 1 min.
	ReadTimeout time.Duration `default:"1m" min:"1ns"`
	// WriteTimeout is the maximum time to send a response, or the pending events of a stream.
	// Default 30 s.
	WriteTimeout time.Duration `default:"30s" min:"1ns"`
	// IdleTimeout is how long a connection without requests stays open. Default 2 min.
	IdleTimeout time.Duration `default:"2m" min:"1ns"`
}

// Check returns an error that lists all invalid settings. It does not check Engine and the card's name.
func (c Config) Check() error {
	_, e := c.settings()
	return e.OrNil()
}

// settings returns c with the defaults of its settings, and their problems.
func (c Config) settings() (Config, *config.Error) {
	e := config.Apply("server", &c)
	if c.Version == "" {
		c.Version = c.Card.Version
	}
	if len(c.Codecs) == 0 {
		c.Codecs = []rpc.Codec{v03.Codec{}, v10.Codec{}}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Security.Authorizer == nil {
		c.Security.Authorizer = scopes{}
	}
	c.Requests.ReadCacheBytes = cmp.Or(c.Requests.ReadCacheBytes, memory.ReadCache(c.Memory))
	e.Reject(c.Security.ExtendedCard != nil && c.Security.Authenticator == nil, "Security.ExtendedCard", nil, "requires an Authenticator")
	if len(c.Security.CardKeys) > 0 {
		_, err := cardsig.NewSigner(c.Security.CardKeys)
		e.Add("Security.CardKeys", err)
	}
	if c.Card.URL != "" {
		e.Add("Card.URL", checkURL(c.Card.URL))
	}
	for _, origin := range c.Security.CORSOrigins {
		e.Add("Security.CORSOrigins", checkOrigin(origin))
	}
	_, err := newProxies(&c)
	e.Add("Security.TrustedProxies", err)
	return c, e
}

// withDefaults returns c with defaults, or an error that lists all problems of c.
func (c Config) withDefaults() (Config, error) {
	c, e := c.settings()
	e.Require(c.Engine == nil, "Engine")
	e.Require(c.Card.Name == "", "Card.Name")
	return c, e.OrNil()
}

// checkURL returns an error if text is not a valid URL for an agent card.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("%q is not a URL such as https://agent.example.com/", text)
	}
	return nil
}

// checkOrigin returns an error if origin is not valid for [Security.CORSOrigins].
func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin) {
		return fmt.Errorf("%q is not an origin such as https://example.com", origin)
	}
	return nil
}
