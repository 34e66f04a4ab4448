-- migrate: compatible with 202611221300

-- Graphs

-- One row per graph that was written. Writes lock it.
CREATE TABLE graphs (
  owner TEXT NOT NULL,
  graph TEXT NOT NULL,
  PRIMARY KEY (owner, graph)
) WITHOUT ROWID;

-- name is the folded name, '' if there is none. properties is the JSON of an object.
CREATE TABLE graph_entities (
  owner      TEXT NOT NULL,
  graph      TEXT NOT NULL,
  id         TEXT NOT NULL,
  label      TEXT NOT NULL,
  name       TEXT NOT NULL,
  properties TEXT NOT NULL
);
CREATE UNIQUE INDEX graph_entities_id ON graph_entities (owner, graph, id);
CREATE INDEX graph_entities_label ON graph_entities (owner, graph, label, id);
CREATE INDEX graph_entities_name ON graph_entities (owner, graph, name, id) WHERE name <> '';

-- One row per version of a relationship. It is true from valid_from until before valid_to, and was
-- the newest one from recorded_at until before replaced_at. A time without bound is the smallest or
-- greatest integer.
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
CREATE UNIQUE INDEX graph_relationships_id ON graph_relationships (owner, graph, id, version);
CREATE INDEX graph_relationships_source ON graph_relationships (owner, graph, source, replaced_at);
CREATE INDEX graph_relationships_target ON graph_relationships (owner, graph, target, replaced_at);
