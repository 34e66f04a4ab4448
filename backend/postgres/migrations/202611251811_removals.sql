-- migrate: compatible with 202611221300

-- The pins of blob_refs.holders, by holder.
CREATE TABLE {s}.blob_pins (
  owner  text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL,
  ref    text COLLATE "C" NOT NULL,
  PRIMARY KEY (owner, holder, ref)
);
INSERT INTO {s}.blob_pins (owner, holder, ref)
  SELECT owner, unnest(string_to_array(holders, chr(10))), ref FROM {s}.blob_refs WHERE holders <> '';

-- Removed tasks with data that may remain in other tables or systems (store.Removal).
-- created_at distinguishes tasks that had the same id.
CREATE TABLE {s}.task_removals (
  owner      text COLLATE "C" NOT NULL,
  id         text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  context_id text COLLATE "C" NOT NULL,
  PRIMARY KEY (owner, id, created_at)
);
