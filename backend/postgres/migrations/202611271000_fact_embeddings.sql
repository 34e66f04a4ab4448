-- migrate: compatible with 202611221300

-- Search of facts by meaning and by entities

-- entities is a JSON array of names. model is that of the embedding, with its dimension, '' if the
-- fact has none yet. embedding has the components as float32, little-endian; it is null for a
-- content that the model rejects and for replaced versions. It does not compress. The lexeme of an
-- entity in terms is e and a hash of its name.
ALTER TABLE {s}.memory_facts
  ADD COLUMN entities text NOT NULL DEFAULT '[]',
  ADD COLUMN model text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN embedding bytea;
ALTER TABLE {s}.memory_facts ALTER COLUMN embedding SET STORAGE EXTERNAL;
