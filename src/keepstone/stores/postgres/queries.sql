-- Every statement PostgresStore runs. A query: its name, a line that says what it is for, the statement.

-- name: meta_all
-- The store's own facts: id, embedder, cursor secret.
SELECT name, value FROM meta

-- name: meta_embedder
-- "number dimension id" of the present embedder; the number counts the embedders the store has had.
SELECT value FROM meta WHERE name = 'embedder'

-- name: meta_set
INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: scope_find
SELECT scope FROM scope WHERE tenant = :tenant AND tenant = $1 AND md5(agent) = md5($2) AND md5("user") = md5($3)
    AND agent = $2 AND "user" = $3

-- name: scope_add
-- Numbers of scopes are a tenant's own.
INSERT INTO scope (tenant, scope, agent, "user")
SELECT :tenant, (SELECT coalesce(max(scope), 0) + 1 FROM scope WHERE tenant = :tenant), $2, $3 WHERE $1 = :tenant RETURNING scope

-- name: audit_add
-- The next number of the audit log: rows are never deleted, so numbers never come twice.
INSERT INTO audit (tenant, number, scope, at, verb, action, sequence, id, version, source, reasons, chain)
VALUES (:tenant, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: audit_last
SELECT max(number) FROM audit WHERE tenant = :tenant

-- name: audit_list
SELECT number, at, verb, action, id, version, source, reasons FROM audit
WHERE tenant = :tenant AND scope = $1 AND at >= $2 ORDER BY number DESC LIMIT $3

-- name: idempotency_find
SELECT fingerprint, receipt FROM idempotency WHERE tenant = :tenant AND scope = $1 AND key = $2

-- name: idempotency_add
INSERT INTO idempotency (tenant, scope, key, fingerprint, receipt, id, at) VALUES (:tenant, $1, $2, $3, $4, $5, $6)

-- name: idempotency_forget
-- A receipt names the record it made; when that record is erased the receipt goes too.
DELETE FROM idempotency WHERE tenant = :tenant AND scope = $1 AND id = $2

-- name: record_add
INSERT INTO record (tenant, sequence, scope, changed, id, kind, tag, key, content, hash, metadata, importance, source, trust,
    session, role, name, occurred_at, created_at, updated_at, valid_from, expires_at, version, status, parents, action,
    gist, blocks, sensitive)
VALUES (:tenant, $1, $2, $1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $17, $18, $19, 1, $20, $21,
    'added', $22, $23, $24)

-- name: record_restore
-- A record as an export had it.
INSERT INTO record (tenant, sequence, scope, changed, id, kind, tag, key, content, hash, metadata, importance, source, trust,
    session, role, name, occurred_at, created_at, updated_at, valid_from, expires_at, version, status, parents, action,
    gist, blocks, sensitive, aside_at, aside_why, ticket)
VALUES (:tenant, $1, $2, $1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
    $24, $25, $26, $27, $28, $29, CASE WHEN $28::bigint IS NOT NULL THEN $1::bigint END)

-- name: record_change
-- The next version of a record; what it was has gone to history before.
UPDATE record SET changed = $2, content = $3, hash = $4, metadata = $5, importance = $6, tag = $7, source = $8,
    trust = $9, session = $10, role = $11, name = $12, occurred_at = $13, updated_at = $14, valid_from = $15,
    expires_at = $16, version = $17, action = $18, kind = $19, parents = $20, gist = $21, sensitive = $22,
    blocks = CASE WHEN hash = $4 THEN blocks END
WHERE tenant = :tenant AND sequence = $1

-- name: record_extend
-- Said again: it may hold for longer, and was last said then.
UPDATE record SET expires_at = $3, changed = $2, occurred_at = $4 WHERE tenant = :tenant AND sequence = $1

-- name: record_changed
-- Tells readers to load the record again.
UPDATE record SET changed = $2 WHERE tenant = :tenant AND sequence = $1

-- name: record_delete
DELETE FROM record WHERE tenant = :tenant AND sequence = $1

-- name: record
-- The beginning that every query of whole records shares, as {record}: the row, its accesses, whether it has a vector.
SELECT r.sequence, r.id, r.kind, r.tag, r.key, r.content, r.metadata, r.importance, r.source, r.trust, r.session, r.role,
    r.name, r.occurred_at, r.created_at, r.updated_at, r.valid_from, r.expires_at, a.last, coalesce(a.count, 0),
    r.version, r.status, r.parents, v.vector IS NOT NULL, r.blocks, r.sensitive
FROM record AS r LEFT JOIN access AS a ON a.tenant = r.tenant AND a.sequence = r.sequence
    LEFT JOIN vector AS v ON v.tenant = r.tenant AND v.scope = r.scope AND v.sequence = r.sequence

-- name: record_by_id
{record}
WHERE r.tenant = :tenant AND r.scope = $1 AND r.id = $2

-- name: record_by_key
{record}
WHERE r.tenant = :tenant AND r.scope = $1 AND r.key = $2 AND r.status = 'active' AND (r.expires_at IS NULL OR r.expires_at > $3)

-- name: record_by_sequences
{record}
WHERE r.tenant = :tenant AND r.scope = $1 AND r.sequence = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb)::bigint))

