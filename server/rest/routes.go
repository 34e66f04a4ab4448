package rest

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// Route is the route of a method.
type Route struct {
	// HTTPMethod and Pattern are the method and the pattern for the router.
	HTTPMethod, Pattern string
	// Serve responds to a request. The PathValue of the request must be set.
	Serve func(x *exchange.Exchange)
}

// endpoint is a method as a route serves it.
type endpoint struct {
	name string // the name of the method in the codec
	path []string
	// query has the kinds of the params by their names, which are also the names of query
	// parameters.
	query map[string]reflect.Kind
}

// Routes returns the routes of all methods, each also under Base, and with a tenant if the handler has Tenants. Streams
// that only read can be requested with GET too. Routes returns an error if a variable of a path is not a param of the
// method.
func (h *Handler) Routes(methods []a2a.Method) (routes []Route, err error) {
	for i := range methods {
		m := &methods[i]
		path := h.Codec.Path(m)
		if path == "" {
			continue
		}
		e := &endpoint{name: h.Codec.MethodName(m), path: variables(path)}
		if params := h.Table.Params(e.name); params != nil {
			e.query = h.Codec.Members(params)
		}
		for _, name := range e.path {
			if _, known := e.query[name]; !known && m.Off == "" {
				err = errors.Join(err, fmt.Errorf("method %s: the path %s has a variable that is not a param", m.Name, path))
			}
		}
		verbs := []string{m.HTTPMethod}
		if m.Streaming && m.Idempotent && m.HTTPMethod != http.MethodGet {
			verbs = append(verbs, http.MethodGet)
		}
		for _, verb := range verbs {
			serve := func(x *exchange.Exchange) { h.serve(x, e) }
			routes = append(routes, Route{verb, path, serve})
			if h.Base != "" {
				routes = append(routes, Route{verb, h.Base + path, serve})
			}
			if h.Tenants {
				routes = append(routes, Route{verb, "/{tenant}" + path, serve})
			}
		}
		h.addRoot(path)
	}
	return routes, err
}

// addRoot adds the first segment of a pattern to the first segments of the binding.
func (h *Handler) addRoot(path string) {
	root := firstSegment(path)
	if !slices.Contains(h.roots, root) {
		h.roots = append(h.roots, root)
	}
}

// Owns reports whether a path starts like a route of the binding, with or without a tenant, or is
// under Base.
func (h *Handler) Owns(path string) bool {
	if h.Base != "" && strings.HasPrefix(path+"/", h.Base+"/") {
		return true
	}
	_, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains(h.roots, firstSegment(path)) || h.Tenants && slices.Contains(h.roots, firstSegment(rest))
}

// firstSegment returns the first segment of a path without a verb.
func firstSegment(path string) string {
	segment, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	segment, _, _ = strings.Cut(segment, ":")
	return segment
}

// variables returns the names of the variables of a pattern.
func variables(pattern string) (names []string) {
	for segment := range strings.SplitSeq(pattern, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name, _, _ = strings.Cut(name, "}")
			names = append(names, name)
		}
	}
	return names
}
