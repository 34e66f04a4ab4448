// Package vectordriver helps to implement a store of documents, as package database/sql/driver does
// for databases. Users of stores do not need it.
//
// # Implementing a store
//
// A store implements vector.Store, and any of its optional interfaces. It keeps collections
// ([vector.Collection]) and documents with encoded metadata ([Row]). Its methods call these
// functions, so that all stores accept the same params and return the same results:
//
//   - Add and Upsert check and encode documents with [NewWrite]. [Write.Embed] computes the
//     embeddings that documents lack, before the transaction. In it, [Write.Admit] compares the write
//     with the collection and returns the collection to store.
//   - Get and Delete check ids with [CheckIDs]. [Row.Document] is the document to return.
//   - Search checks its params with [CheckSearch]. [Plans] returns the mode and the embedding of each
//     query. The store passes documents in the order of their ranks to a [Collector] per query, which
//     applies offset, groups, the minimum score and the filter.
//
// Run the suite of package vectortest against the store.
//
// Only Write.Embed and Plans do I/O: they call the embedder.
package vectordriver
