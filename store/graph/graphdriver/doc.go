// Package graphdriver helps to implement a store of graphs, as package database/sql/driver does for
// databases. Users of stores do not need it.
//
// # Implementing a store
//
// A store implements [graph.Store], and any of its optional interfaces. It keeps rows with encoded
// properties ([EntityRow], [RelationshipRow]). Its methods call these functions, so that all stores
// accept the same params and return the same results:
//
//   - The methods that read check their params with the function for them, such as [CheckNeighbors],
//     which returns them with their defaults.
//   - Write checks and encodes a batch with [NewWrite]. For a relationship that exists, [NextVersion]
//     and [Ended] return the version to add. [Write.Result] is the result.
//   - Restore checks and encodes its arguments with [NewRestored].
//   - A walk asks [Selects] which versions of relationships it passes. Package graphwalk searches by
//     levels, so that a store only reads rows.
//
// Run the suite of package graphtest against the store.
//
// The functions do no I/O and are safe for concurrent use.
package graphdriver
