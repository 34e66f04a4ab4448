package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/signature"
)

// ReceiverConfig configures a Receiver. Handle, and Tokens or Keys, are required. Zero fields have
// the documented default.
type ReceiverConfig struct {
	// Handle processes an event. The receiver calls it once per event, and for one event of a task
	// at a time. If it returns an error, the receiver responds 503 and the agent sends the event
	// again. It should return within 10 s.
	Handle func(ctx context.Context, e WebhookEvent) error
	// Tokens are the tokens of webhooks. A request needs one of them, as a bearer token or in
	// X-A2A-Notification-Token. Without Tokens, requests need none.
	Tokens []string
	// Keys verify signatures: the signing secrets (whsec_) and public keys (whpk_) of webhooks. A
	// request needs a signature by one of them. Without Keys, requests need none.
	Keys []string
	// Positions stores which events were processed, if set. Without it, a new Receiver cannot
	// recognize events that another one processed.
	Positions Positions
	// Tolerance is the maximum difference between the time of a signature and the clock.
	// Default 5 min.
	Tolerance time.Duration `default:"5m" min:"1s"`
	// MaxBodyBytes is the maximum size of a request. Default 16 MiB.
	MaxBodyBytes int `default:"16MiB" min:"1"`
	// MaxRequests is the maximum number of requests in progress; more get 503. Default 64.
	MaxRequests int `default:"64" min:"1"`
	// MaxTasks is the maximum number of tasks with positions in memory. The tasks with the
	// newest events remain there. Default 10,000.
	MaxTasks int `default:"10000" min:"1"`
	// OnDuplicate is called for an event that was processed before, if set.
	OnDuplicate func(e WebhookEvent)
	// OnReject is called for a request that gets an error, if set.
	OnReject func(r *http.Request, err error)
}

// WebhookEvent is an event of a task.
type WebhookEvent struct {
	// ID identifies the event. It is the webhook-id, or a hash of the body if there is none.
	ID string
	// Sequence is the number of the event within its task, from 1. It is 0 in all formats except
	// [a2a.PayloadEvent].
	Sequence  int64
	TaskID    string
	ContextID string
	// Event is an [*a2a.Task], [*a2a.Message], [*a2a.TaskStatusUpdateEvent] or
	// [*a2a.TaskArtifactUpdateEvent].
	Event a2a.Event
	// Raw is the body of the request.
	Raw json.RawMessage
	// Missing is the number of events between the previous one and this one that did not arrive:
	// dead letters, which can be replayed.
	Missing int64
	// Late reports that later events of the task were processed before, since this one was
	// replayed.
	Late bool
	// Position is the position of the task after the event.
	Position Position
}

// Positions stores the position of each task. Methods are called concurrently for different tasks.
type Positions interface {
	// Load returns the position of a task, or the zero value if there is none.
	Load(ctx context.Context, taskID string) (Position, error)
	// Save stores the position of a task. If it returns an error, the agent sends the event again,
	// and Handle gets it again. A Handle that stores [WebhookEvent.Position] in the transaction of
	// its effects processes every event exactly once; its Save does nothing.
	Save(ctx context.Context, taskID string, p Position) error
}

// Receiver is an [http.Handler] for the requests to webhooks, in all payload formats and from all
// A2A servers. It verifies requests, drops duplicates, and reports missing and late events. It
// responds 204 after Handle has returned, 400, 401, 405 or 413 to requests that are not valid, and
// 503 if the agent is to send the request again. It uses memory for MaxRequests bodies and MaxTasks
// positions. Create it with [NewReceiver]. It is safe for concurrent use.
type Receiver struct {
	cfg       ReceiverConfig
	keys      []signature.Key
	slots     chan struct{}
	positions *positionCache
}

// NewReceiver returns a receiver, or a [*ConfigError] with all problems of cfg.
func NewReceiver(cfg ReceiverConfig) (*Receiver, error) {
	e := config.Apply("receiver", &cfg)
	e.Require(cfg.Handle == nil, "Handle")
	e.Reject(len(cfg.Tokens)+len(cfg.Keys) == 0, "Keys", nil, "or Tokens is required: otherwise anybody can send events")
	r := &Receiver{cfg: cfg}
	for _, text := range cfg.Keys {
		key, err := signature.ParseKey(text)
		e.Add("Keys", err)
		r.keys = append(r.keys, key)
	}
	for _, token := range cfg.Tokens {
		e.Reject(token == "", "Tokens", nil, "must not be empty")
	}
	if err := e.OrNil(); err != nil {
		return nil, err
	}
	r.slots = make(chan struct{}, cfg.MaxRequests)
	r.positions = newPositionCache(cfg.MaxTasks, cfg.Positions)
	return r, nil
}

