package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/store"
)

// How much of the end of a task's log is kept for its readers: a reader further
// behind reads the store.
const (
	recentEvents = 256
	recentBytes  = 1 << 20
)

// live is a task that somebody in this process is busy with: a run, a reader or
// a caller about to commit.
type live struct {
	key  store.Key
	refs int // guarded by the hub's lock

	holding sync.Mutex
	held    memory.Hold // for the task's content

	// commit serialises this process's changes of the task, so that what is told
	// follows the order of the log.
	commit sync.Mutex
	// chain is the task that commits are folded into, one after the other; it is
	// guarded by commit and shared with nobody.
	chain *store.Task
	// catchingUp is set while a goroutine waits for commit to read what other
	// processes have done.
	catchingUp atomic.Bool

	mu        sync.Mutex
	at        standing      // as last committed here
	task      *store.Task   // the task at that point, never changed; nil until known and while it is shelved
	doubted   bool          // a commit failed: the task may have moved on all the same
	writing   bool          // a commit is under way: the store may be ahead of at
	gone      bool          // the store does not have the task, or not any more
	recent    []store.Event // the log's end, up to at.Seq, without gaps
	bytes     int           // size of recent, roughly
	changed   chan struct{} // closed when the task moves on
	run       *run          // the run in this process, if any
	followers int           // readers of the log
}

// standing is how a task stands, without its content. Seq is 0 until it is known.
type standing struct {
	store.TaskVersion
	state   a2a.TaskState
	last    time.Time // of the newest event, zero when it is not known
	changes int       // of the standing, since the task is live
}

// hub finds live tasks.
type hub struct {
	memory *memory.Budget
	shards [64]hubShard
}

type hubShard struct {
	mu    sync.Mutex
	tasks map[store.Key]*live
}

func newHub(budget *memory.Budget) *hub {
	h := &hub{memory: budget}
	for i := range h.shards {
		h.shards[i].tasks = make(map[store.Key]*live)
	}
	return h
}

func (h *hub) shard(key store.Key) *hubShard {
	hash := uint32(2166136261)
	for i := range len(key.ID) {
		hash = (hash ^ uint32(key.ID[i])) * 16777619
	}
	return &h.shards[hash%uint32(len(h.shards))]
}

// acquire returns the live task of a key until release is called.
func (h *hub) acquire(key store.Key) *live {
	s := h.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.tasks[key]
	if !ok {
		l = &live{key: key, held: h.memory.Hold(key.Owner), changed: make(chan struct{})}
		s.tasks[key] = l
	}
	l.refs++
	return l
}

// running returns a task that runs in this process as the store has it, nil when
// only the store knows that: the task does not run here, or a commit is under way.
// Whoever the commit wakes, such as the sender of webhooks, must not cause a read of
// the state before it. The task is not to be changed.
func (h *hub) running(key store.Key) *store.Task {
	s := h.shard(key)
	s.mu.Lock()
	l := s.tasks[key]
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	t, r, unsure := l.task, l.run, l.doubted || l.gone || l.writing
	l.mu.Unlock()
	if t == nil || r == nil || unsure || !r.alive() {
		return nil
	}
	return t
}

// of returns those of some tasks that are live, each to be released.
func (h *hub) of(keys []store.Key) (lives []*live) {
	for _, key := range keys {
		s := h.shard(key)
		s.mu.Lock()
		if l, ok := s.tasks[key]; ok {
			l.refs++
			lives = append(lives, l)
		}
		s.mu.Unlock()
	}
	return lives
}

// all returns every live task, each to be released.
func (h *hub) all() (lives []*live) {
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		for _, l := range s.tasks {
			l.refs++
			lives = append(lives, l)
		}
		s.mu.Unlock()
	}
	return lives
}

