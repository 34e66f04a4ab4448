-- The schema of Holdfast on PostgreSQL. {s} is the name of the schema.
--
-- Times are milliseconds since 1970-01-01 UTC; 0 means no time. Ids, owners and names
-- compare by their bytes.
--
-- Collations: "C", "POSIX" and "ucs_basic" all compare bytes, but an index only serves
-- expressions of its own collation. Each kind of query therefore uses the indexes that
-- are made for it, even when it is planned before the table has statistics: "POSIX" finds
-- rows by key and the queued tasks of one context, "ucs_basic" walks the work queues, and
-- "C" serves lists.

-- Tasks

-- Numbers of tasks (task_rows.pk). Each process reserves a block of 1024.
CREATE SEQUENCE {s}.task_pks INCREMENT BY 1024 START WITH 1024;

-- One row per task: what guards, lists and claims need. Its content is in task_log.
-- seq is the task's version, the number of its events. received_seq is the sequence of
-- the newest message of the client. checkpoint is the sequence of the log row from which
-- reads start. phase to turn_start_seq are the queue entry (store.Run); phase is 0 idle,
-- 1 queued and ready (may be claimed from due_at), 2 leased, 3 queued and waiting (becomes
-- ready at due_at). webhooks is the number of the task's rows in push_lanes: a statement
-- that adds events moves them on, and fails if it finds another number of them.
--
-- first is true for the task with which its context was made. It is in no index by context;
-- the row of the context names it (first_id). Most contexts have only one task, which would
-- otherwise move in those indexes with every change of its state.
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
  first          boolean NOT NULL DEFAULT false
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE UNIQUE INDEX task_rows_key ON {s}.task_rows (owner COLLATE "POSIX", id COLLATE "POSIX");
CREATE INDEX task_rows_state ON {s}.task_rows (owner, state, state_at, id);
CREATE INDEX task_rows_created ON {s}.task_rows (owner, state, created_at, id);
CREATE INDEX task_rows_context ON {s}.task_rows (owner, context_id, state, state_at, id) WHERE NOT first;
CREATE INDEX task_rows_context_created ON {s}.task_rows (owner, context_id, created_at, id) WHERE NOT first;
-- The work queue: ready tasks of an owner by due time, ready tasks of a context by due
-- time (contexts of an owner take turns), waiting tasks by due time, and leased tasks by
-- the end of their leases.
CREATE INDEX task_rows_queued ON {s}.task_rows (owner COLLATE "ucs_basic", due_at, id) WHERE phase = 1;
CREATE INDEX task_rows_turns ON {s}.task_rows (owner COLLATE "POSIX", context_id COLLATE "POSIX", due_at, id) WHERE phase = 1;
CREATE INDEX task_rows_waiting ON {s}.task_rows (due_at) WHERE phase = 3;
CREATE INDEX task_rows_leased ON {s}.task_rows (owner COLLATE "ucs_basic", lease_until, id) WHERE phase = 2;

-- One row per change of a task: the n events that start with sequence seq, as JSON. An event without
-- a time has that of the first event of the row, one without a state is working. Messages
-- without ids belong to the task and its context, unless the event is marked as bare.
-- snapshot, if set, is the task after the change; only the log row at task_rows.checkpoint
-- keeps one. mark is the id of the commit in commit_marks. large is set where values were
-- taken out into task_contents: the bytes of those of events.
CREATE TABLE {s}.task_log (
  task_pk  bigint NOT NULL,
  seq      bigint NOT NULL,
  mark     bigint NOT NULL,
  n        integer NOT NULL,
  snapshot text,
  events   text NOT NULL,
  large    integer,
  PRIMARY KEY (task_pk, seq)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);
CREATE INDEX task_log_snapshots ON {s}.task_log (task_pk, seq) WHERE snapshot IS NOT NULL;

-- Values of the logs that are larger than 64 KiB, as JSON. The JSON of task_log has in their
-- place "\u001A", M (in a message) or A (in an artifact) and the SHA-256 of data in hex.
CREATE TABLE {s}.task_contents (
  task_pk bigint NOT NULL,
  hash    bytea NOT NULL,
  data    text NOT NULL,
  PRIMARY KEY (task_pk, hash)
);

-- whole returns JSON of a task's log with the large values in place. Without artifacts
-- theirs become empty texts.
CREATE FUNCTION {s}.whole(task bigint, data text, artifacts boolean) RETURNS text LANGUAGE plpgsql STABLE AS $f$
DECLARE
  ref text;
