-- Search of documents by words

-- terms are those of memory_facts.terms, and start with a hash of the collection.
ALTER TABLE {s}.vector_documents ADD COLUMN terms tsvector;
