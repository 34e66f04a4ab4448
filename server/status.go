package server

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/engine"
)

// healthTimeout is how long the store may take to show that it works.
const healthTimeout = 5 * time.Second

// agentInfo is what GET /agent/info tells.
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

func (x *exchange) info() {
	s := x.s
	info := agentInfo{
		Name: s.card.model.Name, Description: s.card.model.Description, Version: s.card.model.Version,
		ServerVersion: s.cfg.Version, ProtocolVersion: v03.Version,
		StartedAt: s.started, UptimeSeconds: int64(time.Since(s.started).Seconds()),
	}
	kept := s.cfg.Engine.Info()
	info.Store = storeInfo{Name: kept.Name, Durable: kept.Durable}
	for _, m := range s.cfg.methods() {
		if m.Off == "" {
			info.Methods = append(info.Methods, methodInfo{Name: m.Name, Summary: m.Summary, Streaming: m.Streaming, Extension: m.Extension})
		}
	}
	x.answerJSON(http.StatusOK, info)
}

// healthInfo is what GET /health tells.
type healthInfo struct {
	Status      string      `json:"status"`
	Problems    []string    `json:"problems"`
	Store       string      `json:"store"`
	Running     int         `json:"running"`
	Concurrency int         `json:"concurrency"`
	Queued      int64       `json:"queued"`
	Queue       queueInfo   `json:"queue"`
	Turns       turnsInfo   `json:"turns"`
	Abandoned   int64       `json:"abandoned"`
	Oversized   int64       `json:"oversized"`
	ContextFull int64       `json:"contextFull"`
	Streams     streamsInfo `json:"streams"`
	Lists       listsInfo   `json:"lists"`
	Batches     batchesInfo `json:"batches"`
	Files       filesInfo   `json:"files"`
	// ReadCache are finished tasks that are kept as they were encoded.
	ReadCache encodedInfo `json:"readCache"`
	// Expired counts what retention has removed.
	Expired expiredInfo `json:"expired"`
	// Memory is the budget for what is large; nil if there is none.
	Memory *memoryInfo `json:"memory,omitempty"`
	// Webhooks is how this process fares with them; nil if they are off.
	Webhooks *webhooksInfo `json:"webhooks,omitempty"`
}

// queueInfo counts messages that were refused since the process was started, because too many tasks
// waited: of all owners, or of this one.
type queueInfo struct {
	Refused         int64 `json:"refused"`
	RefusedPerOwner int64 `json:"refusedPerOwner"`
}

// turnsInfo has the number of reserved turns, and of owners that get none now because they run many.
type turnsInfo struct {
	Reserved int `json:"reserved"`
	HeldBack int `json:"heldBack"`
}

// filesInfo counts files that are fetched, and that wait for others to be.
type filesInfo struct {
	Fetching int64 `json:"fetching"`
	Waiting  int   `json:"waiting"`
}

// expiredInfo counts since the process was started.
type expiredInfo struct {
	Tasks              int64 `json:"tasks"`
	Contexts           int64 `json:"contexts"`
	IdempotencyRecords int64 `json:"idempotencyRecords"`
	Attempts           int64 `json:"attempts"`
	DeadLetters        int64 `json:"deadLetters"`
	Webhooks           int64 `json:"webhooks"`
}

// memoryInfo is in bytes, but for requests that wait and that were refused.
type memoryInfo struct {
	Total   int64 `json:"total"`
	Held    int64 `json:"held"`
	Largest int64 `json:"largest"`
	Waiting int   `json:"waiting"`
	Refused int64 `json:"refused"`
}

// webhooksInfo counts events since the process was started, and what it does now.
type webhooksInfo struct {
	Delivered int64 `json:"delivered"`
	Failed    int64 `json:"failed"`
	Dead      int64 `json:"dead"`
	InFlight  int   `json:"inFlight"`
	Disabled  int   `json:"disabledEndpoints"`
	// Bytes of memory that they take, webhooks that wait for memory, and how often one was
	// put off for want of it.
	Memory  int64 `json:"memoryHeld"`
	Starved int   `json:"memoryWaiting"`
	Refused int64 `json:"memoryRefused"`
}

