-- migrate: compatible with 202611221300

-- Transcripts (store/history)

-- One row per session. last_seq is the last assigned sequence, newest the sequence of the newest
-- message, 0 if there is none. messages and bytes count the messages and the bytes of their bodies.
-- ttl is in milliseconds, 0 for none. expires_at is 0 for sessions that do not expire, and 1 while a
-- cleared session is removed. updated_minute is updated_at in minutes: the indexes of lists have it,
-- so that most appends change no index.
CREATE TABLE {s}.history_sessions (
  owner          text COLLATE "C" NOT NULL,
  agent          text COLLATE "C" NOT NULL,
  session        text COLLATE "C" NOT NULL,
  last_seq       bigint NOT NULL,
  newest         bigint NOT NULL,
  messages       bigint NOT NULL,
  bytes          bigint NOT NULL,
  created_at     bigint NOT NULL,
  updated_at     bigint NOT NULL,
  updated_minute bigint NOT NULL,
  ttl            bigint NOT NULL,
  expires_at     bigint NOT NULL,
  fenced         boolean NOT NULL DEFAULT false -- one of its runs has a fence
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX history_sessions_key ON {s}.history_sessions (owner COLLATE "POSIX", agent COLLATE "POSIX", session COLLATE "POSIX");
CREATE INDEX history_sessions_owner ON {s}.history_sessions (owner, updated_minute);
CREATE INDEX history_sessions_agent ON {s}.history_sessions (owner, agent, updated_minute);
CREATE INDEX history_sessions_expiry ON {s}.history_sessions (expires_at) WHERE expires_at > 0;

-- One row per message. tool_calls and tool_results are JSON arrays of ids, '' if there are none.
-- The first message of an append has its idempotency key, '' if there is none, and the sequence of
-- its last message.
CREATE TABLE {s}.history_messages (
  owner        text COLLATE "C" NOT NULL,
  agent        text COLLATE "C" NOT NULL,
  session      text COLLATE "C" NOT NULL,
  seq          bigint NOT NULL,
  run          text COLLATE "C" NOT NULL,
  role         text COLLATE "C" NOT NULL,
  created_at   bigint NOT NULL,
  tool_calls   text COLLATE "C" NOT NULL,
  tool_results text COLLATE "C" NOT NULL,
  body         text COLLATE "C" NOT NULL,
  key          text COLLATE "C" NOT NULL,
  key_last     bigint NOT NULL,
  PRIMARY KEY (owner, agent, session, seq)
);
CREATE INDEX history_messages_run ON {s}.history_messages (owner, agent, session, run) WHERE run <> '';
CREATE UNIQUE INDEX history_messages_key ON {s}.history_messages (owner, agent, session, key) WHERE key <> '';

-- The highest fence of each run that has one.
CREATE TABLE {s}.history_fences (
  owner   text COLLATE "C" NOT NULL,
  agent   text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  run     text COLLATE "C" NOT NULL,
  fence   bigint NOT NULL,
  PRIMARY KEY (owner, agent, session, run)
);
