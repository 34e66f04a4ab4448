-- The schema of Holdfast on PostgreSQL. {s} is the name of the schema.
--
-- Times are milliseconds since 1970-01-01 UTC; 0 means no time. Ids, owners and names
-- are compared as bytes.
--
-- Collations: "C", "POSIX" and "ucs_basic" all compare bytes, but the planner uses an index
-- only for expressions of its collation. So each kind of query uses the intended indexes,
-- even if it is planned before the table has statistics: "POSIX" finds rows by key and the
-- queued tasks of one context, "ucs_basic" is for the work queues, "C" for lists.

-- Tasks

-- One row per task with the data for guards, lists and claims. Its content is in task_log.
-- pk is the number of the task in the tables of its content, unique per owner: the time in
-- seconds << 30, random bits, and 10 bits that a process counts. seq is the task's version, the
-- number of its events. received_seq is the sequence of the newest message of the client.
-- checkpoint is the sequence of the log row from which reads start. phase to turn_start_seq are
-- the queue entry (store.QueueEntry); phase is 0 idle, 1 queued and ready (may be claimed from
-- due_at), 2 leased, 3 queued and waiting (becomes ready at due_at). webhooks is the number of
-- the task's rows in webhook_lanes: a statement that adds events updates these rows, and fails
-- if it sees a different number.
--
-- first is true for the task that created its context. It is in no index by context; the row
-- of the context names it (first_id). Most contexts have only this task, and each change of
-- its state would otherwise update these indexes.
CREATE TABLE {s}.task_rows (
  owner          text COLLATE "C" NOT NULL,
  id             text COLLATE "C" NOT NULL,
  pk             bigint NOT NULL,
  context_id     text COLLATE "C" NOT NULL,
  state          text COLLATE "C" NOT NULL,
  state_at       bigint NOT NULL,
  seq            integer NOT NULL,
  received_seq   integer NOT NULL,
  checkpoint     integer NOT NULL,
  phase          smallint NOT NULL,
  due_at         bigint NOT NULL,
  lease_worker   text COLLATE "C" NOT NULL,
  fence          bigint NOT NULL,
  lease_until    bigint NOT NULL,
  turn           integer NOT NULL,
  attempt        integer NOT NULL,
  seen_seq       bigint NOT NULL,
  turn_start_seq bigint NOT NULL DEFAULT 0,
  created_at     bigint NOT NULL,
  updated_at     bigint NOT NULL,
  bytes          bigint NOT NULL,
  webhooks       integer NOT NULL DEFAULT 0,
  first          boolean NOT NULL DEFAULT false,
  era            bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE UNIQUE INDEX task_rows_key ON {s}.task_rows (owner COLLATE "POSIX", id COLLATE "POSIX");
CREATE INDEX task_rows_state ON {s}.task_rows (owner, state, state_at, id);
CREATE INDEX task_rows_created ON {s}.task_rows (owner, state, created_at, id);
CREATE INDEX task_rows_context ON {s}.task_rows (owner, context_id, state, state_at, id) WHERE NOT first;
CREATE INDEX task_rows_context_created ON {s}.task_rows (owner, context_id, created_at, id) WHERE NOT first;
-- The work queue: ready tasks of an owner by due time (the creation of a task that was never
-- delayed), ready tasks of a context likewise (for the round robin of an owner's contexts),
-- waiting tasks by due time, and leased tasks by the end of their leases. era is the era of the
-- entries of a ready or leased task, see queue_era.
CREATE INDEX task_rows_queued ON {s}.task_rows (era, owner COLLATE "ucs_basic", greatest(due_at, created_at), id) WHERE phase = 1;
CREATE INDEX task_rows_context_due ON {s}.task_rows (era, owner COLLATE "POSIX", context_id COLLATE "POSIX", greatest(due_at, created_at), id) WHERE phase = 1;
CREATE INDEX task_rows_waiting ON {s}.task_rows (due_at) WHERE phase = 3;
CREATE INDEX task_rows_leased ON {s}.task_rows (era, owner COLLATE "ucs_basic", lease_until, id) WHERE phase = 2;

-- One row per change of a task: n events as JSON, of which the first has the sequence seq. An
-- event without a time has the time of the first event of the row; an event without a state is
-- working. Messages without ids belong to the task and its context, unless the event has the
-- member bare. snapshot, if set, is the task after the change; only the log row at
-- task_rows.checkpoint has one. mark is the id of the commit in commit_marks. large is set if
-- the row has values in task_contents; it is the size in bytes of the values of events.
CREATE TABLE {s}.task_log (
  owner    text COLLATE "C" NOT NULL,
  task_pk  bigint NOT NULL,
  seq      bigint NOT NULL,
  mark     bigint NOT NULL,
  n        integer NOT NULL,
  snapshot text,
  events   text NOT NULL,
  large    integer,
  PRIMARY KEY (owner, task_pk, seq)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);
CREATE INDEX task_log_snapshots ON {s}.task_log (owner, task_pk, seq) WHERE snapshot IS NOT NULL;

-- Values of the logs that are larger than 64 KiB, as JSON. The JSON of task_log contains a
-- reference instead: "\u001A", M (in a message) or A (in an artifact), and the SHA-256 of data
-- in hex.
CREATE TABLE {s}.task_contents (
  owner   text COLLATE "C" NOT NULL,
  task_pk bigint NOT NULL,
  hash    bytea NOT NULL,
  data    text NOT NULL,
  PRIMARY KEY (owner, task_pk, hash)
);

-- inline_contents returns JSON of a task's log with references replaced by their values. If
-- artifacts is false, references in artifacts become empty strings.
CREATE FUNCTION {s}.inline_contents(task_owner text, task bigint, data text, artifacts boolean) RETURNS text LANGUAGE plpgsql STABLE AS $f$
DECLARE
  ref text;
BEGIN
  FOR ref IN SELECT DISTINCT m[1] FROM pg_catalog.regexp_matches(data, '"\\u001A([AM][0-9a-f]{64})"', 'g') m LOOP
    IF artifacts OR ref LIKE 'M%' THEN
      data := pg_catalog.replace(data, '"\u001A' || ref || '"',
        (SELECT c.data FROM {s}.task_contents c
          WHERE c.owner = task_owner COLLATE "C" AND c.task_pk = task AND c.hash = pg_catalog.decode(pg_catalog.substr(ref, 2), 'hex')));
    ELSE
      data := pg_catalog.replace(data, '"\u001A' || ref || '"', '""');
    END IF;
  END LOOP;
  RETURN data;
END
$f$;

-- Completed steps of turns, in the order of id. artifacts records the artifact changes of the
-- step, null if it had none.
CREATE TABLE {s}.task_steps (
  id        bigint GENERATED BY DEFAULT AS IDENTITY,
  owner     text COLLATE "C" NOT NULL,
  task_pk   bigint NOT NULL,
  turn      bigint NOT NULL,
  name      text COLLATE "C" NOT NULL,
  result    bytea,
  artifacts bytea,
  PRIMARY KEY (owner, task_pk, turn, name)
);

-- Deleted tasks with remaining rows in task_log, task_steps or task_contents.
CREATE TABLE {s}.tasks_deleted (
  owner   text COLLATE "C" NOT NULL,
  task_pk bigint NOT NULL,
  PRIMARY KEY (owner, task_pk)
);

-- Records

-- Values that belong to an owner, not to a task (store.Record). expires_at is 0 if the record
-- never expires.
CREATE TABLE {s}.records (
  owner      text COLLATE "C" NOT NULL,
  namespace  text COLLATE "C" NOT NULL,
  key        text COLLATE "C" NOT NULL,
  version    bigint NOT NULL,
  value      bytea,
  expires_at bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, namespace, key)
);
CREATE INDEX records_expiring ON {s}.records (expires_at) WHERE expires_at > 0;

-- Contexts

-- status '' marks a pending deletion. version is 0, which is read as 1, until a context that
-- a task created is changed for the first time. name is UTF-8 that may contain NUL. record is
-- the client's description as JSON, null if there is none. first_id is the task that created
-- the context, '' if there is none or it was deleted. labels are hashes of the tags and the
-- role of a described context. unmodified is true until the context is changed: it is active,
-- has no name and no labels, and updated_at equals created_at. Most contexts remain
-- unmodified, and need only one index for all lists.
CREATE TABLE {s}.context_rows (
  owner      text COLLATE "C" NOT NULL,
  id         text COLLATE "C" NOT NULL,
  status     text COLLATE "C" NOT NULL,
  name       bytea NOT NULL,
  parent_id  text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  version    bigint NOT NULL,
  task_count bigint NOT NULL,
  labels     bigint[],
  record     text,
  first_id   text COLLATE "C" NOT NULL DEFAULT '',
  unmodified boolean NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX context_rows_key ON {s}.context_rows (owner COLLATE "POSIX", id COLLATE "POSIX");
CREATE INDEX context_rows_updated ON {s}.context_rows (owner, status, updated_at, id) WHERE NOT unmodified;
CREATE INDEX context_rows_created ON {s}.context_rows (owner, status, created_at, id) WHERE NOT unmodified;
CREATE INDEX context_rows_name ON {s}.context_rows (owner, status, name, created_at, id) WHERE NOT unmodified;
CREATE INDEX context_rows_unmodified ON {s}.context_rows (owner, created_at, id) WHERE unmodified;
CREATE INDEX context_rows_pending_deletion ON {s}.context_rows (owner, id) WHERE status = '';
-- Contexts without tasks, for retention: those that a client described, and the others.
CREATE INDEX context_rows_empty_described ON {s}.context_rows (updated_at, owner, id) WHERE task_count = 0 AND record IS NOT NULL;
CREATE INDEX context_rows_empty_other ON {s}.context_rows (updated_at, owner, id) WHERE task_count = 0 AND record IS NULL;
CREATE INDEX context_rows_parent ON {s}.context_rows (owner, parent_id) WHERE parent_id <> '';
CREATE INDEX context_rows_labels ON {s}.context_rows USING gin (labels) WHERE labels IS NOT NULL;

-- Idempotency records and feedback

-- task_id is the task that the request changed, or the context if of_context is true.
-- at_creation is true if the request created the task, at created_at. This holds for most
-- records. Deletions find them by that time; the index by task contains only the others.
CREATE TABLE {s}.idempotency_keys (
  owner       text COLLATE "C" NOT NULL,
  key         text COLLATE "C" NOT NULL,
  hash        bytea NOT NULL,
  task_id     text COLLATE "C" NOT NULL,
  of_context  boolean NOT NULL,
  at_creation boolean NOT NULL DEFAULT false,
  seq         bigint NOT NULL,
  created_at  bigint NOT NULL
);
CREATE UNIQUE INDEX idempotency_keys_key ON {s}.idempotency_keys (owner COLLATE "POSIX", key COLLATE "POSIX");
CREATE INDEX idempotency_keys_created ON {s}.idempotency_keys (created_at);
CREATE INDEX idempotency_keys_task ON {s}.idempotency_keys (owner, task_id) WHERE NOT at_creation;

-- Feedback on tasks. data is the text and the metadata as JSON.
CREATE TABLE {s}.feedback_rows (
  owner      text COLLATE "C" NOT NULL,
  task_id    text COLLATE "C" NOT NULL,
  id         text COLLATE "C" NOT NULL,
  rating     integer NOT NULL,
  created_at bigint NOT NULL,
  data       text NOT NULL,
  PRIMARY KEY (owner, task_id, id)
);
CREATE INDEX feedback_rows_created ON {s}.feedback_rows (owner, created_at, id, task_id);
CREATE INDEX feedback_rows_task ON {s}.feedback_rows (owner, task_id, created_at, id);

-- Counts

-- A count is the sum of n over its rows. Statements only add rows, so no transaction waits
-- for another to release a counter; rows are merged from time to time. id identifies a row.

-- Contexts of an owner by status, and feedback by rating (kind 'rating 5'); owner '' counts
-- the feedback of all owners.
CREATE TABLE {s}.counters (
  owner text COLLATE "C" NOT NULL,
  kind  text COLLATE "C" NOT NULL,
  n     bigint NOT NULL,
  id    bigint GENERATED BY DEFAULT AS IDENTITY
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX counters_owner ON {s}.counters (owner, kind) INCLUDE (n);

-- Contexts of an owner by label and status. The statements that change context_rows.labels
-- or the status of a row with labels add the rows.
CREATE TABLE {s}.label_counters (
  owner  text COLLATE "C" NOT NULL,
  label  bigint NOT NULL,
  status text COLLATE "C" NOT NULL,
  n      bigint NOT NULL,
  id     bigint GENERATED BY DEFAULT AS IDENTITY
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX label_counters_label ON {s}.label_counters (owner, label) INCLUDE (status, n);

-- Webhooks

-- One row per webhook: its registration, which changes rarely. The state of the delivery,
-- which changes with every delivery, is in webhook_lanes. rev is incremented with every save,
-- also in the lane. task_pk, context_id and task_created_at are copied from the task.
CREATE TABLE {s}.webhooks (
  owner           text COLLATE "C" NOT NULL,
  task_id         text COLLATE "C" NOT NULL,
  id              text COLLATE "C" NOT NULL,
  task_pk         bigint NOT NULL,
  context_id      text COLLATE "C" NOT NULL,
  task_created_at bigint NOT NULL,
  data            text NOT NULL,
  long_running    boolean NOT NULL,
  rev             bigint NOT NULL,
  created_at      bigint NOT NULL,
  updated_at      bigint NOT NULL
);
CREATE UNIQUE INDEX webhooks_key ON {s}.webhooks (owner COLLATE "POSIX", task_id COLLATE "POSIX", id COLLATE "POSIX");

-- One row per webhook: its delivery queue. phase is 1 ready (may be claimed from
-- due_at), 2 leased, 3 waiting (becomes ready at due_at). Without pending events, it is 4 done
-- (expiry checks the lane) or 0 idle (expiry has checked it, and cannot remove it before it
-- changes).
-- cursor_* is the position in the task's log up to which events were delivered, tail_seq the
-- sequence of the last event. No index contains tail_seq, so that new events update none.
-- A revoked lease has an empty worker and lease_until > 0. reason is UTF-8 that may contain NUL.
CREATE TABLE {s}.webhook_lanes (
  owner           text COLLATE "C" NOT NULL,
  task_id         text COLLATE "C" NOT NULL,
  id              text COLLATE "C" NOT NULL,
  endpoint        text COLLATE "C" NOT NULL,
  rev             bigint NOT NULL,
  phase           smallint NOT NULL,
  state           text COLLATE "C" NOT NULL,
  long_running    boolean NOT NULL,
  cursor_seq      bigint NOT NULL,
  cursor_sequence bigint NOT NULL,
  cursor_state    text COLLATE "C" NOT NULL,
  tail_seq        bigint NOT NULL,
  due_at          bigint NOT NULL,
  attempt         bigint NOT NULL,
  failed_at       bigint NOT NULL,
  delivered       bigint NOT NULL,
  delivered_at    bigint NOT NULL,
  updated_at      bigint NOT NULL,
  worker          text COLLATE "C" NOT NULL,
  fence           bigint NOT NULL,
  lease_until     bigint NOT NULL,
  reason          bytea NOT NULL,
  era             bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX webhook_lanes_key ON {s}.webhook_lanes (owner COLLATE "POSIX", task_id COLLATE "POSIX", id COLLATE "POSIX");
CREATE INDEX webhook_lanes_ready ON {s}.webhook_lanes (era, owner COLLATE "ucs_basic", due_at, task_id, id) WHERE phase = 1;
CREATE INDEX webhook_lanes_waiting ON {s}.webhook_lanes (due_at) WHERE phase = 3;
CREATE INDEX webhook_lanes_leased ON {s}.webhook_lanes (era, owner COLLATE "ucs_basic", lease_until, task_id, id) INCLUDE (worker) WHERE phase = 2;
CREATE INDEX webhook_lanes_endpoint ON {s}.webhook_lanes (endpoint, due_at) WHERE phase = 1 OR phase = 3;
CREATE INDEX webhook_lanes_done ON {s}.webhook_lanes (long_running, updated_at) WHERE phase = 4;
CREATE INDEX webhook_lanes_stopped ON {s}.webhook_lanes (owner, task_id, id) INCLUDE (state) WHERE state <> 'active';

-- Deleted webhooks with revoked leases that have not ended yet.
CREATE TABLE {s}.deleted_webhooks (
  owner       text COLLATE "C" NOT NULL,
  task_id     text COLLATE "C" NOT NULL,
  id          text COLLATE "C" NOT NULL,
  fence       bigint NOT NULL,
  lease_until bigint NOT NULL
);
CREATE UNIQUE INDEX deleted_webhooks_key ON {s}.deleted_webhooks (owner COLLATE "POSIX", task_id COLLATE "POSIX", id COLLATE "POSIX");
CREATE INDEX deleted_webhooks_until ON {s}.deleted_webhooks (lease_until);

-- Delivery attempts as JSON, one row per acknowledgement. first_at and last_at are the times
-- of the first and the last attempt of the row, at most a minute apart.
CREATE TABLE {s}.delivery_attempts (
  id        bigint GENERATED BY DEFAULT AS IDENTITY,
  owner     text COLLATE "C" NOT NULL,
  task_id   text COLLATE "C" NOT NULL,
  config_id text COLLATE "C" NOT NULL,
  first_at  bigint NOT NULL,
  last_at   bigint NOT NULL,
  data      text NOT NULL,
  PRIMARY KEY (owner, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);
CREATE INDEX delivery_attempts_at ON {s}.delivery_attempts (last_at, id);
CREATE INDEX delivery_attempts_owner ON {s}.delivery_attempts (owner, last_at, id);
CREATE INDEX delivery_attempts_task ON {s}.delivery_attempts (owner, task_id, last_at, id);

-- Dead letters. Lists return the newest first.
CREATE TABLE {s}.dead_letters (
  owner           text COLLATE "C" NOT NULL,
  task_id         text COLLATE "C" NOT NULL,
  config_id       text COLLATE "C" NOT NULL,
  seq             bigint NOT NULL,
  sequence        bigint NOT NULL,
  at              bigint NOT NULL,
  cursor_seq      bigint NOT NULL,
  cursor_sequence bigint NOT NULL,
  cursor_state    text COLLATE "C" NOT NULL,
  attempts        bigint NOT NULL,
  status          bigint NOT NULL,
  reason          bytea NOT NULL
);
CREATE UNIQUE INDEX dead_letters_key ON {s}.dead_letters (owner COLLATE "POSIX", task_id COLLATE "POSIX", config_id COLLATE "POSIX", seq);
CREATE INDEX dead_letters_at ON {s}.dead_letters ((-at), owner, task_id, config_id, (-sequence));
CREATE INDEX dead_letters_owner ON {s}.dead_letters (owner, (-at), task_id, config_id, (-sequence));
CREATE INDEX dead_letters_task ON {s}.dead_letters (owner, task_id, (-at), config_id, (-sequence));

-- The circuit breakers of endpoints with failures.
CREATE TABLE {s}.webhook_endpoints (
  name       text COLLATE "C" PRIMARY KEY,
  failures   bigint NOT NULL,
  failed_at  bigint NOT NULL,
  open_until bigint NOT NULL,
  disabled   boolean NOT NULL,
  reason     bytea NOT NULL,
  updated_at bigint NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);

-- Operation

-- The era of the queues of tasks and lanes. While a session holds a snapshot, indexes keep the entries of
-- replaced rows. Claims read one era only, and a new one has no such entries.
CREATE TABLE {s}.queue_era (
  pk  integer PRIMARY KEY,
  era bigint NOT NULL
) WITH (fillfactor = 20);
INSERT INTO {s}.queue_era VALUES (1, 1);

-- One row per commit, kept for some minutes. A process that lost the answer to a commit
-- reads here whether it was committed, or else inserts a row that prevents the commit. An id
-- is the time << 22 plus random bits.
CREATE TABLE {s}.commit_marks (
  id        bigint PRIMARY KEY,
  committed boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.1);

-- Health checks write this row.
CREATE TABLE {s}.heartbeat (
  pk    integer PRIMARY KEY,
  beats bigint NOT NULL
) WITH (fillfactor = 20);
INSERT INTO {s}.heartbeat VALUES (1, 0);

-- Views for operators. The store does not use them.

-- parse_json casts JSON to jsonb. jsonb cannot contain NUL, so NUL characters become U+FFFD.
-- Invalid JSON becomes null.
CREATE FUNCTION {s}.parse_json(data text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $f$
BEGIN
  RETURN data::jsonb;
EXCEPTION WHEN others THEN
  BEGIN
    RETURN pg_catalog.regexp_replace(data, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::jsonb;
  EXCEPTION WHEN others THEN
    RETURN NULL;
  END;
END
$f$;

CREATE FUNCTION {s}.from_millis(ms bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
$f$ SELECT timestamptz '1970-01-01 00:00:00Z' + ms * interval '1 millisecond' $f$;

-- merge_patch applies a JSON merge patch (RFC 7396), merge_patches several in order. A NULL
-- patch changes nothing.
CREATE FUNCTION {s}.merge_patch(target jsonb, patch jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $f$
DECLARE
  member record;
BEGIN
  IF patch IS NULL THEN
    RETURN target;
  END IF;
  IF target IS NULL OR pg_catalog.jsonb_typeof(target) <> 'object' THEN
    target := '{}';
  END IF;
  FOR member IN SELECT * FROM pg_catalog.jsonb_each(patch) LOOP
    CASE pg_catalog.jsonb_typeof(member.value)
      WHEN 'null' THEN target := target - member.key;
      WHEN 'object' THEN target := pg_catalog.jsonb_set(target, ARRAY[member.key], {s}.merge_patch(target -> member.key, member.value));
      ELSE target := pg_catalog.jsonb_set(target, ARRAY[member.key], member.value);
    END CASE;
  END LOOP;
  RETURN target;
END
$f$;

CREATE AGGREGATE {s}.merge_patches(jsonb) (SFUNC = {s}.merge_patch, STYPE = jsonb, INITCOND = '{}');

-- with_ids returns a message of an event with the ids of its task and context, which logs omit.
CREATE FUNCTION {s}.with_ids(task text, context text, event jsonb, member text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $f$
  SELECT CASE WHEN event ? 'bare' THEN '{}' ELSE jsonb_build_object('taskId', task, 'contextId', context) END || (event -> member)
$f$;

CREATE VIEW {s}.task_events AS
SELECT t.owner AS owner_did, t.id AS task_id, l.seq + e.ordinality - 1 AS seq,
       coalesce(e.value ->> 'time', r.events -> 0 ->> 'time')::timestamptz AS "time", coalesce(e.value ->> 'state', 'working') AS state, e.value AS event
  FROM {s}.task_rows t
  JOIN {s}.task_log l ON l.owner = t.owner AND l.task_pk = t.pk
  CROSS JOIN LATERAL (SELECT {s}.parse_json({s}.inline_contents(t.owner, t.pk, l.events, true)) OFFSET 0) r(events)
  CROSS JOIN LATERAL jsonb_array_elements(r.events) WITH ORDINALITY e(value, ordinality);

CREATE VIEW {s}.tasks AS
SELECT t.id, t.context_id, t.owner AS owner_did, 'task'::text AS kind, t.state,
       {s}.from_millis(t.state_at) AS state_timestamp, h.history, a.artifacts, m.metadata,
       {s}.from_millis(t.created_at) AS created_at, {s}.from_millis(t.updated_at) AS updated_at
  FROM {s}.task_rows t
  CROSS JOIN LATERAL (
    SELECT jsonb_agg({s}.parse_json({s}.inline_contents(t.owner, t.pk, l.snapshot, true))) FILTER (WHERE l.seq = t.checkpoint AND l.snapshot IS NOT NULL) -> 0 AS snapshot,
           coalesce(jsonb_agg(jsonb_build_object('seq', l.seq + e.ordinality - 1, 'event', e.value) ORDER BY l.seq, e.ordinality)
             FILTER (WHERE e.value IS NOT NULL), '[]') AS events
      FROM {s}.task_log l
      LEFT JOIN LATERAL jsonb_array_elements({s}.parse_json({s}.inline_contents(t.owner, t.pk, l.events, true))) WITH ORDINALITY e(value, ordinality)
             ON l.seq > t.checkpoint OR l.snapshot IS NULL
     WHERE l.owner = t.owner AND l.task_pk = t.pk AND l.seq >= t.checkpoint) log
  CROSS JOIN LATERAL (
    SELECT coalesce(jsonb_agg(message ORDER BY seq, place), '[]') AS history FROM (
      SELECT (h.value ->> 'seq')::bigint AS seq, h.ordinality AS place, h.value -> 'message' AS message
        FROM jsonb_array_elements(log.snapshot -> 'history') WITH ORDINALITY h(value, ordinality)
      UNION ALL
      SELECT (e.value ->> 'seq')::bigint, 0, {s}.with_ids(t.id, t.context_id, e.value -> 'event', 'received')
        FROM jsonb_array_elements(log.events) e
       WHERE e.value -> 'event' ? 'received' AND NOT e.value -> 'event' ? 'artifact'
      UNION ALL
      SELECT (e.value ->> 'seq')::bigint, 1, {s}.with_ids(t.id, t.context_id, e.value -> 'event', 'message')
        FROM jsonb_array_elements(log.events) e
       WHERE e.value -> 'event' ? 'message' AND NOT e.value -> 'event' ? 'artifact' AND NOT e.value -> 'event' ? 'progress') x) h
  CROSS JOIN LATERAL (
    WITH chunks AS (
      SELECT 0::bigint AS seq, a.ordinality AS place, true AS appended, a.value AS artifact
        FROM jsonb_array_elements(log.snapshot -> 'artifacts') WITH ORDINALITY a(value, ordinality)
      UNION ALL
      SELECT (e.value ->> 'seq')::bigint, 0, e.value -> 'event' ? 'append', e.value -> 'event' -> 'artifact'
        FROM jsonb_array_elements(log.events) e
       WHERE e.value -> 'event' ? 'artifact'),
    known AS (
      SELECT *, artifact ->> 'artifactId' AS aid,
             max(seq) FILTER (WHERE NOT appended AND artifact -> 'parts' = '[]')
               OVER (PARTITION BY artifact ->> 'artifactId') AS withdrawn
        FROM chunks),
    kept AS (SELECT * FROM known WHERE withdrawn IS NULL OR seq > withdrawn),
    starts AS (
      SELECT aid, min(seq) AS first, min(place) AS place,
             coalesce(max(seq) FILTER (WHERE NOT appended), min(seq)) AS start
        FROM kept GROUP BY 1)
    SELECT coalesce(jsonb_agg(jsonb_set(
             (SELECT c.artifact FROM kept c WHERE c.aid = starts.aid AND c.seq = start LIMIT 1), '{parts}',
             (SELECT coalesce(jsonb_agg(p.value ORDER BY c.seq, p.ordinality), '[]')
                FROM kept c CROSS JOIN LATERAL jsonb_array_elements(c.artifact -> 'parts') WITH ORDINALITY p(value, ordinality)
               WHERE c.aid = starts.aid AND c.seq >= start)) ORDER BY first, place), '[]') AS artifacts
      FROM starts) a
  CROSS JOIN LATERAL (
    SELECT {s}.merge_patches(patch ORDER BY seq) AS metadata FROM (
      SELECT 0::bigint AS seq, log.snapshot -> 'metadata' AS patch
      UNION ALL
      SELECT (e.value ->> 'seq')::bigint, e.value -> 'event' -> 'metadata' FROM jsonb_array_elements(log.events) e) x) m;

CREATE VIEW {s}.contexts AS
SELECT c.id, c.owner AS owner_did, coalesce({s}.parse_json(c.record), '{}') AS context_data,
       c.status, {s}.parse_json(c.record) ->> 'name' AS name, nullif(c.parent_id, '') AS parent_context_id, c.task_count,
       (SELECT coalesce(jsonb_agg(m.value ORDER BY t.created_at, t.id, m.ordinality), '[]')
          FROM {s}.tasks t CROSS JOIN LATERAL jsonb_array_elements(t.history) WITH ORDINALITY m(value, ordinality)
         WHERE t.owner_did = c.owner AND t.context_id = c.id) AS message_history,
       {s}.from_millis(c.created_at) AS created_at, {s}.from_millis(c.updated_at) AS updated_at
  FROM {s}.context_rows c WHERE c.status <> '';

CREATE VIEW {s}.task_feedback AS
SELECT f.id, f.task_id, f.owner AS owner_did,
       jsonb_build_object('id', f.id, 'rating', nullif(f.rating, 0), 'metadata', '{}'::jsonb) || {s}.parse_json(f.data) AS feedback_data,
       {s}.from_millis(f.created_at) AS created_at
  FROM {s}.feedback_rows f;

CREATE VIEW {s}.webhook_configs AS
SELECT c.task_id, c.id, {s}.parse_json(c.data) AS config,
       {s}.from_millis(c.created_at) AS created_at, {s}.from_millis(c.updated_at) AS updated_at, c.owner AS owner_did
  FROM {s}.webhooks c;
