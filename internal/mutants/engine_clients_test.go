package mutants

// engineClients are defects of the calls of clients: send, cancel, follow, and their idempotency.
var engineClients = []mutant{
	{
		defect: "a message for an existing task creates the task",
		file:   "engine/send.go", old: "chosen := !s.params.ExistingTask && isUUID(m.TaskID)", new: "chosen := isUUID(m.TaskID)",
		test: ".",
	},
	{
		defect: "a repeated message that is rejected now does not get its first answer",
		file:   "engine/send.go", old: "err == nil && record != nil {\n\t\treturn &duplicateError{record: record}\n\t}\n\ts.wasRefused = true", new: "err == nil && record != nil && record.TaskID == \"\" {\n\t\treturn &duplicateError{record: record}\n\t}\n\ts.wasRefused = true",
		test: ".",
	},
	{
		defect: "a caller that waits gets another task with the same id",
		file:   "engine/send.go", old: "createdAt = cmp.Or(createdAt, at.CreatedAt); !at.CreatedAt.Equal(createdAt) {", new: "createdAt = cmp.Or(at.CreatedAt, createdAt); !at.CreatedAt.Equal(createdAt) {",
		test: ".",
	},
	{
		defect: "a caller that waits gets the state before its message",
		file:   "engine/send.go", old: "if at.Seq >= seq && at.state.Final() {", new: "if at.state.Final() {",
		test: ".",
	},
	{
		defect: "a waiting caller does not poll while the outcome of a commit is unknown",
		file:   "engine/send.go", old: "\t\tpoll = timer.C\n", new: "",
		test: ".",
	},
	{
		defect: "a read after a wait ends with the caller's deadline",
		file:   "engine/send.go", old: "h.cfg.Store.Task(context.WithoutCancel(ctx), l.key", new: "h.cfg.Store.Task(ctx, l.key",
		test: ".",
	},
	{
		defect: "a task starts in a paused context",
		file:   "engine/send.go", old: "\t\tcase c.Status != a2a.ContextActive:\n\t\t\treturn nil, closedContext(&c)\n", new: "\t\tcase c.Status != a2a.ContextActive && c.Status != a2a.ContextPaused:\n\t\t\treturn nil, closedContext(&c)\n",
		test: ".",
	},
	{
		defect: "an idempotency key answers another request",
		file:   "engine/idempotency.go", old: "first.Key != \"\" && first.Hash != i.record.Hash", new: "first.Key == \"\" && first.Hash != i.record.Hash",
		test: ".",
	},
	{
		defect: "messages with the same id and other content are one request",
		file:   "engine/idempotency.go", old: "\tcopy(name[6:], content[:])\n", new: "",
		test: ".",
	},
	{
		defect: "a message id that is not unique identifies a request",
		file:   "engine/idempotency.go", old: "isUUID(id) && strings.Trim(id, \"0-\") != \"\"", new: "isUUID(id)",
		test: ".",
	},
	{
		defect: "a repeated request is answered before the first one is durable",
		file:   "engine/repeat.go", old: "if !e.exclusive() {", new: "if e.exclusive() {",
		test: ".",
	},
	{
		defect: "a repeated request that waits gets an earlier final state",
		file:   "engine/repeat.go", old: "if t.Seq >= r.seq && (!r.opts.Wait || t.Status.State.Final()) {", new: "if t.Seq >= r.seq && !r.opts.Wait || r.opts.Wait && t.Status.State.Final() {",
		test: ".",
	},
	{
		defect: "a repeated request that waits gets the state after later turns",
		file:   "engine/repeat.go", old: "if t.Seq >= r.seq && (!r.opts.Wait || t.Status.State.Final()) {", new: "if t.Seq >= r.seq && !r.opts.Wait {",
		test: ".",
	},
	{
		defect: "a repeated request gets the task as it is now",
		file:   "engine/repeat.go", old: "if t.Seq >= r.seq && (!r.opts.Wait || t.Status.State.Final()) {", new: "if t.Seq >= r.seq && r.opts.Wait && t.Status.State.Final() {",
		test: ".",
	},
	{
		defect: "a canceled task's handler continues",
		file:   "engine/cancel.go", old: "\tif r != nil {\n\t\t_ = r.abort(ErrCanceled)\n\t}\n", new: "\t_ = r\n",
		test: ".",
	},
	{
		defect: "a canceled task keeps its fence",
		file:   "engine/cancel.go", old: "\tqueue.Lease.Fence++\n", new: "",
		test: ".",
	},
	{
		defect: "a cancellation that conflicts with another change is not repeated",
		file:   "engine/cancel.go", old: "if !errors.Is(err, store.ErrConflict) {", new: "if err != nil || t != nil {",
		test: ".",
	},
	{
		defect: "a repeated cancellation is an error",
		file:   "engine/cancel.go", old: "err != nil || first != nil {", new: "err != nil {",
		test: ".",
	},
	{
		defect: "the inbox holds one message more than its limit",
		file:   "engine/followup.go", old: "n >= e.cfg.Limits.Inbox {", new: "n > e.cfg.Limits.Inbox {",
		test: ".",
	},
	{
		defect: "the next turn counts the events of the turn before as its own",
		file:   "engine/followup.go", old: "\t\tqueue.StartSeq = base.Seq\n", new: "",
		test: ".",
	},
	{
		defect: "the next turn inherits the attempts of the turn before",
		file:   "engine/followup.go", old: "queue.Phase, queue.DueAt, queue.Attempt = store.PhaseQueued, time.Time{}, 0", new: "queue.Phase, queue.DueAt = store.PhaseQueued, time.Time{}",
		test: ".",
	},
	{
		defect: "a message to a paused task is not limited by the owner's share of the queue",
		file:   "engine/followup.go", old: "\t\tif err := e.queue.checkOwner(ctx, s.owner); err != nil {\n\t\t\treturn nil, err\n\t\t}\n", new: "",
		test: ".",
	},
	{
		defect: "a message with the id of another message of the task is added",
		file:   "engine/followup.go", old: "if used && isUnique(m.ID) {", new: "if used && !isUnique(m.ID) {",
		test: ".",
	},
	{
		defect: "a repeated message to a task is compared without its metadata",
		file:   "engine/followup.go", old: "wire.Marshal(requestContent{canonical(m), s.params.Metadata})", new: "wire.Marshal(requestContent{canonical(m), events[0].Metadata})",
		test: ".",
	},
	{
		defect: "a stream ends at a pause although the log continues",
		file:   "engine/follow.go", old: "u.Last = final && f.isNewest(events[i:])", new: "u.Last = final",
		test: ".",
	},
	{
		defect: "a stream ends at a pause although another event is known",
		file:   "engine/follow.go", old: "return f.l.version().Seq <= rest[0].Seq", new: "return true",
		test: ".",
	},
	{
		defect: "a stream continues with another task of the same id",
		file:   "engine/follow.go", old: "\tfor {\n\t\tif !f.l.version().CreatedAt.Equal(f.createdAt) {\n\t\t\treturn a2a.TaskNotFound(f.l.key.ID)\n\t\t}\n", new: "\tfor {\n",
		test: ".",
	},
	{
		defect: "a stream that reads the store continues with another task of the same id",
		file:   "engine/follow.go", old: "\t\t\tif !f.l.version().CreatedAt.Equal(f.createdAt) {\n\t\t\t\treturn false\n\t\t\t}\n", new: "",
		test: ".",
	},
	{
		defect: "a subscription ends while the task waits for its client",
		file:   "engine/follow.go", old: "return s.Terminal() || !f.untilFinished && s.Paused()", new: "return s.Terminal() || s.Paused()",
		test: ".",
	},
	{
		defect: "a stream yields the whole task twice",
		file:   "engine/follow.go", old: "\tf.seq = event.Seq\n\tif event.Seq > 1 {", new: "\tf.seq = event.Seq\n\tif event.Seq > 2 {",
		test: ".",
	},
	{
		defect: "readers get the state from before a commit in progress",
		file:   "engine/live.go", old: "l.stale || l.deleted || l.committing", new: "l.stale || l.deleted",
		test: ".",
	},
	{
		defect: "readers of a recreated task get events of the deleted one",
		file:   "engine/live.go", old: "\t\tl.recent, l.bytes = nil, 0 // events of a deleted task with the same id\n", new: "",
		test: ".",
	},
	{
		defect: "a run does not end when its task is deleted",
		file:   "engine/live.go", old: "\tif r != nil {\n\t\t_ = r.abort(ErrLeaseLost)\n\t}\n", new: "\t_ = r\n",
		test: ".",
	},
	{
		defect: "the recent events have a gap",
		file:   "engine/live.go", old: "if l.known.Seq != t.Seq || !l.known.CreatedAt.Equal(t.CreatedAt) {", new: "if !l.known.CreatedAt.Equal(t.CreatedAt) {",
		test: ".",
	},
}
