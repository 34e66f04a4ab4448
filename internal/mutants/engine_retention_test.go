package mutants

// engineRetention are defects of retention, sweeps, removals and deletions.
var engineRetention = []mutant{
	{
		defect: "the shortest age is rejected",
		file:   "engine/retention.go", old: "age != 0 && age < minAge", new: "age != 0 && age <= minAge",
		test: "TestParseRetention",
	},
	{
		defect: "a state without an age of its own is stored without limit",
		file:   "engine/retention.go", old: "\treturn r[RetainTasks]\n", new: "\treturn 0\n",
		test: "TestFinishedTasksAreRemovedAfterTheirAge",
	},
	{
		defect: "described contexts are removed by default",
		file:   "engine/retention.go", old: "ok || kind == RetainDescribedContexts {", new: "ok {",
		test: "TestDescribedContextsAreKeptByDefault",
	},
	{
		defect: "a pass removes one batch of idempotency records",
		file:   "engine/retention.go", old: "\t\t\tj.keys.Add(int64(n))\n\t\t\treturn n == expiryBatch, err", new: "\t\t\tj.keys.Add(int64(n))\n\t\t\treturn n > expiryBatch, err",
		test: "TestPassRemovesAllExpiredData",
	},
	{
		defect: "a pass removes one batch of tasks",
		file:   "engine/retention.go", old: "\t\tj.purge(ctx, beat)\n\t}\n\treturn next != nil, nil", new: "\t\tj.purge(ctx, beat)\n\t}\n\treturn false, nil",
		test: "TestPassRemovesAllExpiredData",
	},
	{
		defect: "contexts of clients expire as contexts of first messages",
		file:   "engine/retention.go", old: "Saved: kind == RetainDescribedContexts,", new: "Saved: kind != RetainDescribedContexts,",
		test: "TestEmptyContextsAreRemovedAfterTheirAge",
	},
	{
		defect: "the age of a task of one state applies to all states",
		file:   "engine/retention.go", old: "if age := j.cfg.Retention.tasks(state); age > 0 {", new: "if age := j.cfg.Retention.tasks(a2a.StateCompleted); age > 0 {",
		test: "TestFinishedTasksAreRemovedAfterTheirAge",
	},
	{
		defect: "a store that does not answer blocks a sweep",
		file:   "engine/sweep.go", old: "call, cancel := context.WithTimeout(ctx, contractTimeout)", new: "call, cancel := context.WithCancel(ctx)",
		test: "TestFailingStoreDoesNotDelayOthers",
	},
	{
		defect: "removals that always fail block others",
		file:   "engine/sweep.go", old: "\t\t\tafter = *next\n", new: "\t\t\tafter = store.Removal{}\n",
		test: "TestFailingRemovalsDoNotBlockOthers",
	},
	{
		defect: "a sweep removes one batch at each tick",
		in:     "engine", file: "store/contract/contract.go", old: "return n, n == SweepBatch, err", new: "return n, n > SweepBatch, err",
		test: "TestExpiredDataOfHandlersIsRemoved",
	},
	{
		defect: "completed removals are not forgotten when the time is over",
		file:   "engine/removal.go", old: "context.WithTimeout(context.WithoutCancel(ctx), contractTimeout)", new: "context.WithTimeout(ctx, contractTimeout)",
		test: "TestSlowRemovalsAreForgotten",
	},
	{
		defect: "a failed removal is forgotten",
		file:   "engine/removal.go", old: "\t\tif errs[i] == nil {\n", new: "\t\tif errs[i] == nil || ctx.Err() == nil {\n",
		test: "TestFailingRemovalsDoNotBlockOthers",
	},
	{
		defect: "a removal releases the files of a task that was created again during it",
		in:     "engine", file: "store/blob/blobs/blobs.go", old: "range fileref.TaskRefs(t)", new: "range fileref.TaskRefs(t)[:0]",
		test: "TestTaskCreatedDuringARemovalKeepsItsFiles",
	},
	{
		defect: "an archived context is cleared without force",
		file:   "engine/contextclear.go", old: "c.Status == a2a.ContextArchived && !force", new: "c.Status == a2a.ContextArchived && !force && c.TaskCount < 0",
		test: "TestContextStatusAllowsOperations",
	},
	{
		defect: "a forced deletion does not pause the context",
		file:   "engine/contextclear.go", old: "\t\tif err := w.pause(ctx, c); err != nil {\n\t\t\treturn 0, err\n\t\t}\n", new: "",
		test: "TestForcedClearAcceptsNoNewTasks",
	},
	{
		defect: "a forced deletion does not cancel tasks that wait for their client",
		file:   "engine/contextclear.go", old: "w.tasksIn(ctx, unfinished, deleteBatch)", new: "w.tasksIn(ctx, active, deleteBatch)",
		test: "TestUnfinishedTasksKeepContextOpen",
	},
	{
		defect: "a deletion stops with its caller",
		file:   "engine/contextclear.go", old: "\tctx = context.WithoutCancel(ctx)\n\tif _, err := d.cfg.Store.DeleteContext", new: "\tif _, err := d.cfg.Store.DeleteContext",
		test: "TestDeletionContinuesWithoutItsCaller",
	},
	{
		defect: "a resumed deletion stops with its caller",
		file:   "engine/contextclear.go", old: "_, err = d.finish(context.WithoutCancel(ctx), key)", new: "_, err = d.finish(ctx, key)",
		test: "TestDeletionContinuesWithoutItsCaller",
	},
	{
		defect: "completing a deletion removes the records of a context that was created again",
		file:   "engine/contextclear.go", old: "errors.Is(err, store.ErrNotFound) {\n\t\treturn false, nil\n\t}", new: "errors.Is(err, store.ErrNotFound) && len(records) == 0 {\n\t\treturn false, nil\n\t}",
		test: "TestFinishKeepsAContextWhoseDeletionIsNotPending",
	},
	{
		defect: "a deletion leaves the records of the context",
		file:   "engine/contextclear.go", old: "errors.Join(d.removeRecords(ctx, key, records), d.clearSession(ctx, key))", new: "errors.Join(d.removeRecords(ctx, key, records[:0]), d.clearSession(ctx, key))",
		test: "TestClearingAContextRemovesItsStateAndBoards",
	},
	{
		defect: "the failed deletion of a context blocks the deletions after it",
		file:   "engine/contextclear.go", old: "\t\t\tif errors.Is(err, errContractStore) {\n\t\t\t\treturn", new: "\t\t\tif err != nil {\n\t\t\t\treturn",
		test: "TestFinishAllContinuesAfterAFailure",
	},
	{
		defect: "a fact with exactly the least score is not found",
		file:   "store/memory/recall/search.go", old: "m.Score < p.MinScore", new: "m.Score <= p.MinScore",
		test: "TestLongTerm$", in: "backend/inmem",
	},
	{
		defect: "a document with exactly the least score is not found",
		file:   "store/vector/vectordriver/results.go", old: "score < *c.p.MinScore", new: "score <= *c.p.MinScore",
		test: "TestMinScoreIncludesItsBound",
	},
}
