-- The statements of those who run the database: who is who there, what is in force, and logins for applications.

-- name: who
-- The role that connected: its name, whether it stands above all policies, whether it may act as the tables' owner.
SELECT r.rolname, r.rolsuper OR r.rolbypassrls, coalesce((SELECT pg_has_role(r.oid, c.relowner, 'USAGE') FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'record'), false)
FROM pg_roles AS r WHERE r.rolname = current_user

-- name: vector_version
SELECT extversion FROM pg_extension WHERE extname = 'vector'

-- name: server
-- The server's version, and how this connection reached it; a pooler in between has a connection of its own.
SELECT current_setting('server_version'), s.ssl, s.version FROM pg_stat_ssl AS s WHERE s.pid = pg_backend_pid()

-- name: tables
-- The tables that the scripts name: whether their policies bind everybody, the owner too, how many policies ask for the tenant, how
-- many there are, and whether a role may do its work there; NULL where there is no such table.
SELECT t.name, c.relrowsecurity AND c.relforcerowsecurity,
    (SELECT count(*) FROM pg_policy AS p WHERE p.polrelid = c.oid
        AND coalesce(pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)) LIKE '%keepstone.tenant%'),
    (SELECT count(*) FROM pg_policy AS p WHERE p.polrelid = c.oid),
    has_table_privilege($3, c.oid, 'SELECT') AND has_table_privilege($3, c.oid, 'INSERT')
        AND has_table_privilege($3, c.oid, 'UPDATE') AND has_table_privilege($3, c.oid, 'DELETE')
FROM unnest($2::text[]) AS t (name)
    LEFT JOIN (pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = $1) ON c.relname = t.name
ORDER BY t.name

-- name: login_there
-- A role that is to be a login: whether it stands above the policies, owns the tables or made them possible.
SELECT r.rolsuper OR r.rolbypassrls OR r.rolcreaterole OR EXISTS (SELECT 1 FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = $2 AND c.relname = 'record' AND pg_has_role(r.oid, c.relowner, 'MEMBER'))
FROM pg_roles AS r WHERE r.rolname = $1

-- name: login_make
CREATE ROLE "{name}" LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE

-- name: login_password
-- What is sent is what the server stores, not the password itself.
ALTER ROLE "{name}" LOGIN PASSWORD '{verifier}'

-- name: login_may
-- Whether a role may act as the app's already, and may connect.
SELECT pg_has_role($1, $2, 'USAGE'), has_database_privilege($1, current_database(), 'CONNECT'), current_database()

-- name: login_grant
GRANT {app} TO "{name}"

-- name: login_connect
GRANT CONNECT ON DATABASE {database} TO "{name}"

-- name: script_begin
BEGIN;
CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA IF NOT EXISTS "{schema}";
SELECT set_config('search_path', format('%I, %I, pg_catalog', '{schema}', n.nspname), true)
FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector';

-- name: script_refuse
-- What was made for another version of the schema must not run: the whole transaction ends here.
DO $$
BEGIN
    IF (SELECT value::integer FROM meta WHERE name = 'schema') <> {since} THEN
        RAISE EXCEPTION 'these statements go from schema version {since} on, and the schema is at another: nothing was changed';
    END IF;
END $$;

-- name: script_new
INSERT INTO meta (name, value) VALUES ('id', replace(gen_random_uuid()::text, '-', '')), ('analyser', '{analyser}');

-- name: script_version
INSERT INTO meta (name, value) VALUES ('{name}', '{number}') ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: script_role
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{app}') THEN
        CREATE ROLE {app} NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE;
    END IF;
    IF NOT pg_has_role(current_user, '{app}', 'SET') THEN
        GRANT {app} TO CURRENT_USER;
    END IF;
END $$;

-- name: script_end
COMMIT;

-- name: shard_settings
DO $$
BEGIN
    EXECUTE format('ALTER DATABASE %I SET citus.propagate_set_commands = ''local''', current_database());
END $$;

-- name: shard_first
SELECT create_distributed_table('"{schema}".{table}', 'tenant');

-- name: shard_next
SELECT create_distributed_table('"{schema}".{table}', 'tenant', colocate_with => '"{schema}".tenant');

-- name: shard_everywhere
SELECT create_reference_table('"{schema}".{table}');
