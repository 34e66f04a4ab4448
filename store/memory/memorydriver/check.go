package memorydriver

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/rules"
)

func invalid(field, format string, args ...any) error {
	return a2a.Errorf(a2a.CodeInvalid, "memory: %s: %s", field, fmt.Sprintf(format, args...))
}

// checkText checks a text that is stored.
func checkText(field, text string, limit int) error {
	if rule := rules.Text(text, limit); rule != "" {
		return invalid(field, "%s", rule)
	}
	return nil
}

// CheckScope returns the scope with its default, or an error that names the part and the rule.
func CheckScope(s memory.Scope) (memory.Scope, error) {
	if s.Namespace == "" {
		s.Namespace = memory.DefaultNamespace
	}
	for _, part := range []struct{ name, value string }{{"owner", s.Owner}, {"namespace", s.Namespace}, {"agent", s.Agent}} {
		if part.value == "" {
			return s, invalid(part.name, "must not be empty")
		}
		if err := checkText(part.name, part.value, memory.MaxScopePart); err != nil {
			return s, err
		}
	}
	levels := strings.Split(s.Namespace, "/")
	for _, level := range levels {
		if level == "" {
			return s, invalid("namespace", "%s has an empty level", a2a.Quote(s.Namespace))
		}
	}
	if len(levels) > memory.MaxNamespaceDepth {
		return s, invalid("namespace", "has %d levels, limit is %d", len(levels), memory.MaxNamespaceDepth)
	}
	return s, nil
}

// CheckContent returns an error if a content cannot be stored.
func CheckContent(content string) error {
	if strings.TrimSpace(content) == "" {
		return invalid("content", "must not be empty")
	}
	return checkText("content", content, memory.MaxContent)
}

// CheckID returns an error if an id cannot belong to a fact.
func CheckID(id string) error {
	if id == "" {
		return invalid("id", "must not be empty")
	}
	return checkText("id", id, memory.MaxFactKey)
}

// checkSave returns an error if a parameter is not valid, apart from the metadata; see
// [EncodeMetadata].
func checkSave(p memory.SaveParams) error {
	switch {
	case p.TTL < 0:
		return invalid("ttl", "is %s, must not be negative", p.TTL)
	case !p.ValidFrom.IsZero() && !p.ValidTo.IsZero() && !p.ValidFrom.Before(p.ValidTo):
		return invalid("validTo", "must be after validFrom")
	}
	for name, t := range map[string]time.Time{"validFrom": p.ValidFrom, "validTo": p.ValidTo} {
		if err := CheckTime(name, t); err != nil {
			return err
		}
	}
	if err := CheckEntities(p.Entities); err != nil {
		return err
	}
	return checkText("key", p.Key, memory.MaxFactKey)
}

// CheckEntities returns an error if a fact cannot have entities with these names.
func CheckEntities(names []string) error {
	if len(names) > memory.MaxEntities {
		return invalid("entities", "are %d, limit is %d", len(names), memory.MaxEntities)
	}
	for i, name := range names {
		field := fmt.Sprintf("entities[%d]", i)
		if err := checkText(field, name, memory.MaxEntity); err != nil {
			return err
		}
		if !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
			return invalid(field, "must contain a letter or a digit")
		}
	}
	return nil
}

// CheckTime returns an error if the year of a time is not from 1 to 9999.
func CheckTime(field string, t time.Time) error {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return invalid(field, "year is %d, must be 1 to 9999", year)
	}
	return nil
}

// CheckSearch returns the parameters with their defaults, or an error.
func CheckSearch(p memory.SearchParams) (memory.SearchParams, error) {
	p.Limit = ClampLimit(p.Limit)
	switch p.Mode {
	case "", memory.ModeLexical, memory.ModeSemantic, memory.ModeGraph, memory.ModeHybrid:
	default:
		return p, invalid("mode", "%s is unknown, want lexical, semantic, graph or hybrid", a2a.Quote(string(p.Mode)))
	}
	if p.RecencyHalfLife < 0 {
		return p, invalid("recencyHalfLife", "is %s, must not be negative", p.RecencyHalfLife)
	}
	if math.IsNaN(p.MinScore) || p.MinScore < 0 || p.MinScore > 1 {
		return p, invalid("minScore", "is %g, must be 0 to 1", p.MinScore)
	}
	if err := CheckTime("asOf", p.AsOf); err != nil {
		return p, err
	}
	if err := p.Filter.Check(); err != nil {
		return p, invalidFilter(err)
	}
	p.Query = strings.TrimSpace(p.Query)
	return p, checkText("query", p.Query, memory.MaxQuery)
}

