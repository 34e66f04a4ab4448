-- The schema of Holdfast on SQLite.
--
-- Times are milliseconds since 1970-01-01 UTC; 0 means no time.

-- Tasks

-- One row per task: the columns for preconditions, lists and claims. The content is in
-- task_log. seq is the task's version, the number of its events. received_seq is the
-- sequence of the newest client message. checkpoint is the sequence of the log row at
-- which reads start. phase to turn_start_seq are the queue entry (store.QueueEntry); phase
-- is 0 idle, 1 queued and ready (can be claimed from due_at), 2 leased, 3 queued and waiting
-- (becomes ready at due_at). lanes is the number of the task's rows in webhook_lanes.
--
-- first is 1 for the first task of a context. The indexes by context omit it; the row of the
-- context has its pk. Most contexts have only one task, which would otherwise change
-- those indexes with every change of its state.
CREATE TABLE task_rows (
  pk             INTEGER PRIMARY KEY,
  owner          TEXT NOT NULL,
  id             TEXT NOT NULL,
  context_id     TEXT NOT NULL,
  first          INTEGER NOT NULL,
  state          TEXT NOT NULL,
  state_at       INTEGER NOT NULL,
  seq            INTEGER NOT NULL,
  received_seq   INTEGER NOT NULL,
  checkpoint     INTEGER NOT NULL,
  phase          INTEGER NOT NULL,
  due_at         INTEGER NOT NULL,
  lease_worker   TEXT NOT NULL,
  fence          INTEGER NOT NULL,
  lease_until    INTEGER NOT NULL,
  turn           INTEGER NOT NULL,
  attempt        INTEGER NOT NULL,
  seen_seq       INTEGER NOT NULL,
  turn_start_seq INTEGER NOT NULL DEFAULT 0,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  bytes          INTEGER NOT NULL,
  lanes          INTEGER NOT NULL DEFAULT 0,
  UNIQUE (owner, id)
);
CREATE INDEX task_rows_state ON task_rows (owner, state, state_at, id);
CREATE INDEX task_rows_created ON task_rows (owner, created_at, id);
CREATE INDEX task_rows_context ON task_rows (owner, context_id, state, state_at, id) WHERE first = 0;
CREATE INDEX task_rows_context_created ON task_rows (owner, context_id, created_at, id) WHERE first = 0;
-- The work queue: ready tasks of an owner by due time (the creation of a task that was never
-- delayed), ready tasks of a context likewise (the contexts of an owner are served in turn),
-- waiting tasks by due time, and leased tasks by the end of their leases.
CREATE INDEX task_rows_queued ON task_rows (owner, max(due_at, created_at), id) WHERE phase = 1;
CREATE INDEX task_rows_context_due ON task_rows (owner, context_id, max(due_at, created_at), id) WHERE phase = 1;
CREATE INDEX task_rows_waiting ON task_rows (due_at, owner, context_id, id) WHERE phase = 3;
CREATE INDEX task_rows_leased ON task_rows (owner, lease_until, id, lease_worker) WHERE phase = 2;

-- One row per change of a task: its n events as JSON. id is the task's pk << 24 plus the
-- sequence of the first event. An event without a time has the time of the first event of
-- the row; one without a state is working. Messages without ids belong to the task and its
-- context, unless the event is marked as bare. snapshot, if set, is the task after the
-- change; only the row at task_rows.checkpoint has one. key is the idempotency key of the
-- change, if a deletion finds the record by it (idempotency_keys.lookup). If the record of
-- a new task is not in idempotency_keys yet, the first row has all of it, with the hash of
-- the request in key_hash (see idempotency_indexed). large is the number of bytes of events
-- that were moved to task_contents.
CREATE TABLE task_log (
  id       INTEGER PRIMARY KEY,
  n        INTEGER NOT NULL,
  key      TEXT,
  key_hash BLOB,
  snapshot TEXT,
  events   TEXT NOT NULL,
  large    INTEGER NOT NULL
);

