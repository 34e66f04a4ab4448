-- migrate: compatible with 202611221300

-- Long-term memory

-- One row per version of a fact. head is 1 for the newest one. replaced_at is when a newer
-- version replaced this one, 0 if none did: then it is valid from valid_from until before
-- valid_to. A time without bound is the smallest or greatest integer. All versions of a fact
-- have the same expires_at. words is the number of words of the content: long facts rank lower.
--
-- entities is a JSON array of names. model is the model of the embedding, with its dimension, '' if
-- the fact has none yet. embedding has the components as float32, little-endian; it is null for a
-- content that the model rejects and for replaced versions. It is the last column, so that reads of
-- the others do not read it.
CREATE TABLE memory_facts (
  pk          INTEGER PRIMARY KEY,
  owner       TEXT NOT NULL,
  agent       TEXT NOT NULL,
  namespace   TEXT NOT NULL,
  id          TEXT NOT NULL,
  version     INTEGER NOT NULL,
  head        INTEGER NOT NULL,
  key         TEXT NOT NULL,
  content     TEXT NOT NULL,
  words       INTEGER NOT NULL,
  metadata    TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  replaced_at INTEGER NOT NULL,
  valid_from  INTEGER NOT NULL,
  valid_to    INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  entities    TEXT NOT NULL,
  model       TEXT NOT NULL,
  embedding   BLOB,
  UNIQUE (owner, agent, namespace, id, version)
);
-- A search by meaning reads which versions of a scope exist, without their rows, which contain the
-- embeddings.
CREATE INDEX memory_facts_recent ON memory_facts (owner, agent, namespace, updated_at DESC, id DESC, version, model, valid_from, valid_to, expires_at, words) WHERE replaced_at = 0;
CREATE INDEX memory_facts_expiry ON memory_facts (expires_at) WHERE head = 1 AND expires_at < 9223372036854775807;
-- Facts that have no embedding of the present model. The condition is written so that the index
-- serves no statement on the facts of a scope.
CREATE INDEX memory_facts_model ON memory_facts (model) WHERE replaced_at + 0 = 0;

-- The ids of facts by their keys.
CREATE TABLE memory_keys (
  owner     TEXT NOT NULL,
  agent     TEXT NOT NULL,
  namespace TEXT NOT NULL,
  key       TEXT NOT NULL,
  id        TEXT NOT NULL,
  PRIMARY KEY (owner, agent, namespace, key)
) WITHOUT ROWID;
CREATE INDEX memory_keys_id ON memory_keys (owner, agent, namespace, id);

-- The terms of the versions that were not replaced, by memory_facts.pk. The program splits the
-- text. A term starts with a hash of the scope, so that a search reads only entries of its
-- scope, however many facts others have. Then w and the stem of a word follow, g and three
-- letters of a word, or e and a hash of the name of an entity; e alone is a term of each fact with
-- entities.
CREATE VIRTUAL TABLE memory_index USING fts5(terms, content='', contentless_delete=1, tokenize="ascii tokenchars '_'");
