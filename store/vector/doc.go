// Package vector defines the contract for documents that are found by meaning: by the similarity of
// their embeddings to the embedding of a query. The package does no I/O.
// Authors of stores use package vectordriver, too.
//
// # Concepts
//
// A collection belongs to an owner ([Key]) and holds documents ([Document]). Its first write
// creates it and fixes its [Metric], dimension and embedder, the model that makes its embeddings.
// Writes and queries that differ from them get a [MismatchError].
//
// An [Embedder] computes embeddings. A store with an embedder embeds the text of documents that
// have no embedding, and the text of queries. A collection is lexical if its first documents have
// neither an embedding nor an embedder: it has the dimension 0, no embeddings, and finds documents
// by their words only.
//
// [Store] is the part that every store has. [Lister], [Forgetter] and [Transactional] are optional.
// The stores of this project implement them.
//
// # Search
//
// Search returns the documents that are closest to each query, by falling score. Documents with
// the same score are ordered by id. A filter applies before documents are ranked: a search returns
// fewer documents than its limit only if no more of them match.
//
// Small collections are compared completely. In large ones an approximate search may miss a few of
// the closest documents; [SearchParams.Exact] compares all of them.
//
// [SearchParams.Mode] selects how a query with a text is ranked. [ModeHybrid] ranks documents by words and by
// embeddings, and fuses the ranks: that finds names and codes which a model does not know, and other words
// with the same meaning.
//
// By default, a query with a text is embedded. If the store has no embedder or the collection is lexical,
// documents are ranked by their words, and [Results.Mode] is [ModeLexical]. A word that no document
// contains is compared with the words of documents by trigrams. An index has up to 16,384 different words
// of each document. In a large collection, a search of common words ranks some of the documents that have
// them; with a filter, it ranks all that match.
//
// # Guarantees
//
//   - A write stores all of its documents or none. Searches that start afterwards find them.
//   - Embeddings and blocks are returned as they were stored.
//   - A call never finds or changes data of another owner or collection.
//   - Stores share no memory with their callers.
//
// # Concurrency
//
// All methods of a store are safe for concurrent use.
//
// # Errors
//
// Invalid params get an error with code invalid_params that names the field and the rule. Errors of
// the backend have the codes unavailable, exhausted or internal. If an embedder fails, an
// [EmbedderError] is returned and nothing is written. If the context of a call is done, the call
// returns the context's error.
package vector
