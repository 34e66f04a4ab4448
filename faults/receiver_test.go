//go:build faults

package faults_test

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/webhook"
)

// receiver is where webhooks go. It checks each request as it comes against all
// that came before: one id and one body for each event, in order, one at a time for
// each webhook, signed. It outlives the servers, and can be closed and opened again.
type receiver struct {
	t    *testing.T
	addr string
	// policy decides how a request is answered; nil takes all. It is set before
	// anything comes.
	policy func(d *delivery) answer
	// read, if set, is asked for the task of some of the events.
	read func(ctx context.Context, id string) (*a2a.Task, error)

	listening *http.Server
	handling  sync.WaitGroup

	mu      sync.Mutex
	hooks   map[string]*hook // by id, which is made here and unique
	events  map[eventName]*deliveredEvent
	lanes   map[laneName]*deliveries
	shaken  time.Time // when a process was killed, suspended or cut off last
	zombies bool      // a process may be at it that is no longer meant to be
	wrong   int

	requests, accepted, again, looked, overlaps int
	lastAt                                      time.Time // when an event was taken last
}

// hook is a webhook of the receiver.
type hook struct {
	id     string
	secret string // "" while it is not known
	after  string // the message it came with; "" if with the first or by set
	// The sequence after which events are delivered; -1 if that is not known.
	begin   int64
	deleted time.Time
}

type eventName struct {
	task     string
	sequence int64
}

type laneName struct{ task, hook string }

// deliveredEvent is an event of a task as it was delivered first, by any webhook.
type deliveredEvent struct {
	id, body string
	envelope envelope
}

// deliveries has the events that one webhook of one task received.
type deliveries struct {
	low, next int64 // the first, and the next that has neither been taken nor refused
	seen      map[int64]bool
	refused   map[int64]bool
	underWay  int
	begun     time.Time // of the attempt under way
	at        []time.Time
	unsigned  []signedRequest // to be verified when the secret is known
	again     int
}

type signedRequest struct {
	header http.Header
	event  eventName
}

// envelope is what is read of a body.
type envelope struct {
	EventID   string `json:"event_id"`
	Sequence  int64  `json:"sequence"`
	Timestamp string `json:"timestamp"`
	Kind      string `json:"kind"`
	TaskID    string `json:"task_id"`
	Final     bool   `json:"final"`
	Status    *struct {
		State a2a.TaskState `json:"state"`
	} `json:"status"`
}

// delivery is one request.
type delivery struct {
	envelope
	hook    string
	attempt int
}

// answer is what a request gets. The zero answer is 200.
type answer struct {
	status     int
	retryAfter string
	pause      time.Duration
	cut        bool // no answer, the connection ends
}

// newReceiver opens a receiver. Whatever it finds wrong fails the test.
func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{
		t: t, addr: freeAddr(t), hooks: make(map[string]*hook), events: make(map[eventName]*deliveredEvent), lanes: make(map[laneName]*deliveries),
	}
	r.open()
	t.Cleanup(func() {
		r.close()
		r.handling.Wait()
	})
	return r
}

// open listens.
func (r *receiver) open() {
	r.t.Helper()
	var ln net.Listener
	eventually(r.t, func() (err error) {
		ln, err = net.Listen("tcp", r.addr)
		return err
	})
	r.listening = &http.Server{Handler: r}
	r.handling.Add(1)
	go func(s *http.Server) {
		defer r.handling.Done()
		_ = s.Serve(ln)
	}(r.listening)
}

// close ends all connections and takes no new ones.
func (r *receiver) close() { _ = r.listening.Close() }

// shake notes that a process is killed: what it had sent may still come.
func (r *receiver) shake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shaken = time.Now()
}

func (r *receiver) failf(format string, args ...any) {
	if r.wrong++; r.wrong <= 20 {
		r.t.Errorf("receiver: "+format, args...)
	}
}

// add makes a webhook. Its task is not known yet.
func (r *receiver) add() *a2a.PushNotificationConfig {
	h := &hook{id: newID(), begin: -1}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks[h.id] = h
	return &a2a.PushNotificationConfig{ID: h.id, URL: "http://" + r.addr + "/" + h.id, Token: "token of " + h.id}
}

// inline makes a webhook for a message that creates a task.
func (r *receiver) inline() *a2a.MessageSendConfiguration {
	c := r.add()
	r.note(c.ID, func(h *hook) { h.begin = 0 })
	return &a2a.MessageSendConfiguration{PushNotificationConfig: c}
}

func (r *receiver) note(id string, f func(h *hook)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.hooks[id])
}

