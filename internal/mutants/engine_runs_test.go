package mutants

// engineRuns are defects of runs and of their commits.
var engineRuns = []mutant{
	{
		defect: "the second attempt of a turn does not read what the first one stored",
		file:   "engine/run.go", old: "t.Seq > t.Queue.StartSeq+2", new: "t.Seq > t.Queue.StartSeq+3",
		test: "TestStopRequeuesTasks",
	},
	{
		defect: "a later attempt of a turn that followed under the same lease does not read what was stored",
		file:   "engine/run.go", old: "if t.Seq > t.Queue.StartSeq+2 || t.ReceivedSeq <= t.Queue.StartSeq {", new: "if t.Seq > t.Queue.StartSeq+2 {",
		test: "TestStepsOfTurnWithoutClaimAreReused",
	},
	{
		defect: "a new run does not abort the older run of its task",
		file:   "engine/run.go", old: "\tif older != nil {\n\t\t_ = older.out.abort(ErrLeaseLost)\n\t}\n", new: "\t_ = older\n",
		test: "TestNewRunEndsTheOlderRun",
	},
	{
		defect: "after a late answer to a claim, the lease counts from the answer",
		file:   "engine/run.go", old: "r.lease.extend(d.elapsed() + min(t.Queue.Lease.Until.Sub(d.now()), d.cfg.Turns.Lease))", new: "r.lease.extend(d.elapsed() + d.cfg.Turns.Lease)",
		test: "TestHandlerStopsBeforeItsLeaseEndsInTheStore",
	},
	{
		defect: "the worker keeps its ID after a run ended without a stored result",
		file:   "engine/runcommit.go", old: "\t\to.hub.leases.orphan.Store(true) // nobody", new: "\t\to.hub.leases.orphan.Load() // nobody",
		test: "TestTaskWhoseResultIsRefusedIsClaimedAgain",
	},
	{
		defect: "the end of an old run removes the new run of the task",
		file:   "engine/run.go", old: "if r.l.run == r {", new: "if r.l.run != nil {",
		test: "TestAbandonedRunDoesNotEndNewRun|TestStaleRunCannotCompleteRecreatedTask",
	},
	{
		defect: "a task fails before its last attempt",
		file:   "engine/run.go", old: "r.out.entry().Attempt > r.e.cfg.Turns.MaxAttempts", new: "r.out.entry().Attempt >= r.e.cfg.Turns.MaxAttempts",
		test: "TestRetryIsClaimedWhenItIsDue",
	},
	{
		defect: "a run starts under an expired lease",
		file:   "engine/run.go", old: "if err := r.ensureLease(ctx); err != nil {", new: "if err := error(nil); err != nil {",
		test: "TestNothingStartsUnderExpiredLease",
	},
	{
		defect: "the handler of an exclusive store is stopped when its lease ends",
		file:   "engine/run.go", old: "\tcase r.e.exclusive():\n", new: "",
		test: "TestRunsSurviveOutageLongerThanLease",
	},
	{
		defect: "the end of a renewed lease does not stop the handler",
		file:   "engine/run.go", old: "\t\tleaseEnd.Reset(left)\n", new: "",
		test: "TestDisconnectedHandlerStopsAtLeaseEnd",
	},
	{
		defect: "after the end of its lease, a task fails instead of being requeued",
		file:   "engine/run.go", old: "case errors.Is(cause, ErrStopping), errors.Is(cause, ErrLeaseLost):", new: "case errors.Is(cause, ErrStopping):",
		test: "TestOutageChargesNoAttempt",
	},
	{
		defect: "a task is retried after its last attempt",
		file:   "engine/run.go", old: "r.out.entry().Attempt < r.e.cfg.Turns.MaxAttempts:", new: "r.out.entry().Attempt <= r.e.cfg.Turns.MaxAttempts:",
		test: "TestRetryRunsTurnUntilMaxAttempts",
	},
	{
		defect: "the end of a turn takes every known message as read",
		file:   "engine/runcommit.go", old: "store.PhaseIdle, o.seenSeq,", new: "store.PhaseIdle, o.l.version().Seq,",
		test: "TestMessageToRunningTaskIsNotLost",
	},
	{
		defect: "the output of a turn is committed as output of the next turn",
		file:   "engine/run.go", old: "\t\tif r.out.commitWithRetry(r.e.commitCtx, new(runChange)) != nil {\n\t\t\treturn false\n\t\t}\n", new: "",
		test: "TestNextTurnUnderTheSameLeaseKeepsTheOutputOfTheTurnBefore",
	},
	{
		defect: "the limit of artifacts counts the artifacts of the turn before",
		file:   "engine/runcommit.go", old: "\to.artifactBytes = 0\n", new: "",
		test: "TestNextTurnUnderTheSameLeaseKeepsTheOutputOfTheTurnBefore",
	},
	{
		defect: "a turn under the same lease inherits the attempts of the turn before",
		file:   "engine/runcommit.go", old: "next.Attempt, next.SeenSeq, next.StartSeq = 1, o.seenSeq, at.Seq", new: "next.SeenSeq, next.StartSeq = o.seenSeq, at.Seq",
		test: "TestNextTurnUnderTheSameLeaseKeepsTheOutputOfTheTurnBefore",
	},
	{
		defect: "a turn under the same lease receives the messages of the turn before again",
		file:   "engine/runcommit.go", old: "next.Attempt, next.SeenSeq, next.StartSeq = 1, o.seenSeq, at.Seq", new: "next.Attempt, next.StartSeq = 1, at.Seq",
		test: "TestMessageToRunningTaskIsNotLost",
	},
	{
		defect: "the first retry waits twice its delay",
		file:   "engine/run.go", old: "for range r.out.entry().Attempt - 1 {", new: "for range r.out.entry().Attempt {",
		test: "TestRetryIsClaimedWhenItIsDue",
	},
	{
		defect: "the delay of a retry exceeds its limit",
		file:   "engine/run.go", old: "delay = min(2*delay, r.e.cfg.Turns.RetryDelayMax)", new: "delay = 2 * delay",
		test: "TestRetryIsClaimedWhenItIsDue",
	},
	{
		defect: "a stopped process charges an attempt",
		file:   "engine/run.go", old: "\t\tqueue.Attempt--\n", new: "",
		test: "TestOutageChargesNoAttempt",
	},
	{
		defect: "the dispatcher is not woken when a retry is due",
		file:   "engine/run.go", old: "time.AfterFunc(max(0, due.Sub(r.e.now())), r.e.dispatcher.notifyWork)", new: "r.e.dispatcher.notifyWork()",
		test: "TestRetryIsClaimedWhenItIsDue",
	},
	{
		defect: "the result of a run is not retried after the start of a stop",
		file:   "engine/run.go", old: "err := r.out.commitWithRetry(r.e.commitCtx, &runChange{", new: "err := r.out.commitWithRetry(r.ctx, &runChange{",
		test: "TestOutageChargesNoAttempt",
	},
	{
		defect: "an applied commit with a lost answer fails",
		file:   "engine/runcommit.go", old: "\t\t\tif c.done {\n\t\t\t\treturn nil\n\t\t\t}\n", new: "",
		test: "TestRetryIsClaimedWhenItIsDue",
	},
	{
		defect: "events that arrive during a commit are dropped",
		file:   "engine/runcommit.go", old: "o.pending = slices.Delete(o.pending, 0, min(flushed, len(o.pending)))", new: "o.pending = slices.Delete(o.pending, 0, len(o.pending))",
		test: "TestChunkWithLostAnswerIsStoredOnce",
	},
	{
		defect: "after a lost answer, a run continues although its fence has moved",
		file:   "engine/runcommit.go", old: "\tif t.Queue.Lease.Fence != o.lease.Fence {\n\t\treturn o.abort(ErrLeaseLost)\n\t}\n", new: "",
		test: "TestRunWithLostAnswerEndsIfItsFenceHasMoved",
	},
	{
		defect: "the last commit of a run fails if its answer was lost",
		file:   "engine/runcommit.go", old: "\t\tindeterminate.change.done = true\n", new: "",
		test: "TestRetryIsClaimedWhenItIsDue",
	},
	{
		defect: "events are not copied",
		file:   "engine/runcommit.go", old: "\tevent = event.Copy()\n", new: "",
		test: "TestLaterChangesOfHandlerAreNotStored",
	},
	{
		defect: "progress is not committed after a failed commit of progress",
		file:   "engine/runcommit.go", old: "\t\to.timer = time.AfterFunc(minCommitRetry+o.hub.cfg.Turns.FlushInterval, o.flushSoon)\n", new: "",
		test: "TestProgressIsStoredAfterAFailedCommit",
	},
	{
		defect: "a commit is not repeated after the first permanent error",
		file:   "engine/runcommit.go", old: "pause >= 8*minCommitRetry", new: "pause >= minCommitRetry",
		test: "TestCommitIsRepeatedAfterAnUnknownError",
	},
	{
		defect: "a run that starts during a stop is not canceled",
		file:   "engine/runs.go", old: "\tif g.stopping {\n\t\tr.cancel(ErrStopping)\n\t}\n", new: "",
		test: "TestTaskClaimedDuringAStopIsRequeued",
	},
	{
		defect: "an event is older than the one before",
		file:   "engine/write.go", old: "\t\tif now.Before(last) {\n\t\t\tnow = last\n\t\t}\n", new: "\t\t_ = last\n",
		test: "TestTasksSurviveClockJumps",
	},
	{
		defect: "readers do not poll after a commit with an unknown outcome",
		file:   "engine/write.go", old: "\t\tl.markStale()\n", new: "",
		test: "TestCancelWithLostAnswerEndsStreams",
	},
	{
		defect: "the worker keeps its ID after a lost answer to the creation of a leased task",
		file:   "engine/write.go", old: "\t\t\th.leases.orphan.Store(true)\n", new: "",
		test: "TestLeaseWithLostAnswerIsClaimedAgain",
	},
	{
		defect: "a commit with a lost answer is not found behind a message of the client",
		file:   "engine/write.go", old: "i+len(events) <= len(logged); i++ {", new: "i == 0 && len(events) <= len(logged); i++ {",
		test: "TestCommitFindsTheMessageOfAnotherReplica",
	},
	{
		defect: "a commit hides the events of other processes before it",
		file:   "engine/write.go", old: "if res.Seq != after.Seq {", new: "if res.Seq < after.Seq {",
		test: "TestCommitFindsTheMessageOfAnotherReplica",
	},
	{
		defect: "a result is stored as an answer of its own although the task has other output",
		file:   "engine/run.go", old: "if o.alone && final.Message != nil && r.out.nothingElse() {", new: "if o.alone && final.Message != nil {",
		test: "TestMessageBeforeTheAnswerKeepsTheTask",
	},
}
