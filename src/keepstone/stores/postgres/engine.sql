-- The statements of the engine itself: beginning and ending a transaction, tenants, what is known of roles and indexes.

-- name: begin_settings
-- Each transaction says whose it is; nothing of it stays on a connection that somebody else may get next. What is the same for
-- a whole store is in the text.
SELECT set_config('keepstone.tenant', $1, true), set_config('search_path', {path}, true), set_config('role', {role}, true),
    set_config('statement_timeout', {statement}, true), set_config('lock_timeout', {patience}, true),
    set_config('synchronous_commit', {commit}, true), set_config('idle_in_transaction_session_timeout', {patience}, true),
    set_config('hnsw.ef_search', '200', true), set_config('hnsw.iterative_scan', 'strict_order', true)

-- name: commit_later
SELECT set_config('synchronous_commit', 'off', true)

-- name: visit_tenant
SELECT set_config('keepstone.tenant', $1, true)

-- name: records_stamped
-- Records by their numbers, each with the stamp of now; where there are none, a row with the stamp alone.
SELECT s.embedder, s.last, found.* FROM (
    SELECT (SELECT value FROM meta WHERE name = 'embedder') AS embedder,
        (SELECT number FROM audit WHERE tenant = :tenant AND scope = $1 ORDER BY number DESC LIMIT 1) AS last
) AS s LEFT JOIN (
{record}
WHERE r.tenant = :tenant AND r.scope = $1 AND r.sequence = ANY ($2::bigint[])) AS found ON true

-- name: primary_position
-- How far the log of a primary is written; nothing on a standby.
SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_current_wal_lsn() - '0/0'::pg_lsn END

-- name: standby_position
-- How far a standby has replayed the log; nothing on a primary, which is never behind.
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() - '0/0'::pg_lsn END

-- name: lock_shared
-- Many transactions may write at once, but none while the whole store is changed.
SELECT pg_advisory_xact_lock_shared($1)

-- name: lock_whole
SELECT pg_advisory_xact_lock($1)

-- name: tenant_add
INSERT INTO tenant (tenant) VALUES (:tenant) ON CONFLICT (tenant) DO NOTHING

-- name: tenant_hold
-- Until the end of the transaction no other transaction writes in this tenant.
SELECT head, start FROM tenant WHERE tenant = :tenant FOR UPDATE

-- name: numbers_take
-- A block of numbers, asked for while the tenant is held: later transactions get later ones.
SELECT nextval('number')

-- name: tenant_done
-- The end of the chain, and what work on the whole store goes by.
UPDATE tenant SET rows = rows + $1, head = coalesce($2, head), start = coalesce(start, $3),
    job_due = (SELECT min(due) FROM job WHERE tenant = :tenant),
    pending = EXISTS (SELECT 1 FROM vector WHERE tenant = :tenant AND vector IS NULL)
WHERE tenant = :tenant

-- name: link_there
-- Whether a row of the trail was written: by an attempt whose commit was not answered.
SELECT 1 FROM audit WHERE tenant = :tenant AND number = $1 AND chain = $2

-- name: tenants_all
-- The names of the tenants, for work on the whole store: these three are the only statements that look past one tenant.
SELECT tenant FROM tenant ORDER BY tenant

-- name: tenants_jobs
SELECT tenant FROM tenant WHERE job_due IS NOT NULL ORDER BY job_due, tenant

-- name: tenants_pending
SELECT tenant FROM tenant WHERE pending ORDER BY tenant

-- name: stamp
-- The number of a scope, the embedder in use, and the last row of the scope's trail.
SELECT s.scope, (SELECT value FROM meta WHERE name = 'embedder'), a.number
FROM (SELECT 1) AS one LEFT JOIN scope AS s ON s.tenant = :tenant AND md5(s.agent) = md5($1)
    AND md5(s."user") = md5($2) AND s.agent = $1 AND s."user" = $2
LEFT JOIN LATERAL (SELECT number FROM audit WHERE tenant = :tenant AND scope = s.scope ORDER BY number DESC LIMIT 1) AS a ON true

-- name: schema_there
SELECT to_regclass(quote_ident($1) || '.meta') IS NOT NULL

-- name: schema_missing
SELECT 1 WHERE to_regnamespace(quote_ident($1)) IS NULL

-- name: schema_version
SELECT name, value FROM meta WHERE name IN ('schema', 'schema done')

-- name: search_path
SELECT set_config('search_path', $1, true)

-- name: extension_schema
-- Where pgvector's types and operators are.
SELECT quote_ident(n.nspname) FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector'

-- name: role_there
SELECT 1 FROM pg_roles WHERE rolname = $1

-- name: role_may_make
SELECT 1 FROM pg_roles WHERE rolname = current_user AND (rolcreaterole OR rolsuper)

-- name: role_member
SELECT 1 FROM pg_roles WHERE rolname = $1 AND pg_has_role(current_user, oid, 'SET')

-- name: role_known
-- Whether the role that connected stands above the policies or owns the tables, and whether it may act as the app's role instead.
SELECT r.rolsuper OR r.rolbypassrls OR EXISTS (SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = $2 AND c.relname = 'record' AND pg_has_role(current_user, c.relowner, 'USAGE')),
    coalesce((SELECT pg_has_role(current_user, a.oid, 'SET') FROM pg_roles AS a WHERE a.rolname = $1), false)
FROM pg_roles AS r WHERE r.rolname = current_user

-- name: grants
-- What a process needs, and no more.
GRANT USAGE ON SCHEMA "{schema}" TO {app};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{schema}" TO {app};
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA "{schema}" TO {app}

-- name: doctor_policies
-- The tables of tenants, and whether their policies are in force.
SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND c.relname NOT IN ('meta', 'lease') ORDER BY c.relname

-- name: doctor_indexes
-- Indexes that were begun and not finished.
SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND NOT i.indisvalid ORDER BY c.relname

-- name: scopes_large
-- Scopes with at least so many vectors of the present embedder.
SELECT scope, count(*) FROM vector WHERE tenant = :tenant AND model = $2 AND vector IS NOT NULL
GROUP BY scope HAVING count(*) >= $1 ORDER BY scope

-- name: indexes_near
-- The indexes that scopes have of their own, and whether they were finished.
SELECT c.relname, i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname LIKE 'near\_%' ORDER BY c.relname

-- name: role_owns
SELECT pg_has_role(session_user, c.relowner, 'USAGE') FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = 'vector'

-- name: building_settings
-- For the rest of a connection of its own.
SELECT set_config('search_path', $1, false), set_config('maintenance_work_mem', $2, false)

-- name: index_make
CREATE INDEX CONCURRENTLY {name} ON vector USING hnsw ((vector::halfvec({dimension})) halfvec_ip_ops)
WHERE tenant = {tenant} AND scope = {scope} AND model = {model}

-- name: index_drop
DROP INDEX CONCURRENTLY IF EXISTS {name}