-- name: record_alike
-- Records that may say the same as a new one.
{record}
WHERE r.tenant = :tenant AND r.scope = $1 AND r.gist = $2 AND r.status = 'active' AND r.key IS NULL AND r.kind = $3 AND r.tag = $4
    AND (r.expires_at IS NULL OR r.expires_at > $5)
ORDER BY r.sequence DESC LIMIT 8

-- name: listed
-- Which records a list may return, as {listed}; {filter} is a condition built from a parsed filter, or TRUE.
r.tenant = :tenant AND r.scope = :scope AND r.status = 'active'
    AND (r.expires_at IS NULL OR r.expires_at > :now)
    AND (:tag::text IS NULL OR r.tag = :tag) AND (:kind::text IS NULL OR r.kind = :kind)
    AND (:session::text IS NULL OR r.session = :session) AND (:without::text IS NULL OR r.kind <> :without)
    AND (:prefix::text IS NULL OR substr(r.id, 1, length(:prefix::text)) = :prefix) AND {filter}

-- name: record_page
-- A page of a scope, the last stored first.
{record}
WHERE r.sequence < :before AND
{listed}
ORDER BY r.sequence DESC LIMIT :limit

-- name: record_page_occurred
-- A page of a scope, what happened last first; it begins after the record with the sequence :before, 2^62 for none. The inner query
-- reads the narrow columns only.
{record}
WHERE r.tenant = :tenant AND r.sequence IN (SELECT r.sequence FROM record AS r
WHERE (:before = 4611686018427387904 OR (r.occurred_at, r.sequence) <
    (SELECT l.occurred_at, l.sequence FROM record AS l WHERE l.tenant = :tenant AND l.sequence = :before)) AND
{listed}
ORDER BY r.occurred_at DESC, r.sequence DESC LIMIT :limit)
ORDER BY r.occurred_at DESC, r.sequence DESC

-- name: record_walk
-- Every record of a scope in order, for export, or those with these ids.
{record}
WHERE r.tenant = :tenant AND r.scope = $1 AND ($2::text IS NULL OR r.id = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb))))
ORDER BY r.sequence

-- name: record_same
-- The active record that has this content already.
{state}
FROM record
WHERE tenant = :tenant AND scope = $1 AND hash = $2 AND kind = $3 AND tag = $4 AND status = 'active'
    AND key IS NULL AND kind <> 'message'

-- name: record_name
SELECT id, version FROM record WHERE tenant = :tenant AND sequence = $1

-- name: record_text
SELECT content, key FROM record WHERE tenant = :tenant AND sequence = $1

-- name: record_sequence
SELECT sequence FROM record WHERE tenant = :tenant AND scope = $1 AND id = $2

-- name: state
-- What a change needs to know of a record as it is, as {state}.
SELECT sequence, version, content, hash, metadata, importance, tag, source, trust, session, role, name, occurred_at,
    updated_at, valid_from, expires_at, action, kind, key, id, status, parents, gist,
    sensitive

-- name: record_state
{state}
FROM record WHERE tenant = :tenant AND scope = $1 AND id = $2

-- name: record_state_by_key
{state}
FROM record WHERE tenant = :tenant AND scope = $1 AND key = $2 AND status = 'active'

-- name: record_count
-- What list would show of a scope.
SELECT count(*) FROM record WHERE tenant = :tenant AND scope = $1 AND status = 'active' AND (expires_at IS NULL OR expires_at > $2)

-- name: record_matching
SELECT r.sequence FROM record AS r WHERE r.tenant = :tenant AND r.scope = :scope AND {filter} ORDER BY r.sequence

