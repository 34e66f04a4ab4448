package graphdriver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/rules"
)

func invalid(format string, args ...any) error {
	return a2a.Errorf(a2a.CodeInvalid, "graph: "+format, args...)
}

// checkName checks an owner, a graph or an id.
func checkName(field, name string) error {
	if name == "" {
		return invalid("%s: must not be empty", field)
	}
	if rule := rules.Text(name, graph.MaxName); rule != "" {
		return invalid("%s: %s", field, rule)
	}
	return nil
}

func checkNames(field string, names []string, limit int) error {
	if len(names) > limit {
		return invalid("%s: are %d, limit is %d", field, len(names), limit)
	}
	for i, name := range names {
		if err := checkName(fmt.Sprintf("%s[%d]", field, i), name); err != nil {
			return err
		}
	}
	return nil
}

// checkLabel checks a label or a type. Backends use them as identifiers.
func checkLabel(field, label string) error {
	if label == "" {
		return invalid("%s: must not be empty", field)
	}
	if len(label) > graph.MaxLabel {
		return invalid("%s: has %d bytes, limit is %d", field, len(label), graph.MaxLabel)
	}
	for i, c := range []byte(label) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return invalid("%s: is %s, must be a letter or _, then letters, digits and _", field, a2a.Quote(label))
		}
	}
	return nil
}

// IsLabel reports whether a text has the form of a label or a type.
func IsLabel(text string) bool { return checkLabel("", text) == nil }

func checkLabels(field string, labels []string) error {
	if len(labels) > graph.MaxTypes {
		return invalid("%s: are %d, limit is %d", field, len(labels), graph.MaxTypes)
	}
	for i, label := range labels {
		if err := checkLabel(fmt.Sprintf("%s[%d]", field, i), label); err != nil {
			return err
		}
	}
	return nil
}

// CheckOwner returns an error if an owner is not valid.
func CheckOwner(owner string) error { return checkName("owner", owner) }

// CheckKey returns the key with its default, or an error.
func CheckKey(k graph.Key) (graph.Key, error) {
	if k.Graph == "" {
		k.Graph = graph.DefaultGraph
	}
	if err := CheckOwner(k.Owner); err != nil {
		return k, err
	}
	return k, checkName("graph", k.Graph)
}

// CheckIDs returns the key with its default, or an error if it or one of up to [graph.MaxIDs] ids is not
// valid.
func CheckIDs(k graph.Key, ids ...string) (graph.Key, error) {
	k, err := CheckKey(k)
	if err == nil {
		err = checkNames("ids", ids, graph.MaxIDs)
	}
	return k, err
}

// CheckList returns the params with their defaults, or an error.
func CheckList(p graph.ListParams) (graph.ListParams, error) {
	err := CheckOwner(p.Owner)
	if err == nil {
		p.Limit, err = checkPage(p.After, p.Limit)
	}
	return p, err
}

// checkPage checks the position and returns the limit of a page.
func checkPage(after string, limit int) (int, error) {
	if rule := rules.Text(after, graph.MaxName); rule != "" {
		return 0, invalid("after: %s", rule)
	}
	return checkLimit("limit", limit, graph.DefaultLimit, graph.MaxLimit)
}

func checkLimit(field string, limit, byDefault, most int) (int, error) {
	switch {
	case limit == 0:
		return byDefault, nil
	case limit < 0 || limit > most:
		return 0, invalid("%s: is %d, want 1 to %d", field, limit, most)
	}
	return limit, nil
}

// CheckTime returns an error if the year of a time is not from 1 to 9999.
func CheckTime(field string, t time.Time) error {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return invalid("%s: year is %d, must be 1 to 9999", field, year)
	}
	return nil
}

// checkMoment returns the moment with times as they are stored.
func checkMoment(m graph.Moment) (graph.Moment, error) {
	if err := CheckTime("moment.asOf", m.AsOf); err != nil {
		return m, err
	}
	m.AsOf, m.KnownAt = store.Time(m.AsOf), store.Time(m.KnownAt)
	return m, CheckTime("moment.knownAt", m.KnownAt)
}

func checkWalk(w graph.Walk) (graph.Walk, error) {
	if w.Direction == "" {
		w.Direction = graph.Both
	}
	if !slices.Contains([]graph.Direction{graph.Both, graph.Out, graph.In}, w.Direction) {
		return w, invalid("direction: %s is unknown", a2a.Quote(string(w.Direction)))
	}
	if err := checkLabels("types", w.Types); err != nil {
		return w, err
	}
	if err := checkLabels("labels", w.Labels); err != nil {
		return w, err
	}
	if err := filterError("relationships", w.Relationships.Check()); err != nil {
		return w, err
	}
	if err := filterError("entities", w.Entities.Check()); err != nil {
		return w, err
	}
	var err error
	w.Moment, err = checkMoment(w.Moment)
	return w, err
}

