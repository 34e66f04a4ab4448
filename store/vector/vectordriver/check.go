package vectordriver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/rules"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Norms of embeddings. Beyond them, float32 has too few digits or none.
const (
	maxNorm = 1e18
	minNorm = 1e-15 // under Cosine
)

func invalid(format string, args ...any) error {
	return a2a.Errorf(a2a.CodeInvalid, "vector: "+format, args...)
}

func checkName(field, name string) error {
	if name == "" {
		return invalid("%s: must not be empty", field)
	}
	if rule := rules.Text(name, vector.MaxName); rule != "" {
		return invalid("%s: %s", field, rule)
	}
	return nil
}

// CheckOwner returns an error if an owner is not valid.
func CheckOwner(owner string) error { return checkName("owner", owner) }

// CheckKey returns the key with its default, or an error.
func CheckKey(k vector.Key) (vector.Key, error) {
	if k.Collection == "" {
		k.Collection = vector.DefaultCollection
	}
	if err := CheckOwner(k.Owner); err != nil {
		return k, err
	}
	return k, checkName("collection", k.Collection)
}

// CheckIDs returns the key with its default, or an error if it or one of up to [vector.MaxIDs] ids is not
// valid.
func CheckIDs(k vector.Key, ids []string) (vector.Key, error) {
	k, err := CheckKey(k)
	if err == nil && len(ids) > vector.MaxIDs {
		err = invalid("ids: are %d, limit is %d", len(ids), vector.MaxIDs)
	}
	for i := 0; i < len(ids) && err == nil; i++ {
		err = checkName(fmt.Sprintf("ids[%d]", i), ids[i])
	}
	return k, err
}

// CheckList returns the key and the params with their defaults, or an error.
func CheckList(k vector.Key, p vector.ListParams) (vector.Key, vector.ListParams, error) {
	k, err := CheckKey(k)
	if err != nil {
		return k, p, err
	}
	if rule := rules.Text(p.After, vector.MaxName); rule != "" {
		return k, p, invalid("after: %s", rule)
	}
	p.Limit, err = checkLimit(p.Limit)
	return k, p, err
}

func checkLimit(limit int) (int, error) {
	switch {
	case limit == 0:
		return vector.DefaultLimit, nil
	case limit < 0 || limit > vector.MaxLimit:
		return 0, invalid("limit: is %d, want 1 to %d", limit, vector.MaxLimit)
	}
	return limit, nil
}

// checkEmbedding checks what does not depend on the collection.
func checkEmbedding(field string, v []float32) error {
	if len(v) == 0 || len(v) > vector.MaxDimension {
		return invalid("%s: has %d components, want 1 to %d", field, len(v), vector.MaxDimension)
	}
	for i, c := range v {
		if math.IsNaN(float64(c)) || math.IsInf(float64(c), 0) {
			return invalid("%s[%d]: is %g, must be finite", field, i, c)
		}
	}
	if norm(v) > maxNorm {
		return invalid("%s: has a norm above %g", field, maxNorm)
	}
	return nil
}

// checkMetric checks an embedding for a metric.
func checkMetric(field string, v []float32, m vector.Metric) error {
	if m == vector.Cosine && norm(v) < minNorm {
		return invalid("%s: is the zero vector, which has no direction; metric cosine needs one", field)
	}
	return nil
}

func norm(v []float32) float64 {
	var sum float64
	for _, c := range v {
		sum += float64(c) * float64(c)
	}
	return math.Sqrt(sum)
}

// CheckSearch returns the key and the params with their defaults, or an error.
func CheckSearch(k vector.Key, p vector.SearchParams) (vector.Key, vector.SearchParams, error) {
	k, err := CheckKey(k)
	if err != nil {
		return k, p, err
	}
	switch {
	case len(p.Queries) == 0 || len(p.Queries) > vector.MaxQueries:
		return k, p, invalid("queries: are %d, want 1 to %d", len(p.Queries), vector.MaxQueries)
	case !slices.Contains([]vector.Mode{"", vector.ModeSemantic, vector.ModeLexical, vector.ModeHybrid}, p.Mode):
		return k, p, invalid("mode: %s is unknown, want semantic, lexical or hybrid", a2a.Quote(string(p.Mode)))
	case p.Offset < 0 || p.Offset > vector.MaxOffset:
		return k, p, invalid("offset: is %d, want 0 to %d", p.Offset, vector.MaxOffset)
	case p.MinScore != nil && math.IsNaN(*p.MinScore):
		return k, p, invalid("minScore: must be a number")
	}
	if p.Limit, err = checkLimit(p.Limit); err != nil {
		return k, p, err
	}
	for i, q := range p.Queries {
		if err := checkQuery(fmt.Sprintf("queries[%d]", i), p.Mode, q); err != nil {
			return k, p, err
		}
	}
	if err := p.Filter.Check(); err != nil {
		return k, p, filterError("filter", err)
	}
	if p.GroupBy != "" {
		err = filterError("groupBy", filter.Exists(p.GroupBy).Check())
	}
	return k, p, err
}

func checkQuery(field string, mode vector.Mode, q vector.Query) error {
	switch {
	case q.Text == "" && q.Embedding == nil, q.Text != "" && q.Embedding != nil && mode != vector.ModeHybrid:
		return invalid("%s: needs either an embedding or a text", field)
	case q.Embedding != nil:
		if err := checkEmbedding(field+".embedding", q.Embedding); err != nil {
			return err
		}
	}
	if rule := rules.Text(q.Text, vector.MaxText); rule != "" {
		return invalid("%s.text: %s", field, rule)
	}
	return nil
}

// filterError adds a code to an error of a filter.
func filterError(field string, err error) error {
	var e *filter.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Field != "" && field == "filter":
		return invalid("%s: %s: %s", field, e.Field, e.Rule)
	case e != nil:
		return invalid("%s: %s", field, e.Rule)
	}
	return invalid("%s: %v", field, err)
}

// checkDocument checks a document and returns it as stored.
func checkDocument(d *vector.Document) (Row, error) {
	r := Row{ID: d.ID, Text: d.Text, Blocks: string(d.Blocks), Embedding: d.Embedding}
	if rule := rules.Text(d.ID, vector.MaxName); rule != "" {
		return r, invalid("id: %s", rule)
	}
	if rule := rules.Text(d.Text, vector.MaxText); rule != "" {
		return r, invalid("text: %s", rule)
	}
	if len(d.Blocks) > vector.MaxBlocks {
		return r, invalid("blocks: has %d bytes, limit is %d", len(d.Blocks), vector.MaxBlocks)
	}
	if d.Blocks != nil && (!utf8.Valid(d.Blocks) || !json.Valid(d.Blocks) || bytes.TrimLeft(d.Blocks, " \t\r\n")[0] != '[') {
		return r, invalid("blocks: must be a JSON array in UTF-8")
	}
	if d.Embedding != nil {
		if err := checkEmbedding("embedding", d.Embedding); err != nil {
			return r, err
		}
	}
	var err error
	if r.Metadata, err = jsonobject.Encode(d.Metadata, vector.MaxMetadata, vector.MaxMetadataDepth); err != nil {
		return r, invalid("metadata: %v", err)
	}
	return r, nil
}