-- name: forget_find
-- The records a selector means; a source stands for itself and, as a class, for "class:detail".
SELECT sequence, id FROM record
WHERE tenant = :tenant AND scope = :scope AND (:everything::boolean
    OR id = :id OR id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)))
    OR key = :key OR session = :session
    OR source = :source OR substr(source, 1, length(:source::text) + 1) = :source::text || ':')
    AND (:kind::text IS NULL OR kind = :kind) AND (NOT :aside::boolean OR status = 'archived')

-- name: forget_find_ids
-- The same for ids, by their index.
SELECT sequence, id FROM record
WHERE tenant = :tenant AND scope = :scope
    AND id = ANY (ARRAY(SELECT jsonb_array_elements_text(:ids::jsonb)) || ARRAY[:id::text])
    AND (:kind::text IS NULL OR kind = :kind) AND (NOT :aside::boolean OR status = 'archived')

-- name: forget_find_session
-- The same for a session, by its index.
SELECT sequence, id FROM record
WHERE tenant = :tenant AND scope = :scope AND session = :session AND (:kind::text IS NULL OR kind = :kind)
    AND (NOT :aside::boolean OR status = 'archived')
ORDER BY sequence

-- name: forget_versions
-- Past versions that came from a source, or from a session.
SELECT h.sequence, h.version, h.content, h.metadata FROM history AS h JOIN record AS r USING (tenant, sequence)
WHERE r.tenant = :tenant AND r.scope = :scope
    AND (h.session = :session OR h.source = :source OR substr(h.source, 1, length(:source::text) + 1) = :source::text || ':')
    AND (:kind::text IS NULL OR r.kind = :kind)

-- name: history_add
-- Keeps a record's present state before it changes.
INSERT INTO history (tenant, sequence, version, content, hash, metadata, importance, kind, tag, source, trust, session, role,
    name, occurred_at, valid_from, known_from, expires_at, action, terms, model, vector)
SELECT :tenant, r.sequence, r.version, r.content, r.hash, r.metadata, r.importance, r.kind, r.tag, r.source, r.trust, r.session,
    r.role, r.name, r.occurred_at, r.valid_from, r.updated_at, r.expires_at, r.action, v.terms, v.model, v.vector
FROM record AS r JOIN vector AS v USING (tenant, scope, sequence) WHERE r.tenant = :tenant AND r.sequence = $1

-- name: history_list
SELECT version, content, metadata, importance, kind, tag, source, trust, session, role, name, valid_from, known_from,
    expires_at, action
FROM history WHERE tenant = :tenant AND sequence = $1 ORDER BY version

-- name: history_present
-- The present version with the columns of history_list, and what near-duplicates of it are found by.
SELECT version, content, metadata, importance, kind, tag, source, trust, session, role, name, valid_from, updated_at,
    expires_at, action, gist
FROM record WHERE tenant = :tenant AND sequence = $1

-- name: history_delete_version
DELETE FROM history WHERE tenant = :tenant AND sequence = $1 AND version = $2

-- name: history_last
-- The last past version of a record, to make it the present one again.
SELECT version, content, hash, metadata, importance, kind, tag, source, trust, session, role, name, occurred_at, valid_from,
    expires_at, terms, model, vector
FROM history WHERE tenant = :tenant AND sequence = $1 ORDER BY version DESC LIMIT 1

-- name: history_delete
DELETE FROM history WHERE tenant = :tenant AND sequence = $1

-- name: vector_add
-- A record's first passage, or a further one, whose number is negative: the record's number and its place in 14 bits.
INSERT INTO vector (tenant, scope, sequence, version, terms, model, vector, start, stop)
SELECT tenant, scope, $1::bigint, $2, $3, $4, $5, $6, $7 FROM record
WHERE tenant = :tenant AND sequence = CASE WHEN $1::bigint > 0 THEN $1::bigint ELSE (-$1::bigint) >> 14 END

-- name: vector_change
UPDATE vector SET version = $2, terms = $3, model = $4, vector = $5, stop = $6
WHERE tenant = :tenant AND sequence = $1
    AND scope = (SELECT r.scope FROM record AS r WHERE r.tenant = :tenant AND r.sequence = $1)

-- name: vector_version
UPDATE vector SET version = $2
WHERE tenant = :tenant AND sequence = $1
    AND scope = (SELECT r.scope FROM record AS r WHERE r.tenant = :tenant AND r.sequence = $1)

-- name: vector_delete
DELETE FROM vector
WHERE tenant = :tenant AND sequence = $1
    AND scope = (SELECT r.scope FROM record AS r WHERE r.tenant = :tenant AND r.sequence = $1)

