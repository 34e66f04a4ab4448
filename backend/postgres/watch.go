package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// notifyInterval is how long changes are collected before they are sent. NOTIFY locks the
	// whole database until its transaction commits, so notifications must be few, and never part
	// of a transaction that changes data.
	notifyInterval = 10 * time.Millisecond
	// maxPayloadBytes is the maximum size of a payload. PostgreSQL accepts less than 8000.
	maxPayloadBytes = 7500
	// maxPendingTasks is the maximum number of tasks in the outbox. Above it, the notification
	// says that any task may have changed.
	maxPendingTasks = 4096
	// maxNotifyBackoff is the longest pause after a failed notification.
	maxNotifyBackoff = time.Second
	// listenCheckInterval is the time without notifications after which Watch checks its connection.
	listenCheckInterval = 15 * time.Second
)

const sqlNotify = `SELECT pg_notify($1::text, p) FROM unnest($2::text[]) p`

// notifier announces changes to other processes and receives their notifications.
type notifier struct {
	*database
	outbox       *outbox
	laneWatchers store.LaneWatchers
}

// outbox collects changes of this store until other processes are notified.
type outbox struct {
	sender     string
	idleCheck  time.Duration // see listenCheckInterval
	mu         sync.Mutex
	tasks      map[store.Key]struct{}
	work       bool
	own        bool // this process must be notified too
	lanes      bool
	incomplete bool          // other tasks than these may have changed
	ready      chan struct{} // has a token if the outbox is not empty
}

func newOutbox() *outbox {
	return &outbox{
		sender: fmt.Sprintf("%016x", rand.Uint64()), //nolint:gosec // need not be secret
		tasks:  make(map[store.Key]struct{}), ready: make(chan struct{}, 1), idleCheck: listenCheckInterval,
	}
}

// add adds changed tasks. work reports that some of them may be due.
func (n *outbox) add(work bool, keys ...store.Key) {
	if len(keys) == 0 {
		return
	}
	n.mu.Lock()
	n.work = n.work || work
	for _, k := range keys {
		if len(n.tasks) == maxPendingTasks {
			n.incomplete = true
			break
		}
		n.tasks[k] = struct{}{}
	}
	n.mu.Unlock()
	n.wake()
}

// addWork records that tasks may be due, also for this process.
func (n *outbox) addWork() {
	n.mu.Lock()
	n.work, n.own = true, true
	n.mu.Unlock()
	n.wake()
}

// markIncomplete records that a notification was lost: any task may have changed.
func (n *outbox) markIncomplete() {
	n.mu.Lock()
	n.incomplete = true
	n.mu.Unlock()
	n.wake()
}

// addLanes records that lanes may be due.
func (n *outbox) addLanes() {
	n.mu.Lock()
	n.lanes = true
	n.mu.Unlock()
	n.wake()
}

func (n *outbox) wake() {
	select {
	case n.ready <- struct{}{}:
	default:
	}
}

// payload is the JSON of a notification.
type payload struct {
	Sender string      `json:"s"`
	Work   bool        `json:"w,omitempty"`
	Lost   bool        `json:"l,omitempty"`
	Lanes  bool        `json:"p,omitempty"`
	Tasks  [][2]string `json:"t,omitempty"`
}

// take empties the outbox and returns its changes as payloads.
func (n *outbox) take() (payloads []string) {
	n.mu.Lock()
	tasks, work, own, lanes, lost := n.tasks, n.work, n.own, n.lanes, n.incomplete
	n.tasks, n.work, n.own, n.lanes, n.incomplete = make(map[store.Key]struct{}), false, false, false, false
	n.mu.Unlock()
	if len(tasks) == 0 && !work && !lanes && !lost {
		return nil
	}
	p := payload{Sender: n.sender, Work: work, Lanes: lanes, Lost: lost}
	if own {
		p.Sender = ""
	}
	size := 0
	flush := func() {
		raw, _ := json.Marshal(p) // plain strings: cannot fail
		payloads = append(payloads, string(raw))
		p.Tasks, p.Lost, p.Lanes, size = nil, false, false, 0
	}
	if p.Lost {
		flush()
		return payloads
	}
	for k := range tasks {
		task, _ := json.Marshal([2]string{k.Owner, k.ID})
		if size+len(task) > maxPayloadBytes-100 && size > 0 {
			flush()
		}
		if len(task) > maxPayloadBytes-100 { // too long for a payload
			p.Lost = true
			continue
		}
		p.Tasks = append(p.Tasks, [2]string{k.Owner, k.ID})
		size += len(task) + 1
	}
	flush()
	return payloads
}

