package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Update is one item of a stream.
type Update struct {
	// ID is the event's id: what [Client.Resubscribe] goes on after. It is "" when
	// the server does not number its events.
	ID string
	// Event is a [*a2a.Task], [*a2a.Message], [*a2a.TaskStatusUpdateEvent] or
	// [*a2a.TaskArtifactUpdateEvent]. It is never nil.
	Event a2a.Event
	// Raw is the event as the server wrote it.
	Raw json.RawMessage
}

// Stream sends a message and yields the updates of its task until that is over
// or waits for its client. When the connection is lost it goes on as
// [Client.Resubscribe] does, once the task is known; before, it sends the message
// again if p has an idempotency key, and else ends with an error, since the
// message may or may not have been taken.
func (c *Client) Stream(ctx context.Context, p SendParams) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		params, err := p.encode()
		if err != nil {
			yield(Update{}, err)
			return
		}
		f := &follower{c: c, send: &request{method: a2a.MethodStream, params: params, idempotencyKey: p.IdempotencyKey, stream: true}}
		f.run(ctx, yield)
	}
}

// CallStream calls any method that answers with a stream of a task's updates, and
// goes on like Stream when the connection is lost.
func (c *Client) CallStream(ctx context.Context, method string, params json.RawMessage) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		f := &follower{c: c, send: &request{method: method, params: params, stream: true}}
		f.run(ctx, yield)
	}
}

// Resubscribe yields the updates of a task that come after the event
// lastEventID until the task is over or waits for its client; with "" it begins
// with the task as it stands. When the connection is lost, or the server closes
// it early, Resubscribe connects again and goes on where it was.
func (c *Client) Resubscribe(ctx context.Context, id, lastEventID string) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		f := &follower{c: c, taskID: id, lastID: lastEventID}
		f.run(ctx, yield)
	}
}

// errStopped ends a stream without a word: it is over, or the consumer has
// broken out of its loop.
var errStopped = errors.New("stopped")

// Pauses between attempts to get a connection back.
const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 10 * time.Second
)

// follower is one stream across its connections.
type follower struct {
	c *Client
	// send begins the stream; nil when the task is known from the start.
	send   *request
	taskID string
	lastID string
	// final is whether the last state that was told ends streams.
	final bool
	// told counts events, failures the attempts since the last of them.
	told, failures int
	retry          time.Duration
}

func (f *follower) run(ctx context.Context, yield func(Update, error) bool) {
	for {
		err := f.connect(ctx, yield)
		if err == nil || errors.Is(err, errStopped) {
			return
		}
		if ctx.Err() == nil && f.resumed() && !a2a.CodeOf(err).Retryable() {
			err = f.settle(ctx, yield, err)
		}
		if errors.Is(err, errStopped) {
			return
		}
		if !f.again(ctx, err) {
			yield(Update{}, err)
			return
		}
		if err := f.pause(ctx, err); err != nil {
			yield(Update{}, err)
			return
		}
	}
}

// resumed reports whether the stream has had a connection before this one.
func (f *follower) resumed() bool { return f.told > 0 || f.failures > 0 }