// invalidFilter adds the code to an error of a filter.
func invalidFilter(err error) error {
	var e *filter.Error
	if errors.As(err, &e) && e.Field != "" {
		return invalid("filter", "%s: %s", e.Field, e.Rule)
	} else if e != nil {
		return invalid("filter", "%s", e.Rule)
	}
	return invalid("filter", "%v", err)
}

// ClampLimit returns the number of results for a limit.
func ClampLimit(limit int) int {
	if limit <= 0 {
		return memory.DefaultLimit
	}
	return min(limit, memory.MaxLimit)
}

// checkUpdateParams returns an error if a parameter is not valid, apart from the metadata.
func checkUpdateParams(p memory.UpdateParams) error {
	if p.Version < 0 {
		return invalid("version", "is %d, must not be negative", p.Version)
	}
	if err := CheckEntities(p.Entities); err != nil || p.Content == "" {
		return err
	}
	return CheckContent(p.Content)
}

// CheckNamespaces returns the query with its default limit, or an error.
func CheckNamespaces(q memory.NamespaceQuery) (memory.NamespaceQuery, error) {
	q.Limit = ClampLimit(q.Limit)
	if _, err := CheckScope((memory.Scope{Owner: q.Owner, Agent: q.Agent})); err != nil {
		return q, err
	}
	if err := checkText("prefix", q.Prefix, memory.MaxScopePart); err != nil {
		return q, err
	}
	return q, checkText("after", q.After, memory.MaxScopePart)
}

// CheckOwner returns an error if an owner is not valid.
func CheckOwner(owner string) error {
	_, err := CheckScope(memory.Scope{Owner: owner, Agent: "a"})
	return err
}

// EncodeMetadata returns the JSON of metadata, "{}" if it is empty.
func EncodeMetadata(metadata map[string]any) (string, error) {
	text, err := jsonobject.Encode(metadata, memory.MaxMetadata, memory.MaxMetadataDepth)
	if err != nil {
		return "", invalid("metadata", "%v", err)
	}
	return text, nil
}

// CheckFacts returns the query with its defaults, or an error.
func CheckFacts(q memory.FactQuery) (memory.FactQuery, error) {
	q.Limit = ClampLimit(q.Limit)
	if q.Namespace != "" && q.Agent == "" {
		return q, invalid("namespace", "needs an agent")
	}
	scope := memory.Scope{Owner: q.Owner, Namespace: q.Namespace, Agent: q.Agent}
	if scope.Agent == "" {
		scope.Agent = "a"
	}
	_, err := CheckScope(scope)
	return q, err
}

// PageStart returns the scope and the id after which the page starts.
func PageStart(q memory.FactQuery) (agent, namespace, id string) {
	if after := q.After; after.ID != "" {
		return after.Scope.Agent, after.Scope.Namespace, after.ID
	}
	return q.Agent, q.Namespace, ""
}

// Matches reports whether a fact of a scope is one that q selects.
func Matches(q memory.FactQuery, s memory.Scope) bool {
	return s.Owner == q.Owner && (q.Agent == "" || s.Agent == q.Agent) && (q.Namespace == "" || s.Namespace == q.Namespace)
}

// CheckOnce returns an error with code invalid_params if an idempotency key is not valid: it is
// UTF-8 without NUL, and not empty.
func CheckOnce(once string) error {
	switch {
	case once == "" || strings.ContainsRune(once, 0) || !utf8.ValidString(once):
		return a2a.Errorf(a2a.CodeInvalid, "memory: once: must be UTF-8, not empty and without NUL")
	case len(once) > memory.MaxOnce:
		return a2a.Errorf(a2a.CodeInvalid, "memory: once: has %d bytes, limit is %d", len(once), memory.MaxOnce)
	}
	return nil
}