// sendNotifications notifies other processes of the changes in the outbox, until ctx is done.
// After a failure it notifies them that any task may have changed.
func (s *notifier) sendNotifications(ctx context.Context) {
	pause := notifyInterval
	for {
		select {
		case <-s.outbox.ready:
		case <-ctx.Done():
			return
		}
		if runtime.Sleep(ctx, pause) != nil {
			return
		}
		payloads := s.outbox.take()
		if len(payloads) == 0 {
			continue
		}
		err := s.runOnce(ctx, func(ctx context.Context, c *pgx.Conn) error {
			_, err := s.exec(ctx, c, sqlNotify, s.channel(), payloads)
			return err
		})
		if err == nil {
			pause = notifyInterval
			continue
		}
		pause = min(2*pause, maxNotifyBackoff)
		s.outbox.markIncomplete()
		s.log.Debug("notifying other processes failed, retrying", "delay", pause, "error", err)
	}
}

// channel returns the name of the notification channel of the schema.
func (s *notifier) channel() string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.cfg.Schema))
	return fmt.Sprintf("holdfast_%016x", h.Sum64())
}

// Watch implements [store.Watcher]. It uses a connection of its own, outside the pool. Behind
// a pooler, where LISTEN does not work, it receives no notifications.
func (s *notifier) Watch(ctx context.Context, f func(store.Notification)) error {
	if s.cfg.Pooler {
		<-ctx.Done()
		return nil
	}
	cc := s.pool.Config().ConnConfig
	s.hosts.omitHanging(cc)
	// A canceled wait must not close the connection.
	cc.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	c, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return s.cfg.maskPassword(err)
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(closeCtx)
	}()
	if _, err := c.Exec(ctx, "LISTEN "+s.channel()); err != nil {
		return err
	}
	h := &notificationBuffer{ready: make(chan struct{}, 1)}
	h.add(store.Notification{Lost: true}) // changes before LISTEN
	deliverCtx, stopDelivery := context.WithCancel(ctx)
	var deliverer sync.WaitGroup
	deliverer.Go(func() { h.deliver(deliverCtx, f) })
	defer deliverer.Wait()
	defer stopDelivery()
	for {
		n, err := s.listen(ctx, c)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if n != nil {
			h.add(s.decodeNotification(n.Payload))
		}
	}
}

// listen waits for a notification. It returns nil if there was none for a while and the
// connection works.
func (s *notifier) listen(ctx context.Context, c *pgx.Conn) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, s.outbox.idleCheck)
	defer cancel()
	n, err := c.WaitForNotification(waiting)
	if err == nil || ctx.Err() != nil || waiting.Err() == nil {
		return n, err
	}
	checking, cancel := context.WithTimeout(ctx, s.cfg.CommandTimeout)
	defer cancel()
	return nil, c.Ping(checking)
}

// decodeNotification decodes a payload and notifies watchers of lanes. It returns an empty
// notification for a payload of this store.
func (s *notifier) decodeNotification(text string) (n store.Notification) {
	var p payload
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return store.Notification{Lost: true}
	}
	if p.Sender == s.outbox.sender {
		return n
	}
	if p.Lanes || p.Lost {
		s.laneWatchers.Notify()
	}
	n.Work, n.Lost = p.Work, p.Lost
	for _, t := range p.Tasks {
		n.Tasks = append(n.Tasks, store.Key{Owner: t[0], ID: t[1]})
	}
	return n
}

// notificationBuffer collects notifications for a callback that may be slow.
type notificationBuffer struct {
	mu    sync.Mutex
	tasks map[store.Key]struct{}
	work  bool
	lost  bool
	ready chan struct{}
}

func (h *notificationBuffer) add(n store.Notification) {
	if !n.Work && !n.Lost && len(n.Tasks) == 0 {
		return
	}
	h.mu.Lock()
	h.work, h.lost = h.work || n.Work, h.lost || n.Lost
	if h.tasks == nil {
		h.tasks = make(map[store.Key]struct{})
	}
	for _, k := range n.Tasks {
		if len(h.tasks) > 4*maxPendingTasks {
			h.lost = true
			break
		}
		h.tasks[k] = struct{}{}
	}
	h.mu.Unlock()
	select {
	case h.ready <- struct{}{}:
	default:
	}
}

func (h *notificationBuffer) deliver(ctx context.Context, f func(store.Notification)) {
	for {
		select {
		case <-h.ready:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		n := store.Notification{Work: h.work, Lost: h.lost}
		for k := range h.tasks {
			n.Tasks = append(n.Tasks, k)
		}
		h.tasks, h.work, h.lost = nil, false, false
		h.mu.Unlock()
		f(n)
	}
}
