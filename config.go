package holdfast

import (
	"context"
	"crypto"
	"log/slog"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

// Config configures an [Agent]. Only Name is required. Zero fields have the documented
// default. It has many fields because each is one setting.
type Config struct {
	// Name, Description and Version appear on the agent card.
	Name        string
	Description string // default: Name
	Version     string // default "0.0.0"
	// URL is the address at which clients reach the agent, for the agent card. Default: the
	// address to which the request for the card was sent.
	URL string
	// Tenant is the name that clients of A2A 1.0 send with requests, for gateways that serve several
	// agents at one address. It appears on the agent card. The agent accepts requests with any
	// tenant or none: data belongs to principals, not to tenants. Default: none.
	Tenant string
	// Interfaces are further addresses of the agent on its card, such as the address of a gRPC
	// server. Default: none.
	Interfaces []a2a.AgentInterface
	// Provider appears on the agent card. The card has no provider if it is nil.
	Provider *a2a.AgentProvider
	// Skills appear on the agent card. Default: one skill with the agent's name.
	Skills []a2a.AgentSkill
	// Extensions of the protocol that the agent adds appear on the agent card. Calls that do not
	// list a required one are rejected.
	Extensions []a2a.AgentExtension
	// InputModes and OutputModes are the media types that the agent accepts and produces.
	// Messages with a part that neither InputModes nor a skill's InputModes match are rejected;
	// "*/*" accepts all. Default "text/plain" each.
	InputModes, OutputModes []string

	// Admit, if not nil, decides whether a message is accepted, before anything is stored, for
	// example by its contextId or its sender. The message has the ids that the client sent, and
	// must not be modified. To reject it, return an error of package a2a, such as
	// a2a.Invalid("message.contextId", "is unknown"). The client gets any other error as an
	// internal error. A message that repeats an accepted one gets the first response in any case.
	Admit func(ctx context.Context, p a2a.Principal, m a2a.Message) error

	// Store holds all durable data. The caller closes it. Default: a SQLite file in DataDir,
	// which the Agent closes.
	Store store.Store
	// Contracts are other stores for transcripts, facts, blobs and states than Store. The caller
	// closes them. Default: Store stores them.
	Contracts engine.Contracts
	// DataDir is the directory of the default store. Default "holdfast-data".
	DataDir string

	// Tokens are the accepted bearer tokens and the principals that they authenticate. If
	// empty, every caller is the anonymous principal.
	Tokens []server.Token
	// Authenticator identifies callers in another way than by Tokens, such as by JSON web tokens
	// or client certificates. It must not be set together with Tokens.
	Authenticator server.Authenticator
	// Interceptors surround every call of every transport, for example to count and time calls by
	// method. They run before the call is authorized and limited. Default: none.
	Interceptors []rpc.Interceptor

	// Dialect is the JSON format of results: "a2a" as the protocol specifies, or "bindu",
	// with member names in snake_case, for clients of agents made with Bindu. The agent
	// accepts requests in both. Default "a2a".
	Dialect string
	// HTTPErrors is the patch version of A2A 1.0 that determines the HTTP statuses of errors over
	// HTTP+JSON: "1.0.1", or "1.0.0", which has 409 for a task that cannot be canceled, 415 for a
	// media type and 502 for an invalid response of an agent. Over gRPC, errors of 1.0.0 have the
	// status UNIMPLEMENTED for unsupported operations and versions. Default "1.0.1".
	HTTPErrors string

	// Concurrency is the maximum number of turns that run at once. Default 256.
	Concurrency int
	// ReservedTurns is the part of Concurrency that is reserved for principals that run few
	// turns: a principal that runs ReservedTurns/8 or more turns gets none of them. It must
	// be less than Concurrency. Negative reserves none. Default: a quarter of Concurrency
	// with Tokens or an Authenticator, otherwise none.
	ReservedTurns int
	// TaskTimeout is the maximum duration of a turn. Default 1 h. Negative means no limit.
	TaskTimeout time.Duration
	// MaxAttempts is the maximum number of attempts of a turn; then its task fails. Default 5.
	MaxAttempts int
	// RetryDelay is the delay before the second attempt of a turn. It doubles with each
	// further attempt, up to a minute. Default 1 s.
	RetryDelay time.Duration
	// Lease is how long a process may hold a task without renewing its lease. If the process
	// dies, another process can claim the task after this time. Default 15 s.
	Lease time.Duration
	// FlushInterval is how long progress updates and artifact chunks may wait to be
	// committed together. Default 20 ms.
	FlushInterval time.Duration
	// StopGrace is how long running handlers may take to return after the agent starts to
	// stop. After that their contexts are canceled and their tasks requeued. Default 10 s.
	StopGrace time.Duration `default:"10s" min:"1ns"`
	// HandlerGrace is how long a handler may take to return after its context is done. After
	// that the agent abandons it. Default 5 s.
	HandlerGrace time.Duration
	// Retention is how long data is kept, by kind, such as {"completed": 90 * 24 * time.Hour}.
	// Default: tasks and described contexts are kept, everything else for 30 days.
	Retention engine.Retention
	// Limits bound the requests of callers and handlers.
	Limits engine.Limits

	// Memory is the number of bytes of memory that the process may use, at least 64 MiB.
	// Half of it is the budget for large data: requests, responses, tasks, webhook bodies,
	// files, and the content of running turns. One principal may hold half of the budget. A
	// request that needs more waits up to 10 s and is then rejected (429). The other half is
	// for small data and garbage, so a program should also pass Memory to
	// [runtime/debug.SetMemoryLimit], as "holdfast serve" does. Default: three quarters of
	// the cgroup's limit or of the machine's memory, or 1 GiB if neither is known.
	Memory int64 `min:"64MiB"`
	// MaxBodyBytes is the maximum size of a request body. Default 10 MiB.
	MaxBodyBytes int64
	// MaxLists is the number of lists that the agent reads from the store at once, at least
	// 2. One principal may read half of them. Further list requests wait up to 10 s and are
	// then rejected. Default 8.
	MaxLists int
	// MaxStreams is the maximum number of open streams. With Tokens or an
	// Authenticator, one principal may have half of them. Default 10,000.
	MaxStreams int
	// MaxBatchBytes is the maximum total size of the responses of a batch. Items that exceed
	// it get an error. Default 32 MiB.
	MaxBatchBytes int64
	// ReadCacheBytes is the size of the cache of encoded finished tasks. Reading a cached task
	// again neither loads its content from the store nor encodes it. Negative disables the
	// cache. Default 32 MiB, at most 1/16 of Memory.
	ReadCacheBytes int64
	// BlockingTimeout is how long a blocking message/send may wait for its task, and a GetTask of A2A
	// 1.1 for a later generation. After that it returns the task in its current state. Default 5 min.
	BlockingTimeout time.Duration
	// MessageWait is how long a stream that starts a task waits, before its first item, for a
	// handler that answers with [Turn.Say]. The wait ends earlier when the handler reports a
	// status or an artifact, or ends its turn; then the stream starts with the task. Set it, such
	// as to 1 s, for a handler that uses Say. Default 0: streams start with the task at once.
	MessageWait time.Duration
	// CORSOrigins are the web origins from which browsers may call the agent. "*" allows any.
	// Default none.
	CORSOrigins []string
	// TrustedProxies are the networks ("10.1.0.0/16") and addresses of proxies that set X-Forwarded-Proto,
	// X-Forwarded-Host and X-Forwarded-Prefix. Without a URL, the agent card and links to files have the
	// address that these headers of a request name. Default none: the headers have no effect.
	TrustedProxies []string

	// ExtendedCard returns the agent card of an authenticated caller, for example with more skills
	// than the public one, or nil if the caller has none. card is a copy of the public card. The
	// agent sets the interfaces of the result. It needs Tokens or an Authenticator and must be
	// safe for concurrent use. Default: no extended card.
	ExtendedCard func(ctx context.Context, caller a2a.Principal, card a2a.AgentCard) (*a2a.AgentCard, error)

	// CardKeys are Ed25519 keys, ECDSA keys on P-256, or RSA keys of 2048 to 8192 bits. The first signs
	// the agent card. The key set at /.well-known/jwks.json has all, so that cards that the others
	// signed remain valid. All replicas must have the same keys. Default: the card is not signed.
	CardKeys []crypto.Signer

	// StreamingOff rejects message/stream and tasks/resubscribe, and the agent card declares no
	// streaming, for example behind a proxy that buffers responses.
	StreamingOff bool
	// JSONErrors makes the error of a call over JSON-RPC a JSON response in every case, as the
	// official kit for A2A 1.0 requires. By default the error of a streaming method is an event if
	// the client accepts only events: the official client in Go reads no other errors.
	JSONErrors bool

	// Webhooks configures the delivery of task events to webhooks, which is on by default.
	Webhooks Webhooks

	// Files configures how [Turn.ReadFile] fetches files that messages name by URI.
	Files Files

	// Logger receives messages for operators. Default: discards them.
	Logger *slog.Logger
}

// Webhooks configures the delivery of task events to the URLs that clients register. Zero
// fields have the documented default.
type Webhooks struct {
	// Off rejects new webhooks and pauses delivery to registered ones.
	Off bool

	// URL receives the events of every task that has no webhook of its own. Requests carry
	// Token as bearer token and are signed with Secret ("whsec_" and the base64 encoding of
	// 24 to 64 bytes). Default: none.
	URL, Token, Secret string

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

	// UserAgent is the User-Agent header, as "name/version". Default: "holdfast" and the version
	// of this module.
	UserAgent string

	// Keys encrypt the secrets of webhooks in the store; each has 32 bytes. The first key
	// encrypts new secrets, and all keys can decrypt. Default: secrets are stored
	// unencrypted.
	Keys [][]byte

	// Format is the format of the requests to URL, and to webhooks without a format in their
	// registration: "event", "task" (the task, as A2A 0.3 describes it) or "stream-response"
	// (A2A 1.0). Registrations by A2A 1.0 get "stream-response" in any case. Default "event".
	Format a2a.PayloadFormat
	// PerTask is the maximum number of webhooks of a task, default 10. PerMinute is the
	// number of webhooks that a principal may save per minute, default 100.
	PerTask, PerMinute int
	// InFlight is the maximum number of concurrent requests, default 512. PerEndpoint limits
	// those to one scheme, host and port, default 8. PerOwner limits those for one
	// principal, default 64.
	InFlight, PerEndpoint, PerOwner int
	// PerAddress limits the concurrent requests to one public IP address regardless of host
	// names. Default 8.
	PerAddress int `default:"8" min:"1" max:"100000"`
	// Timeout is the maximum duration of a request. Default 15 s.
	Timeout time.Duration
	// Lease is how long a process may hold a webhook without renewing its lease. If the
	// process dies or hangs, another process continues the delivery after this time. The
	// minimum is 2*Timeout - 5 s, and 100 ms. Default 30 s, or twice Timeout if that is longer.
	Lease time.Duration
}

// Files configures how [Turn.ReadFile] fetches files by URI. Only hosts on the public
// internet can be reached, as for webhooks. RequireHTTPS, NAT64, EgressProxy and the user
// agent of [Webhooks] apply here too. Zero fields have the documented default.
type Files struct {
	// Off disables fetching.
	Off bool
	// AllowNets and AllowHosts have the same format as in [Webhooks]. They are separate
	// because they risk more: the content of a file may reach the client that named it. New
	// logs a warning if they are set. Default: none.
	AllowNets, AllowHosts []string
	// MaxBytes is the maximum size of a file. Default 10 MiB.
	MaxBytes int64 `default:"10MiB" min:"1"`
	// Concurrency is the maximum number of concurrent fetches. Further ones wait. With Tokens
	// or an Authenticator it must be at least 2, and one principal may use half of them. Default 64.
	Concurrency int `default:"64" min:"1"`
	// Timeout is the maximum duration of a fetch. Default 30 s.
	Timeout time.Duration `default:"30s" min:"1ns"`

	// InlineBytes is the maximum size of a file that clients and webhooks get within a response.
	// They get larger files as links. Files up to 64 KiB are always within the response. Default
	// 1 MiB. Negative makes all files above 64 KiB links.
	InlineBytes int64 `default:"1MiB"`
	// LinkTTL is how long a link to a file is valid. Default 1 h.
	LinkTTL time.Duration `default:"1h" min:"1s"`
}