-- name: passages_version
-- The further passages of a record, by the lowest and the highest of their numbers.
UPDATE vector SET version = $4 WHERE tenant = :tenant AND scope = $1 AND sequence BETWEEN $2 AND $3

-- name: passages_delete
DELETE FROM vector WHERE tenant = :tenant AND scope = $1 AND sequence BETWEEN $2 AND $3

-- name: passages_count
SELECT count(*) FROM vector WHERE tenant = :tenant AND scope = $1 AND sequence < 0

-- name: vector_attach
UPDATE vector SET model = $3, vector = $4
WHERE tenant = :tenant AND sequence = $1 AND version = $2 AND scope = $5

-- name: vector_drop_history
-- Another embedder: the old one's vectors of past versions go.
UPDATE history SET model = NULL, vector = NULL WHERE tenant = :tenant AND vector IS NOT NULL

-- name: vector_rechange
-- Tells every scope's readers that their vectors are gone.
UPDATE record SET changed = $1 WHERE tenant = :tenant

-- name: pending_list
SELECT s.tenant, s.agent, s."user", r.sequence, v.version, r.content, r.key
FROM vector AS v JOIN record AS r USING (tenant, scope, sequence) JOIN scope AS s ON s.tenant = r.tenant AND s.scope = r.scope
WHERE v.tenant = :tenant AND v.vector IS NULL AND v.sequence > $1 ORDER BY v.sequence LIMIT $2

-- name: pending_passages
-- OFFSET 0 keeps the arithmetic out of the join: row-level security lets no index be entered by a condition that computes.
SELECT s.tenant, s.agent, s."user", v.sequence, v.version, v.start, v.stop
FROM vector AS v CROSS JOIN LATERAL (SELECT (-v.sequence) >> 14 AS record OFFSET 0) AS o
    JOIN record AS r ON r.tenant = v.tenant AND r.scope = v.scope AND r.sequence = o.record
    JOIN scope AS s ON s.tenant = r.tenant AND s.scope = r.scope
WHERE v.tenant = :tenant AND v.vector IS NULL AND v.sequence < $1 ORDER BY v.sequence DESC LIMIT $2

-- name: pending_count
SELECT count(*) FROM vector WHERE tenant = :tenant AND vector IS NULL

-- name: words_add
-- The scope's token is its number after a letter.
INSERT INTO words (tenant, scope, sequence, text) VALUES (:tenant, substr($2, 2)::bigint, $1, $3)

-- name: words_delete
DELETE FROM words WHERE tenant = :tenant AND scope = substr($2, 2)::bigint AND sequence = ANY ($1::bigint[])

-- name: words_delete_all
DELETE FROM words WHERE tenant = :tenant

-- name: search_filter
-- Which records a search may return, as {search_filter}; {filter} is a condition built from a parsed filter, or TRUE.
r.tenant = :tenant AND r.scope = :scope AND r.status = 'active' AND (r.expires_at IS NULL OR r.expires_at > :now)
    AND (:kinds::text IS NULL OR r.kind = ANY (ARRAY(SELECT jsonb_array_elements_text(:kinds::jsonb))))
    AND (:tag::text IS NULL OR r.tag = :tag) AND (:session::text IS NULL OR r.session = :session)
    AND r.importance >= :min_importance AND r.trust >= :min_trust
    AND (:steps::boolean OR r.tag <> 'step' OR r.kind <> 'message') AND {filter}

-- name: words_search
-- The records with most of the rarest of these words. Each word weighs by how few of the scope's records have it.
WITH term AS (
    SELECT t.term, ln(1 + greatest(:population::float8 - t.found, 0) / (t.found + 0.5)) AS weight
    FROM unnest(:terms::text[], :found::bigint[]) AS t (term, found)
)
SELECT w.sequence FROM words AS w
    CROSS JOIN LATERAL (SELECT CASE WHEN w.sequence > 0 THEN w.sequence ELSE (-w.sequence) >> 14 END AS record OFFSET 0) AS o
    JOIN record AS r ON r.tenant = w.tenant AND r.scope = w.scope AND r.sequence = o.record
    JOIN LATERAL (SELECT sum(term.weight) AS weight FROM term WHERE term.term = ANY (tsvector_to_array(w.tokens))) AS s ON true
WHERE w.tenant = :tenant AND w.scope = :scope AND w.tokens @@ :match::tsquery AND
{search_filter}
ORDER BY s.weight DESC, r.sequence DESC LIMIT :limit

-- name: recent_search
SELECT r.sequence FROM record AS r WHERE
{search_filter}
ORDER BY r.sequence DESC LIMIT :limit

