package graphsql

import (
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphwalk"
)

// Parts of statements. On PostgreSQL, the collation of the column graph selects the index; see the
// migration.
const (
	inGraph         = ` r.owner = $1::text AND r.graph = $2::text`
	inGraphBySource = ` r.owner = $1::text AND r.graph = $2::text COLLATE "POSIX" AND r.source =`
	inGraphByTarget = ` r.owner = $1::text AND r.graph = $2::text COLLATE "ucs_basic" AND r.target =`
	inGraphByID     = inGraph + ` AND r.id =`
	// eachOf starts a subquery for each text of a list, s.value. It selects the index that serves the
	// equality also while the table is empty.
	eachOf          = ` FROM unnest($3::text[]) AS s(value) CROSS JOIN LATERAL (SELECT * FROM {s}.`
	endEachOf       = ` OFFSET 0) r`
	endEachOfLocked = ` OFFSET 0 FOR UPDATE) r`
	newest          = ` AND r.replaced_at = 9223372036854775807`
	// atMoment has the arguments of momentArgs.
	atMoment       = ` AND r.replaced_at > $4::bigint AND r.recorded_at <= $4::bigint AND r.valid_from <= $5::bigint AND r.valid_to > $6::bigint`
	entityColumns  = ` r.id, r.label, r.properties`
	versionFields  = `, r.properties, r.version, r.valid_from, r.valid_to, r.recorded_at, r.replaced_at`
	versionColumns = ` r.id, r.source, r.target, r.type` + versionFields
)

const (
	sqlLockGraph      = `SELECT 1 FROM {s}.graphs r WHERE` + inGraph + ` FOR SHARE`
	sqlLockGraphAlone = `SELECT 1 FROM {s}.graphs r WHERE` + inGraph + ` FOR UPDATE`
	sqlAddGraph       = `INSERT INTO {s}.graphs (owner, graph) VALUES ($1::text, $2::text) ON CONFLICT DO NOTHING`
	sqlRemoveGraph    = `DELETE FROM {s}.graphs AS r WHERE` + inGraph
	sqlGraphs         = `SELECT r.graph FROM {s}.graphs r WHERE r.owner = $1::text AND r.graph > $2::text ORDER BY r.graph LIMIT $3::bigint`
	sqlFirstGraph     = `SELECT r.graph FROM {s}.graphs r WHERE r.owner = $1::text ORDER BY r.graph LIMIT 1`
	sqlCountEntities  = `SELECT count(*) FROM {s}.graph_entities r WHERE` + inGraph
	sqlCountEdges     = `SELECT count(*) FROM {s}.graph_relationships r WHERE` + inGraph + newest

	sqlEntities      = `SELECT` + entityColumns + eachOf + `graph_entities r WHERE` + inGraphByID + ` s.value` + endEachOf
	sqlEntitiesAfter = `SELECT` + entityColumns + ` FROM {s}.graph_entities r WHERE` + inGraph + ` AND r.id > $3::text ORDER BY r.id LIMIT $4::bigint`
	sqlEntitiesLabel = `SELECT` + entityColumns + ` FROM {s}.graph_entities r WHERE r.owner = $1::text AND r.graph = $2::text COLLATE "POSIX" AND r.label = $5::text AND r.id > $3::text ORDER BY r.id LIMIT $4::bigint`
	sqlEntitiesNamed = `SELECT` + entityColumns + ` FROM {s}.graph_entities r WHERE r.owner = $1::text AND r.graph = $2::text COLLATE "ucs_basic" AND r.name <> '' AND r.name = $5::text AND r.id > $3::text ORDER BY r.id LIMIT $4::bigint`
	sqlEntitiesNames = `SELECT` + entityColumns + eachOf + `graph_entities r WHERE r.owner = $1::text AND r.graph = $2::text COLLATE "ucs_basic" AND r.name <> '' AND r.name = s.value AND r.id > $4::text` + endEachOf + ` LIMIT $5::bigint`
	sqlSaveEntities  = `INSERT INTO {s}.graph_entities (owner, graph, id, label, name, properties)
		SELECT $1::text, $2::text, e.value ->> 0, e.value ->> 1, e.value ->> 2, e.value ->> 3 FROM json_array_elements($3::json) AS e(value) WHERE true
		ON CONFLICT (owner, graph, id) DO UPDATE SET label = excluded.label, name = excluded.name, properties = excluded.properties`
	sqlDeleteEntities = `DELETE FROM {s}.graph_entities AS r WHERE` + inGraph + ` AND r.id <= $3::text`
	sqlDeleteEntity   = `DELETE FROM {s}.graph_entities AS r WHERE` + inGraphByID + ` $3::text`
	sqlFirstEntities  = `SELECT r.id FROM {s}.graph_entities r WHERE` + inGraph + ` ORDER BY r.id LIMIT $3::bigint`

	sqlEdgesAt     = `SELECT` + versionColumns + eachOf + `graph_relationships r WHERE` + inGraphByID + ` s.value` + atMoment + endEachOf
	sqlEdgesNewest = `SELECT` + versionColumns + eachOf + `graph_relationships r WHERE` + inGraphByID + ` s.value` + newest + endEachOf
	// sqlLockEdges locks the first versions of relationships, because a newest version may be replaced while a
	// statement waits for its lock. The statement would not see the version that replaces it.
	sqlLockEdges      = `SELECT r.id` + eachOf + `graph_relationships r WHERE` + inGraphByID + ` s.value AND r.version = 1` + endEachOfLocked
	sqlEdgesAfter     = `SELECT` + versionColumns + ` FROM {s}.graph_relationships r WHERE` + inGraph + ` AND r.id > $3::text` + atMoment + ` ORDER BY r.id LIMIT $7::bigint`
	sqlEdgesAfterType = `SELECT` + versionColumns + ` FROM {s}.graph_relationships r WHERE` + inGraph + ` AND r.id > $3::text` + atMoment + ` AND r.type = ANY($8::text[]) ORDER BY r.id LIMIT $7::bigint`
	sqlEdgeHistory    = `SELECT` + versionColumns + ` FROM {s}.graph_relationships r WHERE` + inGraph + ` AND r.id = $3::text ORDER BY r.version`
	sqlAddEdges       = `INSERT INTO {s}.graph_relationships (owner, graph, id, source, target, type, properties, version, valid_from, valid_to, recorded_at, replaced_at)
		SELECT $1::text, $2::text, e.value ->> 0, e.value ->> 1, e.value ->> 2, e.value ->> 3, e.value ->> 4,
			CAST(e.value ->> 5 AS bigint), CAST(e.value ->> 6 AS bigint), CAST(e.value ->> 7 AS bigint), CAST(e.value ->> 8 AS bigint), CAST(e.value ->> 9 AS bigint)
		FROM json_array_elements($3::json) AS e(value) WHERE true ON CONFLICT (owner, graph, id, version) DO NOTHING RETURNING id`
	sqlReplaceEdge    = `UPDATE {s}.graph_relationships AS r SET replaced_at = $5::bigint WHERE` + inGraph + ` AND r.id = $3::text AND r.version = $4::bigint`
	sqlDeleteEdge     = `DELETE FROM {s}.graph_relationships AS r WHERE` + inGraphByID + ` $3::text`
	sqlDeleteBySource = `DELETE FROM {s}.graph_relationships AS r WHERE` + inGraphBySource + ` $3::text`
	sqlDeleteByTarget = `DELETE FROM {s}.graph_relationships AS r WHERE` + inGraphByTarget + ` $3::text`
	sqlDeleteEdges    = `DELETE FROM {s}.graph_relationships AS r WHERE` + inGraph + ` AND r.id <= $3::text`
	sqlFirstEdges     = `SELECT r.id FROM {s}.graph_relationships r WHERE` + inGraph + ` ORDER BY r.id, r.version LIMIT $3::bigint`
)

