package server

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
	"github.com/holdfast-dev/holdfast/server/internal/methods"
	"github.com/holdfast-dev/holdfast/server/jsonrpc"
)

// The operations of routes that are no methods of the protocol.
var (
	operationInfo   = a2a.Method{Name: "agent/info", Scope: a2a.ScopeRead, Level: a2a.TrustGuest, Permission: "agent.info"}
	operationHealth = a2a.Method{Name: "health", Scope: a2a.ScopeRead, Level: a2a.TrustGuest, Permission: "agent.health"}
	operationFile   = a2a.Method{Name: "files/get", Scope: a2a.ScopeRead, Level: a2a.TrustViewer, Permission: "files.get"}
)

// healthTimeout is the maximum time for a health check of the store.
const healthTimeout = 5 * time.Second

// agentInfo is the response of GET /agent/info.
type agentInfo struct {
	Name            string       `json:"name"`
	Description     string       `json:"description"`
	Version         string       `json:"version"`
	ServerVersion   string       `json:"serverVersion"`
	ProtocolVersion string       `json:"protocolVersion"`
	Store           storeInfo    `json:"store"`
	StartedAt       time.Time    `json:"startedAt"`
	UptimeSeconds   int64        `json:"uptimeSeconds"`
	Methods         []methodInfo `json:"methods"`
}

type storeInfo struct {
	Name    string `json:"name"`
	Durable bool   `json:"durable"`
}

type methodInfo struct {
	Name      string `json:"name"`
	Summary   string `json:"summary"`
	Streaming bool   `json:"streaming"`
	Extension bool   `json:"extension"`
}

func (s *Server) serveInfo(x *exchange.Exchange) {
	info := agentInfo{
		Name: s.card.Name, Description: s.card.Description, Version: s.card.Version,
		ServerVersion: s.cfg.Version, ProtocolVersion: s.cfg.Codecs[0].Version(),
		StartedAt: s.started, UptimeSeconds: int64(time.Since(s.started).Seconds()),
	}
	backend := s.cfg.Engine.Info()
	info.Store = storeInfo{Name: backend.Name, Durable: backend.Durable}
	for _, m := range s.methods.Descriptors() {
		if m.Off == "" {
			info.Methods = append(info.Methods, methodInfo{Name: m.Name, Summary: m.Summary, Streaming: m.Streaming, Extension: m.Extension})
		}
	}
	s.respondJSON(x, http.StatusOK, info)
}

// healthInfo is the response of GET /health. It has a field for each kind of load, because operators read them by name.
type healthInfo struct {
	Status   string   `json:"status"`
	Problems []string `json:"problems"`
	// Degraded names the stores of single contracts that do not respond.
	Degraded []string `json:"degraded,omitempty"`
	// Warnings are about how the agent is exposed.
	Warnings    []string             `json:"warnings,omitempty"`
	Store       string               `json:"store"`
	Running     int                  `json:"running"`
	Concurrency int                  `json:"concurrency"`
	Queued      int64                `json:"queued"`
	Queue       queueInfo            `json:"queue"`
	Turns       turnsInfo            `json:"turns"`
	Abandoned   int64                `json:"abandoned"`
	Oversized   int64                `json:"oversized"`
	ContextFull int64                `json:"contextFull"`
	Streams     exchange.StreamsInfo `json:"streams"`
	Lists       listsInfo            `json:"lists"`
	Batches     jsonrpc.BatchesInfo  `json:"batches"`
	Files       filesInfo            `json:"files"`
	// ReadCache describes the cache of encoded finished tasks.
	ReadCache methods.CacheInfo `json:"readCache"`
	// Expired counts the data that retention has deleted since the start of the process.
	Expired expiredInfo `json:"expired"`
	// Memory is the budget for large data; nil if it has no limit.
	Memory *memoryInfo `json:"memory,omitempty"`
	// Webhooks describes the deliveries of this process; nil if webhooks are off.
	Webhooks *webhooksInfo `json:"webhooks,omitempty"`
}

// queueInfo counts the messages rejected since the start of the process because too many
// tasks were waiting: of all owners, or of the message's owner.
type queueInfo struct {
	Refused         int64 `json:"refused"`
	RefusedPerOwner int64 `json:"refusedPerOwner"`
}

// turnsInfo has the number of reserved turns, and the number of owners that run too many turns to
// get another one while only reserved turns are free.
type turnsInfo struct {
	Reserved      int `json:"reserved"`
	OwnersAtLimit int `json:"ownersAtLimit"`
}

// filesInfo counts the files that are being fetched, and those that wait.
type filesInfo struct {
	Fetching int64 `json:"fetching"`
	Waiting  int   `json:"waiting"`
}

// expiredInfo counts the data that retention has deleted since the start of the process.
type expiredInfo struct {
	Tasks              int64 `json:"tasks"`
	Contexts           int64 `json:"contexts"`
	IdempotencyRecords int64 `json:"idempotencyRecords"`
	Records            int64 `json:"records"`
	// Contracts are the data of agents that sweeps have removed or completed, by kind, such as transcripts.
	Contracts   map[string]int64 `json:"contracts,omitempty"`
	Attempts    int64            `json:"attempts"`
	DeadLetters int64            `json:"deadLetters"`
	Webhooks    int64            `json:"webhooks"`
}