-- Values of the logs that are larger than 64 KiB, as JSON. The JSON of task_log refers to
-- them by "\u001A", M (in a message) or A (in an artifact), and the SHA-256 of data in hex.
CREATE TABLE task_contents (
  id      INTEGER PRIMARY KEY,
  task_pk INTEGER NOT NULL,
  hash    BLOB NOT NULL,
  data    TEXT NOT NULL,
  UNIQUE (task_pk, hash)
);

-- Completed steps of turns. artifacts records what the step did to artifacts; null means
-- nothing.
CREATE TABLE task_steps (
  id        INTEGER PRIMARY KEY,
  task_pk   INTEGER NOT NULL,
  turn      INTEGER NOT NULL,
  name      TEXT NOT NULL,
  result    BLOB,
  artifacts BLOB,
  UNIQUE (task_pk, turn, name)
);

-- Deleted tasks that still have rows in task_log, task_steps or task_contents.
CREATE TABLE tasks_deleted (
  pk    INTEGER PRIMARY KEY,
  owner TEXT NOT NULL,
  id    TEXT NOT NULL
);

-- Records

-- Values that belong to an owner, not to a task (store.Record). expires_at is 0 if the record
-- never expires.
CREATE TABLE records (
  owner      TEXT NOT NULL,
  namespace  TEXT NOT NULL,
  key        TEXT NOT NULL,
  version    INTEGER NOT NULL,
  value      BLOB,
  expires_at INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, namespace, key)
) WITHOUT ROWID;
CREATE INDEX records_expiring ON records (expires_at) WHERE expires_at > 0;

-- Contexts

-- bucket is the status of a described context. Contexts without a description are active:
-- bucket is 'active.new' while updated_at equals created_at, then 'active.used'. '' marks a
-- pending deletion. first_pk is the pk of the first task, 0 if there is none. labels is the
-- number of the context's rows in context_labels. record is the client's description as
-- JSON, null if there is none.
CREATE TABLE context_rows (
  owner      TEXT NOT NULL,
  id         TEXT NOT NULL,
  bucket     TEXT NOT NULL,
  name       TEXT NOT NULL DEFAULT '',
  version    INTEGER NOT NULL DEFAULT 1,
  task_count INTEGER NOT NULL DEFAULT 1,
  first_pk   INTEGER NOT NULL DEFAULT 0,
  labels     INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  record     TEXT,
  PRIMARY KEY (owner, id)
) WITHOUT ROWID;
-- New contexts were last updated at creation, and contexts without a description have no
-- name. Lists read them from the index by creation.
CREATE INDEX context_rows_created ON context_rows (owner, bucket, created_at, id);
CREATE INDEX context_rows_updated ON context_rows (owner, bucket, updated_at, id) WHERE bucket <> 'active.new';
CREATE INDEX context_rows_name ON context_rows (owner, bucket, name, created_at, id) WHERE bucket <> 'active.new' AND bucket <> 'active.used';
-- Contexts without tasks, for retention, and contexts by their parent.
CREATE INDEX context_rows_empty ON context_rows (record IS NOT NULL, updated_at, owner, id) WHERE task_count = 0;
CREATE INDEX context_rows_parent ON context_rows (owner, record ->> '$.parentContextId') WHERE record ->> '$.parentContextId' IS NOT NULL;

-- Tags ('tag:x') and roles ('role:y') of described contexts, with the columns by which
-- lists sort contexts.
CREATE TABLE context_labels (
  owner      TEXT NOT NULL,
  id         TEXT NOT NULL,
  label      TEXT NOT NULL,
  bucket     TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  name       TEXT NOT NULL,
  PRIMARY KEY (owner, id, label)
) WITHOUT ROWID;
CREATE INDEX context_labels_created ON context_labels (owner, label, bucket, created_at, id);
CREATE INDEX context_labels_updated ON context_labels (owner, label, bucket, updated_at, id);
CREATE INDEX context_labels_name ON context_labels (owner, label, bucket, name, created_at, id);

