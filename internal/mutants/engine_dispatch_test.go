package mutants

// engineDispatch are defects of claims, leases, fences, slots and of the queue.
var engineDispatch = []mutant{
	{
		defect: "a claimed task starts although its fence has moved",
		file:   "engine/dispatch.go", old: "if t.Queue.Phase != store.PhaseLeased || t.Queue.Lease.Fence != fence {", new: "if t.Queue.Phase != store.PhaseLeased {",
		test: "TestLateClaimDoesNotStartATaskOfAnotherWorker",
	},
	{
		defect: "a claimed task that lost its lease before its start keeps its slot",
		file:   "engine/dispatch.go", old: "\t\td.hub.release(l)\n\t\td.freeSlot(t.Key.Owner)\n\t\treturn\n\t}\n\tl.setTask(t)", new: "\t\td.hub.release(l)\n\t\treturn\n\t}\n\tl.setTask(t)",
		test: "TestLateClaimDoesNotStartATaskOfAnotherWorker",
	},
	{
		defect: "a claimed task that cannot be read keeps its slot",
		file:   "engine/dispatch.go", old: "\t\t\td.hub.release(l)\n\t\t\td.freeSlot(t.Key.Owner)\n", new: "\t\t\td.hub.release(l)\n",
		test: "TestLateClaimStartsWithTheMessagesThatArrivedSince",
	},
	{
		defect: "a claimed task that cannot be read stays leased to this worker",
		file:   "engine/dispatch.go", old: "\t\t\td.leases.orphan.Store(true)\n\t\t\td.hub.release(l)\n", new: "\t\t\td.hub.release(l)\n",
		test: "TestLateClaimStartsWithTheMessagesThatArrivedSince",
	},
	{
		defect: "a claimed task starts from the version of its claim although a newer one is known",
		file:   "engine/dispatch.go", old: "\t\tt = newer\n", new: "\t\t_ = newer\n",
		test: "TestLateClaimStartsWithTheMessagesThatArrivedSince",
	},
	{
		defect: "expired leases of live workers are claimed after an outage",
		file:   "engine/dispatch.go", old: "!d.exclusive() && d.leases.outage.recent(started),", new: "false,",
		test: "TestOutageChargesNoAttempt",
	},
	{
		defect: "a full claim of skipped owners ends the search for due tasks",
		file:   "engine/dispatch.go", old: "\t\tif mayHaveDue {\n\t\t\td.mayHaveDue.Store(true)\n", new: "\t\tif !mayHaveDue {\n\t\t\td.mayHaveDue.Store(true)\n",
		test: "TestOneOwnerCannotUseAllSlots",
	},
	{
		defect: "a claim forgets the owners that it has skipped",
		file:   "engine/dispatch.go", old: "\tcase len(skip) > 0:\n\t\td.mayHaveSkipped.Store(true)\n", new: "\tcase len(skip) > 0:\n",
		test: "TestReservedSlotsStarveNoTask",
	},
	{
		defect: "a claim with a lost answer keeps the slots that it did not use",
		file:   "engine/dispatch.go", old: "\tif !known {\n\t\td.slots.returnUnused(n - len(tasks))\n", new: "\tif !known {\n",
		test: "TestFailedClaimFreesItsSlots",
	},
	{
		defect: "the worker keeps its ID after a claim with a lost answer",
		file:   "engine/dispatch.go", old: "\td.leases.orphan.Store(true)\n\treturn false", new: "\treturn false",
		test: "TestFailedClaimFreesItsSlots",
	},
	{
		defect: "an unreadable task is charged an attempt",
		file:   "engine/dispatch.go", old: "\t\tqueue.Attempt--\n", new: "",
		test: "TestUnreadableTaskIsRequeuedForALease",
	},
	{
		defect: "an unreadable task is claimed again at once",
		file:   "engine/dispatch.go", old: "queue.Phase, queue.DueAt, queue.Lease.Worker = store.PhaseQueued, due, \"\"", new: "queue.Phase, queue.DueAt, queue.Lease.Worker = store.PhaseQueued, time.Time{}, \"\"",
		test: "TestUnreadableTaskIsRequeuedForALease",
	},
	{
		defect: "a renewal without an answer lasts until the leases have expired",
		file:   "engine/dispatch.go", old: "context.WithTimeoutCause(ctx, d.cfg.Turns.Lease/3,", new: "context.WithTimeoutCause(ctx, 2*d.cfg.Turns.Lease,",
		test: "TestUnansweredRenewalStopsNoHandler",
	},
	{
		defect: "a lease that the store did not extend counts as extended",
		file:   "engine/dispatch.go", old: "\t\t\tdelete(byKey, key) // the lease is still valid until its previous deadline\n", new: "\t\t\t_ = key\n",
		test: "TestLockedLeaseDoesNotAffectOthers",
	},
	{
		defect: "renewed leases count from the answer",
		file:   "engine/dispatch.go", old: "r.lease.extend(started + d.cfg.Turns.Lease)", new: "r.lease.extend(d.elapsed() + d.cfg.Turns.Lease)",
		test: "TestHandlerStopsBeforeItsLeaseEndsInTheStore",
	},
	{
		defect: "a run continues after the store reported its lease as lost",
		file:   "engine/dispatch.go", old: "\t\t\t_ = r.out.abort(ErrLeaseLost)\n", new: "",
		test: "TestCancelStopsHandlerOnOtherReplica",
	},
	{
		defect: "the dispatcher polls less often than leases expire",
		file:   "engine/dispatch.go", old: "time.NewTicker(min(d.cfg.Turns.Poll, d.cfg.Turns.Lease/4))", new: "time.NewTicker(d.cfg.Turns.Poll)",
		test: "TestTaskOfDeadWorkerIsClaimedDespiteALongPollInterval",
	},
	{
		defect: "a freed slot is not offered to owners that a claim skipped",
		file:   "engine/dispatch.go", old: "if d.slots.release(owner) && d.mayHaveSkipped.Load() {", new: "if d.slots.release(owner) && false {",
		test: "TestOneOwnerCannotUseAllSlots",
	},
	{
		defect: "a lease that a run renewed counts from the answer",
		file:   "engine/lease.go", old: "l.extend(started + l.cfg.Turns.Lease)", new: "l.extend(l.elapsed() + max(0*started, l.cfg.Turns.Lease))",
		test: "TestHandlerStopsBeforeItsLeaseEndsInTheStore",
	},
	{
		defect: "a handler may run until the last moment of its lease",
		file:   "engine/lease.go", old: " - l.elapsed() - l.cfg.Turns.Lease/20", new: " - l.elapsed()",
		test: "TestHandlerStopsBeforeItsLeaseEndsInTheStore",
	},
	{
		defect: "a new task may use a reserved slot of another owner",
		file:   "engine/slots.go", old: "scarce := s.free <= s.reserved", new: "scarce := s.free < s.reserved",
		test: "TestOwnerAtItsLimitGetsNoReservedSlot",
	},
	{
		defect: "an owner at its limit gets one more reserved slot",
		file:   "engine/slots.go", old: "s.busy[owner] >= s.reservedLimit && (waiting || scarce)", new: "s.busy[owner] > s.reservedLimit && (waiting || scarce)",
		test: "TestOwnerAtItsLimitGetsNoReservedSlot",
	},
	{
		defect: "a new task overtakes waiting tasks of its owner",
		file:   "engine/slots.go", old: "s.reservedLimit && (waiting || scarce)", new: "s.reservedLimit && scarce",
		test: "TestOwnerAtItsLimitGetsNoReservedSlot",
	},
	{
		defect: "a new task acquires a reserved slot during a claim",
		file:   "engine/slots.go", old: "s.free == 0 || scarce && s.unassigned > 0 ||", new: "s.free == 0 ||",
		test: "TestReservedSlotsAreNotUsedDuringAClaim",
	},
	{
		defect: "one claim gives all reserved slots to one owner",
		file:   "engine/slots.go", old: "\t\t\tn = min(n, s.reservedLimit)\n", new: "",
		test: "TestClaimLeavesReservedSlotsToOthers",
	},
	{
		defect: "a claim does not skip owners at their limit",
		file:   "engine/slots.go", old: "\t\tif n >= s.reservedLimit {\n", new: "\t\tif n > s.reservedLimit {\n",
		test: "TestOneOwnerCannotUseAllSlots",
	},
	{
		defect: "an owner that may get reserved slots again is not reported",
		file:   "engine/slots.go", old: "s.busy[owner] == s.reservedLimit-1", new: "s.busy[owner] == s.reservedLimit",
		test: "TestOneOwnerCannotUseAllSlots",
	},
	{
		defect: "waiting quarantined tasks use all slots",
		file:   "engine/quarantine.go", old: "if waiting > max(1, int64(r.e.cfg.Turns.Concurrency)/2) {", new: "if waiting > int64(r.e.cfg.Turns.Concurrency) {",
		test: "TestQuarantinedTasksDoNotDelayOthers",
	},
	{
		defect: "a task that requested its last attempt is quarantined",
		file:   "engine/quarantine.go", old: "return err == nil && len(before) == 1 && before[0].State != a2a.StateSubmitted", new: "return err == nil && len(before) == 1 && before[0].State != a2a.StateFailed",
		test: "TestTakeoversAreLogged",
	},
	{
		defect: "the attempt of a quarantined task is not counted when it starts",
		file:   "engine/quarantine.go", old: "\tqueue.Attempt++\n", new: "",
		test: "TestOnlyPoisonTaskFails",
	},
	{
		defect: "a quarantined task that waits is charged an attempt",
		file:   "engine/quarantine.go", old: "\t\tqueue.Attempt--\n", new: "",
		test: "TestQuarantineSubtractsTheAttemptOfTheClaim",
	},
	{
		defect: "the quarantine slot is free before the attempt has ended or has run for some time",
		file:   "engine/quarantine.go", old: "time.AfterFunc(quarantineInterval,", new: "time.AfterFunc(0,",
		test: "TestOnlyPoisonTaskFails",
	},
	{
		defect: "an outage counts only from its last failed call",
		file:   "engine/outage.go", old: "\tif !o.failing {\n\t\to.failedAt = started\n\t}\n", new: "\to.failedAt = started\n",
		test: "TestOutageChargesNoAttempt",
	},
	{
		defect: "a clock that was set back is not noticed",
		file:   "engine/outage.go", old: "(offset - o.offset).Abs() > o.lease/4", new: "offset-o.offset > o.lease/4",
		test: "TestStoreClockChangeVoidsNoLease",
	},
	{
		defect: "leases are claimed directly after the clock was set",
		file:   "engine/outage.go", old: "if o.offset = offset; set {", new: "if o.offset = offset; false {",
		test: "TestStoreClockChangeVoidsNoLease",
	},
	{
		defect: "expired leases are claimed while the store fails",
		file:   "engine/outage.go", old: "return o.failing || now < o.graceUntil", new: "return now < o.graceUntil",
		test: "TestTasksOfReplicaThatDiedInOutageAreClaimed",
	},
	{
		defect: "new tasks overtake due tasks",
		file:   "engine/send.go", old: "if d.mayHaveDue.Load() || !d.runs.add() {", new: "if !d.runs.add() {",
		test: "TestNewTasksWaitBehindDueTasks",
	},
	{
		defect: "a rejected new task keeps its slot",
		file:   "engine/send.go", old: "\tif reserved {\n\t\td.freeSlot(owner)\n", new: "\tif reserved {\n",
		test: "TestRejectedTaskFreesItsSlot",
	},
	{
		defect: "a queued task waits for the next poll",
		file:   "engine/send.go", old: "\t\tif !d.waitsForSlot(l.key.Owner) {\n\t\t\td.notifyWork()\n\t\t}\n", new: "\t\td.waitsForSlot(l.key.Owner)\n",
		test: "TestQueuedTaskStartsWhenASlotIsFree",
	},
	{
		defect: "an owner may fill the queue up to one task above its share",
		file:   "engine/queued.go", old: "if n < share {", new: "if n <= share {",
		test: "TestOneOwnerCannotFillTheQueue",
	},
	{
		defect: "a count of the queue forgets the tasks that were queued during it",
		file:   "engine/queued.go", old: "q.stored, q.since, q.counted = n, q.since-included, at", new: "q.stored, q.since, q.counted = n, 0*included, at",
		test: "TestQueueCountKeepsTasksThatWereQueuedDuringTheCount",
	},
	{
		defect: "a run of a canceled task ends as if its lease were lost",
		file:   "engine/catchup.go", old: "if at.state == a2a.StateCanceled {", new: "if at.state == a2a.StateFailed {",
		test: "TestCancelStopsHandlerOnOtherReplica",
	},
}