-- name: words_count
-- In how many of a scope's records each word stands.
WITH hit AS MATERIALIZED (SELECT w.tokens FROM words AS w WHERE w.tenant = :tenant AND w.scope = $1 AND w.tokens @@ $3::tsquery)
SELECT t.place, count(h.tokens) FROM unnest($2::text[]) WITH ORDINALITY AS t (term, place)
    LEFT JOIN hit AS h ON h.tokens @@ t.term::tsquery
GROUP BY t.place ORDER BY t.place

-- name: access_add
INSERT INTO access (tenant, sequence, count, last)
SELECT :tenant, sequence, $3, $4 FROM record WHERE tenant = :tenant AND scope = $1 AND sequence = $2
ON CONFLICT (tenant, sequence) DO UPDATE SET count = access.count + excluded.count, last = greatest(access.last, excluded.last)

-- name: access_restore
INSERT INTO access (tenant, sequence, count, last) VALUES (:tenant, $1, $2, $3)

-- name: access_delete
DELETE FROM access WHERE tenant = :tenant AND sequence = $1

-- name: index
-- The ranking columns, as {index}.
SELECT r.sequence, r.kind, r.tag, r.session, r.role, r.name, r.importance, r.trust, r.occurred_at, r.valid_from,
    r.expires_at, r.status, v.terms, v.vector, v.stop
FROM record AS r JOIN vector AS v USING (tenant, scope, sequence)

-- name: index_passages
-- The further passages of records.
SELECT p.* FROM unnest(:sequences::bigint[]) AS record (number) CROSS JOIN LATERAL (
    SELECT v.sequence, v.start, v.stop, v.terms, v.vector FROM vector AS v WHERE v.tenant = :tenant AND v.scope = :scope
    AND v.sequence BETWEEN -(record.number << 14 | 16383) AND -(record.number << 14 | 1) OFFSET 0) AS p
ORDER BY p.sequence DESC

-- name: index_passage
-- Some of them.
SELECT v.sequence, v.start, v.stop, v.terms, v.vector FROM vector AS v
WHERE v.tenant = :tenant AND v.scope = :scope AND v.sequence = ANY (:sequences::bigint[]) ORDER BY v.sequence DESC

-- name: index_changed
-- What changed in a scope.
{index} WHERE r.tenant = :tenant AND r.scope = $1 AND r.changed > $2 ORDER BY r.changed LIMIT $3

-- name: index_latest
SELECT max(changed) FROM record WHERE tenant = :tenant AND scope = $1

-- name: index_one
{index} WHERE r.tenant = :tenant AND r.scope = :scope AND r.sequence = ANY (:sequences::bigint[]) ORDER BY r.sequence

-- name: neighbours
SELECT n.sequence FROM record AS here CROSS JOIN LATERAL (
    (SELECT r.sequence FROM record AS r WHERE r.tenant = :tenant AND r.scope = :scope AND r.session = here.session
        AND r.sequence < here.sequence AND r.kind = 'message' ORDER BY r.sequence DESC LIMIT :reach)
    UNION ALL
    (SELECT r.sequence FROM record AS r WHERE r.tenant = :tenant AND r.scope = :scope AND r.session = here.session
        AND r.sequence > here.sequence AND r.kind = 'message' ORDER BY r.sequence LIMIT :reach)
) AS n
WHERE here.tenant = :tenant AND here.scope = :scope AND here.sequence = ANY (:sequences::bigint[]) AND here.kind = 'message'
    AND here.session IS NOT NULL

-- name: index_removed
SELECT sequence, number FROM audit WHERE tenant = :tenant AND scope = $1 AND number > $2 AND verb = 'forget' AND sequence IS NOT NULL ORDER BY number

-- name: index_size
SELECT count(*) FROM record WHERE tenant = :tenant AND scope = $1

