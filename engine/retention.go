package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/contract/all"
)

// Retention is how long data is stored, by kind. A kind is a terminal state such as
// "completed", for tasks in that state, one of the Retain constants, or a kind of a contract's data
// ([contract.Kind]), such as "transcripts": it applies to data that change after it was set. An age of 0
// stores the kind without limit; other ages must be at least one second. Default: tasks and described
// contexts are stored without limit, other data for 30 days.
//
// The age of a task starts at its last status change, the age of a context at its last message
// or change. Unfinished tasks, tasks with undelivered webhook events, and contexts with tasks
// or child contexts are never removed.
type Retention map[string]time.Duration

// Kinds that are not a state.
const (
	// RetainTasks is the kind of tasks in terminal states that have no entry of their own.
	RetainTasks = "tasks"
	// RetainContexts is the kind of contexts without tasks that were created by a first message
	// and that no client has changed.
	RetainContexts = "contexts"
	// RetainDescribedContexts is the kind of all other contexts without tasks.
	RetainDescribedContexts = "described-contexts"
	// RetainIdempotency is the kind of idempotency records: keys, and the ids of messages that
	// started tasks. A record is removed with its task at the latest.
	RetainIdempotency = "idempotency"
	// RetainAttempts and RetainDeadLetters are the kinds of delivery attempts and dead letters of
	// webhooks. Package webhook removes them.
	RetainAttempts    = "attempts"
	RetainDeadLetters = "dead-letters"
)

const (
	defaultAge = 30 * 24 * time.Hour
	minAge     = time.Second
)

// terminal are the states that a task never leaves.
var terminal = statesMatching(a2a.TaskState.Terminal)

// ParseRetention parses a list such as "tasks=90d,failed=365d,idempotency=7d". An age is a
// number of days ("90d"), a duration ("36h") or "0". The error lists every invalid entry.
func ParseRetention(text string) (Retention, error) {
	r := make(Retention)
	var errs []error
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		kind, written, _ := strings.Cut(entry, "=")
		age, err := parseAge(written)
		switch _, twice := r[kind]; {
		case err != nil:
			errs = append(errs, fmt.Errorf("entry %s: want KIND=AGE with an age such as 90d, 36h or 0", a2a.Quote(entry)))
		case twice:
			errs = append(errs, fmt.Errorf("entry %s: duplicate kind %s", a2a.Quote(entry), a2a.Quote(kind)))
		default:
			r[kind] = age
		}
	}
	return r, errors.Join(append(errs, r.check(all.Kinds()))...)
}

func parseAge(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	return time.Duration(n) * 24 * time.Hour, err
}

// check returns an error that lists invalid kinds and ages.
func (r Retention) check(contracts []*contract.Kind) error {
	kinds := []string{RetainTasks, RetainContexts, RetainDescribedContexts, RetainIdempotency}
	for _, kind := range contracts {
		if name := kind.Retention; name != "" && !slices.Contains(kinds, name) {
			kinds = append(kinds, name)
		}
	}
	kinds = append(kinds, RetainAttempts, RetainDeadLetters)
	for _, s := range terminal {
		kinds = append(kinds, string(s))
	}
	var errs []error
	for _, kind := range slices.Sorted(maps.Keys(r)) {
		switch age := r[kind]; {
		case !slices.Contains(kinds, kind):
			errs = append(errs, fmt.Errorf("%s is not a kind, want one of %s", a2a.Quote(kind), strings.Join(kinds, ", ")))
		case age != 0 && age < minAge:
			errs = append(errs, fmt.Errorf("%s is %s, want 0 or at least %s", kind, age, minAge))
		}
	}
	return errors.Join(errs...)
}

// tasks returns how long tasks in a terminal state are stored; 0 means without limit.
func (r Retention) tasks(s a2a.TaskState) time.Duration {
	if age, ok := r[string(s)]; ok {
		return age
	}
	return r[RetainTasks]
}

// Age returns how long data of a kind is stored, for kinds other than tasks and states; 0 means
// without limit.
func (r Retention) Age(kind string) time.Duration {
	if age, ok := r[kind]; ok || kind == RetainDescribedContexts {
		return age
	}
	return defaultAge
}

// Expired counts the data that this process has removed by its [Retention] since its start.
type Expired struct {
	Tasks              int64
	Contexts           int64
	IdempotencyRecords int64
	// Records are expired records of [store.Records].
	Records int64
}

const (
	expiryBatch = 200
	// expiryPass limits the duration of a pass. Between passes the janitor finishes
	// deletions. The next pass continues where the last one ended.
	expiryPass = 10 * time.Second
	// recordGrace is how long expired records remain, so that a reader with an outdated copy of
	// a record does not change a new one with the same version. It exceeds the age of copies and
	// the difference of clocks by far.
	recordGrace = time.Hour
	// expiryPause is the maximum pause after a batch.
	expiryPause = time.Second
)

// janitor finishes pending deletions and removes expired data.
type janitor struct {
	*settings
	runs      *runs
	deletions *deletions
	sweeps    []*sweep
	wake      runtime.Signal // content of deleted tasks may remain

	tasks, contexts, keys, records atomic.Int64 // removed; keys are idempotency records
	// positions has, for each kind of data, the cursor at which the next batch continues. nil
	// starts from the beginning.
	positions map[string]*store.ExpiryCursor
}