// CheckNeighbors returns the key and the params with their defaults, or an error.
func CheckNeighbors(k graph.Key, p graph.NeighborParams) (graph.Key, graph.NeighborParams, error) {
	k, err := CheckKey(k)
	if err != nil {
		return k, p, err
	}
	switch {
	case len(p.IDs) == 0:
		return k, p, invalid("ids: are 0, want 1 to %d", graph.MaxIDs)
	case p.Depth < graph.StartsOnly || p.Depth > graph.MaxDepth:
		return k, p, invalid("depth: is %d, want %d to %d", p.Depth, graph.StartsOnly, graph.MaxDepth)
	}
	if p.Depth == 0 {
		p.Depth = 1
	}
	if err := checkNames("ids", p.IDs, graph.MaxIDs); err != nil {
		return k, p, err
	}
	if p.MaxEntities, err = checkLimit("maxEntities", p.MaxEntities, graph.DefaultEntities, graph.MaxEntities); err != nil {
		return k, p, err
	}
	if p.MaxRelationships, err = checkLimit("maxRelationships", p.MaxRelationships, graph.DefaultRelationships, graph.MaxRelationships); err != nil {
		return k, p, err
	}
	p.Walk, err = checkWalk(p.Walk)
	return k, p, err
}

// CheckPath returns the key and the params with their defaults, or an error.
func CheckPath(k graph.Key, p graph.PathParams) (graph.Key, graph.PathParams, error) {
	k, err := CheckKey(k)
	if err != nil {
		return k, p, err
	}
	if err := checkName("from", p.From); err != nil {
		return k, p, err
	}
	if err := checkName("to", p.To); err != nil {
		return k, p, err
	}
	if p.MaxDepth, err = checkLimit("maxDepth", p.MaxDepth, graph.MaxDepth, graph.MaxDepth); err != nil {
		return k, p, err
	}
	p.Walk, err = checkWalk(p.Walk)
	return k, p, err
}

// CheckFind returns the key and the params with their defaults, or an error. Names are folded.
func CheckFind(k graph.Key, p graph.FindParams) (graph.Key, graph.FindParams, error) {
	k, err := CheckKey(k)
	if err != nil {
		return k, p, err
	}
	if err := checkLabels("labels", p.Labels); err != nil {
		return k, p, err
	}
	if err := checkNames("names", p.Names, graph.MaxIDs); err != nil {
		return k, p, err
	}
	p.Names = slices.Clone(p.Names)
	for i, name := range p.Names {
		p.Names[i] = graph.FoldName(name)
	}
	if err := filterError("filter", p.Filter.Check()); err != nil {
		return k, p, err
	}
	p.Limit, err = checkPage(p.After, p.Limit)
	return k, p, err
}

// CheckFindRelationships returns the key and the params with their defaults, or an error.
func CheckFindRelationships(k graph.Key, p graph.FindRelationshipParams) (graph.Key, graph.FindRelationshipParams, error) {
	k, err := CheckKey(k)
	if err != nil {
		return k, p, err
	}
	if err := checkLabels("types", p.Types); err != nil {
		return k, p, err
	}
	if err := filterError("filter", p.Filter.Check()); err != nil {
		return k, p, err
	}
	if p.Moment, err = checkMoment(p.Moment); err != nil {
		return k, p, err
	}
	p.Limit, err = checkPage(p.After, p.Limit)
	return k, p, err
}

// CheckCypher returns the key and the params with their defaults, or an error.
func CheckCypher(k graph.Key, p graph.CypherParams) (graph.Key, graph.CypherParams, error) {
	k, err := CheckKey(k)
	if err != nil {
		return k, p, err
	}
	if strings.TrimSpace(p.Query) == "" {
		return k, p, invalid("query: must not be empty")
	}
	if rule := rules.Text(p.Query, graph.MaxQuery); rule != "" {
		return k, p, invalid("query: %s", rule)
	}
	if _, err := jsonobject.Encode(p.Params, graph.MaxQuery, graph.MaxPropertiesDepth); err != nil {
		return k, p, invalid("params: %v", err)
	}
	if p.MaxRows, err = checkLimit("maxRows", p.MaxRows, graph.DefaultRows, graph.MaxRows); err != nil {
		return k, p, err
	}
	switch {
	case p.MaxSteps == 0:
		p.MaxSteps = graph.DefaultSteps
	case p.MaxSteps < 0 || p.MaxSteps > graph.MaxSteps:
		return k, p, invalid("maxSteps: is %d, want 1 to %d", p.MaxSteps, graph.MaxSteps)
	}
	switch {
	case p.Timeout == 0:
		p.Timeout = graph.DefaultTimeout
	case p.Timeout < 0 || p.Timeout > graph.MaxTimeout:
		return k, p, invalid("timeout: is %s, want up to %s", p.Timeout, graph.MaxTimeout)
	}
	return k, p, nil
}

// filterError adds a code to an error of a filter.
func filterError(field string, err error) error {
	var e *filter.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Field != "":
		return invalid("%s: %s: %s", field, e.Field, e.Rule)
	case e != nil:
		return invalid("%s: %s", field, e.Rule)
	}
	return invalid("%s: %v", field, err)
}
