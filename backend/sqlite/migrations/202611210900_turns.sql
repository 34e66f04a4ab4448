-- The queue of each context, so that the contexts of an owner take turns.
CREATE INDEX task_rows_turns ON task_rows (owner, context_id, due_at, id) WHERE phase = 1;
