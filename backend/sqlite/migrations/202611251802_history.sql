-- migrate: compatible with 202611221300

-- Transcripts (store/history)

-- One row per session. last_seq is the last assigned sequence, newest the sequence of the newest
-- message, 0 if there is none. messages and bytes count the messages and the bytes of their bodies.
-- ttl is in milliseconds, 0 for none. expires_at is 0 for sessions that do not expire, and 1 while a
-- cleared session is removed. updated_minute is updated_at in minutes: the indexes of lists have it,
-- so that most appends change no index.
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
CREATE INDEX history_sessions_owner ON history_sessions (owner, updated_minute);
CREATE INDEX history_sessions_agent ON history_sessions (owner, agent, updated_minute);
CREATE INDEX history_sessions_expiry ON history_sessions (expires_at) WHERE expires_at > 0;

-- One row per message. tool_calls and tool_results are JSON arrays of ids, '' if there are none.
-- The first message of an append has its idempotency key, '' if there is none, and the sequence of
-- its last message.
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
CREATE INDEX history_messages_run ON history_messages (owner, agent, session, run) WHERE run <> '';
CREATE UNIQUE INDEX history_messages_key ON history_messages (owner, agent, session, key) WHERE key <> '';

-- The highest fence of each run that has one.
CREATE TABLE history_fences (
  owner   TEXT NOT NULL,
  agent   TEXT NOT NULL,
  session TEXT NOT NULL,
  run     TEXT NOT NULL,
  fence   INTEGER NOT NULL,
  PRIMARY KEY (owner, agent, session, run)
) WITHOUT ROWID;
