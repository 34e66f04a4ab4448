package sqlite

import (
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/internal/sqltask"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/vector/vectorsql"
)

const planFile = "testdata/plans.txt"

// hotQueries are the statements with a cost that must not grow with the size of the database.
var hotQueries = []hotQuery{
	{"guard", sqlSelectRow},
	{"get", sqlReadTask},
	{"get by pk", sqlReadTaskPK},
	{"log from a checkpoint", sqlReadLog},
	{"events", sqlReadEvents},
	{"log rows", sqlLogRows},
	{"events of a lane", sqlLaneEvents},
	{"content", sqlReadContent},
	{"steps", sqlReadSteps},
	{"queued tasks of an owner", sqlQueued},
	{"idempotency key", sqlSelectKey},
	{"expire idempotency keys", sqlExpireKeys},
	{"recent idempotency keys", sqlRecentKeys},
	{"contexts", sqlReadContexts},
	{"record", sqlSelectRecord},
	{"records", sqlRecords},
	{"expire records", sqlExpireRecords},
	{"record: version", sqlRecordVersion},
	{"record: update", sqlUpdateRecord},
	{"record: delete", sqlDeleteRecord},
	{"feedback: counts", sqlRatings},
	{"feedback: ratings of a task", sqlRatingsOf},
	{"counters", sqlCounters},
	{"context: head", sqlContextHead},
	{"context: first task", sqlContextFirst},
	{"contexts: newest tasks", sqlNewestTasks},
	{"context: oldest tasks", sqlContextOldest},
	{"context: new message", sqlTouchContext},
	{"context: second message", sqlUseContext},
	{"context: new message, labels", sqlTouchLabels},
	{"context: parent", sqlContextParent},
	{"context: labels", sqlLabelsOf},
	{"context: busy tasks", sqlBusyOthers},
	{"context: mark deletion", sqlMarkDeletion},
	{"context: subtract tasks", sqlSubtractTasks},
	{"delete: rows of a log", sqlLogSizes},
	{"delete: keys by log", sqlDropKeysByLog},
	{"delete: keys by task", sqlDropKeysByTask},
	{"delete: log", sqlDropLog},
	{"delete: rows of steps", sqlStepRows},
	{"delete: steps", sqlDropStep},
	{"delete: rows of contents", sqlContentRows},
	{"delete: contents", sqlDropContent},
	{"delete: count attempts and dead letters", sqlCountDeliveries},
	{"delete: some attempts", sqlDropSomeAttempts},
	{"delete: some dead letters", sqlDropSomeDead},
	{"delete: pending lanes", sqlPendingLanes},
	{"delete: task with content left", sqlDeletedTask},
	{"expire: tasks of an owner", sqlTasksBefore},
	{"expire: next owner", sqlNextOwner},
	{"expire: contexts", sqlEmptyContexts},
	{"expire: child of a context", sqlContextChild},
	{"delete: feedback", sqlDropFeedback},
	{"list: states", sqlStates},
	{"list: states of a context", sqlContextStates},
	{"claim: next owner with queued tasks", sqlQueuedOwner},
	{"claim: next owner with leased tasks", sqlLeasedOwner},
	{"claim: waiting and due", sqlWaitingDue},
	{"claim: waiting beyond the horizon", sqlWaitingBeyond},
	{"claim: ready tasks of an owner", sqlOwnerReady},
	{"claim: next context", sqlNextContext},
	{"claim: ready tasks of a context", sqlContextReady},
	{"claim: lease ended", sqlLeasedDue},
	{"claim: lease beyond the horizon", sqlLeasedBeyond},
	{"lane: by name", sqlSelectLane},
	{"lane: change", sqlUpdateLane},
	{"lanes: event, pending", sqlMovePending},
	{"lanes: event, idle", sqlMoveIdle},
	{"lanes: waiting and due", sqlPromoteDue},
	{"lanes: waiting beyond the horizon", sqlPromoteBeyond},
	{"lanes: deleted, lease ended", sqlDeletedLanes},
	{"lanes: next owner with ready lanes", sqlReadyLaneOwner},
	{"lanes: next owner with leased lanes", sqlLeasedLaneOwner},
	{"lanes: due", sqlReadyLaneDue},
	{"lanes: due beyond the horizon", sqlReadyBeyond},
	{"lanes: lease ended", sqlLeasedLaneDue},
	{"lanes: lease beyond the horizon", sqlLeasedLaneBeyond},
	{"lanes: lease", sqlLeaseLane},
	{"lanes: renew", sqlRenewLane},
	{"lanes: read a claimed one", sqlClaimedLane},
	{"lanes: wake", sqlWakeLanes},
	{"lanes: done", sqlDoneLanes},
	{"dead letters: expire", sqlDropOldDead},
	{"attempts: old", sqlOldAttempts},
	{"webhook: delete dead letters", sqlDropLaneDead},
	{"webhook: delete attempts", sqlDropLaneAttempts},
	{"task: delete dead letters", sqlDropTaskDead},
	{"task: delete attempts", sqlDropTaskAttempts},
	{"task: delete webhooks", sqlDropTaskWebhooks},
	{"task: delete lanes", sqlDropTaskLanes},
}

