// Package blobdriver implements stores of blobs over two parts that a backend provides, as package
// database/sql does over a driver. Users of stores do not need it, except to combine the rows of one
// backend with the contents of another.
//
// # Implementing a store
//
//   - [Refs] keeps rows in transactions ([Tx]): refs, contents and the usage of owners.
//   - [Contents] keeps the bytes of large contents. It is not needed if all contents are inline.
//
// [New] returns a [blob.Store] over them. Every rule is in [Blobs], so all backends have the same rules:
// Refs and Contents check and decide nothing. Refs may implement [TransactionalRefs], so that the
// effects of [blob.Transactional] are possible.
//
// Run the suite of package blobtest against the store.
//
// All types are safe for concurrent use.
package blobdriver
