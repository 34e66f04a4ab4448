package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// permanentError is an error that a retry cannot fix. The event becomes a dead letter with
// this reason, which the owner of the task can read.
type permanentError struct{ reason string }

// Error returns the reason.
func (p *permanentError) Error() string { return p.reason }

// composer builds the requests of one claimed lane. It is not safe for concurrent use. The
// caller must close it.
type composer struct {
	pool      *pool
	key       store.Key
	contextID string
	created   time.Time
	format    a2a.PayloadFormat
	url       *url.URL
	header    http.Header // of every request
	signers   []signer
	events    []store.Event
	task      *store.Task // state after the current event; nil if the payload does not need it or the task is large
	memory    memoryHold  // for task
	files     memoryHold  // for files of the latest request

	// The event of the latest request.
	seq        int64
	id         string
	body       []byte
	sharedBody *sharedItem // owns body; may be nil
}

// close releases the memory of the requests.
func (c *composer) close() {
	c.memory.shrink(0)
	c.releaseBody()
}

func (c *composer) releaseBody() {
	if c.sharedBody != nil {
		c.pool.put(c.sharedBody)
	}
	c.sharedBody, c.body = nil, nil
	c.files.shrink(0)
}

// undecryptableResult is the result if the secrets of a webhook cannot be decrypted. Another
// process may have the key, so the lane is retried every undecryptableBackoff until the
// schedule is exhausted.
var undecryptableResult = result{verdict: verdictRetry, reason: "the secrets of the webhook cannot be decrypted with the keys of this agent"}

const undecryptableBackoff = 2 * time.Minute

