-- The statements that move a whole store. Rows are read in the order of their keys, from after one on: :a, :b and so on. Where
-- :tenant is given, only its rows are; what was done to the whole store (scope 0) goes with them.

-- name: moving_scope
SELECT scope, tenant, agent, user FROM scope WHERE scope > :a AND (:tenant IS NULL OR tenant = :tenant) ORDER BY scope LIMIT :limit

-- name: moving_audit
-- The columns as audit_add takes them.
SELECT number, scope, at, verb, action, sequence, id, version, source, reasons, chain FROM audit
WHERE number > :a AND (:tenant IS NULL OR scope = 0 OR scope IN (SELECT scope FROM scope WHERE tenant = :tenant))
ORDER BY number

-- name: moving_record
SELECT sequence, scope, changed, id, kind, tag, key, content, hash, gist, metadata, importance, source, trust, session, role, name,
    occurred_at, created_at, updated_at, valid_from, expires_at, version, status, parents, action, blocks, sensitive, aside_at,
    aside_why, ticket
FROM record WHERE sequence > :a AND (:tenant IS NULL OR scope IN (SELECT scope FROM scope WHERE tenant = :tenant))
ORDER BY sequence

-- name: moving_history
-- Of tables without a scope, that of the record comes last; NULL if there is no such record.
SELECT h.sequence, h.version, h.content, h.hash, h.metadata, h.importance, h.kind, h.tag, h.source, h.trust, h.session, h.role, h.name,
    h.occurred_at, h.valid_from, h.known_from, h.expires_at, h.action, h.terms, h.model, h.vector, r.scope
FROM history AS h LEFT JOIN record AS r USING (sequence)
WHERE (h.sequence, h.version) > (:a, :b)
    AND (:tenant IS NULL OR r.scope IN (SELECT scope FROM scope WHERE tenant = :tenant))
ORDER BY h.sequence, h.version

-- name: moving_vector
-- The key begins with the scope (:a), which is not needed here: sequences are the file's own.
SELECT v.sequence, v.version, v.terms, v.model, v.vector, v.start, v.stop, r.scope
FROM vector AS v LEFT JOIN record AS r ON r.sequence = CASE WHEN v.sequence > 0 THEN v.sequence ELSE -v.sequence >> 14 END
WHERE v.sequence > :b AND (:tenant IS NULL OR r.scope IN (SELECT scope FROM scope WHERE tenant = :tenant))
ORDER BY v.sequence

-- name: moving_access
SELECT a.sequence, a.count, a.last, r.scope FROM access AS a LEFT JOIN record AS r USING (sequence)
WHERE a.sequence > :a AND (:tenant IS NULL OR r.scope IN (SELECT scope FROM scope WHERE tenant = :tenant))
ORDER BY a.sequence

-- name: moving_idempotency
SELECT scope, key, fingerprint, receipt, id, at FROM idempotency
WHERE (scope, key) > (:a, :b) AND (:tenant IS NULL OR scope IN (SELECT scope FROM scope WHERE tenant = :tenant))
ORDER BY scope, key

-- name: moving_state
SELECT scope, name, value, session, updated_at FROM state
WHERE (scope, name) > (:a, :b) AND (:tenant IS NULL OR scope IN (SELECT scope FROM scope WHERE tenant = :tenant))
ORDER BY scope, name

-- name: moving_job
SELECT number, scope, kind, session, ids, state, attempts, claims, due, lease, created_at, problem FROM job
WHERE number > :a AND (:tenant IS NULL OR scope IN (SELECT scope FROM scope WHERE tenant = :tenant)) ORDER BY number

-- name: moving_lineage
SELECT scope, parent, sequence, version, support, session FROM lineage
WHERE (scope, parent, sequence, version, support) > (:a, :b, :c, :d, :e)
    AND (:tenant IS NULL OR scope IN (SELECT scope FROM scope WHERE tenant = :tenant))
ORDER BY scope, parent, sequence, version, support

-- name: moving_review
SELECT number, scope, sequence, version, flag, reason, evidence, at, state FROM review
WHERE number > :a AND (:tenant IS NULL OR scope IN (SELECT scope FROM scope WHERE tenant = :tenant)) ORDER BY number

