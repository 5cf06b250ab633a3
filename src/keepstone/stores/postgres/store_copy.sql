-- The statements that move a whole store, one tenant after the other. Rows are read in the order of their keys, from after one on:
-- :a, :b and so on. One walk goes through a table: a new query for every page might sort the table for every page, as long as
-- nothing is known of how many rows it has.

-- name: moving_scope
SELECT scope, tenant, agent, "user" FROM scope WHERE tenant = :tenant AND scope > :a ORDER BY scope LIMIT :limit

-- name: moving_audit
-- The columns as audit_add takes them.
SELECT number, scope, at, verb, action, sequence, id, version, source, reasons, chain FROM audit
WHERE tenant = :tenant AND number > :a ORDER BY number

-- name: moving_record
SELECT sequence, scope, changed, id, kind, tag, key, content, hash, gist, metadata, importance, source, trust, session, role, name,
    occurred_at, created_at, updated_at, valid_from, expires_at, version, status, parents, action, blocks, sensitive, aside_at,
    aside_why, ticket
FROM record WHERE tenant = :tenant AND sequence > :a ORDER BY sequence

-- name: moving_history
-- Of tables without a scope, that of the record comes last; NULL if there is no such record.
SELECT h.sequence, h.version, h.content, h.hash, h.metadata, h.importance, h.kind, h.tag, h.source, h.trust, h.session, h.role, h.name,
    h.occurred_at, h.valid_from, h.known_from, h.expires_at, h.action, h.terms, h.model, h.vector,
    (SELECT r.scope FROM record AS r WHERE r.tenant = :tenant AND r.sequence = h.sequence)
FROM history AS h WHERE h.tenant = :tenant AND (h.sequence, h.version) > (:a, :b) ORDER BY h.sequence, h.version

-- name: moving_vector
SELECT v.sequence, v.version, v.terms, v.model, v.vector, v.start, v.stop,
    (SELECT r.scope FROM record AS r WHERE r.tenant = :tenant AND r.sequence = CASE WHEN v.sequence > 0 THEN v.sequence ELSE (-v.sequence) >> 14 END)
FROM vector AS v WHERE v.tenant = :tenant AND (v.scope, v.sequence) > (:a, :b) ORDER BY v.scope, v.sequence

-- name: moving_access
SELECT a.sequence, a.count, a.last, (SELECT r.scope FROM record AS r WHERE r.tenant = :tenant AND r.sequence = a.sequence)
FROM access AS a WHERE a.tenant = :tenant AND a.sequence > :a ORDER BY a.sequence

-- name: moving_idempotency
SELECT scope, key, fingerprint, receipt, id, at FROM idempotency
WHERE tenant = :tenant AND (scope, key) > (:a, :b) ORDER BY scope, key

-- name: moving_state
SELECT scope, name, value, session, updated_at FROM state
WHERE tenant = :tenant AND (scope, name) > (:a, :b) ORDER BY scope, name

-- name: moving_job
SELECT number, scope, kind, session, ids, state, attempts, claims, due, lease, created_at, problem FROM job
WHERE tenant = :tenant AND number > :a ORDER BY number

-- name: moving_lineage
SELECT scope, parent, sequence, version, support, session FROM lineage
WHERE tenant = :tenant AND (scope, parent, sequence, version, support) > (:a, :b, :c, :d, :e)
ORDER BY scope, parent, sequence, version, support

-- name: moving_review
SELECT number, scope, sequence, version, flag, reason, evidence, at, state FROM review
WHERE tenant = :tenant AND number > :a ORDER BY number

-- name: moving_bucket
SELECT scope, name, tokens, at FROM bucket WHERE tenant = :tenant AND (scope, name) > (:a, :b) ORDER BY scope, name

-- name: moving_next
-- The next embedder's vectors.
SELECT n.sequence, n.version, n.vector,
    (SELECT r.scope FROM record AS r WHERE r.tenant = :tenant AND r.sequence = CASE WHEN n.sequence > 0 THEN n.sequence ELSE (-n.sequence) >> 14 END)
FROM vector_next AS n WHERE n.tenant = :tenant AND n.sequence > :a ORDER BY n.sequence

