-- Search of documents by words

-- The terms of documents, by vector_documents.pk. They are those of memory_index, and start with a hash
-- of the collection.
CREATE VIRTUAL TABLE vector_index USING fts5(terms, content='', contentless_delete=1, tokenize="ascii tokenchars '_'");

-- terms_after is the id up to which the documents of a collection from before this migration have
-- terms, null if all have. The first search by words adds them.
ALTER TABLE vector_collections ADD COLUMN terms_after TEXT DEFAULT '';