// edgeText returns the statement that reads the relationships of a walk: those that leave entities, those
// that lead to them, or both. It reads the near end before the other one, then the type, and whether the near
// end is the target.
func edgeText(q graphwalk.EdgeQuery, types bool) string {
	part := func(where, ends, incoming string) string {
		text := `SELECT r.id,` + ends + `, r.type, ` + incoming
		if q.Rows {
			text += versionFields
		}
		text += ` FROM {s}.graph_relationships r WHERE` + where + ` ANY($3::text[])` + atMoment
		switch {
		case types && q.Sorted:
			text += ` AND r.type = ANY($9::text[])`
		case types:
			text += ` AND r.type = ANY($8::text[])`
		}
		if q.Sorted {
			text += ` AND r.id > $8::text ORDER BY r.id`
		}
		return text
	}
	outgoing := part(inGraphBySource, ` r.source, r.target`, `0`)
	incoming := part(inGraphByTarget, ` r.target, r.source`, `1`)
	text := outgoing + ` UNION ALL ` + incoming
	switch q.Direction {
	case graph.Out:
		text = outgoing
	case graph.In:
		text = incoming
	case graph.Both:
	}
	return text + ` LIMIT $7::bigint`
}

// Statements returns the statements of graphs with a cost that does not depend on the size
// of the database.
func Statements() (all []sqlkit.Statement) {
	for _, direction := range []graph.Direction{graph.Out, graph.In, graph.Both} {
		all = append(all, sqlkit.Statement{"graph: relationships, " + string(direction), edgeText(graphwalk.EdgeQuery{Direction: direction, Rows: true}, false)},
			sqlkit.Statement{"graph: ids of relationships, " + string(direction), edgeText(graphwalk.EdgeQuery{Direction: direction}, true)})
	}
	return append(all, []sqlkit.Statement{
		{"graph: lock", sqlLockGraph},
		{"graph: graphs", sqlGraphs},
		{"graph: first graph", sqlFirstGraph},
		{"graph: entities", sqlEntities},
		{"graph: entities after an id", sqlEntitiesAfter},
		{"graph: entities with a label", sqlEntitiesLabel},
		{"graph: entities with a name", sqlEntitiesNamed},
		{"graph: entities with names", sqlEntitiesNames},
		{"graph: delete an entity", sqlDeleteEntity},
		{"graph: delete entities", sqlDeleteEntities},
		{"graph: first entities", sqlFirstEntities},
		{"graph: relationships at a moment", sqlEdgesAt},
		{"graph: newest versions", sqlEdgesNewest},
		{"graph: lock relationships", sqlLockEdges},
		{"graph: relationships after an id", sqlEdgesAfter},
		{"graph: relationships with types after an id", sqlEdgesAfterType},
		{"graph: history", sqlEdgeHistory},
		{"graph: replace a version", sqlReplaceEdge},
		{"graph: delete a relationship", sqlDeleteEdge},
		{"graph: delete relationships", sqlDeleteEdges},
		{"graph: delete relationships by source", sqlDeleteBySource},
		{"graph: delete relationships by target", sqlDeleteByTarget},
		{"graph: first relationships", sqlFirstEdges},
	}...)
}
