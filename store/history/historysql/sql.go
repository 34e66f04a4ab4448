package historysql

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
)

// The statements of transcripts. The parameters $1 to $3 are the owner, the agent and the session.
const (
	ofSession = ` WHERE owner = $1::text AND agent = $2::text AND session = $3::text`
	// byKey finds a row of history_sessions by its key, which has this collation in PostgreSQL.
	byKey      = ` WHERE owner = $1::text COLLATE "POSIX" AND agent = $2::text COLLATE "POSIX" AND session = $3::text COLLATE "POSIX"`
	sessionKey = `(owner COLLATE "POSIX", agent COLLATE "POSIX", session COLLATE "POSIX")`
	// liveSession is true if the session exists and has not expired at the time $4.
	liveSession = `EXISTS (SELECT 1 FROM {s}.history_sessions` + byKey + ` AND (expires_at = 0 OR expires_at > $4::bigint))`

	messageColumns = `seq, run, role, created_at, tool_calls, tool_results, body`
	outlineColumns = `seq, created_at, tool_calls, tool_results, octet_length(body)`
	sessionColumns = `owner, agent, session, messages, bytes, newest, created_at, updated_at, expires_at`

	// sqlHistoryAdvance assigns $5 sequences, or returns no row if the session has expired or its
	// newest message is not $7, unless that is negative. It locks the session. $9 keeps the TTL.
	sqlHistoryAdvance = sessionTotals + ` DO UPDATE SET last_seq = h.last_seq + excluded.last_seq, ` + addedTotals + `
		WHERE ` + sessionGuard + ` RETURNING last_seq`
	sessionTotals = `INSERT INTO {s}.history_sessions AS h (owner, agent, session, last_seq, newest, messages, bytes, created_at, updated_at, updated_minute, ttl, expires_at)
		VALUES ($1::text, $2::text, $3::text, $5::bigint, $5::bigint, $5::bigint, $6::bigint, $4::bigint, $4::bigint, $4::bigint / 60000, $8::bigint,
			CASE WHEN $8::bigint > 0 THEN $4::bigint + $8::bigint ELSE 0 END)
		ON CONFLICT ` + sessionKey
	addedTotals = `newest = h.last_seq + excluded.last_seq,
			messages = h.messages + excluded.messages, bytes = h.bytes + excluded.bytes, updated_at = excluded.updated_at, updated_minute = excluded.updated_minute,
			ttl = CASE WHEN $9::boolean THEN h.ttl ELSE excluded.ttl END,
			expires_at = CASE WHEN NOT $9::boolean THEN excluded.expires_at WHEN h.ttl > 0 THEN excluded.updated_at + h.ttl ELSE 0 END`
	sessionGuard = `(h.expires_at = 0 OR h.expires_at > excluded.updated_at) AND ($7::bigint < 0 OR h.newest = $7::bigint)`
	// sqlHistoryTotals, sqlHistoryAdded and sqlHistoryListed replace sqlHistoryAdvance in SQLite.
	sqlHistoryTotals = `SELECT last_seq, newest, expires_at, updated_minute, ttl FROM {s}.history_sessions` + byKey
	sqlHistoryAdded  = `UPDATE {s}.history_sessions SET last_seq = last_seq + $4::bigint, newest = last_seq + $4::bigint, messages = messages + $4::bigint,
		bytes = bytes + $5::bigint, updated_at = $6::bigint, ttl = $7::bigint, expires_at = $8::bigint` + byKey
	sqlHistoryListed = `UPDATE {s}.history_sessions SET updated_minute = $4::bigint` + byKey

	sqlHistorySession = `SELECT ` + sessionColumns + ` FROM {s}.history_sessions` + byKey
	// sqlHistoryLock locks a session that has not expired.
	sqlHistoryLock = `UPDATE {s}.history_sessions SET last_seq = last_seq` + byKey + ` AND (expires_at = 0 OR expires_at > $4::bigint)
		RETURNING ` + sessionColumns + `, last_seq`
	// sqlHistoryRemoved subtracts removed messages from the totals of a session.
	sqlHistoryRemoved = `UPDATE {s}.history_sessions SET messages = messages - $4::bigint, bytes = bytes - $5::bigint,
			newest = coalesce((SELECT max(seq) FROM {s}.history_messages` + ofSession + `), 0)` + byKey

	sqlHistoryKey   = `SELECT seq, key_last FROM {s}.history_messages` + ofSession + ` AND key = $4::text AND key <> ''`
	sqlHistoryFence = `SELECT fence FROM {s}.history_fences` + ofSession + ` AND run = $4::text`
	// sqlHistorySetFence is for SQLite. PostgreSQL uses sqlHistoryRaiseFence.
	sqlHistorySetFence = `INSERT INTO {s}.history_fences (owner, agent, session, run, fence) VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint)
		ON CONFLICT (owner, agent, session, run) DO UPDATE SET fence = excluded.fence`

	sqlHistoryCount = `SELECT messages FROM {s}.history_sessions` + byKey + ` AND (expires_at = 0 OR expires_at > $4::bigint)`
	// sqlHistoryRange returns up to $5 messages after $6 others.
	sqlHistoryRange = `SELECT ` + messageColumns + ` FROM {s}.history_messages` + ofSession + ` AND ` + liveSession + ` ORDER BY seq LIMIT $5::bigint OFFSET $6::bigint`
	between         = ofSession + ` AND seq > $5::bigint AND seq < $6::bigint AND ` + liveSession

	// sqlHistoryOldest and sqlHistoryNewest return up to $7 messages. They stop after the message that
	// brings the bodies above $8 bytes in total. If the session has more bytes, they read the sizes first.
	sqlHistoryOldest = `SELECT ` + messageColumns + ` FROM {s}.history_messages` + ofSession + ` AND seq > $5::bigint AND seq < CASE WHEN ` + sessionBytes + ` <= $8::bigint
		THEN $6::bigint ELSE (SELECT max(seq) + 1 FROM (SELECT seq, sum(size) OVER (ORDER BY seq) - size AS earlier FROM (
				SELECT seq, octet_length(body) AS size FROM {s}.history_messages` + between + ` ORDER BY seq LIMIT $7::bigint) AS sizes) AS sums
			WHERE earlier <= $8::bigint) END ORDER BY seq LIMIT $7::bigint`
	sqlHistoryNewest = `SELECT ` + messageColumns + ` FROM {s}.history_messages` + ofSession + ` AND seq < $6::bigint AND seq > CASE WHEN ` + sessionBytes + ` <= $8::bigint
		THEN $5::bigint ELSE (SELECT min(seq) - 1 FROM (SELECT seq, sum(size) OVER (ORDER BY seq DESC) - size AS earlier FROM (
				SELECT seq, octet_length(body) AS size FROM {s}.history_messages` + between + ` ORDER BY seq DESC LIMIT $7::bigint) AS sizes) AS sums
			WHERE earlier <= $8::bigint) END ORDER BY seq DESC LIMIT $7::bigint`
	// sessionBytes is NULL for a session that does not exist or has expired.
	sessionBytes = `(SELECT bytes FROM {s}.history_sessions` + byKey + ` AND (expires_at = 0 OR expires_at > $4::bigint))`

	sqlHistoryOldestOutlines = `SELECT ` + outlineColumns + ` FROM {s}.history_messages` + between + ` ORDER BY seq LIMIT $7::bigint`
	sqlHistoryNewestOutlines = `SELECT ` + outlineColumns + ` FROM {s}.history_messages` + between + ` ORDER BY seq DESC LIMIT $7::bigint`

	sqlHistoryDropRun   = `DELETE FROM {s}.history_messages` + ofSession + ` AND run = $4::text AND run <> '' RETURNING octet_length(body)`
	sqlHistoryDropAfter = `DELETE FROM {s}.history_messages` + ofSession + ` AND seq > $4::bigint RETURNING octet_length(body)`
	sqlHistoryDropUntil = `DELETE FROM {s}.history_messages` + ofSession + ` AND seq <= $4::bigint RETURNING octet_length(body)`

	// sqlHistoryCreate creates a session without messages, unless it exists.
	sqlHistoryCreate = `INSERT INTO {s}.history_sessions (owner, agent, session, last_seq, newest, messages, bytes, created_at, updated_at, updated_minute, ttl, expires_at)
		VALUES ($1::text, $2::text, $3::text, 0, 0, 0, 0, $4::bigint, $4::bigint, $4::bigint / 60000, $5::bigint, CASE WHEN $5::bigint > 0 THEN $4::bigint + $5::bigint ELSE 0 END)
		ON CONFLICT ` + sessionKey + ` DO NOTHING`
	sqlHistoryCopy = `INSERT INTO {s}.history_messages (owner, agent, session, seq, run, role, created_at, tool_calls, tool_results, body, key, key_last)
		SELECT owner, $4::text, $5::text, seq, run, role, created_at, tool_calls, tool_results, body, '', 0
		FROM {s}.history_messages` + ofSession + ` AND seq <= $6::bigint`
	sqlHistoryCopied = `UPDATE {s}.history_sessions SET last_seq = $4::bigint, messages = $5::bigint,
			newest = coalesce((SELECT max(seq) FROM {s}.history_messages` + ofSession + `), 0),
			bytes = coalesce((SELECT sum(octet_length(body)) FROM {s}.history_messages` + ofSession + `), 0)` + byKey

	// sqlHistoryMark makes a session invisible. sqlHistoryExpired makes an expired session invisible, and
	// locks it.
	sqlHistoryMark    = `UPDATE {s}.history_sessions SET expires_at = 1` + byKey
	sqlHistoryExpired = sqlHistoryMark + ` AND expires_at > 0 AND expires_at <= $4::bigint`
	sqlHistoryPurge   = `DELETE FROM {s}.history_messages` + ofSession + ` AND seq <= (SELECT max(seq) FROM (
			SELECT seq FROM {s}.history_messages` + ofSession + ` ORDER BY seq LIMIT $4::bigint) AS oldest)`
	sqlHistoryDropFences  = `DELETE FROM {s}.history_fences` + ofSession
	sqlHistoryDropSession = `DELETE FROM {s}.history_sessions` + byKey
	sqlHistoryDue         = `SELECT owner, agent, session FROM {s}.history_sessions WHERE expires_at > 0 AND expires_at <= $1::bigint ORDER BY expires_at LIMIT $2::bigint`

	sqlHistorySessions = `SELECT ` + sessionColumns + ` FROM {s}.history_sessions WHERE owner = $1::text AND updated_minute <= $2::bigint / 60000 AND (updated_at, agent, session) < ($2::bigint, $3::text, $4::text)
		AND (expires_at = 0 OR expires_at > $5::bigint) ORDER BY updated_minute DESC, updated_at DESC, agent DESC, session DESC LIMIT $6::bigint`
	sqlHistoryAgentSessions = `SELECT ` + sessionColumns + ` FROM {s}.history_sessions WHERE owner = $1::text AND agent = $3::text AND updated_minute <= $2::bigint / 60000 AND (updated_at, session) < ($2::bigint, $4::text)
		AND (expires_at = 0 OR expires_at > $5::bigint) ORDER BY updated_minute DESC, updated_at DESC, session DESC LIMIT $6::bigint`
)

