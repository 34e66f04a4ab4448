package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// Limits of a context's fields in bytes, and of its number of tags.
const (
	maxName        = 256
	maxDescription = 4096
	maxRole        = 64
	maxTag         = 128
	maxTags        = 64
)

// contextTransitions defines the allowed changes of a context's status. Keeping the status is also
// allowed, except that archived contexts cannot be changed at all.
var contextTransitions = map[a2a.ContextStatus][]a2a.ContextStatus{
	a2a.ContextActive:    {a2a.ContextPaused, a2a.ContextCompleted, a2a.ContextArchived},
	a2a.ContextPaused:    {a2a.ContextActive, a2a.ContextCompleted, a2a.ContextArchived},
	a2a.ContextCompleted: {a2a.ContextArchived},
	a2a.ContextArchived:  nil,
}

// requiresFinishedTasks reports whether all tasks of a context must have finished before its
// status changes to s.
func requiresFinishedTasks(s a2a.ContextStatus) bool {
	return s == a2a.ContextCompleted || s == a2a.ContextArchived
}

// contextForbids returns the error for an operation that the context's status or tasks do not
// allow.
func contextForbids(id, format string, args ...any) *a2a.Error {
	return a2a.Errorf(a2a.CodeContextNotCancelable, "context %s %s", a2a.Quote(id), fmt.Sprintf(format, args...))
}

// checkTransition returns an error if a context's status cannot change to next.
func checkTransition(id string, from, next a2a.ContextStatus) error {
	if _, known := contextTransitions[next]; !known {
		return a2a.Invalid("status", "is %s, want one of %s", a2a.Quote(string(next)), strings.Join(next.EnumValues(), ", "))
	}
	if from == next || slices.Contains(contextTransitions[from], next) {
		return nil
	}
	return contextForbids(id, "is %s and cannot change to %s; it can only be archived", from, next)
}

// closedContext returns the error for a new task in a context that accepts none.
func closedContext(c *store.Context) error {
	hint := "send the message without contextId to start a new context"
	if c.Status == a2a.ContextPaused {
		hint = "set its status to active first"
	}
	return contextForbids(c.Key.ID, "is %s and accepts no new tasks; %s", c.Status, hint)
}

// checkContext checks the fields of a context and normalizes its tags.
func (s *settings) checkContext(c *store.Context) error {
	for _, field := range []struct {
		name, value string
		limit       int
		multiline   bool
	}{
		{"name", c.Name, maxName, false},
		{"description", c.Description, maxDescription, true},
		{"role", c.Role, maxRole, false},
	} {
		if err := checkText(field.name, field.value, field.limit, field.multiline); err != nil {
			return err
		}
	}
	var err error
	if c.Tags, err = cleanTags(c.Tags); err != nil {
		return err
	}
	if err := s.checkMap("metadata", c.Metadata); err != nil {
		return err
	}
	if err := s.checkMap("extensions", c.Extensions); err != nil {
		return err
	}
	return s.checkRelated(c)
}

// checkText checks free text; multiline allows line breaks and tabs.
func checkText(field, s string, limit int, multiline bool) error {
	if len(s) > limit {
		return a2a.Invalid(field, "has %d bytes, want at most %d", len(s), limit)
	}
	bad := func(r rune) bool {
		return unicode.IsControl(r) && (!multiline || (r != '\n' && r != '\r' && r != '\t'))
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, bad) {
		return a2a.Invalid(field, "must be text without control characters")
	}
	return nil
}

// cleanTags checks tags and returns them sorted, without duplicates.
func cleanTags(tags []string) ([]string, error) {
	for i, tag := range tags {
		if err := checkTag(fmt.Sprintf("tags[%d]", i), tag); err != nil {
			return nil, err
		}
	}
	tags = slices.Compact(slices.Sorted(slices.Values(tags)))
	if len(tags) > maxTags {
		return nil, a2a.Invalid("tags", "has %d tags, want at most %d", len(tags), maxTags)
	}
	return tags, nil
}

func checkTag(field, tag string) error {
	switch {
	case tag == "" || len(tag) > maxTag:
		return a2a.Invalid(field, "has %d bytes, want 1 to %d", len(tag), maxTag)
	case !utf8.ValidString(tag) || strings.ContainsFunc(tag, func(r rune) bool { return !unicode.IsGraphic(r) }):
		return a2a.Invalid(field, "must consist of printable characters")
	case strings.TrimSpace(tag) != tag:
		return a2a.Invalid(field, "must not start or end with a space")
	}
	return nil
}

// checkMap checks that JSON can encode a free-form map, within Limits.MetadataBytes.
func (s *settings) checkMap(field string, m map[string]any) error {
	if len(m) == 0 {
		return nil
	}
	raw, err := wire.Marshal(m)
	if err != nil {
		return a2a.Invalid(field, "cannot be stored: %s", err)
	}
	if limit := s.cfg.Limits.MetadataBytes; len(raw) > limit {
		return a2a.Invalid(field, "has %d bytes of JSON, want at most %d", len(raw), limit)
	}
	return nil
}

// checkRelated checks the parent and the references of a context without reading the store.
func (s *settings) checkRelated(c *store.Context) error {
	if c.ParentID == c.Key.ID {
		return errCycle
	}
	if c.ParentID != "" && a2a.CheckID("parentContextId", c.ParentID) != nil {
		return relatedNotFound("parentContextId", c.ParentID)
	}
	if n := s.cfg.Limits.References; len(c.ReferenceIDs) > n {
		return a2a.Invalid("referenceContextIds", "has %d ids, want at most %d", len(c.ReferenceIDs), n)
	}
	for i, id := range c.ReferenceIDs {
		field := fmt.Sprintf("referenceContextIds[%d]", i)
		switch {
		case id == c.Key.ID:
			return a2a.Invalid(field, "is the context itself")
		case slices.Contains(c.ReferenceIDs[:i], id):
			return a2a.Invalid(field, "%s appears twice", a2a.Quote(id))
		case a2a.CheckID(field, id) != nil:
			return relatedNotFound(field, id)
		}
	}
	return nil
}

var errCycle = a2a.Invalid("parentContextId", "would make the context its own ancestor")

// relatedNotFound returns the error for a field that names a context that does not exist.
func relatedNotFound(field, id string) error {
	err := a2a.ContextNotFound(id)
	err.Message = field + ": " + err.Message
	err.Data = map[string]any{"field": field}
	return err
}

// checkReferenceContexts checks that the referenced contexts exist.
func (s *settings) checkReferenceContexts(ctx context.Context, c *store.Context) error {
	for i, id := range c.ReferenceIDs {
		_, err := s.cfg.Store.Context(ctx, c.Key.Owner, id, 0)
		if errors.Is(err, store.ErrNotFound) {
			return relatedNotFound(fmt.Sprintf("referenceContextIds[%d]", i), id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parentError replaces the store's errors about a parent by errors that name the field; it
// returns other errors unchanged.
func parentError(c *store.Context, err error) error {
	switch {
	case errors.Is(err, store.ErrParentNotFound):
		return relatedNotFound("parentContextId", c.ParentID)
	case errors.Is(err, store.ErrParentCycle):
		return errCycle
	case errors.Is(err, store.ErrParentDepth):
		return a2a.Invalid("parentContextId", "exceeds the maximum of %d ancestors", store.MaxContextDepth)
	}
	return err
}
