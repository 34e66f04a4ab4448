// Package cypher executes queries in openCypher on the graphs of package graph.
//
// # Concepts
//
// A handler calls [Query] with a graph of its turn:
//
//	found, err := cypher.Query(ctx, t.Graph(""), graph.CypherParams{Query: "MATCH (p:Person) RETURN p.name"})
//
// [Execute] executes a query on a store. Both need only what every store of graphs has, so nothing else imports this
// package: a program that does not call it does not link it.
//
// [Parse] checks a text and returns a [Statement]. [Statement.Run] executes it on a [Graph], the part of a
// graph that it reads. [Statement.AGE] returns the text of the query for Apache AGE.
//
// The language is a part of openCypher that only reads: MATCH, OPTIONAL MATCH, WHERE, WITH, UNWIND,
// RETURN, ORDER BY, SKIP, LIMIT, UNION, with expressions, aggregates and functions. docs/memory.md
// lists them. The rest is rejected by name, with its position.
//
// # Limits
//
// A query counts steps: one for each entity, relationship, row and value that it visits, and one
// for each 16 bytes of text. It ends with [graph.ErrBudget] when it has used its steps or its time. So
// the memory of a query is limited by its steps too.
//
// # Errors
//
// A text that is malformed or not supported gets a [graph.CypherError], as does an operator with a
// value of a wrong type. Errors of the graph are returned as they are.
package cypher
