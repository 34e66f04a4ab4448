package age

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/cypher"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// copied changes the copy of a graph in a transaction.
type copied struct {
	postgres.RawTx
	copy bool // Config.Copy
	key  graph.Key
	name string
}

// Parts of the statements on the tables of AGE. Their names are identifiers, so the texts are not prepared.
// $1 is a JSON array of keys, or of arrays that start with a key; a key is the property "id" as agtype.
const (
	ageKey  = `ag_catalog.agtype_access_operator(VARIADIC ARRAY[%s.properties, '"id"'::ag_catalog.agtype])`
	ageKeys = ` OPERATOR(ag_catalog.=) ANY (ARRAY(SELECT (value #>> '{}')::ag_catalog.agtype FROM pg_catalog.json_array_elements($1::json)))`
	ageRows = `(SELECT (value ->> 0)::ag_catalog.agtype AS k, (value ->> 1)::ag_catalog.agtype AS p,
		(value ->> 2)::ag_catalog.agtype AS s, (value ->> 3)::ag_catalog.agtype AS t FROM pg_catalog.json_array_elements($1::json))`
	ageText = `pg_catalog.textin(ag_catalog.agtype_out(%s))`
	ageID   = `pg_catalog.textin(ag_catalog.graphid_out(%s))`
)

func keyIn(table string) string { return fmt.Sprintf(ageKey, table) }

// table returns the name of a table of the graph.
func (g *copied) table(name string) string { return pgx.Identifier{g.name, name}.Sanitize() }

func (g *copied) vertices() string { return g.table("_ag_label_vertex") }
func (g *copied) edges() string    { return g.table("_ag_label_edge") }

func (g *copied) exists(text string, args ...string) (found bool, err error) {
	err = g.Raw(func([]string) { found = true }, text, args...)
	return found, err
}

// has reports whether the copy exists.
func (g *copied) has() (bool, error) {
	return g.exists(`SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1`, g.name)
}

// empty removes what the copy contains. Its labels remain: in AGE 1.5 a session that has dropped the table of a
// label fails later, when its caches are invalidated ("cache corrupted").
func (g *copied) empty() error {
	for _, table := range []string{g.edges(), g.vertices()} {
		if err := g.Raw(nil, `DELETE FROM `+table); err != nil {
			return err
		}
	}
	return nil
}

// rebuild makes the copy from the tables of the graph. A graph without entities needs no copy, and
// without Config.Copy none is added.
func (g *copied) rebuild() error {
	found, err := g.has()
	if err != nil || !found && !g.copy {
		return err
	}
	if found {
		if err := g.empty(); err != nil {
			return err
		}
	}
	filled := false
	err = g.Query(sqlHasEntities, func(sqlkit.Row) error {
		filled = true
		return nil
	}, g.key.Owner, g.key.Graph)
	if err != nil || !filled {
		return err
	}
	return g.fill(found)
}

const (
	sqlHasEntities = `SELECT 1 FROM {s}.graph_entities WHERE owner = $1::text AND graph = $2::text ORDER BY owner, graph, id LIMIT 1`
	sqlAllEntities = `SELECT id, label, properties FROM {s}.graph_entities
		WHERE owner = $1::text AND graph = $2::text AND id > $3::text ORDER BY owner, graph, id LIMIT 1000`
	ageVersion = `SELECT r.id, r.source, r.target, r.type, r.properties, r.valid_from, r.valid_to, r.recorded_at FROM {s}.graph_relationships r
		WHERE r.owner = $1::text AND r.graph = $2::text AND `
	ageNewest   = ` AND r.replaced_at = 9223372036854775807`
	sqlAllEdges = ageVersion + `r.id > $3::text` + ageNewest + ` ORDER BY r.owner, r.graph, r.id LIMIT 1000`
	sqlSomeEdge = ageVersion + `r.id = $3::text` + ageNewest
)

// fill creates the copy, if it does not exist, and adds what the graph contains.
func (g *copied) fill(exists bool) error {
	if !exists {
		err := g.Raw(nil, `SELECT ag_catalog.create_graph($1::text::name)`, g.name)
		if err == nil {
			// Its table is empty, but a join reads the tables of all labels through an index only if it has one too.
			err = g.index("_ag_label_vertex", keyIn(g.vertices()))
		}
		if err != nil {
			return err
		}
	}
	for last := ""; ; {
		var rows []graphdriver.EntityRow
		err := g.Query(sqlAllEntities, func(r sqlkit.Row) error {
			rows = append(rows, graphdriver.EntityRow{ID: r.Text(0), Label: r.Text(1), Properties: r.Text(2)})
			return nil
		}, g.key.Owner, g.key.Graph, last)
		if err == nil {
			err = g.saveEntities(rows)
		}
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			break
		}
		last = rows[len(rows)-1].ID
	}
	for last := ""; ; {
		rows, err := g.versions(sqlAllEdges, last)
		if err == nil {
			err = g.saveEdges(rows)
		}
		if err != nil || len(rows) == 0 {
			return err
		}
		last = rows[len(rows)-1].ID
	}
}

