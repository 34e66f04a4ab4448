package mutants

// engineRetention are defects of retention, sweeps, removals and deletions.
var engineRetention = []mutant{
	{
		defect: "the shortest age is rejected",
		file:   "engine/retention.go", old: "age != 0 && age < minAge", new: "age != 0 && age <= minAge",
		test: ".",
	},
	{
		defect: "a state without an age of its own is stored without limit",
		file:   "engine/retention.go", old: "\treturn r[RetainTasks]\n", new: "\treturn 0\n",
		test: ".",
	},
	{
		defect: "described contexts are removed by default",
		file:   "engine/retention.go", old: "ok || kind == RetainDescribedContexts {", new: "ok {",
		test: ".",
	},
	{
		defect: "a pass removes one batch of idempotency records",
		file:   "engine/retention.go", old: "\t\t\tj.keys.Add(int64(n))\n\t\t\treturn n == expiryBatch, err", new: "\t\t\tj.keys.Add(int64(n))\n\t\t\treturn n > expiryBatch, err",
		test: ".",
	},
	{
		defect: "a pass removes one batch of tasks",
		file:   "engine/retention.go", old: "\t\tj.purge(ctx, beat)\n\t}\n\treturn next != nil, nil", new: "\t\tj.purge(ctx, beat)\n\t}\n\treturn false, nil",
		test: ".",
	},
	{
		defect: "each batch of expired tasks starts from the oldest",
		file:   "engine/retention.go", old: "\tj.setPosition(string(state), next)\n", new: "",
		test: ".",
	},
	{
		defect: "expired records are removed at once",
		file:   "engine/retention.go", old: "since(recordGrace)", new: "since(0)",
		test: ".",
	},
	{
		defect: "the data of expired tasks remains until the next pass",
		file:   "engine/retention.go", old: "\t\tj.deletions.removals.wake.Send()\n", new: "",
		test: ".",
	},
	{
		defect: "contexts of clients expire as contexts of first messages",
		file:   "engine/retention.go", old: "Saved: kind == RetainDescribedContexts,", new: "Saved: kind != RetainDescribedContexts,",
		test: ".",
	},
	{
		defect: "the age of a task of one state applies to all states",
		file:   "engine/retention.go", old: "if age := j.cfg.Retention.tasks(state); age > 0 {", new: "if age := j.cfg.Retention.tasks(a2a.StateCompleted); age > 0 {",
		test: ".",
	},
	{
		defect: "a store that does not answer blocks a sweep",
		file:   "engine/sweep.go", old: "call, cancel := context.WithTimeout(ctx, contractTimeout)", new: "call, cancel := context.WithCancel(ctx)",
		test: ".",
	},
	{
		defect: "the search for orphans does not start again after its end",
		file:   "engine/sweep.go", old: "\t\t\t\tafter = blob.Object{}\n", new: "\t\t\t\t_ = after\n",
		test: ".",
	},
	{
		defect: "removals that always fail block others",
		file:   "engine/sweep.go", old: "\t\t\tafter = *next\n", new: "\t\t\tafter = store.Removal{}\n",
		test: ".",
	},
	{
		defect: "a sweep removes one batch at each tick",
		file:   "engine/sweep.go", old: "return n, n == expiryBatch, err", new: "return n, n > expiryBatch, err",
		test: ".",
	},
	{
		defect: "the embeddings of facts are computed one batch at each tick",
		file:   "engine/sweep.go", old: "return n, n == embedBatch, err", new: "return n, n > embedBatch, err",
		test: ".",
	},
	{
		defect: "removals that were not tried are passed over",
		file:   "engine/removal.go", old: "found, full = found[:tried], true", new: "found = found[:tried]",
		test: ".",
	},
	{
		defect: "completed removals are not forgotten when the time is over",
		file:   "engine/removal.go", old: "context.WithTimeout(context.WithoutCancel(ctx), contractTimeout)", new: "context.WithTimeout(ctx, contractTimeout)",
		test: ".",
	},
	{
		defect: "a failed removal is forgotten",
		file:   "engine/removal.go", old: "\t\tif errs[i] == nil {\n", new: "\t\tif errs[i] == nil || ctx.Err() == nil {\n",
		test: ".",
	},
	{
		defect: "a removal keeps the messages of a task whose id is used in another context",
		file:   "engine/removal.go", old: "case err == nil && t.ContextID != removal.ContextID:", new: "case err == nil && t.ContextID == \"\":",
		test: ".",
	},
	{
		defect: "a removal deletes the messages of a task that was created again",
		file:   "engine/removal.go", old: "case err == nil && t.ContextID != removal.ContextID:", new: "case err == nil && t.ContextID != \"\":",
		test: ".",
	},
	{
		defect: "a removal releases the files of a task that was created again during it",
		file:   "engine/removal.go", old: "\t\t\tpinErr = r.pinAgain(ctx, removal.Key)\n", new: "\t\t\tpinErr = nil\n",
		test: ".",
	},
	{
		defect: "a removal leaves the messages of a fenced run",
		file:   "engine/removal.go", old: "errors.Is(err, history.ErrFenced) {", new: "errors.Is(err, history.ErrFenced) && fence == 0 {",
		test: ".",
	},
	{
		defect: "a failed removal waits for the next tick",
		file:   "engine/removal.go", old: "\t\tr.wake.Send()\n", new: "\t\t_ = r.wake\n",
		test: ".",
	},
	{
		defect: "a removal whose pins cannot be released keeps the messages",
		file:   "engine/removal.go", old: "return errors.Join(pinErr, r.clearRun(ctx, removal, fence))", new: "if pinErr != nil {\n\t\treturn pinErr\n\t}\n\treturn r.clearRun(ctx, removal, fence)",
		test: ".",
	},
	{
		defect: "an archived context is cleared without force",
		file:   "engine/contextclear.go", old: "c.Status == a2a.ContextArchived && !force", new: "c.Status == a2a.ContextArchived && !force && c.TaskCount < 0",
		test: ".",
	},
	{
		defect: "a forced deletion does not pause the context",
		file:   "engine/contextclear.go", old: "\t\tif err := e.pauseContext(ctx, c); err != nil {\n\t\t\treturn 0, err\n\t\t}\n", new: "",
		test: ".",
	},
	{
		defect: "a forced deletion does not cancel tasks that wait for their client",
		file:   "engine/contextclear.go", old: "e.tasksIn(ctx, key, unfinished, deleteBatch)", new: "e.tasksIn(ctx, key, active, deleteBatch)",
		test: ".",
	},
	{
		defect: "a deletion stops with its caller",
		file:   "engine/contextclear.go", old: "\tctx = context.WithoutCancel(ctx)\n\tif _, err := d.cfg.Store.DeleteContext", new: "\tif _, err := d.cfg.Store.DeleteContext",
		test: ".",
	},
	{
		defect: "a resumed deletion stops with its caller",
		file:   "engine/contextclear.go", old: "_, err = d.finish(context.WithoutCancel(ctx), key)", new: "_, err = d.finish(ctx, key)",
		test: ".",
	},
	{
		defect: "completing a deletion removes the records of a context that was created again",
		file:   "engine/contextclear.go", old: "errors.Is(err, store.ErrNotFound) {\n\t\treturn false, nil\n\t}", new: "errors.Is(err, store.ErrNotFound) && len(records) == 0 {\n\t\treturn false, nil\n\t}",
		test: ".",
	},
	{
		defect: "a deletion leaves the records of the context",
		file:   "engine/contextclear.go", old: "errors.Join(d.removeRecords(ctx, key, records), d.clearSession(ctx, key))", new: "errors.Join(d.removeRecords(ctx, key, records[:0]), d.clearSession(ctx, key))",
		test: ".",
	},
	{
		defect: "a deletion does not wake the removals of its tasks",
		file:   "engine/contextclear.go", old: "\t\td.removals.wake.Send()\n", new: "",
		test: ".",
	},
	{
		defect: "a context whose deletion fails blocks the deletions after it",
		file:   "engine/contextclear.go", old: "\t\t\tif errors.Is(err, errContractStore) {\n\t\t\t\treturn", new: "\t\t\tif err != nil {\n\t\t\t\treturn",
		test: ".",
	},
	{
		defect: "readers of a deleted task do not end",
		file:   "engine/taskdelete.go", old: "\tl.markDeleted()\n", new: "",
		test: ".",
	},
	{
		defect: "the content of a deleted task remains until the next pass",
		file:   "engine/taskdelete.go", old: "\tif more {\n\t\te.janitor.wakeUp()\n\t}\n", new: "\t_ = more\n",
		test: ".",
	},
	{
		defect: "a purge ends after its first batch",
		file:   "engine/taskdelete.go", old: "for more := true; more && ctx.Err() == nil; {", new: "for more := true; more && ctx.Err() == nil; more = false {",
		test: ".",
	},
	{
		defect: "a fact with exactly the least score is not found",
		file:   "backend/internal/recall/search.go", old: "m.Score < p.MinScore", new: "m.Score <= p.MinScore",
		test: ".", in: "backend/inmem",
	},
	{
		defect: "a document with exactly the least score is not found",
		file:   "store/vector/results.go", old: "score < *c.p.MinScore", new: "score <= *c.p.MinScore",
		test: ".", in: "backend/inmem",
	},
}