BEGIN
  FOR ref IN SELECT DISTINCT m[1] FROM pg_catalog.regexp_matches(data, '"\\u001A([AM][0-9a-f]{64})"', 'g') m LOOP
    IF artifacts OR ref LIKE 'M%' THEN
      data := pg_catalog.replace(data, '"\u001A' || ref || '"',
        (SELECT c.data FROM {s}.task_contents c WHERE c.task_pk = task AND c.hash = pg_catalog.decode(pg_catalog.substr(ref, 2), 'hex')));
    ELSE
      data := pg_catalog.replace(data, '"\u001A' || ref || '"', '""');
    END IF;
  END LOOP;
  RETURN data;
END
$f$;

-- Completed steps of turns, in the order of id. artifacts records what the step did to artifacts; null means
-- nothing.
CREATE TABLE {s}.task_steps (
  id        bigint GENERATED BY DEFAULT AS IDENTITY,
  task_pk   bigint NOT NULL,
  turn      bigint NOT NULL,
  name      text COLLATE "C" NOT NULL,
  result    bytea,
  artifacts bytea,
  PRIMARY KEY (task_pk, turn, name)
);

-- Removed tasks of whose log and steps rows are left.
CREATE TABLE {s}.tasks_deleted (
  owner   text COLLATE "C" NOT NULL,
  task_pk bigint NOT NULL,
  PRIMARY KEY (owner, task_pk)
);

-- Contexts

-- status '' marks a pending deletion. version is 0, which reads as 1, until a context that
-- was made for a task is changed for the first time. name is UTF-8 that may contain NUL. record is the
-- client's description as JSON, null if there is none. first_id is the task with which the
-- context was made, '' if there is none or it was deleted. plain is true until the context is
-- changed: it is active, has no name and no labels, and updated_at is created_at. Most contexts
-- stay so, and are in one index for all lists. labels are hashes of the tags and
-- the role of a described context.
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
  plain      boolean NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX context_rows_key ON {s}.context_rows (owner COLLATE "POSIX", id COLLATE "POSIX");
CREATE INDEX context_rows_updated ON {s}.context_rows (owner, status, updated_at, id) WHERE NOT plain;
CREATE INDEX context_rows_created ON {s}.context_rows (owner, status, created_at, id) WHERE NOT plain;
CREATE INDEX context_rows_name ON {s}.context_rows (owner, status, name, created_at, id) WHERE NOT plain;
CREATE INDEX context_rows_plain ON {s}.context_rows (owner, created_at, id) WHERE plain;
CREATE INDEX context_rows_pending_deletion ON {s}.context_rows (owner, id) WHERE status = '';
-- Contexts without tasks, for retention: those that a client described, and the others.
CREATE INDEX context_rows_vacant ON {s}.context_rows (updated_at, owner, id) WHERE task_count = 0 AND record IS NOT NULL;
CREATE INDEX context_rows_empty ON {s}.context_rows (updated_at, owner, id) WHERE task_count = 0 AND record IS NULL;
CREATE INDEX context_rows_parent ON {s}.context_rows (owner, parent_id) WHERE parent_id <> '';
CREATE INDEX context_rows_labels ON {s}.context_rows USING gin (labels) WHERE labels IS NOT NULL;

-- Idempotency records and feedback

-- task_id is the task that the request changed, or the context if of_context is true.
-- at_creation is true where the request created the task, at created_at. Most records are
-- such. Deletions find them among those of that time; the index by task has the others.
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

-- data is the text and the metadata as JSON.
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
-- for another to release a counter; rows are merged from time to time. id tells rows apart.

