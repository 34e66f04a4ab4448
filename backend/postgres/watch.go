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

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// noticeEvery is how long commits are gathered before they are told: a
	// notification takes a lock on the whole database until its commit, so they are
	// few, and never part of a transaction that does work.
	noticeEvery = 10 * time.Millisecond
	// noticeBytes is the most that a notification carries; PostgreSQL takes 8000.
	noticeBytes = 7500
	// noticeKeys is the most tasks that wait to be told; above that it is told that
	// anything may have changed.
	noticeKeys = 4096
	// notifyRetryMax is the longest pause after notifications that failed.
	notifyRetryMax = time.Second
	// listenCheck is how often a silent connection is asked whether it is one still.
	listenCheck = 15 * time.Second
)

const sqlNotify = `SELECT pg_notify($1::text, p) FROM unnest($2::text[]) p`

// news are commits of this store that others have not been told of.
type news struct {
	sender string
	check  time.Duration // see listenCheck
	mu     sync.Mutex
	tasks  map[store.Key]struct{}
	work   bool
	lanes  bool
	lost   bool          // tasks do not name all that have changed
	some   chan struct{} // has a token when there are any
}

func newNews() *news {
	return &news{
		sender: fmt.Sprintf("%016x", rand.Uint64()), //nolint:gosec // chance, not secrecy
		tasks:  make(map[store.Key]struct{}), some: make(chan struct{}, 1), check: listenCheck,
	}
}

// add notes changes of tasks; work says that some may now be due.
func (n *news) add(work bool, keys ...store.Key) {
	if len(keys) == 0 {
		return
	}
	n.mu.Lock()
	n.work = n.work || work
	for _, k := range keys {
		if len(n.tasks) == noticeKeys {
			n.lost = true
			break
		}
		n.tasks[k] = struct{}{}
	}
	n.mu.Unlock()
	n.wake()
}

// addLost notes that what was taken could not be sent: anything may have changed.
func (n *news) addLost() {
	n.mu.Lock()
	n.lost = true
	n.mu.Unlock()
	n.wake()
}

// addLanes notes that lanes may be due.
func (n *news) addLanes() {
	n.mu.Lock()
	n.lanes = true
	n.mu.Unlock()
	n.wake()
}

func (n *news) wake() {
	select {
	case n.some <- struct{}{}:
	default:
	}
}

// payload is what a notification carries.
type payload struct {
	Sender string      `json:"s"`
	Work   bool        `json:"w,omitempty"`
	Lost   bool        `json:"l,omitempty"`
	Lanes  bool        `json:"p,omitempty"`
	Tasks  [][2]string `json:"t,omitempty"`
}

// take returns what there is to tell as payloads, each short enough.
func (n *news) take() (payloads []string) {
	n.mu.Lock()
	tasks, work, lanes, lost := n.tasks, n.work, n.lanes, n.lost
	n.tasks, n.work, n.lanes, n.lost = make(map[store.Key]struct{}), false, false, false
	n.mu.Unlock()
	if len(tasks) == 0 && !lanes && !lost {
		return nil
	}
	p := payload{Sender: n.sender, Work: work, Lanes: lanes, Lost: lost}
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
		if size+len(task) > noticeBytes-100 && size > 0 {
			flush()
		}
		if len(task) > noticeBytes-100 { // too long to be named
			p.Lost = true
			continue
		}
		p.Tasks = append(p.Tasks, [2]string{k.Owner, k.ID})
		size += len(task) + 1
	}
	flush()
	return payloads
}