// rejection is the response to a request that is not processed.
type rejection struct {
	status int
	err    error
}

func reject(status int, text string) *rejection { return &rejection{status, errors.New(text)} }

// ServeHTTP processes a request.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if no := r.serve(w, req); no != nil {
		if r.cfg.OnReject != nil {
			r.cfg.OnReject(req, no.err)
		}
		http.Error(w, http.StatusText(no.status), no.status)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) *rejection {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return reject(http.StatusMethodNotAllowed, "the method is not POST")
	}
	if !r.hasToken(req.Header) {
		return reject(http.StatusUnauthorized, "wrong token")
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		return reject(http.StatusServiceUnavailable, "too many requests")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, int64(r.cfg.MaxBodyBytes)))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &rejection{http.StatusRequestEntityTooLarge, err}
	case err != nil:
		return &rejection{http.StatusBadRequest, err}
	}
	if len(r.keys) > 0 {
		if err := signature.Verify(r.keys, req.Header, body, time.Now(), r.cfg.Tolerance); err != nil {
			return &rejection{http.StatusUnauthorized, err}
		}
	}
	e, err := decodeWebhook(body)
	if err != nil {
		return &rejection{http.StatusBadRequest, err}
	}
	if id := req.Header.Get(signature.HeaderID); id != "" {
		e.ID = id
	}
	if err := r.process(req.Context(), e); err != nil {
		return &rejection{http.StatusServiceUnavailable, err}
	}
	return nil
}

// hasToken reports whether a request has one of the tokens, if any are required.
func (r *Receiver) hasToken(h http.Header) bool {
	bearer := ""
	if scheme, token, ok := strings.Cut(h.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		bearer = token
	}
	found := len(r.cfg.Tokens) == 0
	for _, want := range r.cfg.Tokens {
		// The official Go SDK has another name for the header.
		for _, got := range []string{bearer, h.Get("X-A2A-Notification-Token"), h.Get("A2A-Notification-Token")} {
			if subtle.ConstantTimeCompare([]byte(got), []byte(want)) == 1 {
				found = true
			}
		}
	}
	return found
}

// process calls Handle unless the event was processed before.
func (r *Receiver) process(ctx context.Context, e WebhookEvent) error {
	p, release, err := r.positions.acquire(ctx, e.TaskID)
	if err != nil {
		return err
	}
	defer release()
	next := p.clone()
	isNew := false
	if e.Missing, e.Late, isNew = next.advance(e.ID, e.Sequence); !isNew {
		if r.cfg.OnDuplicate != nil {
			e.Position = next
			r.cfg.OnDuplicate(e)
		}
		return nil
	}
	e.Position = next.clone()
	if err := r.cfg.Handle(ctx, e); err != nil {
		return err
	}
	if r.cfg.Positions != nil {
		if err := r.cfg.Positions.Save(ctx, e.TaskID, next.clone()); err != nil {
			return err
		}
	}
	*p = next
	return nil
}

// decodeWebhook decodes the body of a request in any format.
func decodeWebhook(body []byte) (WebhookEvent, error) {
	var head struct {
		ID       string `json:"event_id"`
		Sequence int64  `json:"sequence"`
		Kind     string `json:"kind"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return WebhookEvent{}, errors.New("the body is not an event")
	}
	e := WebhookEvent{ID: head.ID, Sequence: head.Sequence, Raw: body}
	var err error
	if head.Kind != "" {
		e.Event, err = v03.Codec{}.DecodeEvent(body)
	} else {
		e.Event, err = v10.Codec{}.DecodeEvent(body)
	}
	switch event := e.Event.(type) {
	case *a2a.Task:
		e.TaskID, e.ContextID = event.ID, event.ContextID
	case *a2a.Message:
		e.TaskID, e.ContextID = event.TaskID, event.ContextID
	case *a2a.TaskStatusUpdateEvent:
		e.TaskID, e.ContextID = event.TaskID, event.ContextID
	case *a2a.TaskArtifactUpdateEvent:
		e.TaskID, e.ContextID = event.TaskID, event.ContextID
	}
	if err != nil || e.TaskID == "" && e.ContextID == "" || e.Sequence < 0 {
		return WebhookEvent{}, a2a.Wrap(a2a.CodeInvalid, err, "the body is not an event")
	}
	if e.ID == "" {
		sum := sha256.Sum256(body)
		e.ID = hex.EncodeToString(sum[:16])
	}
	e.TaskID = cmp.Or(e.TaskID, e.ContextID)
	return e, nil
}
