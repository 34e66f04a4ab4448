// Package router finds the handler of an HTTP request by its path and method.
//
// A path is a sequence of segments. A pattern has literal segments and variables:
//
//	/v1/tasks/{id}:cancel
//	/{tenant}/tasks
//
// [http.ServeMux] does not suffice for the paths of A2A: custom verbs follow a variable within
// one segment (A2A 0.3 section 3.5.3, A2A 1.0 section 11.3), and each path of 1.0 may follow a
// tenant (the additional bindings of its google.api.http options).
//
// # Guarantees
//
//   - A segment is percent-decoded once, after the path is split. A value contains a slash or a
//     verb's colon only if the client encoded it.
//   - A verb that a pattern has at that position is never part of a value.
//   - A literal segment precedes a variable, and a path is matched without backtracking. So the
//     first segments of other patterns, and names passed to [Router.Reserve], are not tenants.
//   - Variables do not match empty segments. Paths are not cleaned: "//" and ".." have no
//     special meaning.
//   - Matching a path without percent-encoded characters does not allocate memory.
package router

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// maxVars is the maximum number of variables of a pattern.
const maxVars = 4

// Router maps paths and methods to values. The zero Router has no routes. It is safe for
// concurrent use after the last call of Handle and Reserve.
type Router[T any] struct{ root node[T] }

// node is the position after a segment or a verb.
type node[T any] struct {
	literals map[string]*node[T]
	variable *node[T]
	verbs    map[string]*node[T]
	routes   []route[T]
	allow    string
}

type route[T any] struct {
	method string
	vars   []string
	value  T
}

// Match is the result of [Router.Match].
type Match[T any] struct {
	// Value is the value of the route, zero if there is no route.
	Value T
	// Allow has the methods of the path for the header Allow, "" if the path has no routes.
	Allow string

	vars   []string
	values [maxVars]string
}

// Var returns the decoded value of a variable of the pattern, "" if it has no such variable.
func (m *Match[T]) Var(name string) string {
	if i := slices.Index(m.vars, name); i >= 0 {
		return m.values[i]
	}
	return ""
}

// Handle adds a route. A route for GET also matches HEAD. Handle panics if the pattern is
// invalid or the route exists.
func (r *Router[T]) Handle(method, pattern string, value T) {
	n, vars := r.node(pattern)
	if slices.ContainsFunc(n.routes, func(r route[T]) bool { return r.method == method }) {
		panic(fmt.Sprintf("router: %s %s has two routes", method, pattern))
	}
	n.routes = append(n.routes, route[T]{method, vars, value})
	if n.allow != "" {
		n.allow += ", "
	}
	n.allow += method
	if method == http.MethodGet {
		n.allow += ", " + http.MethodHead
	}
}

// Reserve adds a path without routes, so that its last segment is not a value of a variable.
func (r *Router[T]) Reserve(path string) { r.node(path) }

// Reserved reports whether a name is the first segment of a pattern, so that it is no value of a
// variable.
func (r *Router[T]) Reserved(name string) bool { return r.root.literals[name] != nil }

// node returns the node of a pattern, and the pattern's variables.
func (r *Router[T]) node(pattern string) (n *node[T], vars []string) {
	rest, ok := strings.CutPrefix(pattern, "/")
	if !ok {
		panic(fmt.Sprintf("router: pattern %q has no leading slash", pattern))
	}
	n = &r.root
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		segment, verb, hasVerb := strings.Cut(segment, ":")
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			vars = append(vars, strings.TrimSuffix(name, "}"))
			if n.variable == nil {
				n.variable = new(node[T])
			}
			n = n.variable
		} else {
			n = child(&n.literals, segment)
		}
		if hasVerb {
			n = child(&n.verbs, verb)
		}
		if hasVerb && more || len(vars) > maxVars {
			panic(fmt.Sprintf("router: pattern %q has a verb before its last segment or more than %d variables", pattern, maxVars))
		}
	}
	return n, vars
}

func child[T any](children *map[string]*node[T], name string) *node[T] {
	if *children == nil {
		*children = make(map[string]*node[T])
	}
	if (*children)[name] == nil {
		(*children)[name] = new(node[T])
	}
	return (*children)[name]
}

// Match returns the route of a request.
func (r *Router[T]) Match(method string, u *url.URL) (m Match[T]) {
	rest, ok := strings.CutPrefix(u.EscapedPath(), "/")
	if !ok {
		return m
	}
	n, count := &r.root, 0
	for more := true; more && n != nil; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		next, value := n.next(segment, !more)
		if next != nil && value != "" {
			m.values[count] = value
			count++
		}
		n = next
	}
	if n == nil {
		return m
	}
	m.Allow = n.allow
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range n.routes {
		if n.routes[i].method == method {
			m.Value, m.vars = n.routes[i].value, n.routes[i].vars
		}
	}
	return m
}

// next returns the node after an encoded segment, nil if there is none, and the value of the
// variable that matched, "" if it was a literal.
func (n *node[T]) next(segment string, last bool) (next *node[T], value string) {
	if i := strings.LastIndexByte(segment, ':'); last && i >= 0 {
		if next, value = n.step(segment[:i]); next != nil && next.verbs[segment[i+1:]] != nil {
			return next.verbs[segment[i+1:]], value
		}
	}
	return n.step(segment)
}

func (n *node[T]) step(segment string) (next *node[T], value string) {
	name := segment
	if strings.IndexByte(segment, '%') >= 0 {
		name, _ = url.PathUnescape(segment) // EscapedPath returns valid escapes only
	}
	if next = n.literals[name]; next != nil || name == "" {
		return next, ""
	}
	return n.variable, name
}
