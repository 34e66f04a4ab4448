CREATE INDEX blob_chunks_object ON blob_chunks (owner, object) WHERE n = 1;
CREATE INDEX blob_contents_freed ON blob_contents (freed_at) WHERE refs = 0;
CREATE INDEX blob_contents_object ON blob_contents (object);
CREATE INDEX blob_refs_expires ON blob_refs (expires_at) WHERE expires_at > 0;
CREATE UNIQUE INDEX blob_refs_key ON blob_refs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX context_labels_created ON context_labels (owner, label, bucket, created_at, id);
CREATE INDEX context_labels_name ON context_labels (owner, label, bucket, name, created_at, id);
CREATE INDEX context_labels_updated ON context_labels (owner, label, bucket, updated_at, id);
CREATE INDEX context_rows_created ON context_rows (owner, bucket, created_at, id);
CREATE INDEX context_rows_empty ON context_rows (record IS NOT NULL, updated_at, owner, id) WHERE task_count = 0;
CREATE INDEX context_rows_name ON context_rows (owner, bucket, name, created_at, id) WHERE bucket <> 'active.new' AND bucket <> 'active.used';
CREATE INDEX context_rows_parent ON context_rows (owner, record ->> '$.parentContextId') WHERE record ->> '$.parentContextId' IS NOT NULL;
CREATE INDEX context_rows_updated ON context_rows (owner, bucket, updated_at, id) WHERE bucket <> 'active.new';
CREATE INDEX feedback_rows_created ON feedback_rows (owner, created_at, id, task_id);
CREATE INDEX feedback_rows_task ON feedback_rows (owner, task_id, created_at, id);
CREATE UNIQUE INDEX graph_entities_id ON graph_entities (owner, graph, id);
CREATE INDEX graph_entities_label ON graph_entities (owner, graph, label, id);
CREATE INDEX graph_entities_name ON graph_entities (owner, graph, name, id) WHERE name <> '';
CREATE UNIQUE INDEX graph_relationships_id ON graph_relationships (owner, graph, id, version);
CREATE INDEX graph_relationships_source ON graph_relationships (owner, graph, source, replaced_at);
CREATE INDEX graph_relationships_target ON graph_relationships (owner, graph, target, replaced_at);
CREATE UNIQUE INDEX history_messages_key ON history_messages (owner, agent, session, key) WHERE key <> '';
CREATE INDEX history_messages_run ON history_messages (owner, agent, session, run) WHERE run <> '';
CREATE INDEX history_sessions_agent ON history_sessions (owner, agent, updated_minute);
CREATE INDEX history_sessions_expiry ON history_sessions (expires_at) WHERE expires_at > 0;
CREATE INDEX history_sessions_owner ON history_sessions (owner, updated_minute);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_task ON idempotency_keys (owner, task_id) WHERE lookup > 0;
CREATE INDEX memory_facts_expiry ON memory_facts (expires_at) WHERE head = 1 AND expires_at < 9223372036854775807;
CREATE INDEX memory_facts_model ON memory_facts (model) WHERE replaced_at + 0 = 0;
CREATE INDEX memory_facts_recent ON memory_facts (owner, agent, namespace, updated_at DESC, id DESC, version, model, valid_from, valid_to, expires_at, words) WHERE replaced_at = 0;
CREATE INDEX memory_keys_id ON memory_keys (owner, agent, namespace, id);
CREATE INDEX records_expiring ON records (expires_at) WHERE expires_at > 0;
CREATE INDEX task_rows_context ON task_rows (owner, context_id, state, state_at, id) WHERE first = 0;
CREATE INDEX task_rows_context_created ON task_rows (owner, context_id, created_at, id) WHERE first = 0;
CREATE INDEX task_rows_context_due ON task_rows (owner, context_id, max(due_at, created_at), id) WHERE phase = 1;
CREATE INDEX task_rows_created ON task_rows (owner, created_at, id);
CREATE INDEX task_rows_leased ON task_rows (owner, lease_until, id, lease_worker) WHERE phase = 2;
CREATE INDEX task_rows_queued ON task_rows (owner, max(due_at, created_at), id) WHERE phase = 1;
CREATE INDEX task_rows_state ON task_rows (owner, state, state_at, id);
CREATE INDEX task_rows_waiting ON task_rows (due_at, owner, context_id, id) WHERE phase = 3;
CREATE UNIQUE INDEX vector_documents_seq ON vector_documents (owner, collection, seq);
CREATE INDEX webhook_attempts_at ON webhook_attempts (at);
CREATE INDEX webhook_attempts_owner ON webhook_attempts (owner, at);
CREATE INDEX webhook_attempts_task ON webhook_attempts (task_pk, at, lane_pk);
CREATE INDEX webhook_dead_at ON webhook_dead (at);
CREATE INDEX webhook_dead_owner ON webhook_dead (owner, at);
CREATE INDEX webhook_dead_task ON webhook_dead (task_pk, at, lane_pk);
CREATE INDEX webhook_lanes_deleted ON webhook_lanes (lease_until) WHERE phase = 5;
CREATE INDEX webhook_lanes_done ON webhook_lanes (long_running, updated_at) WHERE phase = 4 AND dead = 0;
CREATE INDEX webhook_lanes_endpoint ON webhook_lanes (endpoint, due_at) WHERE phase IN (1, 3);
CREATE INDEX webhook_lanes_inactive ON webhook_lanes (owner, task_id, id, state) WHERE state <> 'active' AND state <> '';
CREATE INDEX webhook_lanes_leased ON webhook_lanes (owner, lease_until, task_id, id, worker) WHERE phase = 2;
CREATE UNIQUE INDEX webhook_lanes_name ON webhook_lanes (owner, task_id, id);
CREATE INDEX webhook_lanes_ready ON webhook_lanes (owner, due_at, task_id, id) WHERE phase = 1;
CREATE INDEX webhook_lanes_waiting ON webhook_lanes (due_at) WHERE phase = 3;
CREATE TABLE blob_chunks (
  owner  TEXT NOT NULL,
  object TEXT NOT NULL,
  n      INTEGER NOT NULL,
  data   BLOB NOT NULL,
  PRIMARY KEY (owner, object, n)
);
CREATE TABLE blob_contents (
  owner    TEXT NOT NULL,
  digest   BLOB NOT NULL,
  size     INTEGER NOT NULL,
  object   TEXT NOT NULL,
  inline   INTEGER NOT NULL,
  refs     INTEGER NOT NULL,
  freed_at INTEGER NOT NULL,
  PRIMARY KEY (owner, digest)
) WITHOUT ROWID;
CREATE TABLE blob_owners (
  owner TEXT NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL,
  blobs INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE blob_pins (
  owner  TEXT NOT NULL,
  holder TEXT NOT NULL,
  ref    TEXT NOT NULL,
  PRIMARY KEY (owner, holder, ref)
) WITHOUT ROWID;
CREATE TABLE blob_refs (
  owner           TEXT NOT NULL,
  ref             TEXT NOT NULL,
  digest          BLOB NOT NULL,
  size            INTEGER NOT NULL,
  content_type    TEXT NOT NULL,
  name            TEXT NOT NULL,
  created_at      INTEGER NOT NULL,
  expires_at      INTEGER NOT NULL,
  ttl             INTEGER NOT NULL,
  holders         TEXT NOT NULL,
  idempotency_key TEXT,
  PRIMARY KEY (owner, ref)
);
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
CREATE TABLE contexts_pending_deletion (
  owner TEXT NOT NULL,
  id    TEXT NOT NULL,
  PRIMARY KEY (owner, id)
) WITHOUT ROWID;
CREATE TABLE counters (
  owner  TEXT NOT NULL,
  label  TEXT NOT NULL,
  bucket TEXT NOT NULL,
  n      INTEGER NOT NULL,
  PRIMARY KEY (owner, label, bucket)
) WITHOUT ROWID;
CREATE TABLE feedback_rows (
  owner      TEXT NOT NULL,
  task_id    TEXT NOT NULL,
  id         TEXT NOT NULL,
  rating     INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  data       TEXT NOT NULL,
  PRIMARY KEY (owner, task_id, id)
);
CREATE TABLE graph_entities (
  owner      TEXT NOT NULL,
  graph      TEXT NOT NULL,
  id         TEXT NOT NULL,
  label      TEXT NOT NULL,
  name       TEXT NOT NULL,
  properties TEXT NOT NULL
);
CREATE TABLE graph_relationships (
  owner       TEXT NOT NULL,
  graph       TEXT NOT NULL,
  id          TEXT NOT NULL,
  version     INTEGER NOT NULL,
  source      TEXT NOT NULL,
  target      TEXT NOT NULL,
  type        TEXT NOT NULL,
  properties  TEXT NOT NULL,
  valid_from  INTEGER NOT NULL,
  valid_to    INTEGER NOT NULL,
  recorded_at INTEGER NOT NULL,
  replaced_at INTEGER NOT NULL
);
CREATE TABLE graphs (
  owner TEXT NOT NULL,
  graph TEXT NOT NULL,
  PRIMARY KEY (owner, graph)
) WITHOUT ROWID;
CREATE TABLE heartbeat (
  pk    INTEGER PRIMARY KEY,
  beats INTEGER NOT NULL
);
CREATE TABLE history_fences (
  owner   TEXT NOT NULL,
  agent   TEXT NOT NULL,
  session TEXT NOT NULL,
  run     TEXT NOT NULL,
  fence   INTEGER NOT NULL,
  PRIMARY KEY (owner, agent, session, run)
) WITHOUT ROWID;
CREATE TABLE history_messages (
  owner        TEXT NOT NULL,
  agent        TEXT NOT NULL,
  session      TEXT NOT NULL,
  seq          INTEGER NOT NULL,
  run          TEXT NOT NULL,
  role         TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  tool_calls   TEXT NOT NULL,
  tool_results TEXT NOT NULL,
  body         TEXT NOT NULL,
  key          TEXT NOT NULL,
  key_last     INTEGER NOT NULL,
  PRIMARY KEY (owner, agent, session, seq)
);
CREATE TABLE history_sessions (
  owner          TEXT NOT NULL,
  agent          TEXT NOT NULL,
  session        TEXT NOT NULL,
  last_seq       INTEGER NOT NULL,
  newest         INTEGER NOT NULL,
  messages       INTEGER NOT NULL,
  bytes          INTEGER NOT NULL,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  updated_minute INTEGER NOT NULL,
  ttl            INTEGER NOT NULL,
  expires_at     INTEGER NOT NULL,
  PRIMARY KEY (owner, agent, session)
) WITHOUT ROWID;
CREATE TABLE idempotency_indexed (
  pk      INTEGER PRIMARY KEY,
  task_pk INTEGER NOT NULL
);
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
CREATE TABLE memory_facts (
  pk          INTEGER PRIMARY KEY,
  owner       TEXT NOT NULL,
  agent       TEXT NOT NULL,
  namespace   TEXT NOT NULL,
  id          TEXT NOT NULL,
  version     INTEGER NOT NULL,
  head        INTEGER NOT NULL,
  key         TEXT NOT NULL,
  content     TEXT NOT NULL,
  words       INTEGER NOT NULL,
  metadata    TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  replaced_at INTEGER NOT NULL,
  valid_from  INTEGER NOT NULL,
  valid_to    INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  entities    TEXT NOT NULL,
  model       TEXT NOT NULL,
  embedding   BLOB,
  UNIQUE (owner, agent, namespace, id, version)
);
CREATE VIRTUAL TABLE memory_index USING fts5(terms, content='', contentless_delete=1, tokenize="ascii tokenchars '_'");
CREATE TABLE 'memory_index_config'(k PRIMARY KEY, v) WITHOUT ROWID;
CREATE TABLE 'memory_index_data'(id INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE 'memory_index_docsize'(id INTEGER PRIMARY KEY, sz BLOB, origin INTEGER);
CREATE TABLE 'memory_index_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
CREATE TABLE memory_keys (
  owner     TEXT NOT NULL,
  agent     TEXT NOT NULL,
  namespace TEXT NOT NULL,
  key       TEXT NOT NULL,
  id        TEXT NOT NULL,
  PRIMARY KEY (owner, agent, namespace, key)
) WITHOUT ROWID;
CREATE TABLE records (
  owner      TEXT NOT NULL,
  namespace  TEXT NOT NULL,
  key        TEXT NOT NULL,
  version    INTEGER NOT NULL,
  value      BLOB,
  expires_at INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, namespace, key)
) WITHOUT ROWID;
CREATE TABLE schema_migrations (
  version    TEXT PRIMARY KEY,
  name       TEXT NOT NULL,
  checksum   TEXT NOT NULL,
  applied_at TEXT NOT NULL,
  compatible TEXT NOT NULL
);
CREATE TABLE task_contents (
  id      INTEGER PRIMARY KEY,
  task_pk INTEGER NOT NULL,
  hash    BLOB NOT NULL,
  data    TEXT NOT NULL,
  UNIQUE (task_pk, hash)
);
CREATE TABLE task_log (
  id       INTEGER PRIMARY KEY,
  n        INTEGER NOT NULL,
  key      TEXT,
  key_hash BLOB,
  snapshot TEXT,
  events   TEXT NOT NULL,
  large    INTEGER NOT NULL
);
CREATE TABLE task_removals (
  owner      TEXT NOT NULL,
  id         TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  context_id TEXT NOT NULL,
  PRIMARY KEY (owner, id, created_at)
) WITHOUT ROWID;
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
CREATE TABLE task_steps (
  id        INTEGER PRIMARY KEY,
  task_pk   INTEGER NOT NULL,
  turn      INTEGER NOT NULL,
  name      TEXT NOT NULL,
  result    BLOB,
  artifacts BLOB,
  UNIQUE (task_pk, turn, name)
);
CREATE TABLE tasks_deleted (
  pk    INTEGER PRIMARY KEY,
  owner TEXT NOT NULL,
  id    TEXT NOT NULL
);
CREATE TABLE vector_collections (
  owner     TEXT NOT NULL,
  name      TEXT NOT NULL,
  id        INTEGER NOT NULL,
  metric    TEXT NOT NULL,
  dimension INTEGER NOT NULL,
  embedder  TEXT NOT NULL,
  seq       INTEGER NOT NULL,
  removed   INTEGER NOT NULL,
  documents INTEGER NOT NULL,
  snapshot  INTEGER NOT NULL,
  PRIMARY KEY (owner, name)
) WITHOUT ROWID;
CREATE TABLE vector_deleted (
  owner TEXT NOT NULL,
  id    INTEGER NOT NULL,
  PRIMARY KEY (owner, id)
) WITHOUT ROWID;
CREATE TABLE vector_documents (
  pk         INTEGER PRIMARY KEY,
  owner      TEXT NOT NULL,
  collection INTEGER NOT NULL,
  id         TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  metadata   TEXT NOT NULL,
  text       TEXT NOT NULL,
  blocks     TEXT NOT NULL,
  embedding  BLOB NOT NULL,
  UNIQUE (owner, collection, id)
);
CREATE VIRTUAL TABLE vector_index USING fts5(terms, content='', contentless_delete=1, tokenize="ascii tokenchars '_'");
CREATE TABLE 'vector_index_config'(k PRIMARY KEY, v) WITHOUT ROWID;
CREATE TABLE 'vector_index_data'(id INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE 'vector_index_docsize'(id INTEGER PRIMARY KEY, sz BLOB, origin INTEGER);
CREATE TABLE 'vector_index_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
CREATE TABLE vector_snapshots (
  pk         INTEGER PRIMARY KEY,
  owner      TEXT NOT NULL,
  collection INTEGER NOT NULL,
  snapshot   INTEGER NOT NULL,
  part       INTEGER NOT NULL,
  data       BLOB NOT NULL,
  UNIQUE (owner, collection, snapshot, part)
);
CREATE TABLE webhook_attempts (
  pk       INTEGER PRIMARY KEY,
  lane_pk  INTEGER NOT NULL,
  task_pk  INTEGER NOT NULL,
  owner    TEXT NOT NULL,
  at       INTEGER NOT NULL,
  n        INTEGER NOT NULL,
  attempts TEXT NOT NULL
);
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
CREATE TABLE webhook_endpoints (
  name       TEXT PRIMARY KEY,
  failures   INTEGER NOT NULL,
  failed_at  INTEGER NOT NULL,
  open_until INTEGER NOT NULL,
  disabled   INTEGER NOT NULL,
  reason     TEXT NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;
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
CREATE TABLE webhook_rows (
  pk         INTEGER PRIMARY KEY,
  data       TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  saved_at   INTEGER NOT NULL
);
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
CREATE VIEW task_events AS
SELECT t.owner AS owner_did, t.id AS task_id, (l.id & 16777215) + e.key AS seq,
       coalesce(e.value ->> '$.time', l.events ->> '$[0].time') AS time, coalesce(e.value ->> '$.state', 'working') AS state, e.value AS event
  FROM task_rows t
  JOIN whole_log l ON l.id BETWEEN (t.pk << 24) AND (t.pk << 24) + 16777215
  JOIN json_each(l.events) e;
CREATE VIEW task_feedback AS
SELECT
  f.rowid AS id, f.task_id, f.owner AS owner_did,
  json_object('id', f.id, 'rating', nullif(f.rating, 0), 'feedback', coalesce(f.data ->> '$.feedback', ''),
              'metadata', json(coalesce(f.data -> '$.metadata', '{}'))) AS feedback_data,
  strftime('%Y-%m-%dT%H:%M:%fZ', f.created_at / 1000.0, 'unixepoch') AS created_at
FROM feedback_rows f;
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
CREATE VIEW webhook_configs AS
SELECT
  l.task_id, l.id, l.owner AS owner_did, r.data AS config,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.saved_at / 1000.0, 'unixepoch') AS updated_at
FROM webhook_lanes l JOIN webhook_rows r ON r.pk = l.pk WHERE l.phase <> 5;
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
