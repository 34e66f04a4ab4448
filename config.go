package holdfast

import (
	"log/slog"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// Config is what an Agent is made of. Only Name is required; zero fields take
// the documented default.
type Config struct {
	// Name, Description and Version are told on the agent card.
	Name        string
	Description string // default: Name
	Version     string // default "0.0.0"
	// URL is the address clients reach the agent at, told on the card. Default:
	// the address the request for the card came to.
	URL string
	// Provider is told on the card; nil leaves it out.
	Provider *a2a.AgentProvider
	// Skills are told on the card. Default: one skill with the agent's name.
	Skills []a2a.AgentSkill
	// InputModes and OutputModes are the media types taken and produced. Default
	// "text/plain" each.
	InputModes, OutputModes []string

	// Store keeps everything; the caller closes it. Default: a SQLite file in
	// DataDir, closed by the Agent.
	Store store.Store
	// DataDir is where the default store keeps its file. Default "holdfast-data".
	DataDir string

	// Tokens are the bearer tokens that callers must present, and whom they stand
	// for. Empty: everybody is let in as the anonymous principal.
	Tokens []Token

	// Dialect is how answers are spelled: "a2a", as the protocol says, or "bindu", for
	// clients of agents made with Bindu, with results in snake_case. Requests are read in
	// either spelling. Default "a2a".
	Dialect string

	// Concurrency is how many turns run at once. Default 256.
	Concurrency int
	// ReservedTurns is how many of these are kept for principals that run few: one that runs an eighth of
	// ReservedTurns or more gets none of them. Less than Concurrency; negative: none. Default: a
	// quarter of Concurrency with Tokens, else none.
	ReservedTurns int
	// TaskTimeout is the longest a turn may run. Default 1 h; negative is no limit.
	TaskTimeout time.Duration
	// MaxAttempts is how often a turn is begun before its task fails. Default 5.
	MaxAttempts int
	// RetryDelay is the pause before a second attempt; it doubles with each, up to
	// a minute. Default 1 s.
	RetryDelay time.Duration
	// Lease is how long a task of a process that died waits for another. Default
	// 15 s.
	Lease time.Duration
	// FlushInterval is how long progress and chunks may wait for others to be
	// committed with. Default 20 ms.
	FlushInterval time.Duration
	// StopGrace is how long running handlers may take to finish when the agent
	// stops, before they are told to return and their tasks are handed back.
	// Default 10 s.
	StopGrace time.Duration
	// HandlerGrace is how long a handler may take to return once its context is
	// done, before it is left behind. Default 5 s.
	HandlerGrace time.Duration
	// Retention is how long data is kept, such as {"completed": 90 * 24 * time.Hour}.
	// Default: tasks and described contexts are kept, the rest for 30 days.
	Retention engine.Retention
	// Limits bound what callers and handlers may ask for.
	Limits engine.Limits

	// Memory is how many bytes of memory the process may use. Half of them is for what is
	// large: requests and responses, tasks, webhook bodies, files, the content of running
	// turns; one principal may hold half of that. Whoever needs more waits up to 10 s and
	// is refused then (429). The rest is for garbage and all that is small: a program
	// should also give Memory to [runtime/debug.SetMemoryLimit], as holdfast serve does.
	// At least 64 MiB. Default: three quarters of the limit of the cgroup or of the
	// machine's memory, or 1 GiB where neither is known.
	Memory int64
	// MaxBodyBytes is the largest request taken. Default 10 MiB.
	MaxBodyBytes int64
	// MaxLists is how many lists are read from the store at once, at least 2; one
	// principal may read half of them. Others wait for 10 seconds and are refused then.
	// Default 8.
	MaxLists int
	// MaxStreams is how many streams may be open at once. With tokens, one
	// principal may have half of them. Default 10,000.
	MaxStreams int
	// MaxBatchBytes is how large the responses of a batch may be together; items beyond it
	// get an error. Default 32 MiB.
	MaxBatchBytes int64
	// ReadCacheBytes is how much memory is used to keep finished tasks as they were encoded for
	// responses, so that reading them again needs neither their content from the store nor
	// another encoding. Negative keeps none. Default 32 MiB, at most 1/16 of Memory.
	ReadCacheBytes int64
	// BlockingTimeout is how long a blocking message/send is held at most, before
	// it is answered with the task as it stands. Default 5 min.
	BlockingTimeout time.Duration
	// CORSOrigins are the web origins that may call the agent from a browser; "*"
	// is any. Default none.
	CORSOrigins []string

	// Webhooks says how those who asked for it are told what becomes of tasks. They are
	// on by default.
	Webhooks Webhooks

	// Files says how files are read that messages name by URI.
	Files Files

	// Logger gets what operators should know. Default: discards.
	Logger *slog.Logger
}

// Webhooks is how the URLs are called that clients have their tasks' updates sent to. Zero
// fields take the documented default.
type Webhooks struct {
	// Off refuses webhooks, and sends nothing to those that are there.
	Off bool

	// URL is told of all tasks that have no webhook of their own, with Token as bearer
	// token, signed with Secret ("whsec_" and the base64 of 24 to 64 bytes). Default: none.
	URL, Token, Secret string

	// AllowNets are networks ("10.1.0.0/16"), AllowHosts names or addresses with a port
	// ("localhost:8888"), that may be called although they are not public: by everybody who
	// may send a message, of which New warns in the log. Default: none.
	AllowNets, AllowHosts []string
	// RequireHTTPS refuses URLs that are not https.
	RequireHTTPS bool
	// NAT64 are the site's own prefixes of addresses that embed one of IPv4 (RFC 6052).
	NAT64 []string
	// EgressProxy is the URL of an HTTP proxy that makes the connections. Default: none;
	// the environment is not asked.
	EgressProxy string

	// Agent is told as the user agent: "name/version" of the program. Default: "holdfast"
	// and the version of this module.
	Agent string

	// Keys, of 32 bytes each, encrypt the secrets of webhooks in the store: the first
	// those that are new, and all are tried to read. Default: they are stored as they are.
	Keys [][]byte

	// PerTask is how many webhooks a task may have, default 10; PerMinute how many a
	// principal may save in a minute, default 100.
	PerTask, PerMinute int
	// InFlight is how many are called at once, default 512; PerEndpoint how many of one
	// scheme, host and port, default 8; PerAddress how many of one public address whatever
	// its names, default 8; PerOwner how many of one principal, default 64.
	InFlight, PerEndpoint, PerAddress, PerOwner int
	// Timeout is the longest that a call may take. Default 15 s.
	Timeout time.Duration
	// Lease is how long a webhook waits for a process that died or hangs while it called
	// it, before another goes on. Default 30 s, or twice Timeout if that is longer; at least
	// twice Timeout less 5 s, and 100 ms.
	Lease time.Duration
}

// Files is how [Turn.ReadFile] gets what the URI of a file names. Only the public internet
// is called, as for webhooks, whose RequireHTTPS, NAT64, EgressProxy and Agent hold here too.
// Zero fields take the documented default.
type Files struct {
	// Off gets none.
	Off bool
	// AllowNets and AllowHosts are written as those of [Webhooks], and are lists of their
	// own, for more is at stake: the client that named a file may be told what is in it.
	// New warns of them in the log. Default: none.
	AllowNets, AllowHosts []string
	// MaxBytes is the largest file that is got. Default 10 MiB.
	MaxBytes int64
	// AtOnce is how many are fetched at once; with Tokens one principal may fetch half of them, and it is
	// at least 2. Others wait. Default 64.
	AtOnce int
	// Timeout is the longest that one may take. Default 30 s.
	Timeout time.Duration
}

// Token is a bearer token and the principal it stands for.
type Token struct {
	Token     string
	Principal a2a.Principal
}
