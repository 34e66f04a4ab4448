package mutants

// engineClients are defects of the calls of clients: send, cancel, follow, and their idempotency.
var engineClients = []mutant{
	{
		defect: "a message for an existing task creates the task",
		file:   "engine/send.go", old: "chosen := !s.params.ExistingTask && isUUID(m.TaskID)", new: "chosen := isUUID(m.TaskID)",
		test: "TestMessagesCanBeForExistingTasksOnly",
	},
	{
		defect: "a repeated message that is rejected now does not get its first answer",
		file:   "engine/send.go", old: "err == nil && record != nil {\n\t\treturn &duplicateError{record: record}\n\t}\n\ts.wasRefused = true", new: "err == nil && record != nil && record.TaskID == \"\" {\n\t\treturn &duplicateError{record: record}\n\t}\n\ts.wasRefused = true",
		test: "TestRepeatedSendIsAnsweredWhenRejectedNow",
	},
	{
		defect: "a caller that waits gets another task with the same id",
		file:   "engine/send.go", old: "createdAt = cmp.Or(createdAt, at.CreatedAt); !at.CreatedAt.Equal(createdAt) {", new: "createdAt = cmp.Or(at.CreatedAt, createdAt); !at.CreatedAt.Equal(createdAt) {",
		test: "TestWaitReturnsTheFirstFinalStateAfterTheMessage",
	},
	{
		defect: "a task starts in a paused context",
		file:   "engine/send.go", old: "\t\tcase c.Status != a2a.ContextActive:\n\t\t\treturn nil, closedContext(&c)\n", new: "\t\tcase c.Status != a2a.ContextActive && c.Status != a2a.ContextPaused:\n\t\t\treturn nil, closedContext(&c)\n",
		test: "TestContextStatusAllowsOperations",
	},
	{
		defect: "an idempotency key answers another request",
		file:   "engine/idempotency.go", old: "first.Key != \"\" && first.Hash != i.record.Hash", new: "first.Key == \"\" && first.Hash != i.record.Hash",
		test: "TestIdempotencyKeyReturnsFirstAnswer",
	},
	{
		defect: "messages with the same id and other content are one request",
		file:   "engine/idempotency.go", old: "\tcopy(name[6:], content[:])\n", new: "",
		test: "TestMessageKeyIdentifiesIDAndContent",
	},
	{
		defect: "a message id that is not unique identifies a request",
		file:   "engine/idempotency.go", old: "isUUID(id) && strings.Trim(id, \"0-\") != \"\"", new: "isUUID(id) && strings.Trim(id, \"0\") != \"\"",
		test: "TestNonUniqueMessageIDsAreNotMatched",
	},
	{
		defect: "a repeated request is answered before the first one is durable",
		file:   "engine/repeat.go", old: "if !e.exclusive() {", new: "if e.exclusive() {",
		test: "TestResendIsAcknowledgedOnlyAfterDurableWrite",
	},
	{
		defect: "a repeated request gets the task as it is now",
		file:   "engine/repeat.go", old: "if t.Seq >= r.seq && (!r.opts.Wait || t.Status.State.Final()) {", new: "if t.Seq >= r.seq && r.opts.Wait && t.Status.State.Final() {",
		test: "TestIdempotencyKeyReturnsFirstAnswer",
	},
	{
		defect: "a canceled task's handler continues",
		file:   "engine/cancel.go", old: "\tif r != nil {\n\t\t_ = r.out.abort(ErrCanceled)\n\t}\n", new: "\t_ = r\n",
		test: "TestNothingIsCommittedAfterCancel",
	},
	{
		defect: "a cancellation that conflicts with another change is not repeated",
		file:   "engine/cancel.go", old: "if !errors.Is(err, store.ErrConflict) {", new: "if err != nil || t != nil {",
		test: "TestCancelIsRepeatedAfterAConflict",
	},
	{
		defect: "a repeated cancellation is an error",
		file:   "engine/cancel.go", old: "err != nil || first != nil {", new: "err != nil {",
		test: "TestRepeatedCancelGetsTheFirstAnswer",
	},
	{
		defect: "the inbox holds one message more than its limit",
		file:   "engine/followup.go", old: "n >= e.cfg.Limits.Inbox {", new: "n > e.cfg.Limits.Inbox {",
		test: "TestInboxIsLimited",
	},
	{
		defect: "the next turn counts the events of the turn before as its own",
		file:   "engine/followup.go", old: "\t\tqueue.StartSeq = base.Seq\n", new: "",
		test: "TestUnwrittenArtifactIsRestored",
	},
	{
		defect: "the next turn inherits the attempts of the turn before",
		file:   "engine/followup.go", old: "queue.Phase, queue.DueAt, queue.Attempt = store.PhaseQueued, time.Time{}, 0", new: "queue.Phase, queue.DueAt = store.PhaseQueued, time.Time{}",
		test: "TestNextTurnStartsWithItsFirstAttempt",
	},
	{
		defect: "a message to a paused task is not limited by the owner's share of the queue",
		file:   "engine/followup.go", old: "\t\tif err := e.queue.checkOwner(ctx, s.principal.ID); err != nil {\n\t\t\treturn nil, err\n\t\t}\n", new: "",
		test: "TestOneOwnerCannotFillTheQueue",
	},
	{
		defect: "a message with the id of another message of the task is added",
		file:   "engine/followup.go", old: "if used && isUnique(m.ID) {", new: "if used && !isUnique(m.ID) {",
		test: "TestClientChosenIDsRunOnce",
	},
	{
		defect: "a repeated message to a task is compared without its metadata",
		file:   "engine/followup.go", old: "wire.Marshal(requestContent{canonical(m), s.params.Metadata})", new: "wire.Marshal(requestContent{canonical(m), events[0].Metadata})",
		test: "TestResentMessageChangesNothing",
	},
	{
		defect: "a stream ends at a pause although the log continues",
		file:   "engine/follow.go", old: "u.Last = final && f.isNewest(events[i:])", new: "u.Last = final",
		test: "TestFollowContinuesAfterAPauseThatHasEnded",
	},
	{
		defect: "a subscription ends while the task waits for its client",
		file:   "engine/follow.go", old: "return s.Terminal() || !f.untilFinished && s.Paused()", new: "return s.Terminal() || s.Paused()",
		test: "TestSubscriptionsContinueWhileTasksWait",
	},
	{
		defect: "a stream yields the whole task twice",
		file:   "engine/follow.go", old: "\tf.seq = event.Seq\n\tif event.Seq > 1 {", new: "\tf.seq = event.Seq\n\tif event.Seq > 2 {",
		test: "TestFollowReplaysMissedEvents",
	},
	{
		defect: "readers get the state from before a commit in progress",
		file:   "engine/live.go", old: "l.stale || l.deleted || l.committing", new: "l.stale || l.deleted",
		test: "TestReadReturnsStateOfCommitInProgress",
	},
	{
		defect: "the recent events have a gap",
		file:   "engine/live.go", old: "if l.known.Seq != t.Seq || !l.known.CreatedAt.Equal(t.CreatedAt) {", new: "if !l.known.CreatedAt.Equal(t.CreatedAt) {",
		test: "TestRecentEventsHaveNoGap",
	},
}
