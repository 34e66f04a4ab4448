-- Grants replicas their privileges. Run it as holdfast_owner after the first migration; the
-- default privileges cover tables of later migrations.
--   psql "$OWNER_URL" -f deploy/grants.sql
\set ON_ERROR_STOP on
GRANT USAGE ON SCHEMA holdfast TO holdfast_agent;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA holdfast TO holdfast_agent;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA holdfast TO holdfast_agent;
REVOKE INSERT, UPDATE, DELETE ON holdfast.schema_migrations FROM holdfast_agent;
ALTER DEFAULT PRIVILEGES IN SCHEMA holdfast GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO holdfast_agent;
ALTER DEFAULT PRIVILEGES IN SCHEMA holdfast GRANT USAGE ON SEQUENCES TO holdfast_agent;
