package graphdriver

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph"
)

// EntityRow is an entity as backends store it.
type EntityRow struct {
	ID, Label string
	// Name is the folded name, "" if there is none that can be found.
	Name       string
	Properties string // JSON of an object
}

// Entity returns a copy of the row for a caller.
func (r *EntityRow) Entity() graph.Entity {
	return graph.Entity{ID: r.ID, Label: r.Label, Properties: jsonobject.Decode(r.Properties)}
}

// RelationshipRow is a version of a relationship as backends store it. The Properties of its
// Relationship are nil.
type RelationshipRow struct {
	graph.Relationship
	Properties string // JSON of an object
}

// Copy returns a copy of the row for a caller.
func (r *RelationshipRow) Copy() graph.Relationship {
	c := r.Relationship
	c.Properties = jsonobject.Decode(r.Properties)
	return c
}

// WithIDs returns a copy of the batch in which all entities and relationships have ids.
func WithIDs(b graph.Batch) graph.Batch {
	b.Entities, b.Relationships = slices.Clone(b.Entities), slices.Clone(b.Relationships)
	for i := range b.Entities {
		if b.Entities[i].ID == "" {
			b.Entities[i].ID = rand.Text()
		}
	}
	for i := range b.Relationships {
		if b.Relationships[i].ID == "" {
			b.Relationships[i].ID = rand.Text()
		}
	}
	return b
}

// Write has the valid values of a batch. It shares no memory with the batch.
type Write struct {
	Key                                 graph.Key
	DeleteRelationships, DeleteEntities []string // each id once
	Ends                                []graph.End
	Entities                            []EntityRow
	Relationships                       []RelationshipRow
	// Now is the time of the write.
	Now time.Time
}

// NewWrite checks a batch, encodes its properties and chooses ids for entities and relationships
// without one. now is the time of the write.
func NewWrite(k graph.Key, b graph.Batch, now time.Time) (*Write, error) {
	k, err := CheckKey(k)
	if err != nil {
		return nil, err
	}
	w := &Write{Key: k, Now: store.Time(now)}
	if w.DeleteRelationships, err = checkDeletes("deleteRelationships", b.DeleteRelationships); err != nil {
		return nil, err
	}
	if w.DeleteEntities, err = checkDeletes("deleteEntities", b.DeleteEntities); err != nil {
		return nil, err
	}
	if len(b.Entities) > graph.MaxWrite || len(b.Relationships) > graph.MaxWrite {
		field, n := "entities", len(b.Entities)
		if n <= graph.MaxWrite {
			field, n = "relationships", len(b.Relationships)
		}
		return nil, invalid("%s: are %d, limit is %d", field, n, graph.MaxWrite)
	}
	if err := w.addEnds(b.Ends); err != nil {
		return nil, err
	}
	b = WithIDs(b)
	size := 0
	if err := w.addEntities(b.Entities, &size); err != nil {
		return nil, err
	}
	return w, w.addRelationships(b.Relationships, &size)
}

// Result returns the result of the write without the numbers of what was deleted.
func (w *Write) Result() (r graph.Result) {
	for i := range w.Entities {
		r.Entities = append(r.Entities, w.Entities[i].ID)
	}
	for i := range w.Relationships {
		r.Relationships = append(r.Relationships, w.Relationships[i].ID)
	}
	return r
}