-- name: moving_chain
-- The head of the audit log.
SELECT tenant, start, rows, head FROM tenant
WHERE tenant = :tenant AND rows > 0 AND (:a::text IS NULL OR tenant > :a) ORDER BY tenant

-- name: moving_count
-- (rows that there are to move, records among them), to show how far it is, and to say what is in the way.
SELECT (SELECT count(*) FROM audit WHERE tenant = :tenant) + (SELECT count(*) FROM record WHERE tenant = :tenant)
    + (SELECT count(*) FROM vector WHERE tenant = :tenant)
    + (SELECT count(*) FROM history WHERE tenant = :tenant) + (SELECT count(*) FROM access WHERE tenant = :tenant)
    + (SELECT count(*) FROM idempotency WHERE tenant = :tenant) + (SELECT count(*) FROM state WHERE tenant = :tenant)
    + (SELECT count(*) FROM job WHERE tenant = :tenant) + (SELECT count(*) FROM lineage WHERE tenant = :tenant)
    + (SELECT count(*) FROM review WHERE tenant = :tenant) + (SELECT count(*) FROM bucket WHERE tenant = :tenant)
    + (SELECT count(*) FROM vector_next WHERE tenant = :tenant), (SELECT count(*) FROM record WHERE tenant = :tenant)
LIMIT :limit

-- name: moved_record
INSERT INTO record (tenant, sequence, scope, changed, id, kind, tag, key, content, hash, gist, metadata, importance, source, trust,
    session, role, name, occurred_at, created_at, updated_at, valid_from, expires_at, version, status, parents, action, blocks,
    sensitive, aside_at, aside_why, ticket)
VALUES (:tenant, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27, $28, $29, $30, $31)

-- name: moved_history
INSERT INTO history (tenant, sequence, version, content, hash, metadata, importance, kind, tag, source, trust, session, role, name,
    occurred_at, valid_from, known_from, expires_at, action, terms, model, vector)
VALUES (:tenant, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)

-- name: moved_job
INSERT INTO job (tenant, number, scope, kind, session, ids, state, attempts, claims, due, lease, created_at, problem)
VALUES (:tenant, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)

-- name: moved_review
INSERT INTO review (tenant, number, scope, sequence, version, flag, reason, evidence, at, state)
VALUES (:tenant, $1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: moved_next
INSERT INTO vector_next (tenant, sequence, version, vector) VALUES (:tenant, $1, $2, $3)

-- name: moved_chain
-- The tenant's row is there: whoever writes holds it.
UPDATE tenant SET start = $2, rows = $3, head = $4 WHERE tenant = :tenant AND tenant = $1

-- name: moving_owner
-- Whose a audit entry is; numbers are a tenant's own.
SELECT tenant FROM audit WHERE tenant = :tenant AND number = $1

-- name: moving_numbers
-- Takes numbers until the next one is beyond a last one: to set the sequence would need a right that processes do not have.
SELECT max(nextval('number')) FROM generate_series(1,
    (SELECT CASE WHEN last_value > $1::bigint THEN 0 ELSE ($1::bigint - last_value) / 64 + 2 END FROM number))

-- name: moving_clear
-- Takes out all that a move has put into a tenant.
WITH a AS (DELETE FROM vector_next WHERE tenant = :tenant), b AS (DELETE FROM bucket WHERE tenant = :tenant),
    c AS (DELETE FROM review WHERE tenant = :tenant), d AS (DELETE FROM lineage WHERE tenant = :tenant),
    e AS (DELETE FROM job WHERE tenant = :tenant), f AS (DELETE FROM state WHERE tenant = :tenant),
    g AS (DELETE FROM idempotency WHERE tenant = :tenant), h AS (DELETE FROM access WHERE tenant = :tenant),
    i AS (DELETE FROM vector WHERE tenant = :tenant), j AS (DELETE FROM words WHERE tenant = :tenant),
    k AS (DELETE FROM history WHERE tenant = :tenant), l AS (DELETE FROM record WHERE tenant = :tenant),
    m AS (DELETE FROM audit WHERE tenant = :tenant), n AS (DELETE FROM scope WHERE tenant = :tenant)
DELETE FROM tenant WHERE tenant = :tenant