// tell notifies other processes of what was committed, until ctx is done. After a
// failure it notifies them that anything may have changed, as soon as that succeeds.
func (s *Store) tell(ctx context.Context) {
	pause := noticeEvery
	for {
		select {
		case <-s.news.some:
		case <-ctx.Done():
			return
		}
		if !wait(ctx, pause) {
			return
		}
		payloads := s.news.take()
		if len(payloads) == 0 {
			continue
		}
		err := s.once(ctx, func(ctx context.Context, c *pgx.Conn) error {
			_, err := s.exec(ctx, c, sqlNotify, s.channel(), payloads)
			return err
		})
		if err == nil {
			pause = noticeEvery
			continue
		}
		pause = min(2*pause, notifyRetryMax)
		s.news.addLost()
		s.log.Debug("notify other processes of commits, trying again", "in", pause, "error", err)
	}
}

// channel is the name under which the stores on a schema tell each other.
func (s *Store) channel() string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.cfg.Schema))
	return fmt.Sprintf("holdfast_%016x", h.Sum64())
}

// Watch implements store.Watcher. It has a connection of its own, outside the
// pool. Behind a pooler, which gives nobody a session, nothing is heard.
func (s *Store) Watch(ctx context.Context, f func(store.Notice)) error {
	if s.cfg.Pooler {
		<-ctx.Done()
		return nil
	}
	cc := s.pool.Config().ConnConfig
	// Giving up a wait must leave the connection as it is.
	cc.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	c, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return s.unmasked(err)
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(bye)
	}()
	if _, err := c.Exec(ctx, "LISTEN "+s.channel()); err != nil {
		return err
	}
	h := &heard{some: make(chan struct{}, 1)}
	h.add(store.Notice{Lost: true}) // of what went on before
	told, done := context.WithCancel(ctx)
	var teller sync.WaitGroup
	teller.Go(func() { h.tell(told, f) })
	defer teller.Wait()
	defer done()
	for {
		n, err := s.listen(ctx, c)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if n != nil {
			h.add(s.notice(n.Payload))
		}
	}
}

// listen waits for a notification. It returns nil when there was none for a while
// and the connection is in order.
func (s *Store) listen(ctx context.Context, c *pgx.Conn) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, s.news.check)
	defer cancel()
	n, err := c.WaitForNotification(waiting)
	if err == nil || ctx.Err() != nil || waiting.Err() == nil {
		return n, err
	}
	checking, cancel := context.WithTimeout(ctx, s.cfg.CommandTimeout)
	defer cancel()
	return nil, c.Ping(checking)
}

// notice reads a payload and tells those who watch lanes; one of our own says nothing.
func (s *Store) notice(text string) (n store.Notice) {
	var p payload
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return store.Notice{Lost: true}
	}
	if p.Sender == s.news.sender {
		return n
	}
	if p.Lanes || p.Lost {
		s.watchers.tell()
	}
	n.Work, n.Lost = p.Work, p.Lost
	for _, t := range p.Tasks {
		n.Tasks = append(n.Tasks, store.Key{Owner: t[0], ID: t[1]})
	}
	return n
}

// heard gathers notices for one who may be slow to take them.
type heard struct {
	mu    sync.Mutex
	tasks map[store.Key]struct{}
	work  bool
	lost  bool
	some  chan struct{}
}

func (h *heard) add(n store.Notice) {
	if !n.Work && !n.Lost && len(n.Tasks) == 0 {
		return
	}
	h.mu.Lock()
	h.work, h.lost = h.work || n.Work, h.lost || n.Lost
	if h.tasks == nil {
		h.tasks = make(map[store.Key]struct{})
	}
	for _, k := range n.Tasks {
		if len(h.tasks) > 4*noticeKeys {
			h.lost = true
			break
		}
		h.tasks[k] = struct{}{}
	}
	h.mu.Unlock()
	select {
	case h.some <- struct{}{}:
	default:
	}
}

func (h *heard) tell(ctx context.Context, f func(store.Notice)) {
	for {
		select {
		case <-h.some:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		n := store.Notice{Work: h.work, Lost: h.lost}
		for k := range h.tasks {
			n.Tasks = append(n.Tasks, k)
		}
		h.tasks, h.work, h.lost = nil, false, false
		h.mu.Unlock()
		f(n)
	}
}