-- name: snapshot
-- Of each record's versions known by then and valid by then, the last: as ranking columns, then as a record. A record that
-- was archived since was there before.
WITH version AS (
    SELECT r.sequence, r.version, r.content, r.metadata, r.importance, r.kind, r.tag, r.source, r.trust, r.session, r.role,
        r.name, CASE WHEN r.occurred_at > least(:as_of::bigint, :known_at::bigint) THEN r.valid_from ELSE r.occurred_at END AS occurred_at,
        r.valid_from, r.updated_at AS known_from, r.expires_at, v.terms, v.vector, v.stop
    FROM record AS r JOIN vector AS v USING (tenant, scope, sequence) WHERE r.tenant = :tenant AND r.scope = :scope
    UNION ALL
    SELECT h.sequence, h.version, h.content, h.metadata, h.importance, h.kind, h.tag, h.source, h.trust, h.session, h.role,
        h.name, h.occurred_at, h.valid_from, h.known_from, h.expires_at, h.terms, h.vector,
        CASE WHEN h.hash = r.hash THEN v.stop END
    FROM history AS h JOIN record AS r USING (tenant, sequence) JOIN vector AS v USING (tenant, scope, sequence) WHERE r.tenant = :tenant AND r.scope = :scope
), seen AS (
    SELECT *, row_number() OVER (PARTITION BY sequence ORDER BY version DESC) AS place
    FROM version WHERE known_from <= :known_at AND valid_from <= :as_of
)
SELECT s.sequence, s.kind, s.tag, s.session, s.role, s.name, s.importance, s.trust, s.occurred_at, s.valid_from,
    s.expires_at, CASE WHEN r.status = 'archived' AND r.aside_at > least(:as_of::bigint, :known_at::bigint) THEN 'active' ELSE r.status END,
    s.terms, s.vector, s.stop,
    r.id, r.key, s.content, s.metadata, s.source, r.created_at, s.known_from, s.version, r.parents,
    (SELECT min(n.valid_from) FROM version AS n
     WHERE n.sequence = s.sequence AND n.version > s.version AND n.known_from <= :known_at)
FROM seen AS s JOIN record AS r USING (sequence)
WHERE r.tenant = :tenant AND s.place = 1 ORDER BY s.sequence

-- name: history_put
-- A version from elsewhere: a wording that was merged away, or a past that an import brings.
INSERT INTO history (tenant, sequence, version, content, hash, metadata, importance, kind, tag, source, trust, session, role,
    name, occurred_at, valid_from, known_from, expires_at, action, terms, model, vector)
VALUES (:tenant, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, NULL, NULL)

-- name: reindex_walk
SELECT sequence, scope, content, key, version FROM record WHERE tenant = :tenant ORDER BY sequence

-- name: reindex_terms
UPDATE vector SET terms = $2, stop = $3
WHERE tenant = :tenant AND sequence = $1 AND scope = (SELECT r.scope FROM record AS r
    WHERE r.tenant = :tenant AND r.sequence = CASE WHEN $1::bigint > 0 THEN $1::bigint ELSE (-$1::bigint) >> 14 END)

-- name: reindex_history_walk
SELECT h.sequence, h.version, h.content, r.key FROM history AS h JOIN record AS r USING (tenant, sequence)
WHERE h.tenant = :tenant

-- name: reindex_history_terms
UPDATE history SET terms = $3 WHERE tenant = :tenant AND sequence = $1 AND version = $2

-- name: doctor_records
SELECT sequence, scope, id, key, content, hash, version, status FROM record WHERE tenant = :tenant ORDER BY sequence

-- name: doctor_history
SELECT h.sequence, h.version, h.content, h.hash, r.sequence IS NULL
FROM history AS h LEFT JOIN record AS r USING (tenant, sequence)
WHERE h.tenant = :tenant

-- name: doctor_vectors
SELECT v.sequence, r.sequence IS NULL, v.version, r.version, v.terms, v.vector
FROM vector AS v LEFT JOIN record AS r ON r.tenant = v.tenant AND r.scope = v.scope AND r.sequence = CASE WHEN v.sequence > 0 THEN v.sequence ELSE (-v.sequence) >> 14 END
WHERE v.tenant = :tenant ORDER BY v.sequence

-- name: doctor_words
SELECT sequence, scope, text, tokens = array_to_tsvector(string_to_array(text, ' ')) FROM words WHERE tenant = :tenant ORDER BY sequence

-- name: vectors_search
-- The nearest vectors: by the scope's own index where it has one, else by comparing them all. {dimension} is a number.
SELECT v.sequence FROM vector AS v
    CROSS JOIN LATERAL (SELECT CASE WHEN v.sequence > 0 THEN v.sequence ELSE (-v.sequence) >> 14 END AS record OFFSET 0) AS o
    JOIN record AS r ON r.tenant = v.tenant AND r.scope = v.scope AND r.sequence = o.record
WHERE v.tenant = :tenant AND v.scope = :scope AND v.vector IS NOT NULL AND v.model = :model AND
{search_filter}
ORDER BY v.vector::halfvec({dimension}) <#> :vector::halfvec({dimension}) LIMIT :limit