// compose returns a composer for the events of one claimed lane. Errors are *permanentError
// if the settings of the webhook are invalid, errUndecryptable if no key decrypts its
// secrets, errNoMemory, and the errors of the store.
func (d *deliverer) compose(ctx context.Context, lane *store.ClaimedLane) (*composer, error) {
	set, err := d.seal.decode(&lane.Webhook)
	switch {
	case errors.Is(err, errUndecryptable):
		d.undecryptableOnce.Do(func() {
			d.log.Error("the secrets of a webhook cannot be decrypted with the keys of this process; its events are retried until a replica with the key delivers them or the webhook is parked; further webhooks with this problem are not logged",
				"task", lane.Webhook.Task.ID, "webhook", lane.Webhook.ID)
		})
		return nil, errUndecryptable
	case err != nil:
		return nil, &permanentError{"the stored settings of the webhook cannot be read"}
	case set.Global:
		if set, err = d.globalSettings(); err != nil {
			return nil, err
		}
	}
	c := &composer{
		pool: d.pool, memory: d.memory.newHold(lane.Webhook.Task.Owner), files: d.memory.newHold(lane.Webhook.Task.Owner),
		key: lane.Webhook.Task, contextID: lane.ContextID, created: lane.Created, format: set.Format,
		signers: signers(set.Secrets.Keys, set.Signatures), events: lane.Events,
	}
	if set.Global && d.globalSecret != nil {
		c.signers = []signer{{secret: d.globalSecret}}
	}
	if c.url, err = url.Parse(set.URL); err != nil {
		return nil, &permanentError{"url " + err.Error()}
	}
	c.header = http.Header{
		"Content-Type": {contentType(set.Format)},
		"User-Agent":   {d.cfg.UserAgent},
	}
	setAuthHeaders(c.header, &set)
	if set.Format == a2a.PayloadTask {
		if err := c.foldSmall(ctx, lane); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// foldSmall computes the state of the task before the lane's events, unless the log is large.
func (c *composer) foldSmall(ctx context.Context, lane *store.ClaimedLane) error {
	size, _, err := store.LogSize(ctx, c.pool.cfg.Store, c.key, lane.Events[len(lane.Events)-1].Seq)
	if err != nil || size > smallTask {
		return err
	}
	if err := c.memory.grow(ctx, foldedPerByte*size); err != nil {
		return err
	}
	c.task = &store.Task{Key: c.key, ContextID: c.contextID}
	return c.pool.fold(ctx, c.task, lane.Cursor.Seq)
}

// fold applies the log of a task to t, up to event seq. The caller has reserved the memory.
func (p *pool) fold(ctx context.Context, t *store.Task, seq int64) error {
	err := store.WalkLog(ctx, p.cfg.Store, nil, t.Key, t.Seq, seq, func(page []store.Event) bool {
		t.Apply(page...)
		return true
	})
	switch {
	case err != nil:
		return fmt.Errorf("task %s: read log: %w", t.Key.ID, err)
	case t.Seq < seq:
		return fmt.Errorf("task %s: log ends at %d, want %d", t.Key.ID, t.Seq, seq)
	}
	return nil
}

// setAuthHeaders sets the headers that authenticate the sender. The payload formats of A2A send
// the token as bearer token only if the authentication requires one; receivers of events expect
// it always.
func setAuthHeaders(h http.Header, set *settings) {
	bearer := set.Format != a2a.PayloadTask && set.Format != a2a.PayloadStreamResponse
	if token := set.Secrets.Token; token != "" {
		h["X-A2a-Notification-Token"] = []string{token}
		h["A2a-Notification-Token"] = []string{token} // as the official Go SDK for A2A 1.0 sends it
	}
	switch auth := set.Authentication.(type) {
	case a2a.PushNotificationAuthenticationInfo:
		if set.Secrets.Credentials != "" {
			h["Authorization"] = []string{auth.Schemes[0] + " " + set.Secrets.Credentials}
			return
		}
		bearer = bearer || strings.EqualFold(auth.Schemes[0], "bearer")
	case a2a.HTTPAuthSecurityScheme:
		if !strings.EqualFold(auth.Scheme, "bearer") {
			h["Authorization"] = []string{auth.Scheme + " " + set.Secrets.Token}
			return
		}
		bearer = true
	case a2a.APIKeySecurityScheme:
		h.Set(auth.Name, set.Secrets.Token)
		return
	}
	if bearer && set.Secrets.Token != "" {
		h["Authorization"] = []string{"Bearer " + set.Secrets.Token}
	}
}

// request returns the request for e, one of the lane's events. after is the cursor after e,
// attempt counts from 1, at is the time of the attempt. Events must be requested in order;
// the same event may be requested several times.
func (c *composer) request(ctx context.Context, e *store.Event, after store.WebhookCursor, attempt int, at time.Time) (safehttp.Request, error) {
	if c.seq != e.Seq {
		if err := c.prepare(ctx, e, after.Sequence); err != nil {
			return safehttp.Request{}, err
		}
	}
	h := make(http.Header, len(c.header)+4)
	for name, values := range c.header {
		h[name] = values
	}
	h["Webhook-Id"] = []string{c.id}
	h["Webhook-Timestamp"] = []string{strconv.FormatInt(at.Unix(), 10)}
	h["X-Delivery-Attempt"] = []string{strconv.Itoa(attempt)}
	if needsBodyCopy(c.signers) {
		held := c.memory.Bytes()
		if err := c.memory.grow(ctx, int64(len(c.body))); err != nil {
			return safehttp.Request{}, err
		}
		defer c.memory.shrink(held)
	}
	if signed := signature(c.signers, c.id, at, c.body); signed != "" {
		h["Webhook-Signature"] = []string{signed}
	}
	return safehttp.Request{URL: c.url, Header: h, Body: c.body}, nil
}

// prepare builds the body for an event. Lanes that send the state of a task after the same
// event share one body.
func (c *composer) prepare(ctx context.Context, e *store.Event, sequence int64) error {
	c.releaseBody()
	u := update{
		id: EventID(c.key, c.created, e.Seq), sequence: sequence, taskID: c.key.ID, contextID: c.contextID, event: e,
	}
	var err error
	if c.format == a2a.PayloadTask {
		create := c.pool.encodeTask(c.key, c.contextID, e.Seq)
		if c.task != nil {
			create = func(ctx context.Context, item *sharedItem) (err error) {
				item.body, err = c.encode(ctx, &u)
				return err
			}
		}
		key := sharedKey{task: c.key, created: c.created.UnixMilli(), seq: e.Seq, format: c.format}
		if c.sharedBody, err = c.pool.get(ctx, key, create); err != nil {
			return err
		}
		c.body = c.sharedBody.body
	} else if c.body, err = c.encode(ctx, &u); err != nil {
		return err
	}
	c.seq, c.id = e.Seq, u.id
	return nil
}

// encode returns the body for one of the lane's events.
func (c *composer) encode(ctx context.Context, u *update) ([]byte, error) {
	view := c.pool.files(c.key.Owner, &c.files)
	if c.task != nil {
		for i := range c.events {
			if seq := c.events[i].Seq; seq > c.task.Seq && seq <= u.event.Seq {
				c.task.Apply(c.events[i])
			}
		}
		u.task = taskOf(c.task)
		if err := view.Task(ctx, u.task); err != nil {
			return nil, err
		}
	}
	if err := u.view(ctx, view); err != nil {
		return nil, err
	}
	body, err := u.payload(c.format)
	if err != nil {
		return nil, &permanentError{"the event cannot be sent: " + err.Error()}
	}
	return body, nil
}
