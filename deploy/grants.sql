-- What replicas may do; run by holdfast_owner after the first migration. Tables of
-- later migrations are granted as they are made.
--   psql "$OWNER_URL" -f deploy/grants.sql
\set ON_ERROR_STOP on
GRANT USAGE ON SCHEMA holdfast TO holdfast_agent;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA holdfast TO holdfast_agent;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA holdfast TO holdfast_agent;
REVOKE INSERT, UPDATE, DELETE ON holdfast.schema_migrations FROM holdfast_agent;
ALTER DEFAULT PRIVILEGES IN SCHEMA holdfast GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO holdfast_agent;
ALTER DEFAULT PRIVILEGES IN SCHEMA holdfast GRANT USAGE ON SEQUENCES TO holdfast_agent;
