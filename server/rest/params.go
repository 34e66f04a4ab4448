package rest

import (
	"bytes"
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// given are the JSON of params that the URL has, with different names.
type given []struct {
	name  string
	value []byte
}

// of returns the value of a param, nil if it is not given.
func (g given) of(name string) []byte {
	for i := range g {
		if g[i].name == name {
			return g[i].value
		}
	}
	return nil
}

// params returns the JSON of a method's params: body itself, or a copy with the variables of
// the path and the query parameters.
func (e *endpoint) params(x *exchange.Exchange, body []byte) ([]byte, error) {
	fromURL, err := e.given(x)
	if err != nil {
		return nil, err
	}
	if body = bytes.TrimSpace(body); len(body) == 0 {
		body = []byte("{}")
	}
	if len(fromURL) == 0 {
		return body, checkBody(wire.Members(body, func(_, _ []byte) error { return nil }))
	}
	if len(body) > len("{}") {
		if err := x.Body.Grow(x.Request.Context(), int64(len(body))); err != nil {
			return nil, err
		}
	}
	out := make([]byte, 0, len(body)+64*len(fromURL))
	add := func(name string, value []byte) {
		out = append(append(wire.AppendString(append(out, ','), name), ':'), value...)
	}
	err = wire.Members(body, func(name, value []byte) error {
		camel := wire.Camel(string(name))
		if other := fromURL.of(camel); other == nil {
			add(string(name), value)
		} else if !equal(value, other) {
			return a2a.Invalid(camel, "differs between the URL and the body")
		}
		return nil
	})
	if err != nil {
		return nil, checkBody(err)
	}
	for _, param := range fromURL {
		add(param.name, param.value)
	}
	out[0] = '{'
	return append(out, '}'), nil
}

// checkBody returns the error for a body that is not a JSON object; other errors remain.
func checkBody(err error) error {
	var w *wire.Error
	switch {
	case errors.As(err, &w) && w.Syntax:
		return a2a.Errorf(a2a.CodeParse, "the body is %s", w.Rule)
	case errors.As(err, &w) && w.Path == "":
		return a2a.Errorf(a2a.CodeInvalid, "the body %s", w.Rule)
	}
	return err
}

// given returns the params that the URL has.
func (e *endpoint) given(x *exchange.Exchange) (all given, err error) {
	if len(e.path) > 0 {
		all = make(given, 0, len(e.path)+2)
	}
	add := func(name string, value []byte) {
		all = append(all, struct {
			name  string
			value []byte
		}{name, value})
	}
	if x.Request.URL.RawQuery != "" {
		query, err := e.queryOf(x.Request.URL.RawQuery)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(query)) {
			value, err := appendQuery(name, query[name], e.query[name])
			if err != nil {
				return nil, err
			}
			add(name, value)
		}
	}
	for _, name := range e.path {
		value := wire.AppendString(nil, x.PathValue(name))
		if other := all.of(name); other == nil {
			add(name, value)
		} else if !equal(value, other) {
			return nil, a2a.Invalid(name, "differs between the path and the query")
		}
	}
	return all, nil
}

// queryOf returns the values of the query parameters that are params, by their names in camelCase.
func (e *endpoint) queryOf(raw string) (map[string][]string, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, a2a.Errorf(a2a.CodeInvalidRequest, "the query is not valid: %v", err)
	}
	query := make(map[string][]string, len(values))
	for name, v := range values {
		camel := wire.Camel(name)
		if _, known := e.query[camel]; known && (len(v) > 1 || v[0] != "") {
			query[camel] = append(query[camel], v...)
		}
	}
	return query, nil
}

// appendQuery returns the JSON of the values of a query parameter. The codec accepts numbers as
// strings.
func appendQuery(name string, values []string, kind reflect.Kind) (out []byte, err error) {
	if kind == reflect.Slice {
		for _, list := range values {
			for value := range strings.SplitSeq(list, ",") {
				out = wire.AppendString(append(out, ','), value)
			}
		}
		out[0] = '['
		return append(out, ']'), nil
	}
	if len(values) > 1 {
		return nil, a2a.Invalid(name, "must have one value, not %d", len(values))
	}
	value := values[0]
	switch {
	case kind == reflect.Bool && (value == "true" || value == "false"):
		return []byte(value), nil
	case kind == reflect.Map || kind == reflect.Struct && strings.HasPrefix(value, "{"):
		if wire.Valid([]byte(value)) != nil {
			return nil, a2a.Invalid(name, "must be a JSON object")
		}
		return []byte(value), nil
	}
	return wire.AppendString(nil, value), nil
}

// equal reports whether two JSON values are the same string.
func equal(a, b []byte) bool {
	var x, y string
	return wire.Unmarshal(a, &x) == nil && wire.Unmarshal(b, &y) == nil && x == y
}