// checkDeletes returns each of a list of ids once, in order.
func checkDeletes(field string, ids []string) ([]string, error) {
	if err := checkNames(field, ids, graph.MaxWrite); err != nil {
		return nil, err
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func (w *Write) addEnds(ends []graph.End) error {
	if len(ends) > graph.MaxWrite {
		return invalid("ends: are %d, limit is %d", len(ends), graph.MaxWrite)
	}
	seen := make(map[string]bool)
	for i, e := range ends {
		field := fmt.Sprintf("ends[%d]", i)
		if err := checkName(field+".id", e.ID); err != nil {
			return err
		}
		if err := CheckTime(field+".at", e.At); err != nil {
			return err
		}
		if seen[e.ID] {
			return invalid("%s.id: %s is repeated", field, a2a.Quote(e.ID))
		}
		seen[e.ID] = true
		if e.At = store.Time(e.At); e.At.IsZero() {
			e.At = w.Now
		}
		w.Ends = append(w.Ends, e)
	}
	return nil
}

func (w *Write) addEntities(entities []graph.Entity, size *int) error {
	seen := make(map[string]bool)
	for i := range entities {
		e, field := &entities[i], fmt.Sprintf("entities[%d]", i)
		row := EntityRow{ID: e.ID, Label: e.Label}
		if err := checkName(field+".id", e.ID); err != nil {
			return err
		}
		if err := checkLabel(field+".label", e.Label); err != nil {
			return err
		}
		var err error
		if row.Properties, err = checkProperties(field, e.Properties, size, graph.PropertyID); err != nil {
			return err
		}
		if name, ok := e.Properties[graph.PropertyName].(string); ok {
			if row.Name = graph.FoldName(name); len(row.Name) > graph.MaxName || strings.ContainsRune(row.Name, 0) {
				row.Name = ""
			}
		}
		if seen[e.ID] {
			return invalid("%s.id: %s is repeated", field, a2a.Quote(e.ID))
		}
		seen[e.ID] = true
		w.Entities = append(w.Entities, row)
	}
	return nil
}

func (w *Write) addRelationships(relationships []graph.Relationship, size *int) error {
	seen := make(map[string]bool)
	for _, e := range w.Ends {
		seen[e.ID] = true
	}
	for i := range relationships {
		field := fmt.Sprintf("relationships[%d]", i)
		row, err := newRelationship(field, relationships[i], size)
		if err != nil {
			return err
		}
		if seen[row.ID] {
			return invalid("%s.id: %s is repeated", field, a2a.Quote(row.ID))
		}
		seen[row.ID] = true
		row.Version, row.RecordedAt, row.ReplacedAt = 1, w.Now, time.Time{}
		w.Relationships = append(w.Relationships, row)
	}
	return nil
}

// newRelationship checks the fields of a relationship that a caller sets.
func newRelationship(field string, r graph.Relationship, size *int) (row RelationshipRow, err error) {
	for _, name := range []struct{ field, value string }{{"id", r.ID}, {"source", r.Source}, {"target", r.Target}} {
		if err := checkName(field+"."+name.field, name.value); err != nil {
			return row, err
		}
	}
	if err := checkLabel(field+".type", r.Type); err != nil {
		return row, err
	}
	if err := CheckTime(field+".validFrom", r.ValidFrom); err != nil {
		return row, err
	}
	if err := CheckTime(field+".validTo", r.ValidTo); err != nil {
		return row, err
	}
	r.ValidFrom, r.ValidTo = store.Time(r.ValidFrom), store.Time(r.ValidTo)
	if !r.ValidTo.IsZero() && !r.ValidFrom.Before(r.ValidTo) {
		return row, invalid("%s.validTo: must be after validFrom", field)
	}
	row.Properties, err = checkProperties(field, r.Properties, size, graph.PropertyID, graph.PropertyValidFrom, graph.PropertyValidTo, graph.PropertyRecordedAt)
	row.Relationship = r
	row.Relationship.Properties = nil
	return row, err
}

// checkProperties returns the JSON of properties, and adds its size.
func checkProperties(field string, properties map[string]any, size *int, reserved ...string) (string, error) {
	for _, name := range reserved {
		if _, exists := properties[name]; exists {
			return "", invalid("%s.properties: %q is reserved", field, name)
		}
	}
	text, err := jsonobject.Encode(properties, graph.MaxProperties, graph.MaxPropertiesDepth)
	if err != nil {
		return "", invalid("%s.properties: %v", field, err)
	}
	if *size += len(text); *size > graph.MaxWriteBytes {
		return "", invalid("%s.properties: exceed %d bytes together with those before", field, graph.MaxWriteBytes)
	}
	return text, nil
}
