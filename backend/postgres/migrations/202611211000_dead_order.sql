-- Dead letters of one webhook and one moment are listed with the newest first.
DROP INDEX {s}.push_dead_at;
DROP INDEX {s}.push_dead_owner;
DROP INDEX {s}.push_dead_task;
CREATE INDEX push_dead_at ON {s}.push_dead ((-at), owner, task_id, config_id, (-sequence));
CREATE INDEX push_dead_owner ON {s}.push_dead (owner, (-at), task_id, config_id, (-sequence));
CREATE INDEX push_dead_task ON {s}.push_dead (owner, task_id, (-at), config_id, (-sequence));
