-- How many contexts of an owner have a label, by status, as sums of rows: a list of a
-- tag or a role tells its total, and which statuses there are to look through. Nobody
-- may write to context_rows from before they are counted until they are counted by
-- themselves.
LOCK TABLE {s}.context_rows IN SHARE ROW EXCLUSIVE MODE;

-- Rows are added, and put together now and then, so that nobody waits for a counter.
CREATE TABLE {s}.label_tallies (
  owner  text COLLATE "C" NOT NULL,
  label  bigint NOT NULL,
  status text COLLATE "C" NOT NULL,
  n      bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
INSERT INTO {s}.label_tallies (owner, label, status, n)
SELECT c.owner, l.label, c.status, count(*)
  FROM {s}.context_rows c CROSS JOIN LATERAL (SELECT DISTINCT u.label FROM unnest(c.labels) u(label)) l
 WHERE c.labels IS NOT NULL AND c.status <> '' GROUP BY 1, 2, 3;
CREATE INDEX label_tallies_label ON {s}.label_tallies (owner, label) INCLUDE (status, n);

-- It is the database that counts, since programs that know nothing of it write beside
-- those that do; and with the rights of its owner, since theirs may not reach that far.
CREATE FUNCTION {s}.tally_labels() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$
BEGIN
  INSERT INTO {s}.label_tallies (owner, label, status, n)
  SELECT d.owner, d.label, d.status, sum(d.n) FROM (
    SELECT DISTINCT OLD.owner, u.label, OLD.status, -1 FROM unnest(OLD.labels) u(label) WHERE OLD.status <> ''
    UNION ALL
    SELECT DISTINCT NEW.owner, u.label, NEW.status, 1 FROM unnest(NEW.labels) u(label) WHERE NEW.status <> ''
  ) d(owner, label, status, n) GROUP BY 1, 2, 3 HAVING sum(d.n) <> 0;
  RETURN NULL;
END
$f$;
REVOKE ALL ON FUNCTION {s}.tally_labels() FROM PUBLIC;

-- Contexts that nobody has described have no labels and cost no call.
CREATE TRIGGER context_rows_labels_made AFTER INSERT ON {s}.context_rows FOR EACH ROW
  WHEN (NEW.labels IS NOT NULL AND NEW.status <> '') EXECUTE FUNCTION {s}.tally_labels();
CREATE TRIGGER context_rows_labels_changed AFTER UPDATE OF status, labels ON {s}.context_rows FOR EACH ROW
  WHEN ((OLD.labels IS NOT NULL OR NEW.labels IS NOT NULL) AND (OLD.status, OLD.labels) IS DISTINCT FROM (NEW.status, NEW.labels))
  EXECUTE FUNCTION {s}.tally_labels();
CREATE TRIGGER context_rows_labels_gone AFTER DELETE ON {s}.context_rows FOR EACH ROW
  WHEN (OLD.labels IS NOT NULL AND OLD.status <> '') EXECUTE FUNCTION {s}.tally_labels();