func (h *hub) release(l *live) {
	s := h.shard(l.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.refs--; l.refs == 0 {
		delete(s.tasks, l.key)
		l.releaseMemory()
	}
}

// publish makes t, which events led to, the task as it is known here and wakes
// its readers. The caller holds l.commit; t is not changed by anyone afterwards.
func (l *live) publish(t *store.Task, events []store.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(events) > 0 && events[0].Seq == 1 {
		l.recent, l.bytes = nil, 0 // those of a task of the same id that was deleted
	}
	l.task = t
	l.stand(t.Version(), t.Status.State, events)
}

// follow makes what events led to the task as it is known here, while nobody here needs
// its content. The caller holds l.commit.
func (l *live) follow(v store.TaskVersion, events []store.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.at.state
	if len(events) > 0 {
		state = events[len(events)-1].State
	}
	l.task = nil
	l.stand(v, state, events)
}

// stand notes how the task stands after events. The caller holds l.mu.
func (l *live) stand(v store.TaskVersion, state a2a.TaskState, events []store.Event) {
	l.at = standing{TaskVersion: v, state: state, last: l.at.last, changes: l.at.changes + 1}
	l.doubted, l.gone = false, false
	if len(events) == 0 {
		return
	}
	l.at.last = events[len(events)-1].Time
	l.remember(events)
	l.wake()
}

// unlock ends a change of the task. A task that neither runs here nor is over is shelved:
// those who wait for it need no content until it moves on.
func (l *live) unlock() {
	defer l.commit.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != nil || l.at.state.Final() {
		return
	}
	l.task, l.chain = nil, nil
	l.releaseMemory()
	if l.followers == 0 {
		l.recent, l.bytes = nil, 0
	}
}

// extend returns base, the task as it is known here, with events applied. The caller
// holds l.commit.
func (l *live) extend(base *store.Task, events []store.Event, run store.Run) *store.Task {
	if l.chain == nil || l.chain.Seq != base.Seq {
		l.chain = base.Clone()
	}
	l.chain.Apply(events...)
	l.chain.Run, l.chain.LogSize = run, base.LogSize
	return l.chain.Clone()
}

// remember adds events to the recent ones. Readers may hold parts of the old
// slice, so it is never shifted in place.
func (l *live) remember(events []store.Event) {
	if l.bytes > recentBytes {
		l.recent, l.bytes = nil, 0
	}
	if len(l.recent)+len(events) > 2*recentEvents {
		l.recent = slices.Clone(l.recent[max(0, len(l.recent)-recentEvents):])
	}
	l.recent = append(l.recent, events...)
	for i := range events {
		if a := events[i].Artifact; a != nil {
			l.bytes += store.PartsSize(a.Parts)
		}
		for _, m := range []*a2a.Message{events[i].Received, events[i].Message} {
			if m != nil {
				l.bytes += store.PartsSize(m.Parts)
			}
		}
	}
}

func (l *live) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// isGone reports whether the store was last found not to have the task.
func (l *live) isGone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

// set makes t the task as it is known here, which may not follow on what was
// known before. t is not changed by anyone afterwards. The caller holds l.commit.
func (l *live) set(t *store.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.Seq != t.Seq || !l.at.CreatedAt.Equal(t.CreatedAt) {
		l.recent, l.bytes, l.chain, l.at.last = nil, 0, nil, time.Time{}
	}
	l.task = t
	l.stand(t.Version(), t.Status.State, nil)
	l.wake()
}

// vanish notes that the store does not have the task: its run ends, and those who
// wait for it are woken to see for themselves.
func (l *live) vanish() {
	l.mu.Lock()
	l.gone = true
	r := l.run
	l.wake()
	l.mu.Unlock()
	if r != nil {
		_ = r.die(ErrLeaseLost)
	}
}

// setWriting notes whether a commit of the task is under way. The caller holds
// l.commit.
func (l *live) setWriting(writing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = writing
}

// doubt notes that a commit has failed, and has those who wait for the task look
// at the store until it is known what became of it.
func (l *live) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubted = true
	l.wake()
}

// inDoubt reports whether the store has to be asked how the task stands.
func (l *live) inDoubt() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doubted || l.gone
}

// snapshot returns the task as it is known here, which is not to be changed, nil
// when it is not known or shelved, and a channel that is closed when it moves on. The task
// of a run that is alive is at hand.
func (l *live) snapshot() (*store.Task, <-chan struct{}) {
	_, t, changed := l.position()
	return t, changed
}

// stands returns how the task stands as far as is known here.
func (l *live) stands() standing {
	at, _, _ := l.position()
	return at
}

// position is stands and snapshot at one moment.
func (l *live) position() (standing, *store.Task, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at, l.task, l.changed
}

// addFollowers notes that some more, or fewer, follow the task's log.
func (l *live) addFollowers(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers += n
}

// after returns the events that follow a sequence if they are at hand. ok is
// false when the store has to be asked.
func (l *live) after(seq int64) (events []store.Event, changed <-chan struct{}, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.Seq == 0 || l.gone {
		return nil, l.changed, false
	}
	if seq >= l.at.Seq {
		return nil, l.changed, true
	}
	first := l.at.Seq - int64(len(l.recent)) + 1
	if seq < first-1 {
		return nil, l.changed, false
	}
	return l.recent[seq-first+1:], l.changed, true
}

// current returns the task as the store has it, reading it when this process
// does not run the task and so may not know its newest state. The caller holds
// l.commit.
func (e *Engine) current(ctx context.Context, l *live) (*store.Task, error) {
	l.mu.Lock()
	r, doubted := l.run, l.doubted || l.gone
	l.mu.Unlock()
	if r != nil && !doubted && r.alive() {
		t, _ := l.snapshot()
		return t, nil
	}
	return e.admitAndReload(ctx, l)
}

func (e *Engine) admitAndReload(ctx context.Context, l *live) (*store.Task, error) {
	release, err := e.admit(ctx, l)
	if err != nil {
		return nil, err
	}
	defer release()
	return e.reload(ctx, l)
}

func (e *Engine) reload(ctx context.Context, l *live) (*store.Task, error) {
	t, err := e.cfg.Store.Task(ctx, l.key, store.TaskOptions{})
	if errors.Is(err, store.ErrNotFound) {
		l.vanish()
	}
	if err != nil {
		return nil, err
	}
	l.set(t)
	return t, nil
}
