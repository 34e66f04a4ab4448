-- migrate: compatible with 202611221300

-- Documents with embeddings (store/vector)

-- One row per collection. id is a random number that documents and snapshots refer to. seq is the
-- sequence of the last write of a document, removed the number of removed documents, and documents the
-- number of existing documents. snapshot is the number of the snapshot of the index, 0 if there is none.
CREATE TABLE vector_collections (
  owner     TEXT NOT NULL,
  name      TEXT NOT NULL,
  id        INTEGER NOT NULL,
  metric    TEXT NOT NULL,
  dimension INTEGER NOT NULL,
  embedder  TEXT NOT NULL,
  seq       INTEGER NOT NULL,
  removed   INTEGER NOT NULL,
  documents INTEGER NOT NULL,
  snapshot  INTEGER NOT NULL,
  PRIMARY KEY (owner, name)
) WITHOUT ROWID;

-- One row per document. embedding has the components as float32, little-endian. It is the last
-- column, so that reads of the others do not read it.
CREATE TABLE vector_documents (
  pk         INTEGER PRIMARY KEY,
  owner      TEXT NOT NULL,
  collection INTEGER NOT NULL,
  id         TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  metadata   TEXT NOT NULL,
  text       TEXT NOT NULL,
  blocks     TEXT NOT NULL,
  embedding  BLOB NOT NULL,
  UNIQUE (owner, collection, id)
);
CREATE UNIQUE INDEX vector_documents_seq ON vector_documents (owner, collection, seq);

-- Parts of snapshots of indexes (store/vector/ann). If a part belongs to another snapshot than its
-- collection names, it is incomplete or obsolete.
CREATE TABLE vector_snapshots (
  pk         INTEGER PRIMARY KEY,
  owner      TEXT NOT NULL,
  collection INTEGER NOT NULL,
  snapshot   INTEGER NOT NULL,
  part       INTEGER NOT NULL,
  data       BLOB NOT NULL,
  UNIQUE (owner, collection, snapshot, part)
);

-- Ids of deleted collections that have rows left to remove.
CREATE TABLE vector_deleted (
  owner TEXT NOT NULL,
  id    INTEGER NOT NULL,
  PRIMARY KEY (owner, id)
) WITHOUT ROWID;

-- The terms of documents, by vector_documents.pk. They are like the terms of memory_index, but start
-- with a hash of the collection.
CREATE VIRTUAL TABLE vector_index USING fts5(terms, content='', contentless_delete=1, tokenize="ascii tokenchars '_'");
