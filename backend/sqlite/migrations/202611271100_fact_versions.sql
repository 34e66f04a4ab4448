-- migrate: compatible with 202611221300

-- A search by meaning reads which versions of a scope exist, without their rows, which contain the
-- embeddings. The index replaces one with fewer columns.
DROP INDEX memory_facts_recent;
CREATE INDEX memory_facts_recent ON memory_facts (owner, agent, namespace, updated_at DESC, id, version, model, valid_from, valid_to, expires_at, words) WHERE replaced_at = 0;
