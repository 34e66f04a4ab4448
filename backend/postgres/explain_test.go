//go:build services

package postgres

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/internal/sqltask"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// listText returns the statement that reads a page of tasks, or counts them.
func listText(q store.Query, total bool) string {
	q.Owner = "o"
	if total {
		w, groups := taskWalk(countQuery(q))
		return w.total(groups, 10_000)
	}
	w, groups := taskWalk(&q)
	w.after(w.arg(int64(1), "bigint"), w.arg("id", "text"))
	return w.rows(rowColumns, groups, 20, 0)
}

func contextListText(q store.ContextQuery) string {
	q.Owner, q.Cursor, q.Limit = "o", &store.ContextCursor{ID: "id"}, 20
	text, _ := contextRows(&q, false)
	return text
}

func laneListText(q store.LaneQuery) string {
	q.Limit, q.After = 20, &store.LaneLease{Task: store.Key{Owner: "o", ID: "t"}, ID: "p"}
	text, _ := lanesText(&q)
	return text
}

func deadListText(q store.WebhookQuery) string {
	q.Limit = 20
	text, _ := deadLetterText(&q, &sqltask.DeliveryKey{})
	return text
}

func attemptListText(q store.WebhookQuery) string {
	text, _ := attemptRows(&q, &sqltask.DeliveryKey{}, 1, 1, 20)
	return text
}

func recordListText(q store.RecordQuery) string {
	text, _ := recordsText(&q)
	return text
}

// hotQuery is a statement with a cost that must not grow with the size of the database.
type hotQuery struct {
	name, text string
	// walked names indexes that it reads without a condition: they contain only rows of the
	// result, or the statement reads only a page of them.
	walked string
}

func hotQueries() []hotQuery {
	all := taskQueries()
	for _, q := range slices.Concat(historysql.Statements(), historysql.PipelineStatements(), sqltask.Statements()) {
		all = append(all, hotQuery{name: q[0], text: q[1]})
	}
	return all
}

