package postgres

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// calls returns the statements of one transaction that applies changes. With strict, they
// fail unless all changes are applied.
func (c *committer) calls(accepted []*change, mark int64, strict bool) []*call {
	count := make(map[store.Key]int, len(accepted))
	for _, ch := range accepted {
		count[ch.Key]++
	}
	var creates, touches []*change
	var waves [][]*change
	wave := make(map[store.Key]int)
	for _, ch := range accepted {
		ch.strict = ch.strict || strict || count[ch.Key] > 1
		if ch.Create != nil {
			creates = append(creates, ch)
			continue
		}
		if ch.messageTime != 0 {
			touches = append(touches, ch)
		}
		n := wave[ch.Key]
		if wave[ch.Key]++; n == len(waves) {
			waves = append(waves, nil)
		}
		waves[n] = append(waves[n], ch)
	}
	var calls []*call
	if ms := c.effectiveLockTimeout().Milliseconds(); ms > 0 {
		k := c.reuseCall(stmtLockTimeout)
		k.scalars = append(k.scalars, ms)
		calls = append(calls, k)
	}
	add := func(k *call) {
		if k.rows() == 0 {
			c.freeCalls[k.statement] = append(c.freeCalls[k.statement], k)
			return
		}
		calls = append(calls, k)
	}
	add(c.keys(accepted))
	if len(creates) > 0 || len(touches) > 0 {
		calls = append(calls, c.contexts(creates, touches)) // before creates is sorted: the first task in the order of the changes creates the context
	}
	if len(creates) > 0 {
		slices.SortFunc(creates, byKey)
		add(c.creates(creates, mark))
		calls = append(calls, c.webhooks(creates)...)
	}
	for _, w := range waves {
		slices.SortFunc(w, byKey)
		add(c.updates(w, mark))
		add(c.snapshots(w))
		calls = append(calls, c.webhooks(w)...)
	}
	add(c.contents(accepted))
	add(c.steps(accepted))
	calls = append(calls, c.records(accepted)...)
	calls = append(calls, effects(accepted)...)
	k := c.reuseCall(stmtMark)
	k.scalars = append(k.scalars, mark)
	return append(calls, k)
}

// effectiveLockTimeout returns the lock timeout that the next transaction must set, zero if
// its session has the right one.
func (c *committer) effectiveLockTimeout() time.Duration {
	if c.lockTimeout == 0 && c.s.cfg.Pooler {
		return c.s.cfg.lockTimeout()
	}
	return c.lockTimeout
}

func byKey(a, b *change) int { return compareKeys(a.Key, b.Key) }

func compareKeys(a, b store.Key) int {
	return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.ID, b.ID))
}

func (c *committer) keys(accepted []*change) *call {
	k := c.reuseCall(stmtKeys)
	var keyed []*change
	for _, ch := range accepted {
		if ch.Idempotency != nil {
			keyed = append(keyed, ch)
		}
	}
	slices.SortStableFunc(keyed, func(a, b *change) int {
		x, y := a.Idempotency, b.Idempotency
		return cmp.Or(cmp.Compare(x.Owner, y.Owner), cmp.Compare(x.Key, y.Key))
	})
	for _, ch := range keyed {
		r := ch.Idempotency
		keyRows.add(k, &keyParams{
			Owner: r.Owner, Key: r.Key, Hash: r.HashBytes(), TaskID: r.TaskID, Seq: ch.newVersion(), CreatedAt: millis(r.CreatedAt),
			AtCreation: ch.Create != nil && r.Owner == ch.Key.Owner && r.TaskID == ch.Key.ID && millis(r.CreatedAt) == millis(ch.Events[0].Time),
		})
	}
	return k
}

// contexts returns the call that creates or updates the contexts of new tasks and of tasks that
// receive messages. Its rows name contexts of new tasks by the context, others by the task.
func (c *committer) contexts(creates, touches []*change) *call {
	at := make(map[store.Key]int, len(creates))
	of := make(map[store.Key]int, len(creates)) // index into all, by task
	all := make([]newContextParams, 0, len(creates))
	for _, ch := range creates {
		key := store.Key{Owner: ch.Key.Owner, ID: ch.Create.ContextID}
		i, ok := at[key]
		if !ok {
			i = len(all)
			at[key] = i
			all = append(all, newContextParams{Key: key, FirstID: ch.Key.ID, CreatedAt: millis(ch.Events[0].Time)})
		}
		of[ch.Key] = i
		b := &all[i]
		b.ReceivedAt, b.N = max(b.ReceivedAt, ch.messageTime), b.N+1
	}
	touches = slices.DeleteFunc(touches, func(ch *change) bool {
		i, ok := of[ch.Key]
		if ok { // the task is created in the same transaction
			all[i].ReceivedAt = max(all[i].ReceivedAt, ch.messageTime)
		}
		return ok
	})
	slices.SortFunc(all, func(a, b newContextParams) int { return compareKeys(a.Key, b.Key) })
	st := stmtContexts
	if len(touches) > 0 {
		st = stmtContextsReceived
	}
	k := c.reuseCall(st)
	for _, ch := range touches {
		receivedRows.add(k, &receivedParams{Key: ch.Key, At: ch.messageTime})
	}
	for i := range all {
		newContextRows.add(k, &all[i])
	}
	return k
}