// connect opens one connection and yields what comes over it. It returns nil at
// the end of the stream.
func (f *follower) connect(ctx context.Context, yield func(Update, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := f.c.post(ctx, f.request())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if !isStream(resp) {
		if _, err := f.c.readResult(ctx, resp); err != nil {
			return err
		}
		return a2a.Errorf(a2a.CodeInvalidAgentResponse, "the agent answers a request for a stream without one")
	}
	events := newEventReader(resp.Body, f.c.cfg.MaxResponseBytes)
	events.idBuffer = f.lastID
	for {
		event, err := events.next()
		if f.retry = events.retry; err != nil {
			return f.ended(ctx, yield, err)
		}
		if err := f.tell(event, yield); err != nil {
			return err
		}
	}
}

func (f *follower) request() request {
	if f.taskID == "" {
		return *f.send
	}
	params, _ := encode(a2a.TaskIDParams{ID: f.taskID}) // a string: cannot fail
	return request{method: a2a.MethodResubscribe, params: params, lastEventID: f.lastID, stream: true}
}

// tell yields one event. It returns errStopped after the last.
func (f *follower) tell(e serverEvent, yield func(Update, error) bool) error {
	if e.name != "" && e.name != "message" {
		return nil // not of the protocol
	}
	raw, err := parseResponse(e.data)
	if err != nil {
		return err
	}
	if !knownKind(raw) {
		return nil // of a later version: what it may add must not end the stream
	}
	event, err := a2a.DecodeEvent(raw)
	if err != nil {
		return badResult("a stream", err)
	}
	last := f.note(event)
	f.lastID, f.failures = e.id, 0
	f.told++
	if !yield(Update{ID: e.id, Event: event, Raw: raw}, nil) || last {
		return errStopped
	}
	return nil
}

func knownKind(raw json.RawMessage) bool {
	var head struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return true // let the decoder say what is wrong
	}
	switch head.Kind {
	case "", "task", "message", "status-update", "artifact-update":
		return true
	}
	return false
}

// note keeps what an event says of the task, and reports whether it is the last.
func (f *follower) note(event a2a.Event) (last bool) {
	switch e := event.(type) {
	case *a2a.Task:
		f.taskID, f.final = e.ID, e.Status.State.Final()
	case *a2a.TaskStatusUpdateEvent:
		f.taskID, f.final = e.TaskID, e.Status.State.Final()
		return e.Final
	case *a2a.TaskArtifactUpdateEvent:
		f.taskID = e.TaskID
	case *a2a.Message:
		return true
	}
	return false
}

// ended says what it means that a connection has come to its end by err.
func (f *follower) ended(ctx context.Context, yield func(Update, error) bool, err error) error {
	if f.final {
		return nil
	}
	if errors.Is(err, errEventTooLarge) {
		return tooLarge("event", f.c.cfg.MaxResponseBytes)
	}
	gone := lost(ctx, err)
	if !errors.Is(err, io.EOF) || f.taskID == "" {
		return gone
	}
	// The server has ended the stream in good order, which it does for a task
	// that is over, or when it stops.
	return f.settle(ctx, yield, gone)
}

// settle asks for the task itself. It returns errStopped when that is over, and
// otherwise why.
func (f *follower) settle(ctx context.Context, yield func(Update, error) bool, why error) error {
	if f.taskID == "" {
		return why
	}
	raw, err := encode(a2a.TaskQueryParams{ID: f.taskID})
	if err != nil {
		return why
	}
	if raw, err = f.c.call(ctx, request{method: a2a.MethodGet, params: raw}); err != nil {
		return why
	}
	event, err := a2a.DecodeEvent(raw)
	task, ok := event.(*a2a.Task)
	if err != nil || !ok || !task.Status.State.Final() {
		return why
	}
	if f.lastID == "" {
		// Without numbers nobody knows what was missed: this is all of it.
		yield(Update{Event: task, Raw: raw}, nil)
	}
	return errStopped
}

// again reports whether err is worth another attempt.
func (f *follower) again(ctx context.Context, err error) bool {
	if ctx.Err() != nil || !a2a.CodeOf(err).Retryable() || f.failures >= f.c.cfg.Reconnects {
		return false
	}
	if f.resumed() {
		return true
	}
	var op *net.OpError
	neverSent := errors.As(err, &op) && op.Op == "dial"
	switch {
	case neverSent:
		return false
	case f.taskID != "":
		return true
	}
	return f.send.idempotencyKey != ""
}

func (f *follower) pause(ctx context.Context, why error) error {
	delay := max(min(firstDelay<<min(f.failures, 10), maxDelay), f.retry)
	delay += rand.N(delay / 4) //nolint:gosec // spreads clients over time; nothing secret
	f.failures++
	if tell := f.c.cfg.OnReconnect; tell != nil {
		tell(Reconnect{TaskID: f.taskID, Attempt: f.failures, Delay: delay, Err: why})
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx, why)
	}
}