// register adds a webhook to an existing task, at any time.
func (r *receiver) register(ctx context.Context, p *process, task string) (string, error) {
	c := r.add()
	saved, err := p.client.SetWebhook(ctx, a2a.TaskPushNotificationConfig{TaskID: task, Config: *c})
	if err != nil {
		return c.ID, err
	}
	r.note(c.ID, func(h *hook) { h.begin = saved.Config.Delivery.Sequence })
	r.learn(task, c.ID, saved.Config.SigningSecret)
	return c.ID, nil
}

// learn verifies the events that a webhook received so far, and all from now on.
func (r *receiver) learn(task, id, secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks[id].secret = secret
	if l := r.lanes[laneName{task, id}]; l != nil {
		for _, s := range l.unsigned {
			r.verify(id, secret, r.events[s.event].body, s.header)
		}
		l.unsigned = nil
	}
}

func (r *receiver) verify(id, secret, body string, header http.Header) {
	w, err := standardwebhooks.NewWebhook(secret)
	if err == nil {
		// A held event may be old by now: its age is checked on arrival.
		err = w.VerifyIgnoringTimestamp([]byte(body), header)
	}
	if err != nil {
		r.failf("webhook %s: signature: %v", id, err)
	}
}

// ServeHTTP takes a request.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.handling.Add(1)
	defer r.handling.Done()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // its sender is gone
	}
	d := &delivery{hook: strings.TrimPrefix(req.URL.Path, "/")}
	d.attempt, _ = strconv.Atoi(req.Header.Get("X-Delivery-Attempt"))
	if err := json.Unmarshal(body, &d.envelope); err != nil {
		r.t.Errorf("receiver: body %.200q: %v", body, err)
		return
	}
	came := time.Now()
	if r.isDeleted(d.hook) {
		// It may have been sent and abandoned before.
		select {
		case <-req.Context().Done():
			return
		case <-time.After(10 * time.Second):
		}
	}
	l, look := r.arrive(d, body, req.Header, came)
	if look {
		r.look(req.Context(), d)
	}
	var a answer
	if r.policy != nil {
		a = r.policy(d)
	}
	if a.pause > 0 {
		timer := time.NewTimer(a.pause)
		select {
		case <-timer.C:
		case <-req.Context().Done():
			a.cut = true
		}
		timer.Stop()
	}
	a.status = cmp.Or(a.status, http.StatusOK)
	r.leave(d, l, a)
	if a.cut {
		panic(http.ErrAbortHandler)
	}
	if a.retryAfter != "" {
		w.Header().Set("Retry-After", a.retryAfter)
	}
	w.WriteHeader(a.status)
}

func (r *receiver) isDeleted(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.hooks[id]
	return h != nil && !h.deleted.IsZero()
}

// arrive checks a request by what has come before. look reports whether its task is
// to be inspected.
func (r *receiver) arrive(d *delivery, body []byte, header http.Header, came time.Time) (l *deliveries, look bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	h := r.hooks[d.hook]
	if h == nil {
		r.failf("request for %q, which is no webhook", d.hook)
		h = &hook{}
	}
	if !h.deleted.IsZero() && came.After(h.deleted) {
		r.failf("webhook %s is called %s after it was deleted", d.hook, time.Since(h.deleted))
	}
	r.checkHeader(d, header)
	event := eventName{d.TaskID, d.Sequence}
	if e := r.events[event]; e == nil {
		r.events[event] = &deliveredEvent{d.EventID, string(body), d.envelope}
	} else if e.id != d.EventID || e.body != string(body) {
		r.failf("event %d of task %s was delivered as %s %s, and as %s %s", d.Sequence, d.TaskID, e.id, e.body, d.EventID, body)
	}
	name := laneName{d.TaskID, d.hook}
	l = r.lanes[name]
	if l == nil {
		l = &deliveries{low: d.Sequence, next: d.Sequence, seen: make(map[int64]bool), refused: make(map[int64]bool)}
		r.lanes[name] = l
	}
	if h.secret != "" {
		r.verify(h.id, h.secret, string(body), header)
	} else {
		l.unsigned = append(l.unsigned, signedRequest{header.Clone(), event})
	}
	if l.underWay++; l.underWay > 1 {
		r.overlaps++
		if !r.zombies && time.Since(r.shaken) > 6*time.Second {
			r.failf("webhook %s of task %s: event %d is sent while another is under way for %s", d.hook, d.TaskID, d.Sequence, time.Since(l.begun))
		}
	}
	l.begun = time.Now()
	switch {
	case d.Sequence > l.next:
		r.failf("webhook %s of task %s: event %d is sent before %d was taken", d.hook, d.TaskID, d.Sequence, l.next)
	case d.Sequence < l.next:
		l.again++
		r.again++
	}
	return l, r.read != nil && (d.Sequence+int64(len(r.lanes)))%7 == 0
}