func (c *committer) creates(creates []*change, mark int64) *call {
	k := c.reuseCall(stmtCreate)
	for _, ch := range creates {
		p := createParams{taskRow: taskRow{Key: ch.Key, PK: ch.pk, ContextID: ch.Create.ContextID, Checkpoint: 1}, Events: ch.EventsJSON, Large: ch.largeBytes()}
		p.Advance(ch.Events)
		p.SetQueueEntry(ch.Queue)
		if ch.SnapshotJSON != "" && ch.Snapshot.Seq == p.Seq {
			p.Snapshot = &ch.SnapshotJSON
		}
		createRows.add(k, &p)
	}
	k.scalars = append(k.scalars, mark)
	return k
}

// updates returns the call that changes tasks, each at most once.
func (c *committer) updates(wave []*change, mark int64) *call {
	k := c.reuseCall(stmtUpdate)
	strict := int64(0)
	for _, ch := range wave {
		updateRows.add(k, ch.update())
		if ch.strict {
			strict++
		}
	}
	k.changes = append(k.changes, wave...)
	k.scalars = append(k.scalars, mark, strict)
	return k
}

// contents returns the call that adds the large values of all changes.
func (c *committer) contents(accepted []*change) *call {
	k := c.reuseCall(stmtContents)
	for _, ch := range accepted {
		for i := range ch.Values {
			contentRows.add(k, &contentParams{Key: ch.Key, Hash: ch.Values[i].Hash[:], Data: ch.Values[i].JSON})
		}
	}
	return k
}

// snapshots returns the call that removes replaced snapshots.
func (c *committer) snapshots(wave []*change) *call {
	k := c.reuseCall(stmtSnapshots)
	for _, ch := range wave {
		if ch.SnapshotJSON != "" {
			snapshotRows.add(k, &keyParam{ch.Key})
		}
	}
	return k
}

// largeBytes returns the size of the large values of the events, nil if the change has none.
func (c *change) largeBytes() *int64 {
	if len(c.Values) == 0 {
		return nil
	}
	return &c.Large
}

// update returns the arguments of stmtUpdate.
func (c *change) update() *updateParams {
	p := &updateParams{
		Key: c.Key, Version: max(c.Version, c.at), Seen: max(c.Seen, 0), N: int64(len(c.Events)), Received: c.received,
		Strict: c.strict, Bytes: store.EventsSize(c.Events), Large: c.largeBytes(),
	}
	if c.Lease != nil {
		p.HeldWorker, p.HeldFence = &c.Lease.Worker, &c.Lease.Fence
	}
	var t taskRow
	if c.status != nil {
		t.State, t.StateAt = string(c.status.State), millis(c.status.Time)
		p.State, p.StateAt = &t.State, &t.StateAt
	}
	if n := len(c.Events); n > 0 {
		t.UpdatedAt = millis(c.Events[n-1].Time)
		p.UpdatedAt, p.Events = &t.UpdatedAt, &c.EventsJSON
	}
	if c.SnapshotJSON != "" {
		p.Snapshot, p.SnapshotSeq = &c.SnapshotJSON, &c.Snapshot.Seq
	}
	if c.Queue != nil {
		t.SetQueueEntry(c.Queue)
		p.Phase, p.DueAt, p.Worker, p.Fence, p.LeaseUntil = &t.Phase, &t.DueAt, &t.Worker, &t.Fence, &t.LeaseUntil
		p.Turn, p.Attempt, p.SeenSeq, p.StartSeq = &t.Turn, &t.Attempt, &t.SeenSeq, &t.StartSeq
	}
	return p
}

// steps returns the call that saves the steps of all changes in order. A step that occurs
// twice keeps its first position and its last result.
func (c *committer) steps(accepted []*change) *call {
	type name struct {
		key  store.Key
		turn int
		name string
	}
	var all []stepParams
	var at map[name]int
	for _, ch := range accepted {
		for _, s := range ch.Steps {
			if at == nil {
				at = make(map[name]int)
			}
			n := name{ch.Key, s.Turn, s.Name}
			i, ok := at[n]
			if !ok {
				i = len(all)
				at[n] = i
				all = append(all, stepParams{Key: ch.Key, Turn: int64(s.Turn), Name: s.Name})
			}
			all[i].Result, all[i].Artifacts = s.Result, s.Artifacts
			if s.Result == nil {
				all[i].Result = []byte{} // not null
			}
			if len(s.Artifacts) == 0 {
				all[i].Artifacts = nil
			}
		}
	}
	k := c.reuseCall(stmtSteps)
	for i := range all {
		stepRows.add(k, &all[i])
	}
	return k
}
