-- migrate: compatible with 202611221300
-- migrate: without transaction

-- Facts that have no embedding of the present model. The condition is written so that the index
-- serves no statement on the facts of a scope.
CREATE INDEX CONCURRENTLY memory_facts_model ON {s}.memory_facts (model) WHERE replaced_at + 0 = 0;