type hotQuery struct{ name, text string }

// listQueries returns the statements of all lists that need no sort.
func listQueries() (all []hotQuery) {
	add := func(text, format string, args ...any) {
		all = append(all, hotQuery{fmt.Sprintf(format, args...), text})
	}
	both := []bool{false, true}
	for _, created := range both {
		for _, context := range both {
			for _, ascending := range both {
				for _, filtered := range both {
					k := taskWalk{created: created, context: context, ascending: ascending, filtered: filtered}
					add(k.walk(), "tasks: walk %+v", k)
				}
				k := taskWalk{created: created, context: context, ascending: ascending}
				add(k.pastLimit(), "tasks: cut off %+v", k)
			}
			k := taskWalk{context: context, filtered: created}
			add(k.count(), "tasks: count %+v", k)
			add(k.countCreated(), "tasks: count by creation %+v", k)
		}
	}
	for _, sort := range []store.ContextSort{store.ContextsByUpdated, store.ContextsByCreated, store.ContextsByName} {
		for _, k := range []contextWalk{
			{},
			{ascending: true},
			{nameless: true},
			{nameless: true, ascending: true},
			{nameless: true, isNew: true},
			{byLabel: true},
			{byLabel: true, ascending: true},
			{byLabel: true, moreLabels: true},
		} {
			k.sort = sort
			add(k.walk(), "contexts: walk %+v", k)
		}
	}
	for _, k := range []contextWalk{{bounded: true}, {byLabel: true, bounded: true}, {byLabel: true, moreLabels: true, bounded: true}} {
		add(k.count(), "contexts: count %+v", k)
		k.sort = store.ContextsByCreated
		add(k.walk(), "contexts: walk %+v", k)
	}
	k := contextWalk{sort: store.ContextsByName, nameless: true, bounded: true}
	add(k.walk(), "contexts: walk %+v", k)
	return all
}

// webhookQueries returns the statements of all lists of webhooks, attempts and dead
// letters.
func webhookQueries() (all []hotQuery) {
	for _, names := range []string{sqlLanesAll, sqlLanesOwner, sqlLanesTask, sqlLanesOne} {
		for _, states := range []string{sqlStatesAll, sqlStatesInactive, sqlStatesSome} {
			k := laneWalk{names, states}
			all = append(all, hotQuery{fmt.Sprintf("lanes: walk %+v", k), k.text()})
		}
	}
	for _, kind := range []struct{ name, notes string }{{"attempts", sqlAttemptRecords}, {"dead letters", sqlDeadLetterRecords}} {
		for _, q := range []store.WebhookQuery{{}, {Owner: "o"}, {Owner: "o", TaskID: "t"}, {Owner: "o", TaskID: "t", ID: "p"}} {
			k, _ := newDeliveryWalk(kind.notes, &q)
			all = append(all, hotQuery{fmt.Sprintf("%s: walk of owner %q, task %q, webhook %q", kind.name, q.Owner, q.TaskID, q.ID), k.text()})
		}
	}
	return all
}

