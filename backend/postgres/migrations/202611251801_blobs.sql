-- migrate: compatible with 202611221300
-- Blobs. Times are milliseconds since 1970-01-01 UTC; 0 means no time.

-- The usage of an owner, for quotas. Each change of the owner's blobs gives the row a new random version, by
-- which a change that was planned before is noticed. There is no row for an owner without blobs.
CREATE TABLE {s}.blob_owners (
  owner text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  blobs bigint NOT NULL,
  bytes bigint NOT NULL,
  PRIMARY KEY (owner)
) WITH (fillfactor = 50);

-- One row per ref. expires_at is 0 while the blob is pinned. holders are the names of those who
-- pinned it, one per line.
CREATE TABLE {s}.blob_refs (
  owner           text COLLATE "C" NOT NULL,
  ref             text COLLATE "C" NOT NULL,
  digest          bytea NOT NULL,
  size            bigint NOT NULL,
  content_type    text NOT NULL,
  name            text NOT NULL,
  created_at      bigint NOT NULL,
  expires_at      bigint NOT NULL,
  ttl             bigint NOT NULL,
  holders         text NOT NULL,
  idempotency_key text COLLATE "C",
  PRIMARY KEY (owner, ref)
);
CREATE UNIQUE INDEX blob_refs_key ON {s}.blob_refs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX blob_refs_expires ON {s}.blob_refs (expires_at) WHERE expires_at > 0;

-- The contents of an owner by their SHA-256. object names the bytes: rows of blob_chunks, or an
-- object of another system. refs counts rows of blob_refs.
CREATE TABLE {s}.blob_contents (
  owner    text COLLATE "C" NOT NULL,
  digest   bytea NOT NULL,
  size     bigint NOT NULL,
  object   text COLLATE "C" NOT NULL,
  inline   boolean NOT NULL,
  refs     bigint NOT NULL,
  freed_at bigint NOT NULL,
  PRIMARY KEY (owner, digest)
);
CREATE INDEX blob_contents_object ON {s}.blob_contents (object);
CREATE INDEX blob_contents_freed ON {s}.blob_contents (freed_at) WHERE refs = 0;

-- The bytes of contents. n is 0 for inline content; the rows of large contents count from 1.
CREATE TABLE {s}.blob_chunks (
  owner  text COLLATE "C" NOT NULL,
  object text COLLATE "C" NOT NULL,
  n      bigint NOT NULL,
  data   bytea NOT NULL,
  PRIMARY KEY (owner, object, n)
);
ALTER TABLE {s}.blob_chunks ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX blob_chunks_object ON {s}.blob_chunks (owner, object) WHERE n = 1;