func taskQueries() []hotQuery {
	states := []a2a.TaskState{a2a.StateFailed}
	return []hotQuery{
		{"commit: contexts", stmtContexts.text, ""},
		{"commit: contexts with messages", stmtContextsReceived.text, ""},
		{"commit: update", stmtUpdate.text, ""},
		{"commit: steps", stmtSteps.text, ""},
		{"commit: contents", stmtContents.text, ""},
		{"commit: snapshots", stmtSnapshots.text, ""},
		{"commit: webhooks", stmtWebhook.text, ""},
		{"commit: records", stmtRecords.text, ""},
		{"replace a record", stmtReplaceRecord.text, ""},
		{"record", sqlReadRecord, ""},
		{"expire records", sqlExpireRecords, ""},
		{"records: versions", sqlRecordVersions, ""},
		{"records", recordListText(store.RecordQuery{}), ""},
		{"records of a namespace", recordListText(store.RecordQuery{Namespace: "n"}), ""},
		{"guards: tasks", sqlGuardTasks, ""},
		{"guards: contexts", sqlGuardContexts, ""},
		{"guards: keys", sqlGuardKeys, ""},
		{"results of a commit", sqlRecoverResults, ""},
		{"get", sqlReadTask, ""},
		{"get several", sqlReadTaskBatch, ""},
		{"logs of a page", sqlReadLogs, ""},
		{"events", sqlReadEvents, ""},
		{"log rows", sqlLogRows, ""},
		{"versions", sqlReadVersions, ""},
		{"steps", sqlReadSteps, ""},
		{"idempotency key", sqlReadKey, ""},
		{"expire idempotency keys", sqlExpireKeys, ""},
		{"claim: promote", stmtPromoteTasks.text, ""},
		{"claim", stmtClaim.text, ""},
		{"claim the oldest", stmtClaimOldest.text, ""},
		{"renew", sqlRenew, ""},
		{"backlog", sqlBacklog, "task_rows_leased task_rows_queued task_rows_context_due task_rows_waiting"},
		{"queued tasks of an owner", sqlQueued, ""},
		{"list", listText(store.Query{}, false), ""},
		{"list of states, ascending", listText(store.Query{States: states, Ascending: true}, false), ""},
		{"list by creation", listText(store.Query{ByCreated: true}, false), ""},
		{"list of a context", listText(store.Query{ContextID: "c"}, false), ""},
		{"list of a context by creation", listText(store.Query{ContextID: "c", ByCreated: true}, false), ""},
		{"list: count", listText(store.Query{Before: time.Unix(1, 0)}, true), ""},
		{"list: count by creation", listText(store.Query{CreatedAfter: time.Unix(1, 0)}, true), ""},
		{"list: count by both times", listText(store.Query{Before: time.Unix(1, 0), CreatedAfter: time.Unix(1, 0)}, true), ""},
		{"list: count of states of a context, by creation", listText(store.Query{ContextID: "c", States: states, CreatedAfter: time.Unix(1, 0)}, true), ""},
		{"context", sqlReadContext, ""},
		{"context: ancestors", sqlAncestors, ""},
		{"context: states", sqlContextStates, ""},
		{"contexts by update", contextListText(store.ContextQuery{Sort: store.ContextsByUpdated}), ""},
		{"contexts by creation, of a status", contextListText(store.ContextQuery{
			Sort: store.ContextsByCreated, Statuses: []a2a.ContextStatus{a2a.ContextPaused},
		}), ""},
		{"contexts by name", contextListText(store.ContextQuery{Sort: store.ContextsByName}), ""},
		{"contexts of two tags", contextListText(store.ContextQuery{Tags: []string{"a", "b"}}), ""},
		{"counters", sqlReadCounters, ""},
		{"counters of labels", sqlReadLabelCounters, ""},
		{"counters: merge", sqlMergeCounters, ""},
		{"counters: merge labels", sqlMergeLabelCounters, ""},
		{"pending deletions", sqlPendingDeletions, "context_rows_pending_deletion"},
		{"delete: lock contexts to be deleted", sqlLockDeletions, ""},
		{"delete: contexts with queued or leased tasks", sqlBusyContexts, ""},
		{"delete: mark contexts", sqlMarkDeletions, ""},
		{"delete: oldest tasks of contexts", sqlOldestTasks, ""},
		{"delete: lock a task", sqlLockTaskRow, ""},
		{"delete: lock contexts", sqlLockContexts, ""},
		{"delete: lock lanes", sqlLockLanes, ""},
		{"delete: count attempts and dead letters", sqlCountDeliveryRows, ""},
		{"delete: some attempts and dead letters", sqlDeleteDeliveryRows, ""},
		{"delete: tasks", sqlDeleteTasks, ""},
		{"delete: webhooks", sqlDeleteTaskWebhooks, ""},
		{"delete: keys", sqlDeleteKeys, ""},
		{"delete: contexts", sqlDeleteContexts, ""},
		{"delete: feedback", sqlDeleteFeedback, ""},
		{"delete: logs", sqlDeleteLogs, ""},
		{"delete: steps", sqlDeleteSteps, ""},
		{"delete: contents", sqlDeleteContents, ""},
		{"delete: content left", sqlInsertDeleted, ""},
		{"purge: find tasks", sqlDeletedLeft, "tasks_deleted_pkey"},
		{"purge: tasks", sqlDeletedTasks, "tasks_deleted_pkey"},
		{"purge: done", sqlForgetDeleted, ""},
		{"expire: tasks", sqlOldTasks, ""},
		{"expire: lock tasks", sqlLockOldTasks, ""},
		{"expire: contexts", sqlOldUndescribed, ""},
		{"expire: described contexts", sqlOldDescribed, ""},
		{"expire: remove contexts", sqlExpireContexts, ""},
		{"feedback: count", sqlAddRating, ""},
		{"feedback: counts", sqlRatings, ""},
		{"lanes: promote", stmtPromoteLanes.text, ""},
		{"eras: move tasks", stmtMoveTasks.text, ""},
		{"eras: move lanes", stmtMoveLanes.text, ""},
		{"lanes: claim", stmtClaimLanes.text, ""},
		{"lanes: read", sqlReadLanes, ""},
		{"lanes: renew", sqlRenewLanes, ""},
		{"lanes: acknowledge", stmtAck.text, ""},
		{"lanes: release revoked leases", sqlReleaseRevoked, ""},
		{"lanes: wake", stmtWakeLanes.text, ""},
		{"lanes: list", laneListText(store.LaneQuery{}), ""},
		{"lanes: list of an owner", laneListText(store.LaneQuery{Owner: "o"}), ""},
		{"lanes: list of parked", laneListText(store.LaneQuery{States: []store.LaneState{store.LaneParked}}), ""},
		{"lanes: delete", sqlDeleteLane, ""},
		{"lanes: delete the webhook", sqlDeleteWebhook, ""},
		{"lanes: replay", sqlReplayLane, ""},
		{"lanes: idle", sqlDoneLanes, ""},
		{"lanes: expire", sqlExpireLanes, ""},
		{"lanes: backlog", sqlWebhookBacklog, "dead_letters_at dead_letters_key dead_letters_owner dead_letters_task webhook_lanes_leased webhook_lanes_ready webhook_lanes_stopped webhook_lanes_waiting"},
		{"dead letters", deadListText(store.WebhookQuery{}), ""},
		{"dead letters of an owner", deadListText(store.WebhookQuery{Owner: "o"}), ""},
		{"dead letters of a task", deadListText(store.WebhookQuery{Owner: "o", TaskID: "t", ID: "p"}), ""},
		{"attempts", attemptListText(store.WebhookQuery{}), ""},
		{"attempts of an owner", attemptListText(store.WebhookQuery{Owner: "o"}), ""},
		{"attempts of a task", attemptListText(store.WebhookQuery{Owner: "o", TaskID: "t", ID: "p"}), ""},
		{"dead letters: expire", sqlExpireDeadLetters, ""},
		{"attempts: expire", sqlOldAttempts, ""},
	}
}

