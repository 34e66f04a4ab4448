//go:build faults

package faults_test

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/testport"
	"github.com/holdfast-dev/holdfast/webhook"
)

// receiver is an HTTP server for webhooks. It checks each request against the earlier ones: every
// event has one id and one body, requests of a webhook are in order and one at a time, and each
// is signed. A receiver lives longer than the servers, and can be closed and opened again.
type receiver struct {
	t    *testing.T
	addr string
	// policy returns the response to a request; nil accepts all. It is set before the first
	// request.
	policy func(d *delivery) answer
	// read, if not nil, reads the task of some of the events from a server. A task that is not read within readLimit is
	// not checked, because the server may be suspended.
	read      func(ctx context.Context, id string) (*a2a.Task, error)
	readLimit time.Duration

	listening *http.Server
	handling  sync.WaitGroup

	mu      sync.Mutex
	hooks   map[string]*hook // by id, which the receiver generates
	events  map[eventName]*deliveredEvent
	lanes   map[laneName]*deliveries
	zombies bool // a process without a lease may still send requests
	wrong   int

	requests, accepted, again, tasksChecked, overlaps int
	lastAt                                            time.Time // when an event was last accepted
}

// hook is a webhook of the receiver.
type hook struct {
	id     string
	secret string // "" if unknown
	after  string // id of the message that registered it; "" if that was the first message or a call of set
	// Events after this sequence are delivered; -1 if unknown.
	begin   int64
	deleted time.Time
	cleared bool // its context was cleared on one of several replicas
	late    int  // requests after that
}

// claimedEvents is the maximum number of events of a webhook in one claim. A replica that sends when the context is
// cleared on another one may finish its claim.
const claimedEvents = 16

type eventName struct {
	task     string
	sequence int64
}

type laneName struct{ task, hook string }

// deliveredEvent is an event as it was first delivered, to any webhook of its task.
type deliveredEvent struct {
	id, body string
	envelope envelope
}

// deliveries has the events that one webhook of one task received.
type deliveries struct {
	low, next int64 // sequence of the first event, and of the next one that was neither accepted nor rejected
	seen      map[int64]bool
	refused   map[int64]bool
	underWay  []*delivery // requests that have no response yet
	at        []time.Time
	unsigned  []signedRequest // verified when the secret is known
	again     int
}

type signedRequest struct {
	header http.Header
	event  eventName
}

// envelope has the members of a body that the receiver checks.
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
	conn    net.Conn  // from its sender
	started time.Time // when it arrived
}

// answer is the response to a request. The zero value is status 200.
type answer struct {
	status     int
	retryAfter string
	pause      time.Duration
	cut        bool // close the connection without a response
}

// newReceiver opens a receiver. Every problem that it finds fails the test.
func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{
		t: t, addr: testport.Addr(t), hooks: make(map[string]*hook), events: make(map[eventName]*deliveredEvent), lanes: make(map[laneName]*deliveries),
		readLimit: 2 * time.Second,
	}
	r.open()
	t.Cleanup(func() {
		r.close()
		r.handling.Wait()
	})
	return r
}

// open starts to listen.
func (r *receiver) open() {
	r.t.Helper()
	var ln net.Listener
	await.Success(r.t, func() (err error) {
		ln, err = net.Listen("tcp", r.addr)
		return err
	})
	r.listening = &http.Server{Handler: r, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}}
	r.handling.Add(1)
	go func(s *http.Server) {
		defer r.handling.Done()
		_ = s.Serve(ln)
	}(r.listening)
}

// close ends all connections and stops listening.
func (r *receiver) close() { _ = r.listening.Close() }

// connKey is the key of a request's connection in its context.
type connKey struct{}

// hasSender reports whether the sender of a request still keeps the connection open. The kernel closes the connections
// of a process that ends before its end can be observed, so no request of a killed process has a sender.
func (d *delivery) hasSender() (open bool) {
	raw, err := d.conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		open = err == nil && info.State == unix.BPF_TCP_ESTABLISHED
	})
	return open && err == nil // this receiver may have closed the connection
}

func (r *receiver) failf(format string, args ...any) {
	if r.wrong++; r.wrong <= 20 {
		r.t.Errorf("receiver: "+format, args...)
	}
}

