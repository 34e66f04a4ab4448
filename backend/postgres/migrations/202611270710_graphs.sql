-- migrate: compatible with 202611221300

-- Graphs

-- One row per graph that was written. Writes lock it: in share mode, or alone if they delete
-- entities.
CREATE TABLE {s}.graphs (
  owner text COLLATE "C" NOT NULL,
  graph text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX graphs_name ON {s}.graphs (owner, graph);

-- name is the folded name, '' if there is none. properties is the JSON of an object. The collation of
-- the column graph selects the index that a statement uses.
CREATE TABLE {s}.graph_entities (
  owner      text COLLATE "C" NOT NULL,
  graph      text COLLATE "C" NOT NULL,
  id         text COLLATE "C" NOT NULL,
  label      text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  properties text NOT NULL
);
CREATE UNIQUE INDEX graph_entities_id ON {s}.graph_entities (owner, graph, id);
CREATE INDEX graph_entities_label ON {s}.graph_entities (graph COLLATE "POSIX", owner, label, id);
CREATE INDEX graph_entities_name ON {s}.graph_entities (graph COLLATE "ucs_basic", owner, name, id) WHERE name <> '';

-- One row per version of a relationship. It is true from valid_from until before valid_to, and was
-- the newest one from recorded_at until before replaced_at. A time without bound is the smallest or
-- greatest integer.
CREATE TABLE {s}.graph_relationships (
  owner       text COLLATE "C" NOT NULL,
  graph       text COLLATE "C" NOT NULL,
  id          text COLLATE "C" NOT NULL,
  version     bigint NOT NULL,
  source      text COLLATE "C" NOT NULL,
  target      text COLLATE "C" NOT NULL,
  type        text COLLATE "C" NOT NULL,
  properties  text NOT NULL,
  valid_from  bigint NOT NULL,
  valid_to    bigint NOT NULL,
  recorded_at bigint NOT NULL,
  replaced_at bigint NOT NULL
);
CREATE UNIQUE INDEX graph_relationships_id ON {s}.graph_relationships (owner, graph, id, version);
CREATE INDEX graph_relationships_source ON {s}.graph_relationships (graph COLLATE "POSIX", owner, source, replaced_at);
CREATE INDEX graph_relationships_target ON {s}.graph_relationships (graph COLLATE "ucs_basic", owner, target, replaced_at);
