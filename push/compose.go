package push

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

// permanent is an error that no attempt will overcome: the event becomes a dead letter
// with its reason, which the owner of the task may read.
type permanent struct{ reason string }

// Error returns the reason.
func (p *permanent) Error() string { return p.reason }

// composer makes the requests of one claimed lane. It is not safe for concurrent use, and is
// to be closed.
type composer struct {
	s         *Service
	key       store.Key
	contextID string
	created   time.Time
	format    a2a.PayloadFormat
	url       *url.URL
	header    http.Header // of every request
	signers   []signer
	events    []store.Event
	task      *store.Task // folded as far as it was needed; nil unless the payload needs it, and it is small
	hold      hold        // for that

	// The last event that was told.
	seq  int64
	id   string
	body []byte
	item *shared // that has the body, or nil
}

// close gives back what requests were made of.
func (c *composer) close() {
	c.hold.shrink(0)
	c.release()
}

func (c *composer) release() {
	if c.item != nil {
		c.s.pool.put(c.item)
	}
	c.item, c.body = nil, nil
}

// unsealed follows where the secrets of a webhook cannot be decrypted: a process that has
// been given the keys may be able to send it. It is looked at every unsealedWait for as
// long as attempts that fail are made.
var unsealed = result{verdict: retry, reason: "the secrets of the webhook cannot be decrypted with the keys of this agent"}

const unsealedWait = 2 * time.Minute

// compose prepares the requests for the events of one claimed lane. Its error is
// *permanent if the lane cannot be told of them as it is set up, errUnsealed if that
// is for want of a key, and errNoMemory.
func (s *Service) compose(ctx context.Context, lane *store.ClaimedLane) (*composer, error) {
	set, err := s.seal.decode(&lane.Config)
	switch {
	case errors.Is(err, errUnsealed):
		s.unsealed.Do(func() {
			s.log.Error("the secrets of a webhook cannot be decrypted with the keys of this process: it waits for one that can, and is parked in the end; told once, there may be more",
				"task", lane.Config.Task.ID, "webhook", lane.Config.ID)
		})
		return nil, errUnsealed
	case err != nil:
		return nil, &permanent{"the webhook is stored in a way that cannot be read"}
	case set.Global:
		if set, err = s.globalSettings(); err != nil {
			return nil, err
		}
	}
	c := &composer{
		s: s, hold: s.ledger.hold(lane.Config.Task.Owner),
		key: lane.Config.Task, contextID: lane.ContextID, created: lane.Created, format: set.Format,
		signers: signers(set.Secrets.Keys, set.Signatures), events: lane.Events,
	}
	if set.Global && s.globalSecret != nil {
		c.signers = []signer{{secret: s.globalSecret}}
	}
	if c.url, err = url.Parse(set.URL); err != nil {
		return nil, &permanent{"url " + err.Error()}
	}
	c.header = http.Header{
		"Content-Type": {contentType(set.Format)},
		"User-Agent":   {s.cfg.Agent},
	}
	authenticate(c.header, &set)
	if set.Format == a2a.PayloadTask {
		if err := c.foldSmall(ctx, lane); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// foldSmall folds the task up to the lane's events, unless it is large with them.
func (c *composer) foldSmall(ctx context.Context, lane *store.ClaimedLane) error {
	size, _, err := store.LogSize(ctx, c.s.cfg.Store, c.key, lane.Events[len(lane.Events)-1].Seq)
	if err != nil || size > smallTask {
		return err
	}
	if err := c.hold.grow(ctx, foldedPerByte*size); err != nil {
		return err
	}
	c.task = &store.Task{Key: c.key, ContextID: c.contextID}
	return c.s.fold(ctx, c.task, lane.Cursor.Seq)
}

// fold applies the log of a task to it, through an event. The caller holds the memory.
func (s *Service) fold(ctx context.Context, t *store.Task, seq int64) error {
	err := store.WalkLog(ctx, s.cfg.Store, nil, t.Key, t.Seq, seq, func(page []store.Event) bool {
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

// authenticate sets the headers that say who calls.
func authenticate(h http.Header, set *settings) {
	if token := set.Secrets.Token; token != "" {
		h["X-A2a-Notification-Token"] = []string{token}
	}
	switch auth := set.Authentication.(type) {
	case a2a.PushNotificationAuthenticationInfo:
		if set.Secrets.Credentials != "" {
			h["Authorization"] = []string{auth.Schemes[0] + " " + set.Secrets.Credentials}
			return
		}
	case a2a.HTTPAuthSecurityScheme:
		if !strings.EqualFold(auth.Scheme, "bearer") {
			h["Authorization"] = []string{auth.Scheme + " " + set.Secrets.Token}
			return
		}
	case a2a.APIKeySecurityScheme:
		h.Set(auth.Name, set.Secrets.Token)
		return
	}
	if set.Secrets.Token != "" {
		h["Authorization"] = []string{"Bearer " + set.Secrets.Token}
	}
}

// request tells e, one of the lane's events; after is the cursor behind it, attempt
// counts from 1, and at is the time of the attempt. Events are asked for in order, each
// as often as needed.
func (c *composer) request(ctx context.Context, e *store.Event, after store.PushCursor, attempt int, at time.Time) (safehttp.Request, error) {
	if c.seq != e.Seq {
		if err := c.tell(ctx, e, after.Sequence); err != nil {
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
	if copies(c.signers) {
		held := c.hold.Bytes()
		if err := c.hold.grow(ctx, int64(len(c.body))); err != nil {
			return safehttp.Request{}, err
		}
		defer c.hold.shrink(held)
	}
	if signed := signature(c.signers, c.id, at, c.body); signed != "" {
		h["Webhook-Signature"] = []string{signed}
	}
	return safehttp.Request{URL: c.url, Header: h, Body: c.body}, nil
}

// tell makes the body for an event. Lanes of a task that tell its state after the same
// event share it.
func (c *composer) tell(ctx context.Context, e *store.Event, sequence int64) error {
	c.release()
	t := told{
		id: EventID(c.key, c.created, e.Seq), sequence: sequence, taskID: c.key.ID, contextID: c.contextID, event: e,
	}
	var err error
	if c.format == a2a.PayloadTask {
		create := c.s.encodeTask(c.key, c.contextID, e.Seq)
		if c.task != nil {
			create = func(_ context.Context, item *shared) (err error) {
				item.body, err = c.encode(&t)
				return err
			}
		}
		key := sharedKey{task: c.key, created: c.created.UnixMilli(), seq: e.Seq, format: c.format}
		if c.item, err = c.s.get(ctx, key, create); err != nil {
			return err
		}
		c.body = c.item.body
	} else if c.body, err = c.encode(&t); err != nil {
		return err
	}
	c.seq, c.id = e.Seq, t.id
	return nil
}

// encode returns the body for an event that the lane has.
func (c *composer) encode(t *told) ([]byte, error) {
	if c.task != nil {
		for i := range c.events {
			if seq := c.events[i].Seq; seq > c.task.Seq && seq <= t.event.Seq {
				c.task.Apply(c.events[i])
			}
		}
		t.task = c.task
	}
	body, err := t.payload(c.format)
	if err != nil {
		return nil, &permanent{"the update cannot be sent: " + err.Error()}
	}
	return body, nil
}