// add returns a new webhook. Its task is not known yet.
func (r *receiver) add() *a2a.PushNotificationConfig {
	h := &hook{id: newID(), begin: -1}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks[h.id] = h
	return &a2a.PushNotificationConfig{ID: h.id, URL: "http://" + r.addr + "/" + h.id, Token: "token of " + h.id}
}

// inline returns the configuration of a message that creates a task with a new webhook.
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

// learn sets the secret of a webhook. It verifies the requests received so far; later ones are
// verified on arrival.
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
		// The timestamp of an earlier request may be old: it was checked on arrival.
		err = w.VerifyIgnoringTimestamp([]byte(body), header)
	}
	if err != nil {
		r.failf("webhook %s: signature: %v", id, err)
	}
}

// ServeHTTP handles a request.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.handling.Add(1)
	defer r.handling.Done()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // its sender has disconnected
	}
	search("webhook "+req.URL.Path, body)
	d := &delivery{hook: strings.TrimPrefix(req.URL.Path, "/"), started: time.Now()}
	d.conn, _ = req.Context().Value(connKey{}).(net.Conn)
	d.attempt, _ = strconv.Atoi(req.Header.Get("X-Delivery-Attempt"))
	if err := json.Unmarshal(body, &d.envelope); err != nil {
		r.t.Errorf("receiver: body %.200q: %v", body, err)
		return
	}
	receivedAt := time.Now()
	if r.isDeleted(d.hook) && !d.hasSender() {
		return // the sender canceled the request before the webhook was deleted
	}
	l, readTask := r.arrive(d, body, req.Header, receivedAt)
	if readTask {
		r.checkTask(req.Context(), d)
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

// arrive checks a request against the earlier ones. readTask reports whether to
// read its task.
func (r *receiver) arrive(d *delivery, body []byte, header http.Header, receivedAt time.Time) (l *deliveries, readTask bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	h := r.hooks[d.hook]
	if h == nil {
		r.failf("request for %q, which is no webhook", d.hook)
		h = &hook{}
	}
	if !h.deleted.IsZero() && receivedAt.After(h.deleted) {
		r.failf("webhook %s is called %s after it was deleted", d.hook, time.Since(h.deleted))
	}
	if h.cleared {
		if h.late++; h.late > claimedEvents {
			r.failf("webhook %s: request %d since its context was cleared, want at most %d", d.hook, h.late, claimedEvents)
		}
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
	for _, other := range l.underWay {
		r.overlaps++
		if !r.zombies && other.hasSender() && d.hasSender() {
			r.failf("webhook %s of task %s: event %d is sent while another is under way for %s", d.hook, d.TaskID, d.Sequence, time.Since(other.started))
		}
	}
	l.underWay = append(l.underWay, d)
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

// checkTask reads the task, which must be in the state of the event or a later one.
func (r *receiver) checkTask(ctx context.Context, d *delivery) {
	ctx, cancel := context.WithTimeout(ctx, r.readLimit)
	defer cancel()
	task, err := r.read(ctx, d.TaskID)
	if err != nil {
		return // no server responds
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasksChecked++
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

// leave records the response to a request.
func (r *receiver) leave(d *delivery, l *deliveries, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.underWay = slices.DeleteFunc(l.underWay, func(other *delivery) bool { return other == d })
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

// replayed records that a webhook is replayed from a sequence.
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

// count returns the number of requests, of accepted events, and of requests for events that had
// been accepted before.
func (r *receiver) count() (requests, accepted, again int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests, r.accepted, r.again
}

// inProgress returns the number of requests that have no response yet.
func (r *receiver) inProgress() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lanes {
		n += len(l.underWay)
	}
	return n
}

// last returns when an event was last accepted.
func (r *receiver) last() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastAt
}

// summary logs the number of requests.
func (r *receiver) summary() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.t.Logf("%d requests to %d webhooks, %d events accepted, %d again after that, %d while another was in progress, %d tasks read",
		r.requests, len(r.lanes), r.accepted, r.again, r.overlaps, r.tasksChecked)
}

// learnAll gets the secrets of webhooks that were registered with messages, so that their
// requests can be verified. If the registration of a webhook got no response, its secret may have
// been returned to nobody. No event may be undelivered.
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
