// Package ann finds the nearest neighbors of vectors in memory. It knows no store.
//
// # Concepts
//
// An [Index] maps ids to vectors of one dimension under one [Metric]. It keeps a code of 8 bits
// per component and ranks by codes, then computes the scores of the best candidates from the
// float32 vectors. Up to [Config].GraphAt vectors it scans all codes; beyond, it links them in a
// graph (HNSW), which it builds and walks on codes. Vectors that are not linked yet are scanned.
//
// A filter is applied before or during the search: few selected vectors are scanned, and a walk
// collects selected vectors only. A search returns fewer than the limit only if no more vectors
// are selected.
//
// Removed vectors stay in the graph as waypoints. When they are more than a fifth of it, each
// change also relinks some of their neighbors, until their rows can be used again.
//
// # Memory
//
// A vector needs a byte per component, 100 bytes for its links, its id and about 27 bytes. Except for two
// bytes a vector, this memory is outside of the Go heap on Linux, macOS and FreeBSD if the index has more
// than some hundred vectors: the garbage collector neither reads it nor lets the heap grow in proportion to
// it. [Index.Bytes] counts all of it.
//
// # Guarantees
//
//   - Results are ordered by falling score, then by id.
//   - The graph depends on the order of changes, not on the number of CPUs.
//   - A result satisfies the filter, and its score is the score of its vector.
//
// # Concurrency
//
// All methods are safe for concurrent use. Changes exclude each other; searches continue while a
// change looks for neighbors and wait only while it writes them.
package ann
