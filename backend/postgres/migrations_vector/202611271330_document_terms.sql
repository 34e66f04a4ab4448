-- Search of documents by words

-- terms are those of memory_facts.terms, and start with a hash of the collection. terms_after is the id
-- up to which the documents of a collection from before this migration have terms, null if all have.
-- The first search by words adds them.
ALTER TABLE {s}.vector_documents ADD COLUMN terms tsvector;
ALTER TABLE {s}.vector_collections ADD COLUMN terms_after text COLLATE "C" DEFAULT '';