// memoryInfo describes a memory budget in bytes; Waiting and Refused count requests.
type memoryInfo struct {
	Total   int64 `json:"total"`
	Held    int64 `json:"held"`
	Largest int64 `json:"largest"`
	Waiting int   `json:"waiting"`
	Refused int64 `json:"refused"`
}

// webhooksInfo counts events since the start of the process, and current activity.
type webhooksInfo struct {
	Delivered int64 `json:"delivered"`
	Failed    int64 `json:"failed"`
	Dead      int64 `json:"dead"`
	InFlight  int   `json:"inFlight"`
	Disabled  int   `json:"disabledEndpoints"`
	// MemoryHeld is in bytes. MemoryWaiting is the number of webhooks that wait for memory,
	// MemoryRefused the number of times that a webhook did not get it.
	MemoryHeld    int64 `json:"memoryHeld"`
	MemoryWaiting int   `json:"memoryWaiting"`
	MemoryRefused int64 `json:"memoryRefused"`
}

// healthTTL is how long the result of a health check is reused. A check writes to the store,
// and everyone may request one.
const healthTTL = 200 * time.Millisecond

// healthCheck caches the result of the last health check for healthTTL.
type healthCheck struct {
	mu        sync.Mutex
	checkedAt time.Time
	last      engine.Health
}

func (h *healthCheck) check(ctx context.Context, e *engine.Engine) engine.Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.checkedAt.IsZero() || time.Since(h.checkedAt) >= healthTTL {
		h.last = e.Health(ctx)
		h.checkedAt = time.Now()
	}
	return h.last
}

// checkHealth returns the health of the engine, the store and the webhooks.
func (s *Server) checkHealth(x *exchange.Exchange) healthInfo {
	// The result is shared, so the check must not end with the first request.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(x.Request.Context()), healthTimeout, a2a.Errorf(a2a.CodeUnavailable, "no answer within %s", healthTimeout))
	defer cancel()
	h := s.healthCheck.check(ctx, s.cfg.Engine)
	info := healthInfo{
		Status: "ok", Problems: h.Problems, Degraded: h.Degraded, Warnings: s.cfg.Security.Warnings, Store: s.cfg.Engine.Info().Name, Running: h.Running,
		Concurrency: h.Concurrency, Queued: h.Queued, Queue: queueInfo{h.QueueRefused, h.OwnerQueueRefused}, Turns: turnsInfo{h.Reserved, h.OwnersAtLimit}, Abandoned: h.Abandoned, Oversized: h.Oversized, ContextFull: h.ContextFull, Streams: s.streams.Info(), Lists: s.lists.info(), ReadCache: s.methods.CacheInfo(),
		Batches: s.rpc.Batches(),
		Expired: expiredInfo{Tasks: h.Expired.Tasks, Contexts: h.Expired.Contexts, IdempotencyRecords: h.Expired.IdempotencyRecords, Records: h.Expired.Records, Contracts: h.Swept},
	}
	files := s.cfg.FileSlots.Stats()
	info.Files = filesInfo{files.Held, files.Waiting}
	if s.cfg.Memory != nil {
		stats := s.cfg.Memory.Stats()
		info.Memory = (*memoryInfo)(&stats)
	}
	if hooks := s.cfg.Webhook; hooks != nil {
		stats := hooks.Stats()
		info.Webhooks = &webhooksInfo{stats.Delivered, stats.Failed, stats.DeadLetters, stats.InFlight, stats.Disabled, stats.Memory, stats.WaitingForMemory, stats.MemoryRefused}
		info.Expired.Attempts, info.Expired.DeadLetters, info.Expired.Webhooks = stats.Expired.Attempts, stats.Expired.DeadLetters, stats.Expired.Webhooks
		if problems := hooks.Health(); len(problems) > 0 {
			info.Problems = slices.Concat(info.Problems, problems)
		}
	}
	if s.stopping.Err() != nil || s.cfg.Engine.Stopping() { // not cached
		info.Problems = append(slices.Clone(info.Problems), "server: stopping")
	}
	if len(info.Problems) > 0 {
		info.Status = "unavailable"
	}
	return info
}

func (s *Server) serveHealth(x *exchange.Exchange) {
	info := s.checkHealth(x)
	status := http.StatusOK
	if len(info.Problems) > 0 {
		status = http.StatusServiceUnavailable
	}
	s.respondJSON(x, status, info)
}

// serveHealthz reports that the process responds.
func (s *Server) serveHealthz(x *exchange.Exchange) {
	s.respondJSON(x, http.StatusOK, map[string]any{"status": "ok"})
}

// serveReadyz reports whether the server accepts requests. It needs no token, so it does not
// disclose the problems.
func (s *Server) serveReadyz(x *exchange.Exchange) {
	if info := s.checkHealth(x); len(info.Problems) > 0 {
		s.respondJSON(x, http.StatusServiceUnavailable, map[string]any{"status": info.Status})
		return
	}
	s.respondJSON(x, http.StatusOK, map[string]any{"status": "ok"})
}

// respondJSON writes v as JSON. v must be encodable.
func (s *Server) respondJSON(x *exchange.Exchange, status int, v any) {
	body, err := wire.Marshal(v)
	if err != nil {
		s.refuse(x, http.StatusInternalServerError, err)
		return
	}
	x.Header().Set("Cache-Control", "no-store")
	x.Respond(status, append(body, '\n'))
}
