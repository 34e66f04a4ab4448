-- migrate: compatible with 202611221300

-- Long-term memory

-- One row per version of a fact. head is 1 for the newest one. replaced_at is when a newer
-- version replaced this one, 0 if none did: then it is valid from valid_from until before
-- valid_to. A time without bound is the smallest or greatest integer. All versions of a fact
-- have the same expires_at.
--
-- terms is empty for a version that was replaced. The program splits the text. A lexeme
-- starts with a hash of the scope, so that a search reads only entries of its scope, however
-- many facts others have. Then w and the stem of a word follow, g and three letters of a word, or e
-- and a hash of the name of an entity.
--
-- entities is a JSON array of names. model is the model of the embedding, with its dimension, '' if
-- the fact has none yet. embedding has the components as float32, little-endian; it is null for a
-- content that the model rejects and for replaced versions. It does not compress.
CREATE TABLE {s}.memory_facts (
  owner       text COLLATE "C" NOT NULL,
  agent       text COLLATE "C" NOT NULL,
  namespace   text COLLATE "C" NOT NULL,
  id          text COLLATE "C" NOT NULL,
  version     bigint NOT NULL,
  head        integer NOT NULL,
  key         text COLLATE "C" NOT NULL,
  content     text NOT NULL,
  metadata    text NOT NULL,
  created_at  bigint NOT NULL,
  updated_at  bigint NOT NULL,
  replaced_at bigint NOT NULL,
  valid_from  bigint NOT NULL,
  valid_to    bigint NOT NULL,
  expires_at  bigint NOT NULL,
  terms       tsvector NOT NULL,
  entities    text NOT NULL,
  model       text COLLATE "C" NOT NULL,
  embedding   bytea
);
ALTER TABLE {s}.memory_facts ALTER COLUMN embedding SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX memory_facts_id ON {s}.memory_facts (owner, agent, namespace, id, version);
CREATE INDEX memory_facts_recent ON {s}.memory_facts (owner, agent, namespace, updated_at DESC, id DESC) WHERE replaced_at = 0;
CREATE INDEX memory_facts_expiry ON {s}.memory_facts (expires_at) WHERE head = 1 AND expires_at < 9223372036854775807;
-- Facts that have no embedding of the present model. The condition is written so that the index
-- serves no statement on the facts of a scope.
CREATE INDEX memory_facts_model ON {s}.memory_facts (model) WHERE replaced_at + 0 = 0;
CREATE INDEX memory_facts_terms ON {s}.memory_facts USING gin (terms) WITH (fastupdate = off);

-- The ids of facts by their keys.
CREATE TABLE {s}.memory_keys (
  owner     text COLLATE "C" NOT NULL,
  agent     text COLLATE "C" NOT NULL,
  namespace text COLLATE "C" NOT NULL,
  key       text COLLATE "C" NOT NULL,
  id        text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX memory_keys_key ON {s}.memory_keys (owner, agent, namespace, key);
CREATE INDEX memory_keys_id ON {s}.memory_keys (owner, agent, namespace, id);
