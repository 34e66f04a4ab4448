package mutants

// engineReplay are defects of later attempts of a turn: steps, artifacts and effects.
var engineReplay = []mutant{
	{
		defect: "a step starts under an expired lease",
		file:   "engine/step.go", old: "if err := t.r.ensureLease(ctx); err != nil {", new: "if err := error(nil); err != nil {",
		test: "TestPausedRunStartsNothingAfterItsLeaseIsLost",
	},
	{
		defect: "the second use of a step name is the same step",
		file:   "engine/step.go", old: "n > 1 {", new: "n > 2 {",
		test: "TestNestedStepsOfRecordedStepsKeepNames",
	},
	{
		defect: "a step that ran longer than its turn is stored",
		file:   "engine/step.go", old: "\tif err := t.usable(); err != nil {\n\t\treturn err // the step ran longer than its turn\n\t}\n", new: "",
		test: "TestStepsOfTurnsAreSeparate",
	},
	{
		defect: "the artifacts of a recorded step are not written again",
		file:   "engine/step.go", old: "return slices.Clone(done.result), stepReplay{t, t.scopeOf(ctx)}.run(done)", new: "return slices.Clone(done.result), nil",
		test: "TestChunksOfCompletedStepsSurviveKill",
	},
	{
		defect: "a step that is read does not count the steps within it",
		file:   "engine/replay.go", old: "\tfor _, name := range done.Steps {\n\t\ts.t.steps.count(s.in, name)\n\t}\n", new: "",
		test: "TestNestedStepsOfRecordedStepsKeepNames",
	},
	{
		defect: "an outer step does not record the steps within nested ones",
		file:   "engine/step.go", old: "for ; in != nil; in = in.parent {", new: "for ; in != nil; in = nil {",
		test: "TestOuterStepsRecordNestedSteps",
	},
	{
		defect: "an artifact that was replaced after its last chunk counts as complete",
		file:   "engine/replay.go", old: "\t\tearlier.complete = false\n", new: "",
		test: "TestLastAttemptDeterminesTheArtifact",
	},
	{
		defect: "a later attempt lacks an artifact that an earlier attempt replaced",
		file:   "engine/replay.go", old: "\t\t} else if earlier.atStart != nil {\n", new: "\t\t} else if earlier.atStart == nil {\n",
		test: "TestUnwrittenArtifactIsRestored",
	},
	{
		defect: "the content of a recorded step is not counted against the limit of the turn",
		file:   "engine/replay.go", old: "\t\tif err := t.r.out.countArtifactBytes(record.Name, parts); err != nil {\n\t\t\treturn err\n\t\t}\n", new: "",
		test: "TestRecordedStepCountsLikeOneThatRuns",
	},
	{
		defect: "an artifact that a recorded step started is not found as open",
		file:   "engine/replay.go", old: "\t\tt.artifacts.setOpen(w)\n", new: "\t\t_ = w\n",
		test: "TestLaterAttemptsContinueArtifactStartedInStep",
	},
	{
		defect: "an artifact that a recorded step completed accepts more content",
		file:   "engine/replay.go", old: "\t\tw.closed = w.closed || record.Ends\n", new: "",
		test: "TestRecordedStepCountsLikeOneThatRuns",
	},
	{
		defect: "an attempt that writes an artifact twice reuses the stored one twice",
		file:   "engine/artifactreuse.go", old: "if earlier == nil || earlier.rewritten {", new: "if earlier == nil {",
		test: "TestArtifactsEqualUninterruptedRun/memory",
	},
	{
		defect: "generations of a later attempt count from its own start",
		file:   "engine/artifactreuse.go", old: "\t\tn = t.earlier.artifacts[id].generation\n", new: "\t\tn = 0\n",
		test: "TestArtifactsEqualUninterruptedRun/memory",
	},
	{
		defect: "an artifact that ends earlier than the stored one keeps its end",
		file:   "engine/artifactreuse.go", old: "if !last || w.pos.After(parts) == store.EndOf(stored) {", new: "if true {",
		test: "TestLastAttemptDeterminesTheArtifact",
	},
	{
		defect: "a chunk is appended to an artifact that is complete",
		file:   "engine/artifactreuse.go", old: "if same && !earlier.complete {", new: "if same {",
		test: "TestLastAttemptDeterminesTheArtifact",
	},
	{
		defect: "an artifact with another description reuses the stored one",
		file:   "engine/artifactreuse.go", old: "same := w.started || equalHeads(&w.head, earlier.artifact)", new: "same := true",
		test: "TestLastAttemptDeterminesTheArtifact",
	},
	{
		defect: "a write to another store starts under an expired lease",
		file:   "engine/turncontract.go", old: "if err := t.r.ensureLease(ctx); err != nil {", new: "if err := error(nil); err != nil {",
		test: "TestPausedRunStartsNothingAfterItsLeaseIsLost",
	},
	{
		defect: "a write to another store precedes the commit of the reads before it",
		file:   "engine/turncontract.go", old: "\t\terr = u.commitReads(ctx)\n", new: "\t\terr = nil\n",
		test: "TestFailedWriteIsStoredBeforeTheNextOne",
	},
	{
		defect: "a query does not see the writes of its turn",
		file:   "engine/turncontract.go", old: "case call.Read != nil || call.After:", new: "case call.After:",
		test: "TestDocumentsOfATurn",
	},
	{
		defect: "a write of a recreated task has the key of the deleted task",
		file:   "engine/turncontract.go", old: "t.task.CreatedAt.UnixNano()", new: "0",
		test: "TestOnceKeyIdentifiesTheCall",
	},
	{
		defect: "a write of a turn has the key of the turn before",
		file:   "engine/turncontract.go", old: "t.task.CreatedAt.UnixNano(), t.Number(),", new: "t.task.CreatedAt.UnixNano(), 0,",
		test: "TestOnceKeyIdentifiesTheCall",
	},
	{
		defect: "a write within a step has the key of a write outside",
		file:   "engine/turncontract.go", old: "callKey(t, \"\", scope, t.calls.next[scope])", new: "callKey(t, \"\", \"\", t.calls.next[scope])",
		test: "TestOnceKeyIdentifiesTheCall",
	},
	{
		defect: "a read of a stream is repeated",
		file:   "engine/storeaway.go", old: "if again != nil && !again() {", new: "if again != nil && !again() && false {",
		test: "TestPutAfterALostAnswerNeedsTheDigest",
	},
	{
		defect: "repeated content starts at the beginning of its file",
		in:     "engine", file: "internal/fileref/source.go", old: "s.seeker.Seek(s.start, io.SeekStart)", new: "s.seeker.Seek(0, io.SeekStart)",
		test: "TestCallsOfATurnWaitForTheStore",
	},
	{
		defect: "a blob that is opened again starts at its first byte",
		file:   "engine/storeaway.go", old: "io.CopyN(io.Discard, in, c.read)", new: "io.CopyN(io.Discard, in, 0*c.read)",
		test: "TestCallsOfATurnWaitForTheStore",
	},
	{
		defect: "commits that change one record do not wait for each other",
		file:   "engine/runcommit.go", old: "		if conflicts == 0 {", new: "		if conflicts < 0 {",
		test: "TestConcurrentChangesOfOneRecordAreFewCommits",
	},
	{
		defect: "failed reads of a blob are repeated without a pause",
		file:   "engine/storeaway.go", old: "		if !c.calls.temporary(err) {\n			return err\n		}\n		_ = c.in.Close()", new: "		if !c.calls.temporary(err) {\n			return err\n		}\n		err = nil\n		_ = c.in.Close()",
		test: "TestFailedReadsOfABlobPause",
	},
	{
		defect: "a store that is away fails the turn",
		file:   "engine/run.go", old: "case r.stores.interrupted(err):", new: "case false && r.stores.interrupted(err):",
		test: "TestErrorOfAStoreThatIsAwayChargesNoAttempt",
	},
	{
		defect: "clients see the causes of errors",
		file:   "engine/storeaway.go", old: "return strings.ReplaceAll(text, coded.Error(), coded.Message)", new: "return strings.Clone(text)",
		test: "TestStatusOfAFailedTaskHasNoCauses",
	},
	{
		defect: "a call with other arguments gets the result of a write with a lost answer",
		file:   "engine/turndirect.go", old: "d.args == next.args && d.op == next.op", new: "d.op == next.op",
		test: "TestWriteWithAnUnknownOutcomeIsOnlyRepeated",
	},
	{
		defect: "another call gets the result of a write with a lost answer",
		file:   "engine/turndirect.go", old: "d.args == next.args && d.op == next.op", new: "d.args == next.args",
		test: "TestWriteWithAnUnknownOutcomeIsOnlyRepeated",
	},
	{
		defect: "a call without comparable arguments gets the result of a write with a lost answer",
		file:   "engine/turndirect.go", old: "next != nil && d.args != \"\" && d.args == next.args", new: "next != nil && d.args == next.args",
		test: "TestWriteWithAnUnknownOutcomeIsOnlyRepeated",
	},
	{
		defect: "a write with a lost answer gives up its number",
		file:   "engine/turndirect.go", old: "if d.inFlight = false; !d.started {", new: "if d.inFlight = false; true {",
		test: "TestCallAfterALostAnswerDoesNotGetItsResult",
	},
	{
		defect: "concurrent writes of a scope share a number",
		file:   "engine/turndirect.go", old: "\tcase d.inFlight:\n\t\treturn errConcurrentWrite\n", new: "",
		test: "TestWriteWithAnUnknownOutcomeIsOnlyRepeated",
	},
	{
		defect: "the context of a step of another turn is a step of this turn",
		file:   "engine/scope.go", old: "if s == nil || s.t != t {", new: "if s == nil {",
		test: "TestStepOfAnotherTurnIsNoScope",
	},
	{
		defect: "an outer step does not record the content that a nested step wrote",
		file:   "engine/scope.go", old: "for ; s != nil; s = s.parent {\n\t\tm :=", new: "for ; s != nil; s = nil {\n\t\tm :=",
		test: "TestArtifactsEqualUninterruptedRun/memory",
	},
	{
		defect: "a step records artifacts in another order than it wrote them",
		file:   "engine/scope.go", old: "if m.to != from || m.from == m.to && from != to && i < len(s.writes)-1 {", new: "if m.to != from || i < 0 {",
		test: "TestArtifactsEqualUninterruptedRun/memory",
	},
	{
		defect: "a step does not record the description of an artifact that an outer step started",
		file:   "engine/scope.go", old: "if m.flags&(wroteStart|wroteDescription) != 0 {", new: "if m.flags&wroteStart != 0 {",
		test: "TestRecordedOuterStepRepeatsNestedDescription",
	},
	{
		defect: "an artifact may be written while two steps run",
		file:   "engine/scope.go", old: "if nested < len(t.running) {", new: "if nested < 1 {",
		test: "TestWritesDuringConcurrentStepsAreRejected",
	},
}
