package memorydriver

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// The functions of this file are the decisions of long-term memory, which stores share. Times
// have the precision of store.Time.

// NewFact checks the parameters of Save and returns the first version of the fact, without its
// id, and the JSON of its metadata.
func NewFact(scope memory.Scope, content string, p memory.SaveParams, now time.Time) (m memory.Memory, metadata string, err error) {
	if scope, err = CheckScope(scope); err != nil {
		return m, "", err
	}
	if err = CheckContent(content); err != nil {
		return m, "", err
	}
	if err = checkSave(p); err != nil {
		return m, "", err
	}
	if metadata, err = EncodeMetadata(p.Metadata); err != nil {
		return m, "", err
	}
	now = store.Time(now)
	m = memory.Memory{
		Scope: scope, Key: p.Key, Content: content, Entities: slices.Clone(p.Entities), Version: 1, CreatedAt: now, UpdatedAt: now,
		ValidFrom: factTime(p.ValidFrom), ValidTo: factTime(p.ValidTo),
	}
	if !m.ValidFrom.IsZero() && m.ValidFrom.Equal(m.ValidTo) {
		return m, "", invalid("validTo", "must be at least a millisecond after validFrom")
	}
	if p.TTL > 0 {
		m.ExpiresAt = store.Time(now.Add(p.TTL))
	}
	return m, metadata, nil
}

// factTime returns a time with the precision of stores. The zero time stays zero.
func factTime(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return store.Time(t)
}

// Replacement returns the version of a fact that Save adds: next with the identity of old, its
// newest version, and with the bounds of old's validity where next has none. changed is false if
// next says the same as old, apart from the metadata.
func Replacement(old, next memory.Memory) (m memory.Memory, changed bool, err error) {
	next.ID, next.CreatedAt, next.Version = old.ID, old.CreatedAt, old.Version+1
	next.UpdatedAt = later(old.UpdatedAt, next.UpdatedAt)
	if next.ValidFrom.IsZero() {
		next.ValidFrom = old.ValidFrom
	}
	if next.ValidTo.IsZero() {
		next.ValidTo = old.ValidTo
	}
	switch {
	case next.ValidFrom.Before(old.ValidFrom): // the validity of versions must not overlap
		return next, false, invalid("validFrom", "must not be before that of the newest version of the fact")
	case !next.ValidTo.IsZero() && !next.ValidFrom.Before(next.ValidTo):
		return next, false, invalid("validTo", "must be after validFrom of the fact")
	}
	return next, old.Content != next.Content || !slices.Equal(old.Entities, next.Entities) || !old.ValidFrom.Equal(next.ValidFrom) || !old.ValidTo.Equal(next.ValidTo), nil
}

// later returns the later of two times, so that the times of versions do not decrease if a
// clock was set back.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// CheckUpdate checks the parameters of Update and Supersede. It returns the scope with its
// default and the JSON of the new metadata.
func CheckUpdate(scope memory.Scope, id string, p memory.UpdateParams) (checked memory.Scope, metadata string, err error) {
	if checked, err = CheckGet(scope, id, time.Time{}); err != nil {
		return checked, "", err
	}
	if err = checkUpdateParams(p); err != nil {
		return checked, "", err
	}
	metadata, err = EncodeMetadata(p.Metadata)
	return checked, metadata, err
}

// CheckGet checks the parameters of a read, and returns the scope with its default.
func CheckGet(scope memory.Scope, id string, at time.Time) (memory.Scope, error) {
	scope, err := CheckScope(scope)
	if err != nil {
		return scope, err
	}
	if err := CheckID(id); err != nil {
		return scope, err
	}
	return scope, CheckTime("asOf", at)
}

// NextVersion returns the version that Update adds after old, the newest one.
func NextVersion(old memory.Memory, p memory.UpdateParams, now time.Time) (memory.Memory, error) {
	if p.Version != 0 && p.Version != old.Version {
		return old, memory.ErrFactConflict
	}
	next := old
	next.Version++
	next.UpdatedAt = later(old.UpdatedAt, store.Time(now))
	if p.Content != "" {
		next.Content = p.Content
	}
	if p.Entities != nil {
		next.Entities = slices.Clone(p.Entities)
	}
	return next, nil
}

// Succession returns the version that Supersede adds: next, the result of NextVersion, valid
// from a time on. The zero time means UpdatedAt of next. The validity of the version before ends
// at the same time.
func Succession(next memory.Memory, at time.Time) (memory.Memory, error) {
	if err := CheckTime("at", at); err != nil {
		return next, err
	}
	if at.IsZero() {
		at = next.UpdatedAt
	}
	at = store.Time(at)
	switch {
	case !next.ValidFrom.IsZero() && !at.After(next.ValidFrom):
		return next, invalid("at", "must be after validFrom of the fact")
	case !next.ValidTo.IsZero() && !at.Before(next.ValidTo):
		return next, invalid("at", "must be before validTo of the fact")
	}
	next.ValidFrom = at
	return next, nil
}

// Below reports whether a namespace is prefix or below it. Every namespace is below "".
func Below(namespace, prefix string) bool {
	rest, ok := strings.CutPrefix(namespace, prefix)
	return prefix == "" || ok && (rest == "" || rest[0] == '/')
}

// CheckVersions returns an error if versions are not the versions of one fact, oldest first.
// metadata is the JSON of the metadata of each version.
func CheckVersions(versions []memory.Memory) (metadata []string, err error) {
	if len(versions) == 0 {
		return nil, invalid("versions", "must not be empty")
	}
	first := &versions[0]
	for i := range versions {
		v := &versions[i]
		scope, err := CheckGet(v.Scope, v.ID, time.Time{})
		switch {
		case err != nil:
			return nil, err
		case scope != v.Scope || scope != first.Scope || v.ID != first.ID || v.Key != first.Key || !v.ExpiresAt.Equal(first.ExpiresAt):
			return nil, invalid("versions", "must have the same scope, id, key and expiry")
		case v.Version != int64(i+1):
			return nil, invalid("versions", "version is %d, want %d", v.Version, i+1)
		case i < len(versions)-1 && v.ReplacedAt.IsZero() && v.ValidTo.IsZero():
			return nil, invalid("versions", "version %d was neither replaced nor has it ended", v.Version)
		case i == len(versions)-1 && !v.ReplacedAt.IsZero():
			return nil, invalid("versions", "the newest version must not be replaced")
		}
		if err := CheckContent(v.Content); err != nil {
			return nil, err
		}
		if err := checkSave((memory.SaveParams{Key: v.Key, Entities: v.Entities, ValidFrom: v.ValidFrom, ValidTo: v.ValidTo})); err != nil {
			return nil, err
		}
		text, err := EncodeMetadata(v.Metadata)
		if err != nil {
			return nil, err
		}
		metadata = append(metadata, text)
	}
	return metadata, nil
}