// checkPlan reports scans of a whole table, or of an index without a condition, and conditions
// that find the content of a task by its number alone, which is unique per owner only.
func checkPlan(t *testing.T, q *hotQuery, plan string) {
	t.Helper()
	lines := strings.Split(plan, "\n")
	for i, line := range lines {
		if strings.Contains(line, "Seq Scan on") || strings.Contains(line, "Hash Join") || strings.Contains(line, "Merge Join") {
			t.Errorf("%s: the plan has %q, want rows found through an index\n%s", q.name, strings.TrimSpace(line), plan)
		}
		m := usedIndex.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		index := m[1] + m[2]
		if i+1 < len(lines) && strings.Contains(lines[i+1], "Index Cond:") {
			if contentIndex.MatchString(index) && !strings.Contains(lines[i+1], "(owner = ") {
				t.Errorf("%s: the plan reads %s without the owner\n%s", q.name, index, plan)
			}
			continue
		}
		if !slices.Contains(strings.Fields(q.walked), index) {
			t.Errorf("%s: the plan walks %s without a condition\n%s", q.name, index, plan)
		}
	}
}

const planFile = "testdata/plans.txt"

// Sessions keep the plans that were made while the tables were empty. These plans must use
// indexes. testdata/plans.txt records them; UPDATE_GOLDEN=1 updates it.
func TestPlansOnEmptyTables(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	var plans strings.Builder
	version := explainAll(t, s, &plans)
	if version != 17 {
		t.Logf("plans are recorded for PostgreSQL 17, this is %d", version)
		return
	}
	golden(t, planFile, plans.String())
}

func TestPlansOnFilledTables(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	made := 0
	must(t, fillTasks(s, &made, 5_000))
	must(t, fillLanes(s, 5_000))
	explainAll(t, s, new(strings.Builder))
}

// explainAll checks the plans of all hot queries in a session of the store.
func explainAll(t *testing.T, s *Store, plans *strings.Builder) (version int) {
	t.Helper()
	conn, err := s.pool.Acquire(bg)
	must(t, err)
	defer conn.Release()
	all := hotQueries()
	for _, x := range slices.Concat(memorysql.Statements(sqlkit.PostgreSQL), graphsql.Statements()) {
		all = append(all, hotQuery{x[0], x[1], ""})
	}
	for i, q := range all {
		plan := explain(t, conn.Conn(), "p"+strconv.Itoa(i), s.qualify(q.text))
		plans.WriteString(q.name + "\n" + plan)
		checkPlan(t, &q, plan)
	}
	must(t, conn.QueryRow(bg, "SELECT current_setting('server_version_num')::int / 10000").Scan(&version))
	return version
}

var (
	usedIndex    = regexp.MustCompile(`(?:Scan|Scan Backward) using (\w+)|Bitmap Index Scan on (\w+)`)
	contentIndex = regexp.MustCompile(`^task_(log|contents|steps)_|^tasks_deleted_`)
	placeholder  = regexp.MustCompile(`\$(\d+)`)
)

// explain returns the generic plan of a statement.
func explain(t *testing.T, c *pgx.Conn, name, text string) string {
	t.Helper()
	_, err := c.PgConn().Exec(bg, "PREPARE "+name+" AS "+text).ReadAll()
	if err != nil {
		t.Fatalf("PREPARE %s = %v", text, err)
	}
	n := 0
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		k, _ := strconv.Atoi(m[1])
		n = max(n, k)
	}
	args := ""
	if n > 0 {
		args = "(" + strings.TrimSuffix(strings.Repeat("NULL, ", n), ", ") + ")"
	}
	results, err := c.PgConn().Exec(bg, "EXPLAIN (COSTS OFF) EXECUTE "+name+args).ReadAll()
	if err != nil {
		t.Fatalf("EXPLAIN %s = %v", text, err)
	}
	var plan strings.Builder
	for _, row := range results[0].Rows {
		plan.WriteString("  " + string(row[0]) + "\n")
	}
	return plan.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		must(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s is not up to date (UPDATE_GOLDEN=1 writes it); got:\n%s", file, got)
	}
}