// versions reads newest versions of relationships with one of the statements above.
func (g *copied) versions(text, id string) (rows []graphdriver.RelationshipRow, err error) {
	err = g.Query(text, func(r sqlkit.Row) error {
		row := graphdriver.RelationshipRow{
			Relationship: graph.Relationship{
				ID: r.Text(0), Source: r.Text(1), Target: r.Text(2), Type: r.Text(3),
				ValidFrom: timeOfBound(r.Int(5)), ValidTo: timeOfBound(r.Int(6)), RecordedAt: timeOfBound(r.Int(7)),
			},
			Properties: r.Text(4),
		}
		rows = append(rows, row)
		return nil
	}, g.key.Owner, g.key.Graph, id)
	return rows, err
}

// timeOfBound returns the zero time for the greatest and the smallest integer.
func timeOfBound(ms int64) time.Time {
	if ms == math.MaxInt64 || ms == math.MinInt64 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// apply makes the changes of a write in the copy. The first write makes the copy.
func (g *copied) apply(w *graphdriver.Write) error {
	found, err := g.has()
	if err != nil {
		return err
	}
	if !found {
		return g.rebuild()
	}
	if err := g.remove(w); err != nil {
		return err
	}
	if err := g.saveEntities(w.Entities); err != nil {
		return err
	}
	var ids []string
	for _, e := range w.Ends {
		ids = append(ids, e.ID)
	}
	for i := range w.Relationships {
		ids = append(ids, w.Relationships[i].ID)
	}
	var rows []graphdriver.RelationshipRow
	for _, id := range ids {
		row, err := g.versions(sqlSomeEdge, id)
		if err != nil {
			return err
		}
		rows = append(rows, row...)
	}
	return g.saveEdges(rows)
}

// keys returns ids as a JSON array of keys.
func keys(ids []string) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = cypher.Value(id)
	}
	return jsonOf(out)
}

func jsonOf(v any) string {
	text, _ := json.Marshal(v) // texts are UTF-8
	return string(text)
}

func (g *copied) remove(w *graphdriver.Write) error {
	var statements []string
	if len(w.DeleteRelationships) > 0 {
		statements = append(statements, `DELETE FROM `+g.edges()+` e WHERE `+keyIn("e")+ageKeys)
		if err := g.Raw(nil, statements[0], keys(w.DeleteRelationships)); err != nil {
			return err
		}
	}
	if len(w.DeleteEntities) == 0 {
		return nil
	}
	selected := ` OPERATOR(ag_catalog.=) ANY (ARRAY(SELECT v.id FROM ` + g.vertices() + ` v WHERE ` + keyIn("v") + ageKeys + `))`
	for _, text := range []string{
		`DELETE FROM ` + g.edges() + ` e WHERE e.start_id` + selected,
		`DELETE FROM ` + g.edges() + ` e WHERE e.end_id` + selected,
		`DELETE FROM ` + g.vertices() + ` v WHERE ` + keyIn("v") + ageKeys,
	} {
		if err := g.Raw(nil, text, keys(w.DeleteEntities)); err != nil {
			return err
		}
	}
	return nil
}

// label creates the table of a label or, with edge, of a type, unless it exists.
func (g *copied) label(name string, edge bool) error {
	kind := ""
	err := g.Raw(func(row []string) { kind = row[0] }, `SELECT p.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid
		JOIN pg_catalog.pg_class p ON p.oid = i.inhparent WHERE c.relnamespace = $1::text::regnamespace AND c.relname = $2`, g.name, name)
	if err != nil {
		return err
	}
	want, create := "_ag_label_vertex", `SELECT ag_catalog.create_vlabel($1::text::name, $2::text::name)`
	columns := []string{keyIn(g.table(name))}
	if edge {
		want, create = "_ag_label_edge", `SELECT ag_catalog.create_elabel($1::text::name, $2::text::name)`
		columns = append(columns, "start_id", "end_id")
	}
	switch {
	case kind == want:
		return nil
	case kind != "", strings.HasPrefix(name, "_ag_label_"):
		return a2a.Errorf(a2a.CodeInvalid, "graph: label %s: Apache AGE needs different names for labels of entities and types of relationships", a2a.Quote(name))
	}
	if err := g.Raw(nil, create, g.name, name); err != nil {
		return err
	}
	for _, c := range columns {
		if err := g.index(name, c); err != nil {
			return err
		}
	}
	return nil
}

// index creates an index on an expression with the columns of a table.
func (g *copied) index(table, expression string) error {
	return g.Raw(nil, `CREATE INDEX ON `+g.table(table)+` ((`+strings.ReplaceAll(expression, g.table(table)+".", "")+`))`)
}

