-- The first task of a context stands outside the indexes of its context, whose
-- row knows it: most contexts have one task only, and it would be moved there
-- with every change of its state.

ALTER TABLE task_rows ADD COLUMN first INTEGER NOT NULL DEFAULT 0;

-- shelf: the status of a context that was described. Of those that were not, all
-- of them active, 'active.new' is one whose updated_at is its created_at, and
-- 'active.used' any other. '' is a context that is being deleted.
-- record: what was described, as JSON; null when nothing was.
-- labels: how many rows of context_labels it has.
ALTER TABLE context_rows ADD COLUMN shelf TEXT NOT NULL DEFAULT 'active.new';
ALTER TABLE context_rows ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE context_rows ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE context_rows ADD COLUMN task_count INTEGER NOT NULL DEFAULT 1;
ALTER TABLE context_rows ADD COLUMN first_pk INTEGER NOT NULL DEFAULT 0;
ALTER TABLE context_rows ADD COLUMN labels INTEGER NOT NULL DEFAULT 0;
ALTER TABLE context_rows ADD COLUMN record TEXT;

UPDATE context_rows SET
  shelf = CASE WHEN updated_at = created_at THEN 'active.new' ELSE 'active.used' END,
  (task_count, first_pk) = (SELECT count(*), coalesce(min(pk), 0) FROM task_rows t
                             WHERE t.owner = context_rows.owner AND t.context_id = context_rows.id);
UPDATE task_rows SET first = 1 WHERE pk IN (SELECT first_pk FROM context_rows);

DROP INDEX task_rows_context;
CREATE INDEX task_rows_context ON task_rows (owner, context_id, state, state_at, id) WHERE first = 0;
CREATE INDEX task_rows_context_created ON task_rows (owner, context_id, created_at, id) WHERE first = 0;
CREATE INDEX task_rows_created ON task_rows (owner, created_at, id);

-- New contexts were updated when they were created, and those that nobody described
-- have no name: by name they are sorted as they were created.
CREATE INDEX context_rows_created ON context_rows (owner, shelf, created_at, id);
CREATE INDEX context_rows_name ON context_rows (owner, shelf, name, created_at, id) WHERE shelf <> 'active.new' AND shelf <> 'active.used';
CREATE INDEX context_rows_updated ON context_rows (owner, shelf, updated_at, id) WHERE shelf <> 'active.new';

-- The tags ('tag:x') and the role ('role:y') of contexts that were described,
-- with what such contexts are sorted by.
CREATE TABLE context_labels (
  owner      TEXT NOT NULL,
  id         TEXT NOT NULL,
  label      TEXT NOT NULL,
  shelf      TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  name       TEXT NOT NULL,
  PRIMARY KEY (owner, id, label)
) WITHOUT ROWID;
CREATE INDEX context_labels_created ON context_labels (owner, label, shelf, created_at, id);
CREATE INDEX context_labels_updated ON context_labels (owner, label, shelf, updated_at, id);
CREATE INDEX context_labels_name ON context_labels (owner, label, shelf, name, created_at, id);

CREATE TABLE contexts_doomed (
  owner TEXT NOT NULL,
  id    TEXT NOT NULL,
  PRIMARY KEY (owner, id)
) WITHOUT ROWID;

-- How many contexts of an owner have a label ('' is all of them) and stand on a
-- shelf; and how much feedback ('rating') has a rating, of all when owner is ''.
CREATE TABLE tallies (
  owner TEXT NOT NULL,
  label TEXT NOT NULL,
  shelf TEXT NOT NULL,
  n     INTEGER NOT NULL,
  PRIMARY KEY (owner, label, shelf)
) WITHOUT ROWID;
INSERT INTO tallies SELECT owner, '', shelf, count(*) FROM context_rows GROUP BY 1, 3;

-- kept: 0 when the row of task_log that was written with the record names its
-- key, 1 when none does, 2 when it is a record of a context.
ALTER TABLE idempotency_keys ADD COLUMN kept INTEGER NOT NULL DEFAULT 1;
CREATE INDEX idempotency_keys_kept ON idempotency_keys (owner, task_id) WHERE kept > 0;
ALTER TABLE task_log ADD COLUMN key TEXT;

ALTER TABLE feedback_rows ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE feedback_rows ADD COLUMN task_id TEXT NOT NULL DEFAULT '';
UPDATE feedback_rows SET (owner, task_id) = (SELECT owner, id FROM task_rows WHERE pk = task_pk);
-- Ids were not held to be unique.
UPDATE feedback_rows AS f SET id = f.id || '~' || f.pk
 WHERE EXISTS (SELECT 1 FROM feedback_rows o WHERE o.task_pk = f.task_pk AND o.id = f.id AND o.pk < f.pk);
DROP INDEX feedback_rows_task;
CREATE UNIQUE INDEX feedback_rows_task ON feedback_rows (task_pk, id);
CREATE INDEX feedback_rows_created ON feedback_rows (owner, created_at, id, task_id);
CREATE INDEX feedback_rows_task_created ON feedback_rows (owner, task_id, created_at, id);
INSERT INTO tallies SELECT owner, 'rating', rating, count(*) FROM feedback_rows GROUP BY 1, 3;
INSERT INTO tallies SELECT '', 'rating', rating, count(*) FROM feedback_rows GROUP BY 3;

DROP VIEW contexts;
CREATE VIEW contexts AS
SELECT
  c.id, c.owner AS owner_did, coalesce(c.record, '{"role":"assistant","status":"active"}') AS context_data,
  (SELECT json_group_array(json(message)) FROM (
     SELECT v.history -> m.fullkey AS message
       FROM tasks v JOIN json_each(v.history) m
      WHERE v.owner_did = c.owner AND v.id IN (
        SELECT id FROM task_rows WHERE pk = c.first_pk
        UNION ALL
        SELECT id FROM task_rows WHERE owner = c.owner AND context_id = c.id AND first = 0)
      ORDER BY v.created_at, v.id, m.key)) AS message_history,
  strftime('%Y-%m-%dT%H:%M:%fZ', c.created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', c.updated_at / 1000.0, 'unixepoch') AS updated_at
FROM context_rows c WHERE c.shelf <> '';

DROP VIEW task_feedback;
CREATE VIEW task_feedback AS
SELECT
  f.pk AS id, f.task_id, f.owner AS owner_did,
  json_object('id', f.id, 'rating', nullif(f.rating, 0), 'feedback', f.text,
              'metadata', json(coalesce(f.metadata, '{}'))) AS feedback_data,
  strftime('%Y-%m-%dT%H:%M:%fZ', f.created_at / 1000.0, 'unixepoch') AS created_at
FROM feedback_rows f;
