-- migrate: without transaction

CREATE INDEX CONCURRENTLY vector_documents_terms ON {s}.vector_documents USING gin (terms) WITH (fastupdate = off);