func (g *copied) saveEntities(rows []graphdriver.EntityRow) error {
	byLabel := make(map[string][][]string)
	for i := range rows {
		e := rows[i].Entity()
		byLabel[e.Label] = append(byLabel[e.Label], []string{cypher.Value(e.ID), propertiesOf(e.Properties, graph.PropertyID, e.ID)})
	}
	for _, label := range slices.Sorted(maps.Keys(byLabel)) {
		if err := g.label(label, false); err != nil {
			return err
		}
		if err := g.saveVertices(label, byLabel[label]); err != nil {
			return err
		}
	}
	return nil
}

// propertiesOf returns properties as agtype, with fields that are properties in AGE.
func propertiesOf(properties map[string]any, fields ...string) string {
	all := maps.Clone(properties)
	if all == nil {
		all = make(map[string]any)
	}
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] != "" {
			all[fields[i]] = fields[i+1]
		}
	}
	return cypher.Value(all)
}

// saveVertices updates vertices, and inserts the ones that do not exist with this label. If a vertex had
// another label, it gets another id in AGE, and its edges are changed to refer to the new id.
func (g *copied) saveVertices(label string, rows [][]string) error {
	rest, err := g.update(label, rows)
	if err != nil || len(rest) == 0 {
		return err
	}
	ids := make([]string, len(rest))
	for i := range rest {
		ids[i] = rest[i][0]
	}
	old, inserted := make(map[string]string), make(map[string]string)
	err = g.Raw(func(row []string) { old[row[0]] = row[1] },
		`SELECT `+fmt.Sprintf(ageText, keyIn("v"))+`, `+fmt.Sprintf(ageID, "v.id")+` FROM `+g.vertices()+` v WHERE `+keyIn("v")+ageKeys, jsonOf(ids))
	if err != nil {
		return err
	}
	err = g.Raw(func(row []string) { inserted[row[0]] = row[1] },
		`INSERT INTO `+g.table(label)+` AS v (properties) SELECT x.p FROM `+ageRows+` x RETURNING `+fmt.Sprintf(ageText, keyIn("v"))+`, `+fmt.Sprintf(ageID, "v.id"), jsonOf(rest))
	for key, from := range old {
		for _, text := range []string{
			`UPDATE ` + g.edges() + ` SET start_id = $2::text::ag_catalog.graphid WHERE start_id OPERATOR(ag_catalog.=) $1::text::ag_catalog.graphid`,
			`UPDATE ` + g.edges() + ` SET end_id = $2::text::ag_catalog.graphid WHERE end_id OPERATOR(ag_catalog.=) $1::text::ag_catalog.graphid`,
			`DELETE FROM ` + g.vertices() + ` WHERE id OPERATOR(ag_catalog.=) $1::text::ag_catalog.graphid AND $2::text IS NOT NULL`,
		} {
			if err == nil {
				err = g.Raw(nil, text, from, inserted[key])
			}
		}
	}
	return err
}

// update changes the properties of vertices or edges. It returns the rows of the ones that do not exist.
func (g *copied) update(label string, rows [][]string) (rest [][]string, err error) {
	updated := make(map[string]bool)
	err = g.Raw(func(row []string) { updated[row[0]] = true },
		`UPDATE `+g.table(label)+` v SET properties = x.p FROM `+ageRows+` x WHERE `+keyIn("v")+` OPERATOR(ag_catalog.=) x.k RETURNING `+fmt.Sprintf(ageText, "x.k"), jsonOf(rows))
	for _, row := range rows {
		if !updated[row[0]] {
			rest = append(rest, row)
		}
	}
	return rest, err
}

func (g *copied) saveEdges(rows []graphdriver.RelationshipRow) error {
	byType := make(map[string][][]string)
	for i := range rows {
		r := rows[i].Copy()
		byType[r.Type] = append(byType[r.Type], []string{cypher.Value(r.ID), propertiesOf(r.Properties,
			graph.PropertyID, r.ID, graph.PropertyValidFrom, timeText(r.ValidFrom), graph.PropertyValidTo, timeText(r.ValidTo),
			graph.PropertyRecordedAt, timeText(r.RecordedAt)), cypher.Value(r.Source), cypher.Value(r.Target)})
	}
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		if err := g.label(name, true); err != nil {
			return err
		}
		rest, err := g.update(name, byType[name])
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			continue
		}
		added := 0
		err = g.Raw(func([]string) { added++ }, g.insertEdges(name), jsonOf(rest))
		if err == nil && added != len(rest) {
			err = a2a.Errorf(a2a.CodeInternal, "graph: the copy in Apache AGE lacks entities: it must be rebuilt")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// insertEdges returns the statement that adds edges of a type.
func (g *copied) insertEdges(name string) string {
	return `INSERT INTO ` + g.table(name) + ` (start_id, end_id, properties) SELECT s.id, t.id, x.p FROM ` + ageRows + ` x
		JOIN ` + g.vertices() + ` s ON ` + keyIn("s") + ` OPERATOR(ag_catalog.=) x.s JOIN ` + g.vertices() + ` t ON ` + keyIn("t") + ` OPERATOR(ag_catalog.=) x.t RETURNING 1`
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return cmp.Or(graph.FormatTime(t))
}