// The statements of searches by their scope. They examine $5 messages before the one of the cursor
// and return the content of those that can match: their body is like $6, or has characters that the
// database does not compare as history.Text does.
var (
	sqlHistorySearchSession = historySearch(`agent = $2::text AND session = $3::text AND seq < $4::bigint`, `seq DESC`)
	sqlHistorySearchAgent   = historySearch(`agent = $2::text AND (session, seq) < ($3::text, $4::bigint)`, `session DESC, seq DESC`)
	sqlHistorySearchOwner   = historySearch(`(agent, session, seq) < ($2::text, $3::text, $4::bigint)`, `agent DESC, session DESC, seq DESC`)
)

func historySearch(scope, order string) string {
	return `SELECT seq, run, role, created_at, tool_calls, tool_results, CASE WHEN (lower(body) LIKE $6::text OR octet_length(body) <> length(body) OR body LIKE '%\\u%' ESCAPE '\') AND EXISTS (
			SELECT 1 FROM {s}.history_sessions h WHERE h.owner = m.owner COLLATE "POSIX" AND h.agent = m.agent COLLATE "POSIX" AND h.session = m.session COLLATE "POSIX"
				AND (h.expires_at = 0 OR h.expires_at > $7::bigint)) THEN body END, agent, session
		FROM {s}.history_messages m WHERE owner = $1::text AND ` + scope + ` ORDER BY ` + order + ` LIMIT $5::bigint`
}

