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
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// Limits of the recent events that are kept in memory for readers. A reader further behind
// reads from the store.
const (
	recentEvents = 256
	recentBytes  = 1 << 20
)

// live is a task that this process uses: it has a run, a reader or a caller about to commit.
type live struct {
	key  store.Key
	refs int // guarded by the hub's lock

	heldMu sync.Mutex
	held   memory.Hold // memory held for the task's content

	// commit serializes this process's changes of the task, so that readers see events in the
	// order of the log.
	commit sync.Mutex
	// workingCopy is the task to which commits are applied one after another. It is guarded by
	// commit and never shared.
	workingCopy *store.Task
	// catchingUp is set while a goroutine waits for commit to read changes of other processes.
	catchingUp atomic.Bool

	mu         sync.Mutex
	known      knownVersion  // version after the last known commit
	task       *store.Task   // the task at that version, never modified; nil if unknown or dropped by unlock
	stale      bool          // the outcome of a commit is unknown: the store may have a newer version
	committing bool          // a commit is in progress: the store may have a newer version
	deleted    bool          // the task does not exist in the store
	recent     []store.Event // last events of the log, up to known.Seq, without gaps
	bytes      int           // approximate size of recent
	changed    chan struct{} // closed when the version changes
	run        *run          // the run in this process; nil if there is none
	followers  int           // number of readers of the log
}

// knownVersion is the version of a task as known in this process, without its content. Seq is 0
// until it is known.
type knownVersion struct {
	store.TaskVersion
	state       a2a.TaskState
	lastEventAt time.Time // time of the newest event; zero if unknown
	changes     int       // number of version changes since acquire created the live task
}

// hub has the tasks that are live in this process. It reads and writes them.
type hub struct {
	*settings
	leases    *leases
	loops     *runtime.Loops // runs reads in the background
	sizes     *contextSizes
	readSlots chan struct{} // limits concurrent reads of tasks that other processes changed
	shards    [64]hubShard
}

type hubShard struct {
	mu    sync.Mutex
	tasks map[store.Key]*live
}

func newHub(s *settings, leases *leases, loops *runtime.Loops) *hub {
	h := &hub{settings: s, leases: leases, loops: loops, sizes: &contextSizes{settings: s}, readSlots: make(chan struct{}, catchUpReaders)}
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

// acquire returns the live task of a key. The caller must release it.
func (h *hub) acquire(key store.Key) *live {
	s := h.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.tasks[key]
	if !ok {
		l = &live{key: key, held: h.cfg.Memory.Hold(key.Owner), changed: make(chan struct{})}
		s.tasks[key] = l
	}
	l.refs++
	return l
}

// runningTask returns a task that runs in this process, or nil if its state in the store may
// differ: the task does not run here, or a commit is in progress. A reader that the commit
// notifies, such as the webhook sender, must not read the state from before the commit. The
// caller must not modify the task.
func (h *hub) runningTask(key store.Key) *store.Task {
	s := h.shard(key)
	s.mu.Lock()
	l := s.tasks[key]
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	t, r, stale := l.task, l.run, l.stale || l.deleted || l.committing
	l.mu.Unlock()
	if t == nil || r == nil || stale || !r.out.canCommit() {
		return nil
	}
	return t
}

// lookup returns the live tasks among keys. The caller must release each.
func (h *hub) lookup(keys []store.Key) (lives []*live) {
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

// all returns all live tasks. The caller must release each.
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

// publish sets the known task to t, the task after events, and wakes its readers. The caller
// holds l.commit and does not modify t afterwards.
func (l *live) publish(t *store.Task, events []store.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(events) > 0 && events[0].Seq == 1 {
		l.recent, l.bytes = nil, 0 // events of a deleted task with the same id
	}
	l.task = t
	l.setVersion(t.Version(), t.Status.State, events)
}

// publishVersion is publish for a task when this process does not need its content. The caller
// holds l.commit.
func (l *live) publishVersion(v store.TaskVersion, events []store.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.known.state
	if len(events) > 0 {
		state = events[len(events)-1].State
	}
	l.task = nil
	l.setVersion(v, state, events)
}

// setVersion sets the known version after events. The caller holds l.mu.
func (l *live) setVersion(v store.TaskVersion, state a2a.TaskState, events []store.Event) {
	l.known = knownVersion{TaskVersion: v, state: state, lastEventAt: l.known.lastEventAt, changes: l.known.changes + 1}
	l.stale, l.deleted = false, false
	if len(events) == 0 {
		return
	}
	l.known.lastEventAt = events[len(events)-1].Time
	l.addRecent(events)
	l.wake()
}

// unlock ends a change of the task. It drops the content of a task that does not run here,
// because waiting readers need only new events. It keeps a task in a final state for callers
// that wait for that state.
func (l *live) unlock() {
	defer l.commit.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != nil || l.known.state.Final() {
		return
	}
	l.dropContent()
	if l.followers == 0 {
		l.recent, l.bytes = nil, 0
	}
}

// dropPaused drops the content of a task that waits for its client, unless it is being changed.
func (l *live) dropPaused() {
	if !l.commit.TryLock() {
		return
	}
	defer l.commit.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == nil && l.known.state.Paused() {
		l.dropContent()
	}
}

// dropContent drops the content of the task. The caller holds l.commit and l.mu.
func (l *live) dropContent() {
	l.task, l.workingCopy = nil, nil
	l.releaseMemory()
}

// extend returns a copy of base, the known task, with events applied. The caller holds
// l.commit.
func (l *live) extend(base *store.Task, events []store.Event, queue store.QueueEntry) *store.Task {
	if l.workingCopy == nil || l.workingCopy.Seq != base.Seq {
		l.workingCopy = base.Clone()
	}
	l.workingCopy.Apply(events...)
	l.workingCopy.Queue, l.workingCopy.LogSize = queue, base.LogSize
	return l.workingCopy.Clone()
}

// addRecent appends events to the recent ones. Readers may hold parts of the old slice, so it
// is never shifted in place.
func (l *live) addRecent(events []store.Event) {
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

// isDeleted reports whether the last read of the store did not find the task.
func (l *live) isDeleted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deleted
}

// setTask sets the known task to t, which need not follow the version known before. The caller
// holds l.commit and does not modify t afterwards.
func (l *live) setTask(t *store.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known.Seq != t.Seq || !l.known.CreatedAt.Equal(t.CreatedAt) {
		l.recent, l.bytes, l.workingCopy, l.known.lastEventAt = nil, 0, nil, time.Time{}
	}
	l.task = t
	l.setVersion(t.Version(), t.Status.State, nil)
	l.wake()
}

// markDeleted records that the store does not have the task. It aborts the run and wakes
// readers.
func (l *live) markDeleted() {
	l.mu.Lock()
	l.deleted = true
	r := l.run
	l.wake()
	l.mu.Unlock()
	if r != nil {
		_ = r.out.abort(ErrLeaseLost)
	}
}

// setCommitting records whether a commit of the task is in progress. The caller holds l.commit.
func (l *live) setCommitting(committing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committing = committing
}

// markStale records that the outcome of a commit is unknown. Readers then poll the store until
// the version is known again.
func (l *live) markStale() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale = true
	l.wake()
}

// isStale reports whether the version must be read from the store.
func (l *live) isStale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stale || l.deleted
}