// stats returns the numbers of removed items since the start.
func (j *janitor) stats() Expired {
	return Expired{Tasks: j.tasks.Load(), Contexts: j.contexts.Load(), IdempotencyRecords: j.keys.Load(), Records: j.records.Load()}
}

// swept returns the numbers of items that sweeps have worked on since the start, by their kinds.
func (j *janitor) swept() (n contract.Counts) {
	for _, s := range j.sweeps {
		n.Add(s.Kind, s.done.Load())
	}
	return n
}

func (j *janitor) setPosition(kind string, next *store.ExpiryCursor) {
	if j.positions == nil {
		j.positions = make(map[string]*store.ExpiryCursor)
	}
	j.positions[kind] = next
}

// run finishes pending deletions and removes data that is older than its retention.
func (j *janitor) run(ctx context.Context, beat func()) {
	tick := time.NewTicker(4 * max(j.cfg.Turns.Lease, j.cfg.Turns.Poll))
	defer tick.Stop()
	for due := true; ctx.Err() == nil; {
		beat()
		j.deletions.finishAll(ctx, beat)
		j.purge(ctx, beat)
		if due {
			due = j.expire(ctx, beat)
		}
		if due {
			continue
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
			due = true
		case <-j.wake:
		}
	}
}

// expire removes expired data in batches, one batch of each kind in turn. more reports that it
// reached its time limit.
func (j *janitor) expire(ctx context.Context, beat func()) (more bool) {
	started, before := j.elapsed(), j.stats()
	kinds := j.expiries(beat)
	for len(kinds) > 0 && ctx.Err() == nil && j.elapsed()-started < expiryPass {
		kinds = slices.DeleteFunc(kinds, func(batch func(context.Context) (bool, error)) bool {
			beat()
			batchStarted := j.elapsed()
			more, err := batch(ctx)
			if err != nil && ctx.Err() == nil {
				j.log.Warn("removing expired data failed", "error", err)
			}
			j.runs.yieldStore(ctx, j.elapsed()-batchStarted)
			return err != nil || !more
		})
	}
	after := j.stats()
	if after.Tasks > before.Tasks {
		j.deletions.removals.wake.Send()
	}
	if after != before {
		j.log.Info("expired data removed", "tasks", after.Tasks-before.Tasks, "contexts", after.Contexts-before.Contexts,
			"idempotency_records", after.IdempotencyRecords-before.IdempotencyRecords,
			"records", after.Records-before.Records, "duration", j.elapsed()-started)
	}
	return len(kinds) > 0
}

// yieldStore pauses after a batch for as long as the batch took, if tasks run in this process.
func (g *runs) yieldStore(ctx context.Context, batch time.Duration) {
	g.mu.Lock()
	idle := len(g.all) == 0
	g.mu.Unlock()
	if !idle {
		_ = runtime.Sleep(ctx, min(batch, expiryPause))
	}
}

// expiries returns a function for each kind that expires. The function removes a batch and
// reports whether there may be more.
func (j *janitor) expiries(beat func()) (kinds []func(context.Context) (more bool, err error)) {
	since := func(age time.Duration) time.Time { return store.Time(j.cfg.clock().Add(-age)) }
	for _, state := range terminal {
		if age := j.cfg.Retention.tasks(state); age > 0 {
			kinds = append(kinds, func(ctx context.Context) (bool, error) { return j.expireTasks(ctx, beat, state, since(age)) })
		}
	}
	for _, kind := range []string{RetainContexts, RetainDescribedContexts} {
		if age := j.cfg.Retention.Age(kind); age > 0 {
			kinds = append(kinds, func(ctx context.Context) (bool, error) { return j.expireContexts(ctx, kind, since(age)) })
		}
	}
	if age := j.cfg.Retention.Age(RetainIdempotency); age > 0 {
		kinds = append(kinds, func(ctx context.Context) (bool, error) {
			n, err := j.cfg.Store.ExpireIdempotency(ctx, since(age), expiryBatch)
			j.keys.Add(int64(n))
			return n == expiryBatch, err
		})
	}
	return append(kinds, func(ctx context.Context) (bool, error) {
		n, err := j.cfg.Store.ExpireRecords(ctx, since(recordGrace), expiryBatch)
		j.records.Add(int64(n))
		return n == expiryBatch, err
	})
}

// expireTasks removes a batch of tasks that have been in a state since before a time.
func (j *janitor) expireTasks(ctx context.Context, beat func(), state a2a.TaskState, before time.Time) (more bool, err error) {
	n, next, err := j.cfg.Store.ExpireTasks(ctx, store.TaskExpiry{State: state, Before: before, After: j.positions[string(state)], Limit: expiryBatch})
	if err != nil {
		return false, err
	}
	j.tasks.Add(int64(n))
	j.setPosition(string(state), next)
	if n > 0 {
		j.purge(ctx, beat)
	}
	return next != nil, nil
}

// expireContexts removes a batch of empty contexts that were last updated before a time.
func (j *janitor) expireContexts(ctx context.Context, kind string, before time.Time) (more bool, err error) {
	n, next, err := j.cfg.Store.ExpireContexts(ctx, store.ContextExpiry{
		Saved: kind == RetainDescribedContexts, Before: before, After: j.positions[kind], Limit: expiryBatch,
	})
	if err != nil {
		return false, err
	}
	j.contexts.Add(int64(n))
	j.setPosition(kind, next)
	return next != nil, nil
}