-- Contexts of an owner by status, and feedback by rating (kind 'rating 5'); owner '' counts
-- the feedback of all owners.
CREATE TABLE {s}.tallies (
  owner text COLLATE "C" NOT NULL,
  kind  text COLLATE "C" NOT NULL,
  n     bigint NOT NULL,
  id    bigint GENERATED BY DEFAULT AS IDENTITY
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX tallies_owner ON {s}.tallies (owner, kind) INCLUDE (n);

-- Contexts of an owner by label and status. The statements that change context_rows.labels
-- or the status of a row with labels add the rows.
CREATE TABLE {s}.label_tallies (
  owner  text COLLATE "C" NOT NULL,
  label  bigint NOT NULL,
  status text COLLATE "C" NOT NULL,
  n      bigint NOT NULL,
  id     bigint GENERATED BY DEFAULT AS IDENTITY
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX label_tallies_label ON {s}.label_tallies (owner, label) INCLUDE (status, n);

-- Webhooks

-- One row per webhook: what the client registered. It changes rarely; the state of the
-- delivery, which changes with every delivery, is in push_lanes. rev grows with every save;
-- the lane has the same. task_pk, context_id and task_created_at are the task's.
CREATE TABLE {s}.push_configs (
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
CREATE UNIQUE INDEX push_configs_key ON {s}.push_configs (owner COLLATE "POSIX", task_id COLLATE "POSIX", id COLLATE "POSIX");

-- One row per webhook: its delivery queue. phase is 0 idle, 1 ready (may be claimed from
-- due_at), 2 waiting (becomes ready at due_at), 3 leased. A paused lane without pending
-- events is idle. -1 is idle, found by an expiry that it cannot be removed before it changes.
-- cursor_* is the position in the task's log up to which events were
-- delivered, tail_seq that of the last event; no index contains tail_seq, so that new
-- events change no index. reason is UTF-8 that may contain NUL.
CREATE TABLE {s}.push_lanes (
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
  reason          bytea NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX push_lanes_key ON {s}.push_lanes (owner COLLATE "POSIX", task_id COLLATE "POSIX", id COLLATE "POSIX");
CREATE INDEX push_lanes_ready ON {s}.push_lanes (owner COLLATE "ucs_basic", due_at, task_id, id) WHERE phase = 1;
CREATE INDEX push_lanes_waiting ON {s}.push_lanes (due_at) WHERE phase = 2;
CREATE INDEX push_lanes_leased ON {s}.push_lanes (owner COLLATE "ucs_basic", lease_until, task_id, id) INCLUDE (worker) WHERE phase = 3;
CREATE INDEX push_lanes_endpoint ON {s}.push_lanes (endpoint, due_at) WHERE phase = 1 OR phase = 2;
CREATE INDEX push_lanes_idle ON {s}.push_lanes (long_running, updated_at) WHERE phase = 0;
CREATE INDEX push_lanes_stopped ON {s}.push_lanes (owner, task_id, id) INCLUDE (state) WHERE state <> 'active';

-- Deleted webhooks whose leases have not ended yet.
CREATE TABLE {s}.push_gone (
  owner       text COLLATE "C" NOT NULL,
  task_id     text COLLATE "C" NOT NULL,
  id          text COLLATE "C" NOT NULL,
  worker      text COLLATE "C" NOT NULL,
  fence       bigint NOT NULL,
  lease_until bigint NOT NULL
);
CREATE UNIQUE INDEX push_gone_key ON {s}.push_gone (owner COLLATE "POSIX", task_id COLLATE "POSIX", id COLLATE "POSIX");
CREATE INDEX push_gone_until ON {s}.push_gone (lease_until);

-- One row per acknowledgement: its delivery attempts as JSON. first_at and last_at are the
-- times of the first and the last, at most a minute apart.
CREATE TABLE {s}.push_attempts (
  id        bigint GENERATED BY DEFAULT AS IDENTITY,
  owner     text COLLATE "C" NOT NULL,
  task_id   text COLLATE "C" NOT NULL,
  config_id text COLLATE "C" NOT NULL,
  first_at  bigint NOT NULL,
  last_at   bigint NOT NULL,
  data      text NOT NULL,
  PRIMARY KEY (owner, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);
CREATE INDEX push_attempts_at ON {s}.push_attempts (last_at, id);
CREATE INDEX push_attempts_owner ON {s}.push_attempts (owner, last_at, id);
CREATE INDEX push_attempts_task ON {s}.push_attempts (owner, task_id, last_at, id);

-- Dead letters. Lists show the newest first.
CREATE TABLE {s}.push_dead (
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
CREATE UNIQUE INDEX push_dead_key ON {s}.push_dead (owner COLLATE "POSIX", task_id COLLATE "POSIX", config_id COLLATE "POSIX", seq);
CREATE INDEX push_dead_at ON {s}.push_dead ((-at), owner, task_id, config_id, (-sequence));
CREATE INDEX push_dead_owner ON {s}.push_dead (owner, (-at), task_id, config_id, (-sequence));
CREATE INDEX push_dead_task ON {s}.push_dead (owner, task_id, (-at), config_id, (-sequence));

-- Endpoints with failures: the state of their circuit breakers.
CREATE TABLE {s}.push_endpoints (
  name       text COLLATE "C" PRIMARY KEY,
  failures   bigint NOT NULL,
  failed_at  bigint NOT NULL,
  open_until bigint NOT NULL,
  disabled   boolean NOT NULL,
  reason     bytea NOT NULL,
  updated_at bigint NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);

-- Operation

-- One row per commit, kept for some minutes: a process that lost the answer of a commit
-- reads here whether it was applied, or inserts a row that prevents it. An id is the time
-- << 22 plus random bits.
CREATE TABLE {s}.commit_marks (
  id   bigint PRIMARY KEY,
  made boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.1);

-- Health checks write this row.
CREATE TABLE {s}.heartbeat (
  pk    integer PRIMARY KEY,
  beats bigint NOT NULL
) WITH (fillfactor = 20);
INSERT INTO {s}.heartbeat VALUES (1, 0);

-- Views for people. The store neither reads nor writes them.

-- readable casts JSON to jsonb. jsonb cannot hold NUL, so NUL characters become U+FFFD.
-- Text that is no JSON becomes null.
CREATE FUNCTION {s}.readable(data text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $f$
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

CREATE FUNCTION {s}.moment(ms bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
$f$ SELECT timestamptz '1970-01-01 00:00:00Z' + ms * interval '1 millisecond' $f$;

-- A JSON merge patch (RFC 7396), and all of several, in order. A patch that is NULL changes nothing.
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

-- with_ids returns a message of an event with the ids of its task and context, which logs leave out.
CREATE FUNCTION {s}.with_ids(task text, context text, event jsonb, member text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $f$
  SELECT CASE WHEN event ? 'bare' THEN '{}' ELSE jsonb_build_object('taskId', task, 'contextId', context) END || (event -> member)
$f$;

CREATE VIEW {s}.task_events AS
SELECT t.owner AS owner_did, t.id AS task_id, l.seq + e.ordinality - 1 AS seq,
       coalesce(e.value ->> 'time', r.events -> 0 ->> 'time')::timestamptz AS "time", coalesce(e.value ->> 'state', 'working') AS state, e.value AS event
  FROM {s}.task_rows t
  JOIN {s}.task_log l ON l.task_pk = t.pk
  CROSS JOIN LATERAL (SELECT {s}.readable({s}.whole(t.pk, l.events, true)) OFFSET 0) r(events)
  CROSS JOIN LATERAL jsonb_array_elements(r.events) WITH ORDINALITY e(value, ordinality);

CREATE VIEW {s}.tasks AS
SELECT t.id, t.context_id, t.owner AS owner_did, 'task'::text AS kind, t.state,
       {s}.moment(t.state_at) AS state_timestamp, h.history, a.artifacts, m.metadata,
       {s}.moment(t.created_at) AS created_at, {s}.moment(t.updated_at) AS updated_at
  FROM {s}.task_rows t
  CROSS JOIN LATERAL (
    SELECT jsonb_agg({s}.readable({s}.whole(t.pk, l.snapshot, true))) FILTER (WHERE l.seq = t.checkpoint AND l.snapshot IS NOT NULL) -> 0 AS snapshot,
           coalesce(jsonb_agg(jsonb_build_object('seq', l.seq + e.ordinality - 1, 'event', e.value) ORDER BY l.seq, e.ordinality)
             FILTER (WHERE e.value IS NOT NULL), '[]') AS events
      FROM {s}.task_log l
      LEFT JOIN LATERAL jsonb_array_elements({s}.readable({s}.whole(t.pk, l.events, true))) WITH ORDINALITY e(value, ordinality)
             ON l.seq > t.checkpoint OR l.snapshot IS NULL
     WHERE l.task_pk = t.pk AND l.seq >= t.checkpoint) log
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
SELECT c.id, c.owner AS owner_did, coalesce({s}.readable(c.record), '{}') AS context_data,
       c.status, {s}.readable(c.record) ->> 'name' AS name, nullif(c.parent_id, '') AS parent_context_id, c.task_count,
       (SELECT coalesce(jsonb_agg(m.value ORDER BY t.created_at, t.id, m.ordinality), '[]')
          FROM {s}.tasks t CROSS JOIN LATERAL jsonb_array_elements(t.history) WITH ORDINALITY m(value, ordinality)
         WHERE t.owner_did = c.owner AND t.context_id = c.id) AS message_history,
       {s}.moment(c.created_at) AS created_at, {s}.moment(c.updated_at) AS updated_at
  FROM {s}.context_rows c WHERE c.status <> '';

CREATE VIEW {s}.task_feedback AS
SELECT f.id, f.task_id, f.owner AS owner_did,
       jsonb_build_object('id', f.id, 'rating', nullif(f.rating, 0), 'metadata', '{}'::jsonb) || {s}.readable(f.data) AS feedback_data,
       {s}.moment(f.created_at) AS created_at
  FROM {s}.feedback_rows f;

CREATE VIEW {s}.webhook_configs AS
SELECT c.task_id, c.id, {s}.readable(c.data) AS config,
       {s}.moment(c.created_at) AS created_at, {s}.moment(c.updated_at) AS updated_at, c.owner AS owner_did
  FROM {s}.push_configs c;