// snapshot returns the known task and a channel that is closed when its version changes. The
// task is nil if it is unknown or was dropped by unlock; it is not nil while a run is alive.
// The caller must not modify it.
func (l *live) snapshot() (*store.Task, <-chan struct{}) {
	_, t, changed := l.versionAndTask()
	return t, changed
}

// version returns the known version of the task.
func (l *live) version() knownVersion {
	at, _, _ := l.versionAndTask()
	return at
}

// versionAndTask returns the results of version and snapshot at the same moment.
func (l *live) versionAndTask() (knownVersion, *store.Task, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known, l.task, l.changed
}

// addFollowers changes the number of readers of the task's log by n.
func (l *live) addFollowers(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers += n
}

// eventsAfter returns the events after a sequence from memory. ok is false if the caller must
// read them from the store.
func (l *live) eventsAfter(seq int64) (events []store.Event, changed <-chan struct{}, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known.Seq == 0 || l.deleted {
		return nil, l.changed, false
	}
	if seq >= l.known.Seq {
		return nil, l.changed, true
	}
	first := l.known.Seq - int64(len(l.recent)) + 1
	if seq < first-1 {
		return nil, l.changed, false
	}
	return l.recent[seq-first+1:], l.changed, true
}

// current returns the task as stored. It reads the store unless the task runs in this process,
// which then knows its newest state. The caller holds l.commit.
func (h *hub) current(ctx context.Context, l *live) (*store.Task, error) {
	l.mu.Lock()
	r, stale := l.run, l.stale || l.deleted
	l.mu.Unlock()
	if r != nil && !stale && r.out.canCommit() {
		t, _ := l.snapshot()
		return t, nil
	}
	return h.holdAndReload(ctx, l)
}

func (h *hub) holdAndReload(ctx context.Context, l *live) (*store.Task, error) {
	release, err := h.holdForRead(ctx, l)
	if err != nil {
		return nil, err
	}
	defer release()
	return h.reload(ctx, l)
}

func (h *hub) reload(ctx context.Context, l *live) (*store.Task, error) {
	t, err := h.cfg.Store.Task(ctx, l.key, store.TaskOptions{})
	if errors.Is(err, store.ErrNotFound) {
		l.markDeleted()
	}
	if err != nil {
		return nil, err
	}
	l.setTask(t)
	return t, nil
}
