package graph

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/filter"
)

// Limits. Sizes are in bytes.
const (
	// MaxName limits owners, graphs, ids and the names of entities that are found.
	MaxName = 512
	// MaxLabel limits labels and types.
	MaxLabel = 63
	// MaxProperties limits the JSON of properties, MaxPropertiesDepth its levels.
	MaxProperties      = 64 << 10
	MaxPropertiesDepth = 32
	// MaxWrite limits each list of a [Batch], and MaxWriteBytes the properties of all of them.
	MaxWrite      = 1000
	MaxWriteBytes = 16 << 20
	// MaxIDs limits the ids and names of a read, MaxTypes its types and labels.
	MaxIDs   = 1000
	MaxTypes = 100
	// MaxDepth limits the distance of a walk. StartsOnly is the depth of a walk that does not leave its starts.
	MaxDepth   = 16
	StartsOnly = -1
	// Limits of a walk.
	DefaultEntities      = 1000
	MaxEntities          = 100_000
	DefaultRelationships = 10_000
	MaxRelationships     = 500_000
	// MaxResult limits the JSON of the properties of a result.
	MaxResult = 64 << 20
	// DefaultLimit and MaxLimit are numbers of entities, relationships or graphs of a list.
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Limits of queries in Cypher.
const (
	MaxQuery       = 64 << 10 // bytes of a query, and of its params
	DefaultRows    = 1000
	MaxRows        = 100_000
	DefaultSteps   = 1_000_000
	MaxSteps       = 100_000_000
	DefaultTimeout = 10 * time.Second
	MaxTimeout     = 5 * time.Minute
)

func invalid(format string, args ...any) error {
	return a2a.Errorf(a2a.CodeInvalid, "graph: "+format, args...)
}

// textRule returns the rule that a text breaks, or "".
func textRule(text string, limit int) string {
	switch {
	case len(text) > limit:
		return fmt.Sprintf("has %d bytes, limit is %d", len(text), limit)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "must be UTF-8 without NUL"
	}
	return ""
}

// checkName checks an owner, a graph or an id.
func checkName(field, name string) error {
	if name == "" {
		return invalid("%s: must not be empty", field)
	}
	if rule := textRule(name, MaxName); rule != "" {
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
	if len(label) > MaxLabel {
		return invalid("%s: has %d bytes, limit is %d", field, len(label), MaxLabel)
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
	if len(labels) > MaxTypes {
		return invalid("%s: are %d, limit is %d", field, len(labels), MaxTypes)
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

// Check returns the key with its default, or an error.
func (k Key) Check() (Key, error) {
	if k.Graph == "" {
		k.Graph = DefaultGraph
	}
	if err := CheckOwner(k.Owner); err != nil {
		return k, err
	}
	return k, checkName("graph", k.Graph)
}

// CheckIDs returns the key with its default, or an error if it or one of up to [MaxIDs] ids is not
// valid.
func CheckIDs(k Key, ids ...string) (Key, error) {
	k, err := k.Check()
	if err == nil {
		err = checkNames("ids", ids, MaxIDs)
	}
	return k, err
}

// Check returns the params with their defaults, or an error.
func (p ListParams) Check() (ListParams, error) {
	err := CheckOwner(p.Owner)
	if err == nil {
		p.Limit, err = checkPage(p.After, p.Limit)
	}
	return p, err
}

// checkPage checks the position and returns the limit of a page.
func checkPage(after string, limit int) (int, error) {
	if rule := textRule(after, MaxName); rule != "" {
		return 0, invalid("after: %s", rule)
	}
	return checkLimit("limit", limit, DefaultLimit, MaxLimit)
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

// check returns the moment with times as they are stored.
func (m Moment) check() (Moment, error) {
	if err := CheckTime("moment.asOf", m.AsOf); err != nil {
		return m, err
	}
	m.AsOf, m.KnownAt = store.Time(m.AsOf), store.Time(m.KnownAt)
	return m, CheckTime("moment.knownAt", m.KnownAt)
}

func (w Walk) check() (Walk, error) {
	if w.Direction == "" {
		w.Direction = Both
	}
	if !slices.Contains([]Direction{Both, Out, In}, w.Direction) {
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
	w.Moment, err = w.Moment.check()
	return w, err
}

// Check returns the key and the params with their defaults, or an error.
func (p NeighborParams) Check(k Key) (Key, NeighborParams, error) {
	k, err := k.Check()
	if err != nil {
		return k, p, err
	}
	switch {
	case len(p.IDs) == 0:
		return k, p, invalid("ids: are 0, want 1 to %d", MaxIDs)
	case p.Depth < StartsOnly || p.Depth > MaxDepth:
		return k, p, invalid("depth: is %d, want %d to %d", p.Depth, StartsOnly, MaxDepth)
	}
	if p.Depth == 0 {
		p.Depth = 1
	}
	if err := checkNames("ids", p.IDs, MaxIDs); err != nil {
		return k, p, err
	}
	if p.MaxEntities, err = checkLimit("maxEntities", p.MaxEntities, DefaultEntities, MaxEntities); err != nil {
		return k, p, err
	}
	if p.MaxRelationships, err = checkLimit("maxRelationships", p.MaxRelationships, DefaultRelationships, MaxRelationships); err != nil {
		return k, p, err
	}
	p.Walk, err = p.check()
	return k, p, err
}

// Check returns the key and the params with their defaults, or an error.
func (p PathParams) Check(k Key) (Key, PathParams, error) {
	k, err := k.Check()
	if err != nil {
		return k, p, err
	}
	if err := checkName("from", p.From); err != nil {
		return k, p, err
	}
	if err := checkName("to", p.To); err != nil {
		return k, p, err
	}
	if p.MaxDepth, err = checkLimit("maxDepth", p.MaxDepth, MaxDepth, MaxDepth); err != nil {
		return k, p, err
	}
	p.Walk, err = p.check()
	return k, p, err
}

// Check returns the key and the params with their defaults, or an error. Names are folded.
func (p FindParams) Check(k Key) (Key, FindParams, error) {
	k, err := k.Check()
	if err != nil {
		return k, p, err
	}
	if err := checkLabels("labels", p.Labels); err != nil {
		return k, p, err
	}
	if err := checkNames("names", p.Names, MaxIDs); err != nil {
		return k, p, err
	}
	p.Names = slices.Clone(p.Names)
	for i, name := range p.Names {
		p.Names[i] = FoldName(name)
	}
	if err := filterError("filter", p.Filter.Check()); err != nil {
		return k, p, err
	}
	p.Limit, err = checkPage(p.After, p.Limit)
	return k, p, err
}

// Check returns the key and the params with their defaults, or an error.
func (p FindRelationshipParams) Check(k Key) (Key, FindRelationshipParams, error) {
	k, err := k.Check()
	if err != nil {
		return k, p, err
	}
	if err := checkLabels("types", p.Types); err != nil {
		return k, p, err
	}
	if err := filterError("filter", p.Filter.Check()); err != nil {
		return k, p, err
	}
	if p.Moment, err = p.Moment.check(); err != nil {
		return k, p, err
	}
	p.Limit, err = checkPage(p.After, p.Limit)
	return k, p, err
}

// Check returns the key and the params with their defaults, or an error.
func (p CypherParams) Check(k Key) (Key, CypherParams, error) {
	k, err := k.Check()
	if err != nil {
		return k, p, err
	}
	if strings.TrimSpace(p.Query) == "" {
		return k, p, invalid("query: must not be empty")
	}
	if rule := textRule(p.Query, MaxQuery); rule != "" {
		return k, p, invalid("query: %s", rule)
	}
	if _, err := jsonobject.Encode(p.Params, MaxQuery, MaxPropertiesDepth); err != nil {
		return k, p, invalid("params: %v", err)
	}
	if p.MaxRows, err = checkLimit("maxRows", p.MaxRows, DefaultRows, MaxRows); err != nil {
		return k, p, err
	}
	switch {
	case p.MaxSteps == 0:
		p.MaxSteps = DefaultSteps
	case p.MaxSteps < 0 || p.MaxSteps > MaxSteps:
		return k, p, invalid("maxSteps: is %d, want 1 to %d", p.MaxSteps, MaxSteps)
	}
	switch {
	case p.Timeout == 0:
		p.Timeout = DefaultTimeout
	case p.Timeout < 0 || p.Timeout > MaxTimeout:
		return k, p, invalid("timeout: is %s, want up to %s", p.Timeout, MaxTimeout)
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