func (r *receiver) checkHeader(d *delivery, header http.Header) {
	for name, want := range map[string]string{
		"Authorization": "Bearer token of " + d.hook, "X-A2a-Notification-Token": "token of " + d.hook,
		"Content-Type": "application/json", "Webhook-Id": d.EventID,
	} {
		if got := header.Get(name); got != want {
			r.failf("%s: %q, want %q", name, got, want)
		}
	}
	sent, err := strconv.ParseInt(header.Get("Webhook-Timestamp"), 10, 64)
	if age := time.Since(time.Unix(sent, 0)).Abs(); err != nil || age > time.Minute {
		r.failf("Webhook-Timestamp: %q, want the time of the attempt", header.Get("Webhook-Timestamp"))
	}
	if d.attempt < 1 {
		r.failf("X-Delivery-Attempt: %q, want a number from 1", header.Get("X-Delivery-Attempt"))
	}
}

// look reads the task, which must stand at the event or later.
func (r *receiver) look(ctx context.Context, d *delivery) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	task, err := r.read(ctx, d.TaskID)
	if err != nil {
		return // no server can be asked
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked++
	at, err := time.Parse(time.RFC3339Nano, d.Timestamp)
	switch {
	case err != nil:
		r.failf("timestamp %q: %v", d.Timestamp, err)
	case d.Kind == "status-update" && task.Status.Timestamp.Before(at):
		r.failf("event %d of task %s was delivered at %s, the task is as of %s", d.Sequence, d.TaskID, at, task.Status.Timestamp)
	case d.Final && task.Status.State != d.Status.State:
		r.failf("task %s was reported as %s, and is %s", d.TaskID, d.Status.State, task.Status.State)
	case d.Kind == "artifact-update" && len(task.Artifacts) == 0:
		r.failf("event %d of task %s has an artifact, the task has none", d.Sequence, d.TaskID)
	}
}

// leave notes what a request is answered.
func (r *receiver) leave(d *delivery, l *deliveries, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.underWay--
	dead := a.status == http.StatusGone || a.status == http.StatusNotFound
	if a.cut || a.status >= 300 && !dead || d.Sequence != l.next {
		return
	}
	if dead {
		l.refused[d.Sequence] = true
	} else {
		l.seen[d.Sequence] = true
		r.accepted++
		r.lastAt = time.Now()
	}
	l.next++
	l.at = append(l.at, time.Now())
}

// replayed replays a webhook from a sequence on.
func (r *receiver) replayed(task, id string, from int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lanes[laneName{task, id}]
	if l.next = from; from < l.low {
		l.low = from
	}
	for sequence := range l.refused {
		if sequence >= from {
			delete(l.refused, sequence)
		}
	}
}

// count returns how often requests came, were taken, and came again when they had
// been taken.
func (r *receiver) count() (requests, accepted, again int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests, r.accepted, r.again
}

// last returns when an event was taken last.
func (r *receiver) last() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastAt
}

// summary summarizes the received requests.
func (r *receiver) summary() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.t.Logf("%d requests to %d webhooks, %d events accepted, %d again after that, %d while another was in progress, %d tasks read",
		r.requests, len(r.lanes), r.accepted, r.again, r.overlaps, r.looked)
}

// learnAll asks for the secrets of webhooks that came with messages, whose requests
// can only then be verified. That of a webhook whose registration was not answered has
// been delivered to nobody: it is lost. Nothing may be pending.
func (r *receiver) learnAll(p *process) {
	r.t.Helper()
	var names []laneName
	r.mu.Lock()
	for name := range r.lanes {
		if h := r.hooks[name.hook]; h != nil && h.secret == "" && h.deleted.IsZero() && (h.begin == 0 || h.after != "") {
			names = append(names, name)
		}
	}
	r.mu.Unlock()
	each(names, func(name laneName) {
		config := a2a.PushNotificationConfig{ID: name.hook, URL: "http://" + r.addr + "/" + name.hook, Token: webhook.Mask}
		saved, err := p.client.SetWebhook(r.t.Context(), a2a.TaskPushNotificationConfig{TaskID: name.task, Config: config})
		if err != nil || saved.Config.SigningSecret == "" {
			r.t.Errorf("secret of webhook %s of task %s: %+v, %v", name.hook, name.task, saved, err)
			return
		}
		r.learn(name.task, name.hook, saved.Config.SigningSecret)
	})
}
