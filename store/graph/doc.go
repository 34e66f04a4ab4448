// Package graph defines the contract for knowledge graphs: entities, and labeled relationships
// between them. The package does no I/O. Authors of stores use package graphdriver, too.
//
// # Concepts
//
// A graph belongs to an owner ([Key]). It has entities ([Entity]) and directed relationships
// ([Relationship]). Relationships connect entities of one graph. Its first entity creates a graph.
//
// Two times belong to a relationship. The interval from ValidFrom to ValidTo is when it is true in the
// world. RecordedAt and ReplacedAt are when the store knew that. Each change adds a version, so a
// read can ask what was true at a time ([Moment.AsOf]), and what was known at a time
// ([Moment.KnownAt]). Reads select what is true and known now, unless they state otherwise. Entities
// have no versions.
//
// To replace a relationship by another one that is true from now on, end the first and add the
// second in one batch; see [Supersede].
//
// [Store] is the part that every store has. [Historian], [Lister], [Forgetter], [Restorer] and
// [Transactional] are optional; [Complete] has all of them. [CypherCapable] stores execute
// queries in openCypher; package cypher executes them on all other stores.
//
// # Walks
//
// [Reader.Neighbors] walks relationships in both directions, unless [Walk.Direction] selects one.
// It returns the entities at a shortest distance of at most Depth, each once, the starts included,
// and the relationships that it met when it left entities at a distance below Depth, each once.
// Relationships that connect the same entities are different if their ids are. Cycles do not
// matter. Conditions apply during the walk: what is excluded is not passed.
//
// # Guarantees
//
//   - A write is applied as a whole or not at all. Reads that start afterwards find it.
//   - Each relationship of a result has both ends in it.
//   - No relationship refers to an entity that does not exist.
//   - A call never finds or changes data of another owner or graph.
//   - Results are ordered, and equal for equal data. A walk is not a snapshot: it may see some of the
//     writes that are made while it runs.
//   - Stores share no memory with their callers.
//
// # Concurrency
//
// All methods of a store are safe for concurrent use.
//
// # Errors
//
// Invalid params get an error with code invalid_params that names the field and the rule. Errors of
// the backend have the codes unavailable, exhausted or internal. If the context of a call is done,
// the call returns the context's error.
package graph
