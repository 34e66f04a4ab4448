-- Documents with embeddings. {v} is the schema of the extension pgvector.

CREATE EXTENSION IF NOT EXISTS vector;

-- One row per collection. indexed is the type of the vectors in its index, '' if it has none:
-- then searches compare all documents.
CREATE TABLE {s}.vector_collections (
  owner     text COLLATE "C" NOT NULL,
  name      text COLLATE "C" NOT NULL,
  id        bigint NOT NULL,
  metric    text NOT NULL,
  dimension bigint NOT NULL,
  embedder  text NOT NULL,
  documents bigint NOT NULL,
  indexed   text NOT NULL
);
CREATE UNIQUE INDEX vector_collections_name ON {s}.vector_collections (owner, name);

-- attributes are the metadata as filters read it: with canonical numbers, and without the
-- character NUL. terms are like memory_facts.terms, but start with a hash of the collection.
CREATE TABLE {s}.vector_documents (
  owner      text COLLATE "C" NOT NULL,
  collection bigint NOT NULL,
  id         text COLLATE "C" NOT NULL,
  metadata   text NOT NULL,
  attributes jsonb NOT NULL,
  text       text NOT NULL,
  blocks     text NOT NULL,
  embedding  {v}.vector,
  terms      tsvector
);
CREATE UNIQUE INDEX vector_documents_id ON {s}.vector_documents (owner, collection, id);
CREATE INDEX vector_documents_terms ON {s}.vector_documents USING gin (terms) WITH (fastupdate = off);
-- Keep embeddings in the rows as long as they fit, since a search reads many.
ALTER TABLE {s}.vector_documents ALTER COLUMN embedding SET STORAGE MAIN;

-- Deleted collections that have documents or indexes left to remove.
CREATE TABLE {s}.vector_deleted (
  owner text COLLATE "C" NOT NULL,
  id    bigint NOT NULL
);
CREATE UNIQUE INDEX vector_deleted_id ON {s}.vector_deleted (owner, id);
