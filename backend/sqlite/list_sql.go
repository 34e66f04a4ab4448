package sqlite

import "strings"

// Two indexes order an owner's tasks by the time of their status, within each
// state, and two by the time of their creation; of both, one is for a context. A
// list is walked in the index that has its order.
//
// The arguments of all these statements: 1 the owner, 2 how many, 3 the far bound
// of what is sorted by, 4 and 5 the time and id after which to begin, 6 the state
// or, where several matter, their JSON array, empty for all, 7 the context, 8 and
// 9 the bounds of the other time (after <= time < before), 10 how far a walk looks.
type taskWalk struct {
	created   bool // sorted by creation
	context   bool
	ascending bool
	// filtered walks leave out what the index of their order knows nothing of.
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

// sorted and other are the columns of the two times.
func (k taskWalk) sorted() string {
	if k.created {
		return "created_at"
	}
	return "state_at"
}

func (k taskWalk) other() string { return taskWalk{created: !k.created}.sorted() }

// from is the beginning of a statement on the index of one of the two times.
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

// rest is the condition that a place comes later in the list, and its order.
func (k taskWalk) rest() (where, order string) {
	where, order = " AND @ >= ?3 AND (@, id) < (?4, ?5)", " ORDER BY @ DESC, id DESC"
	if k.ascending {
		where, order = " AND @ < ?3 AND (@, id) > (?4, ?5)", " ORDER BY @, id"
	}
	return strings.ReplaceAll(where, "@", k.sorted()), strings.ReplaceAll(order, "@", k.sorted())
}

// bounds is the condition on the other time.
func (k taskWalk) bounds() string { return " AND " + k.other() + " >= ?8 AND " + k.other() + " < ?9" }

// walk reads the next places of the list; of one state, unless it is sorted by
// creation.
func (k taskWalk) walk() string {
	where, order := k.rest()
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

// cutOff finds a row when a filtered walk did not look at all there is.
func (k taskWalk) cutOff() string {
	where, order := k.rest()
	return "SELECT " + k.sorted() + ", id, pk" + k.from(k.created) + where + order + " LIMIT 1 OFFSET ?10"
}

// gather reads the same as a filtered walk from the index of the other time, and
// sorts it: where a walk would look at much to find little.
func (k taskWalk) gather() string {
	where, order := k.rest()
	text := "SELECT " + k.sorted() + ", id, pk" + k.from(!k.created) + k.bounds() + where
	if !k.created {
		text += inStates
	}
	return text + order + " LIMIT ?2"
}

// count counts the tasks of a state between the status times 3 and 4; filtered, those
// that were created between 8 and 9. It reads no more than 2 entries of the index, and
// returns how many those were, too.
func (k taskWalk) count() string {
	match := "1"
	if k.filtered {
		match = "created_at >= ?8 AND created_at < ?9"
	}
	return countOf(match, k.from(false)+" AND state_at >= ?3 AND state_at < ?4")
}

// countCreated counts the tasks that were created between 8 and 9; filtered, those of the
// states of 6.
func (k taskWalk) countCreated() string {
	match := "1"
	if k.filtered {
		match += inStates
	}
	return countOf(match, k.from(true)+" AND created_at >= ?8 AND created_at < ?9")
}

// countOf counts the matches among the first rows, of which there are 2 at most.
func countOf(match, from string) string {
	return "SELECT coalesce(sum(m), 0), count(*) FROM (SELECT " + match + " AS m" + from + " LIMIT ?2)"
}
