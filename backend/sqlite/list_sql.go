package sqlite

import "strings"

// taskWalk builds a statement that reads positions in a list of tasks. Four indexes
// have the orders of lists: by status time within each state and by creation time, for
// an owner and for a context.
//
// The arguments of all these statements are:
//
//	?1     owner
//	?2     limit
//	?3     far bound of the time by which the list is sorted
//	?4 ?5  time and id after which the page starts
//	?6     state, or the JSON array of states, empty for all
//	?7     context
//	?8 ?9  bounds of the other time: ?8 <= time < ?9
//	?10    maximum number of rows to read
type taskWalk struct {
	created   bool // sorted by creation
	context   bool
	ascending bool
	// filtered walks have a condition that is not on the index of their order.
	filtered bool
}

const (
	sqlStates = `WITH RECURSIVE s(v) AS (
		SELECT min(state) FROM task_rows WHERE owner = ?1
		UNION ALL
		SELECT (SELECT min(state) FROM task_rows WHERE owner = ?1 AND state > s.v) FROM s WHERE s.v IS NOT NULL)
		SELECT v FROM s WHERE v IS NOT NULL`
	sqlContextStates = `WITH RECURSIVE s(v) AS (
		SELECT min(state) FROM task_rows INDEXED BY task_rows_context WHERE owner = ?1 AND context_id = ?2 AND first = 0
		UNION ALL
		SELECT (SELECT min(state) FROM task_rows INDEXED BY task_rows_context
			WHERE owner = ?1 AND context_id = ?2 AND first = 0 AND state > s.v) FROM s WHERE s.v IS NOT NULL)
		SELECT v FROM s WHERE v IS NOT NULL`

	inStates = ` AND (?6 = '[]' OR state IN (SELECT value FROM json_each(?6)))`
)

// sorted returns the column of the time by which the list is sorted.
func (k taskWalk) sorted() string {
	if k.created {
		return "created_at"
	}
	return "state_at"
}

// other returns the column of the other time.
func (k taskWalk) other() string { return taskWalk{created: !k.created}.sorted() }

// from returns the FROM clause on the index of one of the two times.
func (k taskWalk) from(created bool) string {
	index, where := "task_rows_state", "owner = ?1"
	switch {
	case k.context && created:
		index = "task_rows_context_created"
	case k.context:
		index = "task_rows_context"
	case created:
		index = "task_rows_created"
	}
	if k.context {
		where += " AND context_id = ?7 AND first = 0"
	}
	if !created {
		where += " AND state = ?6"
	}
	return " FROM task_rows INDEXED BY " + index + " WHERE " + where
}

// afterStart returns the condition that a row follows the start position, and the order.
func (k taskWalk) afterStart() (where, order string) {
	where, order = " AND @ >= ?3 AND (@, id) < (?4, ?5)", " ORDER BY @ DESC, id DESC"
	if k.ascending {
		where, order = " AND @ < ?3 AND (@, id) > (?4, ?5)", " ORDER BY @, id"
	}
	return strings.ReplaceAll(where, "@", k.sorted()), strings.ReplaceAll(order, "@", k.sorted())
}

// bounds returns the condition on the other time.
func (k taskWalk) bounds() string { return " AND " + k.other() + " >= ?8 AND " + k.other() + " < ?9" }

// walk returns the statement that reads the next positions of the list. Unless sorted
// by creation, it reads one state.
func (k taskWalk) walk() string {
	where, order := k.afterStart()
	if !k.filtered {
		return "SELECT " + k.sorted() + ", id, pk" + k.from(k.created) + where + order + " LIMIT ?2"
	}
	text := "SELECT at, id, pk FROM (SELECT " + k.sorted() + " AS at, id, pk, state, " + k.other() + k.from(k.created) + where + order +
		" LIMIT ?10) WHERE 1" + k.bounds()
	if k.created {
		text += inStates
	}
	return text + " LIMIT ?2"
}

// pastLimit returns a statement that finds a row if a filtered walk stopped at its
// limit of rows.
func (k taskWalk) pastLimit() string {
	where, order := k.afterStart()
	return "SELECT " + k.sorted() + ", id, pk" + k.from(k.created) + where + order + " LIMIT 1 OFFSET ?10"
}

// scanAndSort returns a statement with the result of a filtered walk, read from the
// index of the other time and sorted. It is used when the walk would read many rows to
// find few.
func (k taskWalk) scanAndSort() string {
	where, order := k.afterStart()
	text := "SELECT " + k.sorted() + ", id, pk" + k.from(!k.created) + k.bounds() + where
	if !k.created {
		text += inStates
	}
	return text + order + " LIMIT ?2"
}

// count returns a statement that counts the tasks of a state with a status time from ?3
// to ?4. A filtered walk counts only tasks created from ?8 to ?9. The statement reads at
// most ?2 index entries and returns their number, too.
func (k taskWalk) count() string {
	match := "1"
	if k.filtered {
		match = "created_at >= ?8 AND created_at < ?9"
	}
	return countOf(match, k.from(false)+" AND state_at >= ?3 AND state_at < ?4")
}

// countCreated returns a statement that counts the tasks created from ?8 to ?9. A
// filtered walk counts only tasks in the states ?6.
func (k taskWalk) countCreated() string {
	match := "1"
	if k.filtered {
		match += inStates
	}
	return countOf(match, k.from(true)+" AND created_at >= ?8 AND created_at < ?9")
}

// countOf returns a statement that counts the matches among the first ?2 rows.
func countOf(match, from string) string {
	return "SELECT coalesce(sum(m), 0), count(*) FROM (SELECT " + match + " AS m" + from + " LIMIT ?2)"
}