// kitQueries returns the statements that are written for package sqlkit.
func kitQueries() (all []hotQuery) {
	for _, q := range slices.Concat(historysql.Statements(), sqltask.Statements()) {
		all = append(all, hotQuery{q[0], sqlkit.ForSQLite(q[1])})
	}
	for _, q := range [][2]string{
		{"vectors: collection", sqlCollection},
		{"vectors: change a collection", sqlChangeCollection},
		{"vectors: count documents", sqlCountDocuments},
		{"vectors: save a document", sqlSaveDocument},
		{"vectors: existing documents", sqlExisting},
		{"vectors: delete documents", sqlDeleteDocuments},
		{"vectors: documents after a sequence", sqlDocumentsAfter},
		{"vectors: ids", sqlDocumentIDs},
		{"vectors: embeddings", sqlEmbeddings},
		{"vectors: part of a snapshot", sqlReadPart},
		{"vectors: old snapshots", sqlDropOldSnapshots},
		{"vectors: delete some documents", sqlDeleteSome},
		{"vectors: delete parts of snapshots", sqlDropSomeSnapshot},
		{"vectors: deleted collections", vectorsql.SQLDeleted},
	} {
		all = append(all, hotQuery{q[0], sqlkit.ForSQLite(q[1])})
	}
	return all
}

// TestHotQueriesKeepTheirPlans compares the query plans with testdata/plans.txt.
// UPDATE_GOLDEN=1 rewrites it.
func TestHotQueriesKeepTheirPlans(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	db, err := sql.Open("sqlite", dataSource(s.path, "query_only(1)"))
	must(t, err)
	defer func() { _ = db.Close() }()
	var plans strings.Builder
	var facts []hotQuery
	documents := vectorsql.NewDocuments(nil, "d.embedding", nil, nil)
	for _, x := range slices.Concat(memorysql.Statements(sqlkit.SQLite), documents.Statements(), vectorsql.Statements(sqlkit.SQLite), graphsql.Statements()) {
		facts = append(facts, hotQuery{x[0], sqlkit.ForSQLite(x[1])})
	}
	for _, q := range slices.Concat(hotQueries, listQueries(), webhookQueries(), kitQueries(), facts) {
		plan := explain(t, db, q.text)
		plans.WriteString(q.name + "\n" + plan)
		for line := range strings.Lines(plan) {
			// Candidates are sorted by a rank that depends on the query, sessions within one minute.
			within := strings.HasPrefix(q.name, "history: sessions") && strings.Contains(line, " FOR LAST ")
			sorts := strings.Contains(line, "TEMP B-TREE") && !strings.HasSuffix(q.name, ": candidates") && !within
			if sorts || (strings.Contains(line, "SCAN") && !harmlessScan(line)) {
				t.Errorf("%s: the plan has %q, want neither a scan nor a sort", q.name, strings.TrimSpace(line))
			}
		}
	}
	golden(t, planFile, plans.String())
}

// harmlessScan reports a scan of rows that the query itself generates, or of a full-text index by
// terms or by its key.
func harmlessScan(line string) bool {
	return strings.TrimSpace(line) == "SCAN m" || strings.Contains(line, "SCAN json_each") || strings.Contains(line, "SCAN (subquery") || strings.Contains(line, "SCAN s") || strings.Contains(line, "_index VIRTUAL TABLE INDEX 0:") || strings.Contains(line, "SCAN CONSTANT ROW") || strings.Contains(line, "LIST SUBQUERY")
}

func explain(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	args := make([]any, 20)
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+phaseNames.Replace(query), args...)
	if err != nil {
		t.Fatalf("EXPLAIN %s = %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		must(t, rows.Scan(&id, &parent, &unused, &detail))
		plan.WriteString("  " + detail + "\n")
	}
	must(t, rows.Err())
	return plan.String()
}

// TestSchemaMatchesGolden compares the schema after all migrations with
// testdata/schema.sql.
func TestSchemaMatchesGolden(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	db, err := sql.Open("sqlite", dataSource(s.path, "query_only(1)"))
	must(t, err)
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name")
	must(t, err)
	defer func() { _ = rows.Close() }()
	var schema strings.Builder
	for rows.Next() {
		var text string
		must(t, rows.Scan(&text))
		schema.WriteString(text + ";\n")
	}
	must(t, rows.Err())
	golden(t, "testdata/schema.sql", schema.String())
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		must(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s is not up to date (UPDATE_GOLDEN=1 rewrites it); got:\n%s", file, got)
	}
}
