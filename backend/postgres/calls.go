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
		k.columns[0].text(r.Owner)
		k.columns[1].text(r.Key)
		k.columns[2].bytes(r.HashBytes())
		k.columns[3].text(r.TaskID)
		k.columns[4].int(ch.newVersion())
		k.columns[5].int(millis(r.CreatedAt))
		k.columns[6].bool(ch.Create != nil && r.Owner == ch.Key.Owner && r.TaskID == ch.Key.ID && millis(r.CreatedAt) == millis(ch.Events[0].Time))
	}
	return k
}

// contexts returns the call that creates or updates the contexts of new tasks and of tasks
// that receive messages. The former are named by the context, the latter by the task.
func (c *committer) contexts(creates, touches []*change) *call {
	type newContext struct {
		key                  store.Key
		firstTask            string
		created, received, n int64
	}
	at := make(map[store.Key]int, len(creates))
	of := make(map[store.Key]int, len(creates)) // index into all, by task
	all := make([]newContext, 0, len(creates))
	for _, ch := range creates {
		key := store.Key{Owner: ch.Key.Owner, ID: ch.Create.ContextID}
		i, ok := at[key]
		if !ok {
			i = len(all)
			at[key] = i
			all = append(all, newContext{key: key, firstTask: ch.Key.ID, created: millis(ch.Events[0].Time)})
		}
		of[ch.Key] = i
		b := &all[i]
		b.received, b.n = max(b.received, ch.messageTime), b.n+1
	}
	touches = slices.DeleteFunc(touches, func(ch *change) bool {
		i, ok := of[ch.Key]
		if ok { // the task is created in the same transaction
			all[i].received = max(all[i].received, ch.messageTime)
		}
		return ok
	})
	slices.SortFunc(all, func(a, b newContext) int { return compareKeys(a.key, b.key) })
	st := stmtContexts
	if len(touches) > 0 {
		st = stmtContextsReceived
	}
	k := c.reuseCall(st)
	for _, ch := range touches {
		k.columns[6].text(ch.Key.Owner)
		k.columns[7].text(ch.Key.ID)
		k.columns[8].int(ch.messageTime)
	}
	for i := range all {
		b := &all[i]
		k.columns[0].text(b.key.Owner)
		k.columns[1].text(b.key.ID)
		k.columns[2].int(b.created)
		k.columns[3].int(b.received)
		k.columns[4].int(b.n)
		k.columns[5].text(b.firstTask)
	}
	return k
}

func (c *committer) creates(creates []*change, mark int64) *call {
	k := c.reuseCall(stmtCreate)
	for _, ch := range creates {
		var t taskRow
		t.Advance(ch.Events)
		t.SetQueueEntry(ch.Queue)
		col := k.columns
		col[0].text(ch.Key.Owner)
		col[1].text(ch.Key.ID)
		col[2].int(ch.pk)
		col[3].text(ch.Create.ContextID)
		col[4].text(t.State)
		for i, v := range []int64{t.StateAt, t.Seq, t.ReceivedSeq, t.Phase, t.DueAt} {
			col[5+i].int(v)
		}
		col[10].text(t.Worker)
		for i, v := range []int64{t.Fence, t.LeaseUntil, t.Turn, t.Attempt, t.SeenSeq, t.StartSeq, t.CreatedAt, t.UpdatedAt} {
			col[11+i].int(v)
		}
		if ch.SnapshotJSON != "" && ch.Snapshot.Seq == t.Seq {
			col[19].text(ch.SnapshotJSON)
		} else {
			col[19].null()
		}
		col[20].text(ch.EventsJSON)
		col[21].int(t.Bytes)
		col[22].intOrNull(ch.Large, len(ch.Values) > 0)
	}
	k.scalars = append(k.scalars, mark)
	return k
}

// updates returns the call that changes tasks, each at most once.
func (c *committer) updates(wave []*change, mark int64) *call {
	k := c.reuseCall(stmtUpdate)
	strict := int64(0)
	for _, ch := range wave {
		k.update(ch)
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
			k.columns[0].text(ch.Key.Owner)
			k.columns[1].text(ch.Key.ID)
			k.columns[2].bytes(ch.Values[i].Hash[:])
			k.columns[3].text(ch.Values[i].JSON)
		}
	}
	return k
}

// snapshots returns the call that removes replaced snapshots.
func (c *committer) snapshots(wave []*change) *call {
	k := c.reuseCall(stmtSnapshots)
	for _, ch := range wave {
		if ch.SnapshotJSON != "" {
			k.columns[0].text(ch.Key.Owner)
			k.columns[1].text(ch.Key.ID)
		}
	}
	return k
}

func (k *call) update(ch *change) {
	col, n := k.columns, int64(len(ch.Events))
	col[0].text(ch.Key.Owner)
	col[1].text(ch.Key.ID)
	col[2].int(max(ch.Version, ch.at))
	if ch.Lease != nil {
		col[3].text(ch.Lease.Worker)
		col[4].int(ch.Lease.Fence)
	} else {
		col[3].null()
		col[4].null()
	}
	col[5].int(max(ch.Seen, 0))
	col[6].int(n)
	if ch.status != nil {
		col[7].text(string(ch.status.State))
		col[8].int(millis(ch.status.Time))
	} else {
		col[7].null()
		col[8].null()
	}
	col[9].int(ch.received)
	if n > 0 {
		col[10].int(millis(ch.Events[n-1].Time))
		col[13].text(ch.EventsJSON)
	} else {
		col[10].null()
		col[13].null()
	}
	if ch.SnapshotJSON != "" {
		col[11].text(ch.SnapshotJSON)
		col[12].int(ch.Snapshot.Seq)
	} else {
		col[11].null()
		col[12].null()
	}
	k.updateQueueEntry(ch.Queue)
	col[23].bool(ch.strict)
	col[24].int(store.EventsSize(ch.Events))
	col[25].intOrNull(ch.Large, len(ch.Values) > 0)
}

func (k *call) updateQueueEntry(run *store.QueueEntry) {
	col := k.columns[14:23]
	if run == nil {
		for i := range col {
			col[i].null()
		}
		return
	}
	var t taskRow
	t.SetQueueEntry(run)
	col[0].int(t.Phase)
	col[1].int(t.DueAt)
	col[2].text(t.Worker)
	for i, v := range []int64{t.Fence, t.LeaseUntil, t.Turn, t.Attempt, t.SeenSeq, t.StartSeq} {
		col[3+i].int(v)
	}
}

// steps returns the call that saves the steps of all changes in order. A step that occurs
// twice keeps its first position and its last result.
func (c *committer) steps(accepted []*change) *call {
	type name struct {
		key  store.Key
		turn int
		name string
	}
	type step struct {
		name
		result, artifacts []byte
	}
	var all []step
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
				all = append(all, step{name: n})
			}
			all[i].result, all[i].artifacts = s.Result, s.Artifacts
		}
	}
	k := c.reuseCall(stmtSteps)
	for _, s := range all {
		k.columns[0].text(s.key.Owner)
		k.columns[1].text(s.key.ID)
		k.columns[2].int(int64(s.turn))
		k.columns[3].text(s.name.name)
		k.columns[4].bytes(s.result)
		if len(s.artifacts) > 0 {
			k.columns[5].bytes(s.artifacts)
		} else {
			k.columns[5].null()
		}
	}
	return k
}
