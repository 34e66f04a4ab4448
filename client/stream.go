package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Update is one item of a stream.
type Update struct {
	// ID is the event's id, which [Client.Resubscribe] accepts. It is "" if the
	// server does not number its events.
	ID string
	// Event is an [*a2a.Task], [*a2a.Message], [*a2a.TaskStatusUpdateEvent] or
	// [*a2a.TaskArtifactUpdateEvent]. It is never nil.
	Event a2a.Event
	// Raw is the event as sent by the server.
	Raw json.RawMessage
}

// Stream sends a message and yields the updates of its task until the task is
// finished or requires input. If the connection is lost it reconnects like
// [Client.Resubscribe]. If that happens before the first event, Stream resends
// the message only if p has an idempotency key. Without one it ends with an error,
// since the agent may have accepted the message.
func (c *Client) Stream(ctx context.Context, p SendParams) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		params, err := c.encodeSend(p)
		if err != nil {
			yield(Update{}, err)
			return
		}
		send := newRequest(a2a.MethodStream, params)
		send.idempotencyKey, send.stream = p.IdempotencyKey, true
		(&follower{c: c, send: send}).run(ctx, yield)
	}
}

// CallStream calls any method that responds with a stream of a task's updates. If the
// connection is lost it reconnects like Stream.
func (c *Client) CallStream(ctx context.Context, method string, params json.RawMessage) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		send := newRequest(method, params)
		send.stream = true
		(&follower{c: c, send: send}).run(ctx, yield)
	}
}

// Resubscribe yields the updates of a task after the event lastEventID until the
// task is finished or requires input. With "" it starts with the current task. If
// the connection is lost or the server closes it early, Resubscribe reconnects and
// continues after the last event.
func (c *Client) Resubscribe(ctx context.Context, id, lastEventID string) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		f := &follower{c: c, taskID: id, lastID: lastEventID}
		f.run(ctx, yield)
	}
}

// errStopped ends a stream without an error: it is complete, or the consumer left
// its loop.
var errStopped = errors.New("stopped")

// Bounds of the backoff between attempts to reconnect.
const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 10 * time.Second
)

// follower is one stream across its connections.
type follower struct {
	c *Client
	// send starts the stream; nil if the task is known from the start.
	send   *request
	taskID string
	lastID string
	// final reports whether the last received state ends streams.
	final bool
	// resumed reports whether the connection is a subscription.
	resumed bool
	// incomplete reports whether updates before the connection may be missing.
	incomplete bool
	// received counts events, failures the attempts since the last event.
	received, failures int
	retry              time.Duration
}

func (f *follower) run(ctx context.Context, yield func(Update, error) bool) {
	for {
		err := f.connect(ctx, yield)
		if err == nil || errors.Is(err, errStopped) {
			return
		}
		// Servers reject subscriptions to finished tasks, some as if these did not exist.
		code := a2a.CodeOf(err)
		rejected := f.resumed && (code == a2a.CodeUnsupported || code == a2a.CodeTaskNotFound)
		if ctx.Err() == nil && (rejected || f.connectedBefore() && !code.Retryable()) {
			err = f.checkTask(ctx, yield, err)
		}
		if errors.Is(err, errStopped) {
			return
		}
		if !f.shouldRetry(ctx, err) {
			yield(Update{}, err)
			return
		}
		if err := f.pause(ctx, err); err != nil {
			yield(Update{}, err)
			return
		}
	}
}

// connectedBefore reports whether the stream already had a connection or an
// attempt.
func (f *follower) connectedBefore() bool { return f.received > 0 || f.failures > 0 }

// connect opens a connection and yields its events. It returns nil at the end of
// the stream.
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
		return a2a.Errorf(a2a.CodeInvalidAgentResponse, "the response to a request for a stream is not a stream")
	}
	events := newEventReader(resp.Body, f.c.cfg.MaxResponseBytes)
	events.idBuffer = f.lastID
	for before := f.received; ; {
		event, err := events.next()
		if f.retry = events.retry; err != nil {
			return f.handleEnd(ctx, yield, err, f.received > before)
		}
		if err := f.yieldEvent(ctx, event, yield); err != nil {
			return err
		}
	}
}

