// Package contract is the seam between the server and the contracts: the kinds of data that agents
// keep besides tasks, such as facts or transcripts.
//
// # Concepts
//
// A [Kind] describes a contract. A [Store] is an opened store of its data. The engine, exports,
// imports and commands know only these two, and what a store implements besides: [Sweeper],
// [Remover], [Clearer]. Package all has the list of all kinds.
//
// A contract is one folder, such as store/memory with its sub-packages, and one line in package
// all.
//
// # Concurrency
//
// All methods of a [Store] are safe for concurrent use. A [Scanner] and an [Importer] are used by
// one goroutine.
package contract