// historyInserts are the statements that insert messages, by their number of rows.
var historyInserts = map[int]string{1: historyInsert(1), 8: historyInsert(8), 64: historyInsert(64)}

func historyInsert(rows int) string {
	var b strings.Builder
	b.WriteString(`INSERT INTO {s}.history_messages (owner, agent, session, run, seq, role, created_at, tool_calls, tool_results, body, key, key_last) VALUES `)
	for i := range rows {
		n := 5 + 8*i
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "($1::text, $2::text, $3::text, $4::text, $%d::bigint, $%d::text, $%d::bigint, $%d::text, $%d::text, $%d::text, $%d::text, $%d::bigint)",
			n, n+1, n+2, n+3, n+4, n+5, n+6, n+7)
	}
	return b.String()
}

// Statements returns, by name, the statements of transcripts with a cost that does not
// depend on the number of sessions and messages. Tests of the backends check their plans.
func Statements() []sqlkit.Statement {
	return []sqlkit.Statement{
		{"history: reserve sequences", sqlHistoryAdvance},
		{"history: totals", sqlHistoryTotals},
		{"history: added messages", sqlHistoryAdded},
		{"history: minute of the newest change", sqlHistoryListed},
		{"history: session", sqlHistorySession},
		{"history: lock", sqlHistoryLock},
		{"history: removed messages", sqlHistoryRemoved},
		{"history: idempotency key", sqlHistoryKey},
		{"history: fence", sqlHistoryFence},
		{"history: set the fence", sqlHistorySetFence},
		{"history: count", sqlHistoryCount},
		{"history: range", sqlHistoryRange},
		{"history: oldest", sqlHistoryOldest},
		{"history: newest", sqlHistoryNewest},
		{"history: outlines of the oldest", sqlHistoryOldestOutlines},
		{"history: outlines of the newest", sqlHistoryNewestOutlines},
		{"history: remove a run", sqlHistoryDropRun},
		{"history: remove newer messages", sqlHistoryDropAfter},
		{"history: remove older messages", sqlHistoryDropUntil},
		{"history: copy", sqlHistoryCopy},
		{"history: totals of a copy", sqlHistoryCopied},
		{"history: restore", sqlHistoryRestore},
		{"history: clear", sqlHistoryMark},
		{"history: purge messages", sqlHistoryPurge},
		{"history: purge fences", sqlHistoryDropFences},
		{"history: purge the session", sqlHistoryDropSession},
		{"history: expired sessions", sqlHistoryDue},
		{"history: sessions", sqlHistorySessions},
		{"history: sessions of an agent", sqlHistoryAgentSessions},
		{"history: search in a session", sqlHistorySearchSession},
		{"history: search in an agent", sqlHistorySearchAgent},
		{"history: search in an owner", sqlHistorySearchOwner},
	}
}