// healthAge is how old an answer about the store and the workers may be: asking
// writes to the store, and anybody may ask.
const healthAge = 200 * time.Millisecond

// healthCheck asks at most every healthAge.
type healthCheck struct {
	mu   sync.Mutex
	at   time.Time
	last engine.Health
}

func (h *healthCheck) ask(ctx context.Context, e *engine.Engine) engine.Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at.IsZero() || time.Since(h.at) >= healthAge {
		h.last = e.Health(ctx)
		h.at = time.Now()
	}
	return h.last
}

// checkHealth really asks the store and the workers, and not for ever.
func (x *exchange) checkHealth() healthInfo {
	// The answer is for others too, so that it must not depend on who asked first.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(x.r.Context()), healthTimeout, a2a.Errorf(a2a.CodeUnavailable, "no answer within %s", healthTimeout))
	defer cancel()
	h := x.s.healthCheck.ask(ctx, x.s.cfg.Engine)
	info := healthInfo{
		Status: "ok", Problems: h.Problems, Store: x.s.cfg.Engine.Info().Name, Running: h.Running,
		Concurrency: h.Concurrency, Queued: h.Queued, Queue: queueInfo{h.QueueRefused, h.OwnerQueueRefused}, Turns: turnsInfo{h.Reserved, h.HeldBack}, Abandoned: h.Abandoned, Oversized: h.Oversized, ContextFull: h.ContextFull, Streams: x.s.streamsInfo(), Lists: x.s.listsInfo(), ReadCache: x.s.encoded.info(),
		Batches: batchesInfo{Refused: x.s.batchRefusals.Load()},
		Expired: expiredInfo{Tasks: h.Expired.Tasks, Contexts: h.Expired.Contexts, IdempotencyRecords: h.Expired.IdempotencyRecords},
	}
	files := x.s.cfg.Files.Stats()
	info.Files = filesInfo{files.Held, files.Waiting}
	if x.s.cfg.Memory != nil {
		stats := x.s.cfg.Memory.Stats()
		info.Memory = (*memoryInfo)(&stats)
	}
	if push := x.s.cfg.Push; push != nil {
		stats := push.Stats()
		info.Webhooks = &webhooksInfo{stats.Delivered, stats.Failed, stats.Dead, stats.InFlight, stats.Disabled, stats.Memory, stats.Starved, stats.Refused}
		info.Expired.Attempts, info.Expired.DeadLetters, info.Expired.Webhooks = stats.Expired.Attempts, stats.Expired.DeadLetters, stats.Expired.Webhooks
		if problems := push.Health(); len(problems) > 0 {
			info.Problems = slices.Concat(info.Problems, problems)
		}
	}
	if x.s.stopping.Err() != nil || x.s.cfg.Engine.Stopping() { // at once, whatever the last check has found
		info.Problems = append(slices.Clone(info.Problems), "server: stopping")
	}
	if len(info.Problems) > 0 {
		info.Status = "unavailable"
	}
	return info
}

func (x *exchange) health() {
	info := x.checkHealth()
	status := http.StatusOK
	if len(info.Problems) > 0 {
		status = http.StatusServiceUnavailable
	}
	x.answerJSON(status, info)
}

// healthz tells that the process answers at all.
func (x *exchange) healthz() {
	x.answerJSON(http.StatusOK, map[string]any{"status": "ok"})
}

// readyz tells whether requests should be sent here. Since it is open to
// everybody it does not say why not.
func (x *exchange) readyz() {
	if info := x.checkHealth(); len(info.Problems) > 0 {
		x.answerJSON(http.StatusServiceUnavailable, map[string]any{"status": info.Status})
		return
	}
	x.answerJSON(http.StatusOK, map[string]any{"status": "ok"})
}
