package graphdriver

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph"
)

// Restored is what an export contains, checked and encoded.
type Restored struct {
	Key      graph.Key
	Entities []EntityRow
	// Relationships have their versions, oldest first.
	Relationships [][]RelationshipRow
}

// NewRestored checks the arguments of Restore.
func NewRestored(k graph.Key, entities []graph.Entity, versions []graph.Relationship) (*Restored, error) {
	k, err := CheckKey(k)
	if err != nil {
		return nil, err
	}
	alone := len(entities) == 0 && !slices.ContainsFunc(versions, func(r graph.Relationship) bool { return r.ID != versions[0].ID })
	if !alone && (len(entities) > graph.MaxWrite || len(versions) > graph.MaxWrite) {
		return nil, invalid("restore: %d entities and %d versions, limit is %d of each", len(entities), len(versions), graph.MaxWrite)
	}
	size, w := 0, Write{Key: k}
	if err := w.addEntities(entities, &size); err != nil {
		return nil, err
	}
	r := &Restored{Key: k, Entities: w.Entities}
	seen := make(map[string]bool)
	for i := range versions {
		field := fmt.Sprintf("relationships[%d]", i)
		if alone {
			size = 0
		}
		row, err := newRelationship(field, versions[i], &size)
		if err != nil {
			return nil, err
		}
		last := len(r.Relationships) - 1
		if i > 0 && versions[i-1].ID == row.ID {
			before := &r.Relationships[last][len(r.Relationships[last])-1]
			if err := checkSuccession(field, before, &row); err != nil {
				return nil, err
			}
			r.Relationships[last] = append(r.Relationships[last], row)
			continue
		}
		switch {
		case seen[row.ID]:
			return nil, invalid("%s.id: %s is repeated", field, a2a.Quote(row.ID))
		case row.Version != 1:
			return nil, invalid("%s.version: is %d, want 1 for the oldest version", field, row.Version)
		case i > 0 && !versions[i-1].ReplacedAt.IsZero():
			return nil, invalid("relationships[%d].replacedAt: is set for the newest version", i-1)
		}
		if err := checkRecorded(field, &row); err != nil {
			return nil, err
		}
		seen[row.ID] = true
		r.Relationships = append(r.Relationships, []RelationshipRow{row})
	}
	if n := len(versions); n > 0 && !versions[n-1].ReplacedAt.IsZero() {
		return nil, invalid("relationships[%d].replacedAt: is set for the newest version", n-1)
	}
	return r, nil
}

// checkSuccession checks that a version follows another one.
func checkSuccession(field string, old, next *RelationshipRow) error {
	if _, _, err := NextVersion(*old, *next); err != nil {
		return err
	}
	switch {
	case next.Version != old.Version+1:
		return invalid("%s.version: is %d, want %d", field, next.Version, old.Version+1)
	case !old.ReplacedAt.Equal(store.Time(next.RecordedAt)):
		return invalid("%s.recordedAt: must be replacedAt of the version before", field)
	}
	return checkRecorded(field, next)
}

// checkRecorded checks when a version was written and replaced.
func checkRecorded(field string, r *RelationshipRow) error {
	if err := CheckTime(field+".recordedAt", r.RecordedAt); err != nil {
		return err
	}
	if err := CheckTime(field+".replacedAt", r.ReplacedAt); err != nil {
		return err
	}
	r.RecordedAt, r.ReplacedAt = store.Time(r.RecordedAt), store.Time(r.ReplacedAt)
	if r.RecordedAt.IsZero() {
		return invalid("%s.recordedAt: must be set", field)
	}
	if r.ReplacedAt != (time.Time{}) && r.ReplacedAt.Before(r.RecordedAt) {
		return invalid("%s.replacedAt: must not be before recordedAt", field)
	}
	return nil
}