-- name: moving_bucket
SELECT scope, name, tokens, at FROM bucket
WHERE (scope, name) > (:a, :b) AND (:tenant IS NULL OR scope IN (SELECT scope FROM scope WHERE tenant = :tenant))
ORDER BY scope, name

-- name: moving_next
-- The next embedder's vectors.
SELECT n.sequence, n.version, n.vector, r.scope FROM vector_next AS n
LEFT JOIN record AS r ON r.sequence = CASE WHEN n.sequence > 0 THEN n.sequence ELSE -n.sequence >> 14 END
WHERE n.sequence > :a AND (:tenant IS NULL OR r.scope IN (SELECT scope FROM scope WHERE tenant = :tenant))
ORDER BY n.sequence

-- name: moving_chain
-- The heads of the audit logs; that of what was done to the whole store has no name.
SELECT tenant, start, rows, head FROM chain
WHERE (:a IS NULL OR tenant > :a) AND (:tenant IS NULL OR tenant IN (:tenant, '')) ORDER BY tenant

-- name: moving_count
-- (rows that there are to move, records among them), to show how far it is, and to say what is in the way.
WITH mine AS (SELECT scope FROM scope WHERE :tenant IS NULL OR tenant = :tenant),
    known AS (SELECT sequence FROM record WHERE scope IN mine)
SELECT (SELECT count(*) FROM audit WHERE scope = 0 OR scope IN mine) + (SELECT count(*) FROM known)
    + (SELECT count(*) FROM vector WHERE CASE WHEN sequence > 0 THEN sequence ELSE -sequence >> 14 END IN known)
    + (SELECT count(*) FROM history WHERE sequence IN known) + (SELECT count(*) FROM access WHERE sequence IN known)
    + (SELECT count(*) FROM idempotency WHERE scope IN mine) + (SELECT count(*) FROM state WHERE scope IN mine)
    + (SELECT count(*) FROM job WHERE scope IN mine) + (SELECT count(*) FROM lineage WHERE scope IN mine)
    + (SELECT count(*) FROM review WHERE scope IN mine) + (SELECT count(*) FROM bucket WHERE scope IN mine)
    + (SELECT count(*) FROM vector_next WHERE CASE WHEN sequence > 0 THEN sequence ELSE -sequence >> 14 END IN known), (SELECT count(*) FROM known)
LIMIT :limit

-- name: moved_record
INSERT INTO record (sequence, scope, changed, id, kind, tag, key, content, hash, gist, metadata, importance, source, trust, session,
    role, name, occurred_at, created_at, updated_at, valid_from, expires_at, version, status, parents, action, blocks, sensitive,
    aside_at, aside_why, ticket)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: moved_history
INSERT INTO history (sequence, version, content, hash, metadata, importance, kind, tag, source, trust, session, role, name,
    occurred_at, valid_from, known_from, expires_at, action, terms, model, vector)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: moved_job
INSERT INTO job (number, scope, kind, session, ids, state, attempts, claims, due, lease, created_at, problem)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: moved_review
INSERT INTO review (number, scope, sequence, version, flag, reason, evidence, at, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: moved_next
INSERT INTO vector_next (sequence, version, vector) VALUES (?, ?, ?)

-- name: moved_chain
INSERT INTO chain (tenant, start, rows, head) VALUES (?, ?, ?, ?)

-- name: moving_owner
-- Whose a audit entry is.
SELECT coalesce(s.tenant, '') FROM audit AS a LEFT JOIN scope AS s USING (scope) WHERE a.number = ?

-- name: moving_numbers
-- The next number is always the one after the last of the audit log: there is nothing to set.
SELECT ?

-- name: moving_clear
-- Takes out all that a move has put into a store.
DELETE FROM vector_next;
DELETE FROM bucket;
DELETE FROM review;
DELETE FROM lineage;
DELETE FROM job;
DELETE FROM state;
DELETE FROM idempotency;
DELETE FROM access;
DELETE FROM vector;
DELETE FROM history;
DELETE FROM record;
DELETE FROM audit;
DELETE FROM chain;
DELETE FROM scope;
INSERT INTO words (words) VALUES ('delete-all')
