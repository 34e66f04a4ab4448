-- The queue of each context, so that the contexts of an owner take turns. Programs that
-- do not know it are served by the indexes they know: its collation is another.
CREATE INDEX task_rows_turns ON {s}.task_rows (owner COLLATE "POSIX", context_id COLLATE "POSIX", due_at, id) WHERE phase = 1;
