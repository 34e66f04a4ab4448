package holdfast

import (
	"log/slog"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhook"
)

// Config configures an [Agent]. Only Name is required. Zero fields have the documented default.
// Settings are grouped by the package that uses them:
//
//	holdfast.Config{Name: "orders", Turns: engine.Turns{MaxAttempts: 3}}
type Config struct {
	// Name is the name of the agent, on the agent card and in the keys of session states.
	Name string
	// Card has the rest of the agent card. Default: Description is Name, Version is "0.0.0", there
	// is one skill with the agent's name, and the modes are "text/plain". The agent sets Name, the
	// protocol version, transport, capabilities and security.
	//
	// If URL is empty, the card has the address to which the request for it was sent.
	// AdditionalInterfaces are further addresses of the agent, such as the address of a gRPC server.
	// Messages with a part that neither DefaultInputModes nor a skill's InputModes match are
	// rejected; "*/*" accepts all. Capabilities.Extensions are the extensions of the protocol that
	// the agent adds; calls that do not list a required one are rejected.
	Card a2a.AgentCard

	// Store holds all durable data. The caller closes it. Default: a SQLite file in DataDir,
	// which the Agent closes.
	Store store.Store
	// DataDir is the directory of the default store. Default "holdfast-data".
	DataDir string
	// Contracts has stores of facts, documents, transcripts and other contracts that replace the
	// parts of Store, and the embedder. The caller closes the stores. Default: Store has all data,
	// and there is no embedder.
	Contracts engine.Contracts

	// Tokens are the accepted bearer tokens and the principals that they authenticate. Without
	// Tokens and Security.Authenticator, every caller is the anonymous principal. They must not
	// both be set.
	Tokens []server.Token
	// Security configures how callers and the agent prove who they are, and which web pages and
	// proxies are trusted.
	Security server.Security
	// Protocol configures variants of the protocol.
	Protocol Protocol
	// Requests configures how requests are served.
	Requests server.Requests

	// Turns configures the execution of turns.
	Turns engine.Turns
	// Limits bound the requests of callers and handlers.
	Limits engine.Limits
	// Retention is how long data is kept, by kind, such as {"completed": 90 * 24 * time.Hour}.
	// Default: tasks and described contexts are kept, everything else for 30 days.
	Retention engine.Retention
	// Memory is the number of bytes of memory that the process may use, at least 64 MiB.
	// Half of it is the budget for large data: requests, responses, tasks, webhook bodies,
	// files, and the content of running turns. One principal may hold half of the budget. A
	// request that needs more waits up to 10 s and is then rejected (429). The other half is
	// for small data and garbage, so a program should also pass Memory to
	// [runtime/debug.SetMemoryLimit], as "holdfast serve" does. Default: three quarters of
	// the cgroup's limit or of the machine's memory, or 1 GiB if neither is known.
	Memory int64 `min:"64MiB"`
	// StopGrace is how long running handlers may take to return after the agent starts to
	// stop. After that their contexts are canceled and their tasks requeued. Default 10 s.
	StopGrace time.Duration `default:"10s" min:"1ns"`

	// Webhooks configures the delivery of task events to webhooks, which is on by default.
	Webhooks webhook.Settings
	// Files configures how clients and webhooks get large files.
	Files engine.Files
	// Fetch configures how [Turn.ReadFile] fetches files that messages name by URI.
	Fetch Fetch

	// Logger receives messages for operators. Default: discards them.
	Logger *slog.Logger
}

// Protocol configures variants of the protocol. Zero fields have the documented default.
type Protocol struct {
	// Dialect is the JSON format of results: "a2a" as the protocol specifies, or "bindu",
	// with member names in snake_case, for clients of agents made with Bindu. The agent
	// accepts requests in both. Default "a2a".
	Dialect string
	// HTTPErrors is the patch version of A2A 1.0 that determines the HTTP statuses of errors over
	// HTTP+JSON: "1.0.1", or "1.0.0", which has 409 for a task that cannot be canceled, 415 for a
	// media type and 502 for an invalid response of an agent. Over gRPC, errors of 1.0.0 have the
	// status UNIMPLEMENTED for unsupported operations and versions. Default "1.0.1".
	HTTPErrors string
	// Tenant is the name that clients of A2A 1.0 send with requests, for gateways that serve several
	// agents at one address. It appears on the agent card. The agent accepts requests with any
	// tenant or none: data belongs to principals, not to tenants. Default: none.
	Tenant string
}

// Fetch configures how [Turn.ReadFile] fetches files by URI. Only hosts on the public
// internet can be reached, as for webhooks. RequireHTTPS, NAT64, EgressProxy and UserAgent of
// [webhook.Settings] apply here too. Zero fields have the documented default.
type Fetch struct {
	// Off disables fetching.
	Off bool
	// AllowNets and AllowHosts have the same format as in [webhook.Settings]. They are separate
	// because they risk more: the content of a file may reach the client that named it. New
	// logs a warning if they are set. Default: none.
	AllowNets, AllowHosts []string
	// MaxBytes is the maximum size of a file. Default 10 MiB.
	MaxBytes int64 `default:"10MiB" min:"1"`
	// Concurrency is the maximum number of concurrent fetches. Further ones wait. If callers are
	// authenticated it must be at least 2, and one principal may use half of them. Default 64.
	Concurrency int `default:"64" min:"1"`
	// Timeout is the maximum duration of a fetch. Default 30 s.
	Timeout time.Duration `default:"30s" min:"1ns"`
}
