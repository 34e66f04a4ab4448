-- migrate: compatible with 202611221300

-- The pins of blob_refs.holders, by holder.
CREATE TABLE blob_pins (
  owner  TEXT NOT NULL,
  holder TEXT NOT NULL,
  ref    TEXT NOT NULL,
  PRIMARY KEY (owner, holder, ref)
) WITHOUT ROWID;
INSERT INTO blob_pins (owner, holder, ref)
  SELECT r.owner, h.value, r.ref
  FROM blob_refs r, json_each('["' || replace(replace(replace(r.holders, '\', '\\'), '"', '\"'), char(10), '","') || '"]') h
  WHERE r.holders <> '';

-- Removed tasks with data that may remain in other tables or systems (store.Removal).
-- created_at distinguishes tasks that had the same id.
CREATE TABLE task_removals (
  owner      TEXT NOT NULL,
  id         TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  context_id TEXT NOT NULL,
  PRIMARY KEY (owner, id, created_at)
) WITHOUT ROWID;
