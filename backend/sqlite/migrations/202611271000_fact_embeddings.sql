-- migrate: compatible with 202611221300

-- Search of facts by meaning and by entities

-- entities is a JSON array of names. model is that of the embedding, with its dimension, '' if the
-- fact has none yet. embedding has the components as float32, little-endian; it is null for a
-- content that the model rejects and for replaced versions. It is the last column, so that reads of
-- the others do not read it. The term of an entity in memory_index is e and a hash of its name; e alone is a term of each fact with entities.
ALTER TABLE memory_facts ADD COLUMN entities TEXT NOT NULL DEFAULT '[]';
ALTER TABLE memory_facts ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE memory_facts ADD COLUMN embedding BLOB;
-- The condition is written so that the index serves no statement on the facts of a scope.
CREATE INDEX memory_facts_model ON memory_facts (model) WHERE replaced_at + 0 = 0;
