-- migrate: compatible with 202611221300
-- Blobs. Times are milliseconds since 1970-01-01 UTC; 0 means no time.

-- The usage of an owner, for quotas. The version has a meaning in PostgreSQL only. There is no row for an owner without blobs.
CREATE TABLE blob_owners (
  owner TEXT NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL,
  blobs INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) WITHOUT ROWID;

-- One row per ref. expires_at is 0 while the blob is pinned. holders are the names of those who
-- pinned it, one per line.
CREATE TABLE blob_refs (
  owner           TEXT NOT NULL,
  ref             TEXT NOT NULL,
  digest          BLOB NOT NULL,
  size            INTEGER NOT NULL,
  content_type    TEXT NOT NULL,
  name            TEXT NOT NULL,
  created_at      INTEGER NOT NULL,
  expires_at      INTEGER NOT NULL,
  ttl             INTEGER NOT NULL,
  holders         TEXT NOT NULL,
  idempotency_key TEXT,
  PRIMARY KEY (owner, ref)
);
CREATE UNIQUE INDEX blob_refs_key ON blob_refs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX blob_refs_expires ON blob_refs (expires_at) WHERE expires_at > 0;

-- The contents of an owner by their SHA-256. object names the bytes: rows of blob_chunks if they
-- are inline, otherwise a file or an object. refs counts rows of blob_refs.
CREATE TABLE blob_contents (
  owner    TEXT NOT NULL,
  digest   BLOB NOT NULL,
  size     INTEGER NOT NULL,
  object   TEXT NOT NULL,
  inline   INTEGER NOT NULL,
  refs     INTEGER NOT NULL,
  freed_at INTEGER NOT NULL,
  PRIMARY KEY (owner, digest)
) WITHOUT ROWID;
CREATE INDEX blob_contents_object ON blob_contents (object);
CREATE INDEX blob_contents_freed ON blob_contents (freed_at) WHERE refs = 0;

-- The bytes of contents. n is 0 for inline content; the rows of large contents count from 1.
CREATE TABLE blob_chunks (
  owner  TEXT NOT NULL,
  object TEXT NOT NULL,
  n      INTEGER NOT NULL,
  data   BLOB NOT NULL,
  PRIMARY KEY (owner, object, n)
);
CREATE INDEX blob_chunks_object ON blob_chunks (owner, object) WHERE n = 1;
