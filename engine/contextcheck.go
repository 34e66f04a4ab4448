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

// Bounds of a context's fields, in bytes, and of the number of its tags.
const (
	maxName        = 256
	maxDescription = 4096
	maxRole        = 64
	maxTag         = 128
	maxTags        = 64
)

// contextMoves is the one table of allowed changes of a context's status. Staying
// is allowed too, save that archived contexts are not changed at all.
var contextMoves = map[a2a.ContextStatus][]a2a.ContextStatus{
	a2a.ContextActive:    {a2a.ContextPaused, a2a.ContextCompleted, a2a.ContextArchived},
	a2a.ContextPaused:    {a2a.ContextActive, a2a.ContextCompleted, a2a.ContextArchived},
	a2a.ContextCompleted: {a2a.ContextArchived},
	a2a.ContextArchived:  nil,
}

// closes reports whether the tasks of a context have to be over before its status
// becomes s.
func closes(s a2a.ContextStatus) bool { return s == a2a.ContextCompleted || s == a2a.ContextArchived }

// forbidden is the error for what a context's status or tasks do not allow.
func forbidden(id, format string, args ...any) *a2a.Error {
	return a2a.Errorf(a2a.CodeContextNotCancelable, "context %s %s", a2a.Quote(id), fmt.Sprintf(format, args...))
}

// checkMove reports why a context's status may not become next.
func checkMove(id string, from, next a2a.ContextStatus) error {
	if _, known := contextMoves[next]; !known {
		return a2a.Invalid("status", "is %s, want one of %s", a2a.Quote(string(next)), strings.Join(next.EnumValues(), ", "))
	}
	if from == next || slices.Contains(contextMoves[from], next) {
		return nil
	}
	return forbidden(id, "is %s and cannot become %s; it can only be archived", from, next)
}

// closed is the error for a new task in a context that takes none.
func closed(c *store.Context) error {
	what := "send the message without contextId to begin another context"
	if c.Status == a2a.ContextPaused {
		what = "set its status to active first"
	}
	return forbidden(c.Key.ID, "is %s and takes no new tasks; %s", c.Status, what)
}

// checkContext applies the rules of a context's own fields, and brings its tags
// into the form in which they are stored.
func (e *Engine) checkContext(c *store.Context) error {
	for _, field := range []struct {
		name, value string
		most        int
		lines       bool
	}{
		{"name", c.Name, maxName, false},
		{"description", c.Description, maxDescription, true},
		{"role", c.Role, maxRole, false},
	} {
		if err := checkText(field.name, field.value, field.most, field.lines); err != nil {
			return err
		}
	}
	var err error
	if c.Tags, err = cleanTags(c.Tags); err != nil {
		return err
	}
	if err := e.checkMap("metadata", c.Metadata); err != nil {
		return err
	}
	if err := e.checkMap("extensions", c.Extensions); err != nil {
		return err
	}
	return e.checkRelatives(c)
}

// checkText applies the rules of free text; lines allows it to have several.
func checkText(field, s string, most int, lines bool) error {
	if len(s) > most {
		return a2a.Invalid(field, "has %d bytes, at most %d are taken", len(s), most)
	}
	bad := func(r rune) bool { return unicode.IsControl(r) && (!lines || (r != '\n' && r != '\r' && r != '\t')) }
	if !utf8.ValidString(s) || strings.ContainsFunc(s, bad) {
		return a2a.Invalid(field, "must be text without control characters")
	}
	return nil
}

// cleanTags returns tags sorted and each once.
func cleanTags(tags []string) ([]string, error) {
	for i, tag := range tags {
		if err := checkTag(fmt.Sprintf("tags[%d]", i), tag); err != nil {
			return nil, err
		}
	}
	tags = slices.Compact(slices.Sorted(slices.Values(tags)))
	if len(tags) > maxTags {
		return nil, a2a.Invalid("tags", "has %d tags, at most %d are taken", len(tags), maxTags)
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
		return a2a.Invalid(field, "must not begin or end with a space")
	}
	return nil
}

// checkMap applies the rules of free-form members.
func (e *Engine) checkMap(field string, m map[string]any) error {
	if len(m) == 0 {
		return nil
	}
	raw, err := wire.Marshal(m)
	if err != nil {
		return a2a.Invalid(field, "cannot be stored: %s", err)
	}
	if limit := e.cfg.Limits.MetadataBytes; len(raw) > limit {
		return a2a.Invalid(field, "has %d bytes of JSON, at most %d are taken", len(raw), limit)
	}
	return nil
}

// checkRelatives applies those rules of parent and references that need no store.
func (e *Engine) checkRelatives(c *store.Context) error {
	if c.ParentID == c.Key.ID {
		return errCycle
	}
	if c.ParentID != "" && a2a.CheckID("parentContextId", c.ParentID) != nil {
		return noRelative("parentContextId", c.ParentID)
	}
	if n := e.cfg.Limits.References; len(c.ReferenceIDs) > n {
		return a2a.Invalid("referenceContextIds", "has %d ids, at most %d are taken", len(c.ReferenceIDs), n)
	}
	for i, id := range c.ReferenceIDs {
		field := fmt.Sprintf("referenceContextIds[%d]", i)
		switch {
		case id == c.Key.ID:
			return a2a.Invalid(field, "is the context itself")
		case slices.Contains(c.ReferenceIDs[:i], id):
			return a2a.Invalid(field, "%s is given twice", a2a.Quote(id))
		case a2a.CheckID(field, id) != nil:
			return noRelative(field, id)
		}
	}
	return nil
}

var errCycle = a2a.Invalid("parentContextId", "would make the context its own ancestor")

// noRelative is the error for a field that names a context which is not there.
func noRelative(field, id string) error {
	err := a2a.ContextNotFound(id)
	err.Message = field + ": " + err.Message
	err.Data = map[string]any{"field": field}
	return err
}

// checkReferenceContexts checks that the contexts referred to are there.
func (e *Engine) checkReferenceContexts(ctx context.Context, c *store.Context) error {
	for i, id := range c.ReferenceIDs {
		_, err := e.cfg.Store.Context(ctx, c.Key.Owner, id, 0)
		if errors.Is(err, store.ErrNotFound) {
			return noRelative(fmt.Sprintf("referenceContextIds[%d]", i), id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// relativesError words the store's refusals of a parent; other errors stay as
// they are.
func relativesError(c *store.Context, err error) error {
	switch {
	case errors.Is(err, store.ErrParentNotFound):
		return noRelative("parentContextId", c.ParentID)
	case errors.Is(err, store.ErrParentCycle):
		return errCycle
	case errors.Is(err, store.ErrParentDepth):
		return a2a.Invalid("parentContextId", "nests contexts too deep: at most %d may stand above one", store.MaxContextDepth)
	}
	return err
}