func (f *follower) request() *request {
	if f.taskID == "" {
		return f.send
	}
	f.resumed, f.incomplete = true, f.received > 0
	params, _ := f.c.encode(a2a.TaskIDParams{ID: f.taskID}) // a string: cannot fail
	r := newRequest(a2a.MethodResubscribe, params)
	r.lastEventID, r.stream = f.lastID, true
	return r
}

// yieldEvent yields one event. It returns errStopped after the last one.
func (f *follower) yieldEvent(ctx context.Context, e serverEvent, yield func(Update, error) bool) error {
	if e.name != "" && e.name != "message" {
		return nil // not part of the protocol
	}
	raw, err := f.c.binding.parse(e.data)
	if err != nil {
		return err
	}
	event, err := f.c.binding.codec.DecodeEvent(raw)
	if err != nil {
		return f.c.badResult("a stream", err)
	}
	if event == nil {
		return nil // an event of a kind that a later version of the protocol added
	}
	last := f.track(event)
	f.lastID, f.failures = e.id, 0
	f.received++
	if !yield(Update{ID: e.id, Event: event, Raw: raw}, nil) {
		return errStopped
	}
	if last && f.incomplete && !f.numbered() {
		return f.checkTask(ctx, yield, errStopped)
	}
	if last {
		return errStopped
	}
	return nil
}

// numbered reports whether the server numbers its events. Other servers may send ids too, but do
// not resume after them.
func (f *follower) numbered() bool {
	return f.lastID != "" && strings.Trim(f.lastID, "0123456789") == ""
}

// track records the task and its state, and reports whether the event is the last
// one.
func (f *follower) track(event a2a.Event) (last bool) {
	switch e := event.(type) {
	case *a2a.Task:
		f.taskID, f.final, f.incomplete = e.ID, e.Status.State.Final(), false
		// A2A 1.0 continues the subscription of a task that waits for its client. The task of
		// another stream may be as it was before the message.
		return f.resumed && f.final
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

// handleEnd returns the error for a connection that ended with err, or nil if the
// stream is complete. received reports whether the connection had events.
func (f *follower) handleEnd(ctx context.Context, yield func(Update, error) bool, err error, received bool) error {
	if f.final {
		return nil
	}
	if errors.Is(err, errEventTooLarge) {
		return tooLarge("event", f.c.cfg.MaxResponseBytes)
	}
	lostErr := connectionLost(ctx, err)
	if !errors.Is(err, io.EOF) || f.taskID == "" {
		return lostErr
	}
	// The server closed the stream normally: the task is finished, or the server
	// stops.
	end := f.checkTask(ctx, yield, lostErr)
	if errors.Is(end, errStopped) && received && f.numbered() {
		return lostErr // the task has finished since: the next connection has the other updates
	}
	return end
}

// checkTask reads the task. It returns errStopped if the task is finished, and why
// otherwise.
func (f *follower) checkTask(ctx context.Context, yield func(Update, error) bool, why error) error {
	if f.taskID == "" {
		return why
	}
	task := new(a2a.Task)
	raw, err := f.c.Invoke(ctx, a2a.MethodGet, a2a.TaskQueryParams{ID: f.taskID}, task)
	if err != nil || !task.Status.State.Final() {
		return why
	}
	if !f.numbered() {
		// Updates may be missing: yield the whole task.
		yield(Update{Event: task, Raw: raw}, nil)
	}
	return errStopped
}

// shouldRetry reports whether to reconnect after err.
func (f *follower) shouldRetry(ctx context.Context, err error) bool {
	if ctx.Err() != nil || !a2a.CodeOf(err).Retryable() || f.failures >= f.c.cfg.Reconnects {
		return false
	}
	if f.connectedBefore() {
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
	if onReconnect := f.c.cfg.OnReconnect; onReconnect != nil {
		onReconnect(Reconnect{TaskID: f.taskID, Attempt: f.failures, Delay: delay, Err: why})
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
