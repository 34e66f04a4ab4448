-- Creates the users and the database of an agent. Run it as a superuser:
--   psql "$ADMIN" -v owner_password=... -v agent_password=... -f deploy/users.sql
-- holdfast_owner migrates. Replicas connect as holdfast_agent, which reads and writes rows,
-- and cannot create, alter or drop anything.
\set ON_ERROR_STOP on
CREATE ROLE holdfast_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE holdfast_agent LOGIN PASSWORD :'agent_password';
CREATE DATABASE agent OWNER holdfast_owner ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE agent FROM PUBLIC;
GRANT CONNECT ON DATABASE agent TO holdfast_agent;