-- Pending deletions.
CREATE TABLE contexts_pending_deletion (
  owner TEXT NOT NULL,
  id    TEXT NOT NULL,
  PRIMARY KEY (owner, id)
) WITHOUT ROWID;

-- Idempotency records and feedback

-- task_id is the task that the request changed, or the context. lookup is how a deletion
-- finds the record: 0 by task_log.key, 1 by the index idempotency_keys_task, 2 by the same
-- index as a record of a context.
CREATE TABLE idempotency_keys (
  owner      TEXT NOT NULL,
  key        TEXT NOT NULL,
  hash       BLOB NOT NULL,
  task_id    TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  lookup     INTEGER NOT NULL,
  PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_task ON idempotency_keys (owner, task_id) WHERE lookup > 0;

-- The records of tasks up to task_pk were moved from their first log rows to
-- idempotency_keys. The records of newer tasks are moved later, in batches sorted by key, because
-- inserting each at once would dirty one index page per record.
CREATE TABLE idempotency_indexed (
  pk      INTEGER PRIMARY KEY,
  task_pk INTEGER NOT NULL
);
INSERT INTO idempotency_indexed VALUES (2, 0);

-- Feedback on tasks. data is the text and the metadata as JSON.
CREATE TABLE feedback_rows (
  owner      TEXT NOT NULL,
  task_id    TEXT NOT NULL,
  id         TEXT NOT NULL,
  rating     INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  data       TEXT NOT NULL,
  PRIMARY KEY (owner, task_id, id)
);
CREATE INDEX feedback_rows_created ON feedback_rows (owner, created_at, id, task_id);
CREATE INDEX feedback_rows_task ON feedback_rows (owner, task_id, created_at, id);

-- Counts

-- The number of an owner's contexts by label ('' counts all of them) and bucket, and of
-- feedback by rating (label 'rating', bucket the rating). owner '' counts the feedback of
-- all owners.
CREATE TABLE counters (
  owner  TEXT NOT NULL,
  label  TEXT NOT NULL,
  bucket TEXT NOT NULL,
  n      INTEGER NOT NULL,
  PRIMARY KEY (owner, label, bucket)
) WITHOUT ROWID;

-- Webhooks

-- One row per webhook: what the client registered. It changes rarely; the state of the
-- delivery, which changes with every delivery, is in webhook_lanes.
CREATE TABLE webhook_rows (
  pk         INTEGER PRIMARY KEY,
  data       TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  saved_at   INTEGER NOT NULL
);

-- One row per webhook: its delivery queue. phase is 0 idle, 1 ready (may be due), 2 leased,
-- 3 waiting (becomes ready at due_at), 4 idle and the task is terminal, 5 deleted while
-- leased. Lanes in the phases 1 to 3 have pending events. terminal is 1 if the task is in a
-- terminal state. dead is the number of the webhook's rows in webhook_dead. state is '' in
-- phase 5.
CREATE TABLE webhook_lanes (
  pk              INTEGER PRIMARY KEY,
  task_pk         INTEGER NOT NULL,
  owner           TEXT NOT NULL,
  task_id         TEXT NOT NULL,
  id              TEXT NOT NULL,
  endpoint        TEXT NOT NULL,
  long_running    INTEGER NOT NULL,
  phase           INTEGER NOT NULL,
  state           TEXT NOT NULL,
  reason          TEXT NOT NULL,
  terminal        INTEGER NOT NULL,
  tail_seq        INTEGER NOT NULL,
  cursor_seq      INTEGER NOT NULL,
  cursor_sequence INTEGER NOT NULL,
  cursor_state    TEXT NOT NULL,
  due_at          INTEGER NOT NULL,
  attempt         INTEGER NOT NULL,
  failed_at       INTEGER NOT NULL,
  delivered       INTEGER NOT NULL,
  delivered_at    INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  dead            INTEGER NOT NULL,
  worker          TEXT NOT NULL,
  fence           INTEGER NOT NULL,
  lease_until     INTEGER NOT NULL
);
CREATE UNIQUE INDEX webhook_lanes_name ON webhook_lanes (owner, task_id, id);
CREATE INDEX webhook_lanes_ready ON webhook_lanes (owner, due_at, task_id, id) WHERE phase = 1;
CREATE INDEX webhook_lanes_leased ON webhook_lanes (owner, lease_until, task_id, id, worker) WHERE phase = 2;
CREATE INDEX webhook_lanes_waiting ON webhook_lanes (due_at) WHERE phase = 3;
CREATE INDEX webhook_lanes_endpoint ON webhook_lanes (endpoint, due_at) WHERE phase IN (1, 3);
CREATE INDEX webhook_lanes_done ON webhook_lanes (long_running, updated_at) WHERE phase = 4 AND dead = 0;
CREATE INDEX webhook_lanes_deleted ON webhook_lanes (lease_until) WHERE phase = 5;
CREATE INDEX webhook_lanes_inactive ON webhook_lanes (owner, task_id, id, state) WHERE state <> 'active' AND state <> '';

-- Delivery attempts. Attempts of one acknowledgement within 250 ms share a row: attempts
-- is a JSON array of n attempts, at is the time of the newest.
CREATE TABLE webhook_attempts (
  pk       INTEGER PRIMARY KEY,
  lane_pk  INTEGER NOT NULL,
  task_pk  INTEGER NOT NULL,
  owner    TEXT NOT NULL,
  at       INTEGER NOT NULL,
  n        INTEGER NOT NULL,
  attempts TEXT NOT NULL
);
CREATE INDEX webhook_attempts_at ON webhook_attempts (at);
CREATE INDEX webhook_attempts_owner ON webhook_attempts (owner, at);
CREATE INDEX webhook_attempts_task ON webhook_attempts (task_pk, at, lane_pk);

-- Dead letters.
CREATE TABLE webhook_dead (
  pk              INTEGER PRIMARY KEY,
  lane_pk         INTEGER NOT NULL,
  task_pk         INTEGER NOT NULL,
  owner           TEXT NOT NULL,
  at              INTEGER NOT NULL,
  seq             INTEGER NOT NULL,
  sequence        INTEGER NOT NULL,
  cursor_seq      INTEGER NOT NULL,
  cursor_sequence INTEGER NOT NULL,
  cursor_state    TEXT NOT NULL,
  attempts        INTEGER NOT NULL,
  status          INTEGER NOT NULL,
  reason          TEXT NOT NULL
);
CREATE INDEX webhook_dead_at ON webhook_dead (at);
CREATE INDEX webhook_dead_owner ON webhook_dead (owner, at);
CREATE INDEX webhook_dead_task ON webhook_dead (task_pk, at, lane_pk);

-- Endpoints with failures: the state of their circuit breakers.
CREATE TABLE webhook_endpoints (
  name       TEXT PRIMARY KEY,
  failures   INTEGER NOT NULL,
  failed_at  INTEGER NOT NULL,
  open_until INTEGER NOT NULL,
  disabled   INTEGER NOT NULL,
  reason     TEXT NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Operation

-- Health checks write this row.
CREATE TABLE heartbeat (
  pk    INTEGER PRIMARY KEY,
  beats INTEGER NOT NULL
);
INSERT INTO heartbeat VALUES (2, 0);

-- Views for operators. The store does not use them. They work with SQLite 3.38; older
-- shells cannot open the file.

-- task_log with its large values in place.
CREATE VIEW whole_log AS
SELECT l.id, l.n,
  CASE WHEN l.snapshot IS NULL OR instr(l.snapshot, '"\u001A') = 0 THEN l.snapshot ELSE (
    WITH RECURSIVE joined (last, text) AS (
      SELECT x'', l.snapshot
      UNION ALL
      SELECT c.hash, replace(replace(text, '"\u001AM' || lower(hex(c.hash)) || '"', c.data), '"\u001AA' || lower(hex(c.hash)) || '"', c.data)
        FROM joined JOIN task_contents c ON c.task_pk = l.id >> 24
         AND c.hash = (SELECT min(hash) FROM task_contents WHERE task_pk = l.id >> 24 AND hash > last))
    SELECT text FROM joined ORDER BY last DESC LIMIT 1) END AS snapshot,
  CASE WHEN instr(l.events, '"\u001A') = 0 THEN l.events ELSE (
    WITH RECURSIVE joined (last, text) AS (
      SELECT x'', l.events
      UNION ALL
      SELECT c.hash, replace(replace(text, '"\u001AM' || lower(hex(c.hash)) || '"', c.data), '"\u001AA' || lower(hex(c.hash)) || '"', c.data)
        FROM joined JOIN task_contents c ON c.task_pk = l.id >> 24
         AND c.hash = (SELECT min(hash) FROM task_contents WHERE task_pk = l.id >> 24 AND hash > last))
    SELECT text FROM joined ORDER BY last DESC LIMIT 1) END AS events
FROM task_log l;

CREATE VIEW task_events AS
SELECT t.owner AS owner_did, t.id AS task_id, (l.id & 16777215) + e.key AS seq,
       coalesce(e.value ->> '$.time', l.events ->> '$[0].time') AS time, coalesce(e.value ->> '$.state', 'working') AS state, e.value AS event
  FROM task_rows t
  JOIN whole_log l ON l.id BETWEEN (t.pk << 24) AND (t.pk << 24) + 16777215
  JOIN json_each(l.events) e;

CREATE VIEW tasks AS
SELECT
  t.id, t.context_id, t.owner AS owner_did, 'task' AS kind, t.state,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.state_at / 1000.0, 'unixepoch') AS state_timestamp,
  (SELECT json_group_array(json(message)) FROM (
     SELECT h.value ->> '$.seq' AS seq, h.key AS place, h.value -> '$.message' AS message
       FROM whole_log l JOIN json_each(l.snapshot, '$.history') h
      WHERE l.id = (t.pk << 24) + t.checkpoint
     UNION ALL
     SELECT (l.id & 16777215) + e.key, 0, CASE WHEN e.value -> '$.bare' IS NULL
              THEN json_insert(e.value -> '$.received', '$.taskId', t.id, '$.contextId', t.context_id) ELSE e.value -> '$.received' END
       FROM whole_log l JOIN json_each(l.events) e
      WHERE l.id BETWEEN (t.pk << 24) + t.checkpoint AND (t.pk << 24) + 16777215
        AND NOT (l.id = (t.pk << 24) + t.checkpoint AND l.snapshot IS NOT NULL)
        AND e.value -> '$.received' IS NOT NULL AND e.value -> '$.artifact' IS NULL
     UNION ALL
     SELECT (l.id & 16777215) + e.key, 1, CASE WHEN e.value -> '$.bare' IS NULL
              THEN json_insert(e.value -> '$.message', '$.taskId', t.id, '$.contextId', t.context_id) ELSE e.value -> '$.message' END
       FROM whole_log l JOIN json_each(l.events) e
      WHERE l.id BETWEEN (t.pk << 24) + t.checkpoint AND (t.pk << 24) + 16777215
        AND NOT (l.id = (t.pk << 24) + t.checkpoint AND l.snapshot IS NOT NULL)
        AND e.value -> '$.message' IS NOT NULL AND e.value -> '$.artifact' IS NULL
        AND e.value -> '$.progress' IS NULL
     ORDER BY 1, 2)) AS history,
  (WITH chunks AS (
     SELECT 0 AS seq, a.key AS place, 1 AS appended, a.value AS artifact
       FROM whole_log l JOIN json_each(l.snapshot, '$.artifacts') a
      WHERE l.id = (t.pk << 24) + t.checkpoint
     UNION ALL
     SELECT (l.id & 16777215) + e.key, 0, e.value -> '$.append' IS NOT NULL, e.value -> '$.artifact'
       FROM whole_log l JOIN json_each(l.events) e
      WHERE l.id BETWEEN (t.pk << 24) + t.checkpoint AND (t.pk << 24) + 16777215
        AND NOT (l.id = (t.pk << 24) + t.checkpoint AND l.snapshot IS NOT NULL)
        AND e.value -> '$.artifact' IS NOT NULL),
   marked AS (
     SELECT *, artifact ->> '$.artifactId' AS aid,
            max(seq) FILTER (WHERE NOT appended AND json_array_length(artifact, '$.parts') = 0)
              OVER (PARTITION BY artifact ->> '$.artifactId') AS withdrawn
       FROM chunks),
   current AS (SELECT * FROM marked WHERE withdrawn IS NULL OR seq > withdrawn),
   starts AS (
     SELECT aid, min(seq) AS first, min(place) AS place,
            coalesce(max(seq) FILTER (WHERE NOT appended), min(seq)) AS start
       FROM current GROUP BY 1 ORDER BY 2, 3)
   SELECT json_group_array(json_set(
            (SELECT artifact FROM current WHERE aid = starts.aid AND seq = start),
            '$.parts',
            json((SELECT json_group_array(json(part)) FROM (
               SELECT c.artifact -> p.fullkey AS part
                 FROM current c JOIN json_each(c.artifact, '$.parts') p
                WHERE c.aid = starts.aid AND c.seq >= start
                ORDER BY c.seq, p.key)))))
     FROM starts) AS artifacts,
  (WITH RECURSIVE patches AS (
     SELECT row_number() OVER (ORDER BY seq) AS n, patch FROM (
       SELECT 0 AS seq, l.snapshot -> '$.metadata' AS patch
         FROM whole_log l
        WHERE l.id = (t.pk << 24) + t.checkpoint
       UNION ALL
       SELECT (l.id & 16777215) + e.key, e.value -> '$.metadata'
         FROM whole_log l JOIN json_each(l.events) e
        WHERE l.id BETWEEN (t.pk << 24) + t.checkpoint AND (t.pk << 24) + 16777215
          AND NOT (l.id = (t.pk << 24) + t.checkpoint AND l.snapshot IS NOT NULL))
      WHERE patch IS NOT NULL),
   merged AS (
     SELECT 0 AS n, '{}' AS value
     UNION ALL
     SELECT p.n, json_patch(m.value, p.patch) FROM merged m JOIN patches p ON p.n = m.n + 1)
   SELECT value FROM merged ORDER BY n DESC LIMIT 1) AS metadata,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.updated_at / 1000.0, 'unixepoch') AS updated_at
FROM task_rows t;

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
FROM context_rows c WHERE c.bucket <> '';

CREATE VIEW task_feedback AS
SELECT
  f.rowid AS id, f.task_id, f.owner AS owner_did,
  json_object('id', f.id, 'rating', nullif(f.rating, 0), 'feedback', coalesce(f.data ->> '$.feedback', ''),
              'metadata', json(coalesce(f.data -> '$.metadata', '{}'))) AS feedback_data,
  strftime('%Y-%m-%dT%H:%M:%fZ', f.created_at / 1000.0, 'unixepoch') AS created_at
FROM feedback_rows f;

CREATE VIEW webhook_configs AS
SELECT
  l.task_id, l.id, l.owner AS owner_did, r.data AS config,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.saved_at / 1000.0, 'unixepoch') AS updated_at
FROM webhook_lanes l JOIN webhook_rows r ON r.pk = l.pk WHERE l.phase <> 5;
