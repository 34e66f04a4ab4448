// Package rag finds the passages of documents that answer a question, for agents that give them to a
// model or quote them (retrieval-augmented generation).
//
// An [Index] splits documents into chunks that end with a sentence, stores them in a collection of
// documents (package vector), and returns the best chunks for a question as citations: the document,
// the range of its text, and the text itself. It finds chunks by words and, if the collection has
// embeddings, by meaning.
//
// In a handler, use the collection of the turn, so that a document is indexed exactly once whatever
// interrupts the turn:
//
//	index, err := rag.New(t.Documents("manuals"), rag.Config{})
//	...
//	_, err = index.Add(ctx, rag.Document{ID: "pump.pdf", Title: "Pump", Text: text})
//	...
//	found, err := index.Search(ctx, question, rag.SearchParams{})
//
// Elsewhere, use [In] with a store.
//
// # Guarantees
//
//   - Add is one write: a search finds all chunks of one version of a document, or none.
//   - Ids of chunks follow from the id of the document and their number. So a document that is
//     added again replaces the previous version, and no chunk of it remains.
//   - A document that has not changed is not embedded again.
//
// # Errors
//
// Invalid arguments get an error with code invalid_params that names the field and the rule. Other
// errors come from the collection, such as a [vector.MismatchError] after a change of the embedder.
package rag
