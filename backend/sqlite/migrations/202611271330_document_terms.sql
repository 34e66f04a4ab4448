-- Search of documents by words

-- The terms of documents, by vector_documents.pk. They are those of memory_index, and start with a hash
-- of the collection.
CREATE VIRTUAL TABLE vector_index USING fts5(terms, content='', contentless_delete=1, tokenize="ascii tokenchars '_'");
