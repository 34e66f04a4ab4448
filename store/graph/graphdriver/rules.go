package graphdriver

import (
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph"
)

// Selects reports whether a moment selects a version of a relationship. now is the current time.
func Selects(m graph.Moment, r *graph.Relationship, now time.Time) bool {
	if m.KnownAt.IsZero() {
		if !r.ReplacedAt.IsZero() {
			return false
		}
	} else if r.RecordedAt.After(m.KnownAt) || !r.ReplacedAt.IsZero() && !r.ReplacedAt.After(m.KnownAt) {
		return false
	}
	if m.AsOf.IsZero() {
		m.AsOf = now
	}
	return m.AnyTime || !r.ValidFrom.After(m.AsOf) && (r.ValidTo.IsZero() || r.ValidTo.After(m.AsOf))
}

// NextVersion returns the version that a write adds after old, the newest one. changed is false if
// both are equal. It returns a [graph.ConflictError] if they have different ends or types.
func NextVersion(old, next RelationshipRow) (version RelationshipRow, changed bool, err error) {
	for _, f := range []struct{ field, value, want string }{
		{"source", next.Source, old.Source}, {"target", next.Target, old.Target}, {"type", next.Type, old.Type},
	} {
		if f.value != f.want {
			return old, false, &graph.ConflictError{ID: next.ID, Field: f.field, Value: f.value, Want: f.want}
		}
	}
	if old.Properties == next.Properties && old.ValidFrom.Equal(next.ValidFrom) && old.ValidTo.Equal(next.ValidTo) {
		return old, false, nil
	}
	return after(old, next), true, nil
}

// Ended returns the version that an end adds after old, the newest one. changed is false if old
// already ends at that time.
func Ended(old RelationshipRow, e graph.End, now time.Time) (version RelationshipRow, changed bool, err error) {
	switch {
	case old.ValidTo.Equal(e.At):
		return old, false, nil
	case !e.At.After(old.ValidFrom):
		return old, false, invalid("ends: relationship %s: is valid from %s, cannot end at %s", a2a.Quote(e.ID), graph.FormatTime(old.ValidFrom), graph.FormatTime(e.At))
	case !old.ValidTo.IsZero() && e.At.After(old.ValidTo):
		return old, false, invalid("ends: relationship %s: ends at %s, cannot end later", a2a.Quote(e.ID), graph.FormatTime(old.ValidTo))
	}
	next := old
	next.ValidTo, next.RecordedAt = e.At, store.Time(now)
	return after(old, next), true, nil
}

// after numbers next as the version after old. If the clock was set back, both are recorded at the
// same time.
func after(old, next RelationshipRow) RelationshipRow {
	next.Version, next.ReplacedAt = old.Version+1, time.Time{}
	if next.RecordedAt.Before(old.RecordedAt) {
		next.RecordedAt = old.RecordedAt
	}
	return next
}
