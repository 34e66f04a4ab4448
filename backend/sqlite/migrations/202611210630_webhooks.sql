-- lanes: how many rows of webhook_lanes a task has.
ALTER TABLE task_rows ADD COLUMN lanes INTEGER NOT NULL DEFAULT 0;

-- A webhook is a row here, which changes when its user says so, and one in
-- webhook_lanes, which changes with every delivery.
CREATE TABLE webhook_rows (
  pk         INTEGER PRIMARY KEY,
  data       TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  saved_at   INTEGER NOT NULL
);

-- phase: 0 nothing to tell, 1 may be due, 2 leased, 3 waits for due_at; 4 nothing
-- to tell any more, as the task is over; 5 deleted while a worker holds it. 1 to 3
-- have something to tell; what is in phase 3 moves to 1 when its time has come.
-- over: 1 when the task is over. dead: how many rows of webhook_dead it has.
-- state is '' in phase 5.
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
  over            INTEGER NOT NULL,
  tail            INTEGER NOT NULL,
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
CREATE INDEX webhook_lanes_gone ON webhook_lanes (lease_until) WHERE phase = 5;
CREATE INDEX webhook_lanes_inactive ON webhook_lanes (owner, task_id, id, state) WHERE state <> 'active' AND state <> '';

-- Attempts of one acknowledgement that were made within a moment share a row:
-- attempts is a JSON array of n, at the time of the newest.
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

CREATE TABLE webhook_endpoints (
  name       TEXT PRIMARY KEY,
  failures   INTEGER NOT NULL,
  failed_at  INTEGER NOT NULL,
  open_until INTEGER NOT NULL,
  disabled   INTEGER NOT NULL,
  reason     TEXT NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE VIEW webhook_configs AS
SELECT
  l.task_id, l.id, l.owner AS owner_did, r.data AS config,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', r.saved_at / 1000.0, 'unixepoch') AS updated_at
FROM webhook_lanes l JOIN webhook_rows r ON r.pk = l.pk WHERE l.phase <> 5;
