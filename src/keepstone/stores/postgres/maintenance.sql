-- The statements of maintenance: the chain of the audit log, lineage, limits, what is archived, reviews, leases, the next embedder's vectors.

-- name: chain_of
SELECT start, rows, head FROM tenant WHERE tenant = :tenant AND tenant = $1 AND rows > 0

-- name: chain_walk
-- A tenant's whole audit log in order; what was done to the whole store belongs to no tenant.
SELECT a.number, a.tenant, coalesce(s.agent, ''), coalesce(s."user", ''), a.at, a.verb, a.action, a.sequence, a.id,
    a.version, a.source, a.reasons, a.chain
FROM audit AS a LEFT JOIN scope AS s USING (tenant, scope) WHERE a.tenant = :tenant AND a.tenant = $1 ORDER BY a.number

-- name: audit_newest
SELECT max(number) FROM audit WHERE tenant = :tenant AND scope = $1

-- name: audit_count
SELECT count(*) FROM audit WHERE tenant = :tenant AND scope = $1

-- name: audit_places
-- Of each number how many entries there are after the number before it.
SELECT value, (SELECT count(*) FROM audit WHERE tenant = :tenant AND scope = $1 AND number > previous AND number <= value)
FROM (SELECT value::bigint, lag(value::bigint, 1, 0::bigint) OVER (ORDER BY value::bigint) AS previous
    FROM jsonb_array_elements_text($2::jsonb) AS value) AS asked ORDER BY value

-- name: audit_at
SELECT number FROM audit WHERE tenant = :tenant AND scope = $1 ORDER BY number LIMIT 1 OFFSET $2

-- name: merge_feed
-- Records of a scope in the order of their changes.
SELECT id, changed FROM record WHERE tenant = :tenant AND scope = $1 AND changed > $2 ORDER BY changed LIMIT $3

-- name: merge_feed_forgotten
SELECT id FROM audit AS a
WHERE tenant = :tenant AND scope = $1 AND number > $2 AND number <= $3 AND verb = 'forget' AND id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM record AS r WHERE r.tenant = :tenant AND r.scope = a.scope AND r.id = a.id) ORDER BY number

-- name: merge_forgotten
-- Which of these ids were forgotten and are not there.
SELECT DISTINCT id FROM audit AS a
WHERE tenant = :tenant AND scope = $1 AND verb = 'forget' AND id = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb)))
    AND NOT EXISTS (SELECT 1 FROM record AS r WHERE r.tenant = :tenant AND r.scope = a.scope AND r.id = a.id)

-- name: merge_changed
-- The last change of each of these records.
SELECT r.id, a.at, a.reasons FROM record AS r JOIN audit AS a ON a.tenant = r.tenant AND a.number = r.changed
WHERE r.tenant = :tenant AND r.scope = $1 AND r.id = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb)))

-- name: merge_erased
-- When versions of these records were erased or redacted.
SELECT id, verb, at, reasons FROM audit WHERE tenant = :tenant AND scope = $1 AND verb IN ('unsay', 'redact', 'sync')
    AND id = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb)))

-- name: audit_days
SELECT min(at) AS first FROM audit WHERE tenant = :tenant AND scope = $1 AND at >= $2 GROUP BY at / 86400000000 ORDER BY first

-- name: record_in_other_scope
-- Whether an id belongs to some other scope of the tenant; other tenants' are out of reach.
SELECT 1 FROM scope AS s WHERE s.tenant = :tenant AND s.scope <> $1
    AND EXISTS (SELECT 1 FROM record AS r WHERE r.tenant = :tenant AND r.scope = s.scope AND r.id = $2) LIMIT 1

-- name: lineage_add
INSERT INTO lineage (tenant, scope, parent, sequence, version, support, session) VALUES (:tenant, $1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING

-- name: lineage_copy
-- The next version of a record rests on what the one before rested on.
INSERT INTO lineage (tenant, scope, parent, sequence, version, support, session)
SELECT :tenant, scope, parent, sequence, $3::integer, support, session FROM lineage WHERE tenant = :tenant AND sequence = $1 AND version = $2
ON CONFLICT DO NOTHING

-- name: lineage_supports
-- What a version rests on.
SELECT support, parent, session FROM lineage WHERE tenant = :tenant AND sequence = $1 AND version = $2 ORDER BY support, parent

-- name: lineage_children
-- The versions that rest on a record, by any of their supports.
SELECT sequence, version, support FROM lineage WHERE tenant = :tenant AND scope = $1 AND parent = $2 AND parent <> ''

-- name: lineage_of_session
-- The supports that stand in a session.
SELECT DISTINCT sequence, version, support FROM lineage WHERE tenant = :tenant AND scope = $1 AND session = $2

-- name: lineage_drop_parent
DELETE FROM lineage WHERE tenant = :tenant AND scope = $1 AND parent = $2 AND sequence = $3 AND version = $4 AND support = $5

-- name: lineage_drop_support
DELETE FROM lineage WHERE tenant = :tenant AND sequence = $1 AND version = $2 AND support = $3

-- name: lineage_drop_version
DELETE FROM lineage WHERE tenant = :tenant AND sequence = $1 AND version = $2

-- name: lineage_drop
DELETE FROM lineage WHERE tenant = :tenant AND sequence = $1

-- name: record_support
-- Another support takes the place of the first.
UPDATE record SET session = $2, parents = $3, trust = least(trust, coalesce($4::float8, trust))
WHERE tenant = :tenant AND sequence = $1

-- name: forget_texts
-- What else of a record must not be found any more.
SELECT tag, source, name, blocks FROM record WHERE tenant = :tenant AND sequence = $1

-- name: history_texts
SELECT content, metadata, tag, source, session, name FROM history WHERE tenant = :tenant AND sequence = $1 AND version = $2

-- name: vector_kept
SELECT 1 FROM vector
WHERE tenant = :tenant AND sequence = $1
    AND scope = (SELECT r.scope FROM record AS r WHERE r.tenant = :tenant AND r.sequence = $1) AND vector IS NOT NULL

-- name: record_kind
SELECT kind FROM record WHERE tenant = :tenant AND sequence = $1

-- name: record_clear_parents
-- What a record rested on has gone, and it stays.
UPDATE record SET parents = '[]' WHERE tenant = :tenant AND sequence = $1 AND version = $2

-- name: record_least_trust
SELECT min(trust) FROM record WHERE tenant = :tenant AND scope = $1
    AND id = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb)))

-- name: bucket_get
SELECT tokens, at FROM bucket WHERE tenant = :tenant AND scope = $1 AND name = $2

-- name: bucket_put
INSERT INTO bucket (tenant, scope, name, tokens, at) VALUES (:tenant, $1, $2, $3, $4)
ON CONFLICT (tenant, scope, name) DO UPDATE SET tokens = excluded.tokens, at = excluded.at

-- name: record_with_status
-- One record that can be archived ($3 'active') or restored ('archived').
SELECT sequence, version, source, hash, kind, tag, key FROM record
WHERE tenant = :tenant AND scope = $1 AND id = $2 AND status = $3

-- name: archive_record
UPDATE record SET status = 'archived', changed = $2, aside_at = $3, aside_why = $4, ticket = $5
WHERE tenant = :tenant AND sequence = $1

-- name: restore_record
-- One that had run out of time has none to keep any more, unless $4; one that was not released from quarantine goes back there.
UPDATE record SET status = CASE WHEN EXISTS (SELECT 1 FROM review AS v WHERE v.tenant = :tenant AND v.sequence = $1
        AND v.flag = 'quarantined' AND v.state IN ('open', 'retired')) THEN 'quarantined' ELSE 'active' END,
    changed = $2, aside_at = NULL, aside_why = NULL, ticket = NULL,
    expires_at = CASE WHEN expires_at <= $3 AND NOT $4::boolean THEN NULL ELSE expires_at END
WHERE tenant = :tenant AND sequence = $1

-- name: archived_as_compacted
SELECT 1 FROM record WHERE tenant = :tenant AND scope = $1 AND id = $2 AND status = 'archived' AND aside_why = 'compacted'

-- name: archived_how
SELECT aside_at, aside_why FROM record WHERE tenant = :tenant AND sequence = $1

-- name: archived_reason_change
-- A digest that was archived and erased leaves no reason to keep what it was made from.
UPDATE record SET aside_at = $3, aside_why = $4
WHERE tenant = :tenant AND scope = $1 AND id = $2 AND status = 'archived' AND aside_why = 'compacted'

-- name: archived_batch
SELECT id FROM record WHERE tenant = :tenant AND scope = $1 AND ticket = $2 AND status = 'archived' ORDER BY sequence

-- name: archived_list
-- The columns of a record, and how it was archived.
SELECT found.*, how.sequence, how.aside_why, how.aside_at, how.ticket FROM (
{record}
WHERE r.tenant = :tenant AND r.scope = :scope AND r.status = 'archived') AS found JOIN record AS how ON how.sequence = found.sequence
WHERE how.tenant = :tenant AND how.scope = :scope AND how.aside_at IS NOT NULL
    AND (:before::bigint IS NULL OR how.aside_at < :before)
    AND (:why::text IS NULL OR how.aside_why = ANY (ARRAY(SELECT jsonb_array_elements_text(:why::jsonb))))
ORDER BY how.aside_at, found.sequence LIMIT :limit

-- name: scope_list
SELECT tenant, agent, "user" FROM scope
WHERE tenant = :tenant AND ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR "user" = $2)
ORDER BY agent COLLATE "C", "user" COLLATE "C"

-- name: scope_with_record
-- The scopes of a tenant that have a record with an id.
SELECT s.tenant, s.agent, s."user" FROM scope AS s WHERE s.tenant = :tenant AND s.tenant = $1
    AND EXISTS (SELECT 1 FROM record AS r WHERE r.tenant = :tenant AND r.scope = s.scope AND r.id = $2)
ORDER BY s.agent COLLATE "C", s."user" COLLATE "C"

-- name: scope_summaries
-- What each scope of a tenant holds: memories, messages, conversations, bytes of text, the last audit entry.
SELECT s.tenant, s.agent, s."user",
    count(*) FILTER (WHERE r.kind <> 'message'), count(*) FILTER (WHERE r.kind = 'message'),
    count(DISTINCT r.session) FILTER (WHERE r.kind = 'message' AND r.tag <> 'step'), coalesce(sum(octet_length(r.content)), 0),
    (SELECT a.at FROM audit AS a WHERE a.tenant = :tenant AND a.scope = s.scope ORDER BY a.number DESC LIMIT 1)
FROM scope AS s
LEFT JOIN record AS r ON r.tenant = :tenant AND r.scope = s.scope AND r.status = 'active' AND (r.expires_at IS NULL OR r.expires_at > $2)
WHERE s.tenant = :tenant AND s.tenant = $1
GROUP BY s.tenant, s.agent, s."user", s.scope ORDER BY s.agent COLLATE "C", s."user" COLLATE "C"

-- name: lineage_active
-- What the active records of a scope rest on, and whether their present version does.
SELECT r.id, l.parent, bool_or(l.version = r.version) FROM lineage AS l JOIN record AS r ON r.tenant = l.tenant AND r.sequence = l.sequence
WHERE l.tenant = :tenant AND r.tenant = :tenant AND l.scope = $1 AND l.parent <> '' AND r.status = 'active'
GROUP BY r.id, l.parent ORDER BY r.id COLLATE "C", l.parent COLLATE "C"

-- name: lineage_active_of
-- What some of them rest on.
SELECT r.id, l.parent, bool_or(l.version = r.version) FROM record AS r JOIN lineage AS l ON l.tenant = r.tenant AND l.sequence = r.sequence
WHERE r.tenant = :tenant AND l.tenant = :tenant AND r.scope = $1 AND r.id = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb)))
    AND l.parent <> '' AND r.status = 'active'
GROUP BY r.id, l.parent ORDER BY r.id COLLATE "C", l.parent COLLATE "C"

-- name: stats_kinds
-- What list would show of a scope, by kind.
SELECT kind, count(*) FROM record
WHERE tenant = :tenant AND scope = $1 AND status = 'active' AND (expires_at IS NULL OR expires_at > $2)
GROUP BY kind ORDER BY count(*) DESC, kind

-- name: stats_days
-- How many of these came on each day since a time.
SELECT created_at / 86400000000 AS day, count(*) FROM record
WHERE tenant = :tenant AND scope = $1 AND status = 'active' AND (expires_at IS NULL OR expires_at > $2) AND created_at >= $3
GROUP BY day ORDER BY day

-- name: stats_rest
-- Quarantined records, open reviews, jobs to be done, jobs given up, conversations.
SELECT
    (SELECT count(*) FROM record WHERE tenant = :tenant AND scope = $1 AND status = 'quarantined'
        AND (expires_at IS NULL OR expires_at > $2)),
    (SELECT count(*) FROM review WHERE tenant = :tenant AND scope = $1 AND state = 'open'),
    (SELECT count(*) FROM job WHERE tenant = :tenant AND scope = $1 AND state <> 'failed'),
    (SELECT count(*) FROM job WHERE tenant = :tenant AND scope = $1 AND state = 'failed'),
    (SELECT count(DISTINCT session) FROM record WHERE tenant = :tenant AND scope = $1 AND session IS NOT NULL
        AND kind = 'message' AND tag <> 'step' AND status = 'active' AND (expires_at IS NULL OR expires_at > $2))

-- name: retention_old
-- What was neither changed, said again nor read since, or was created before then. A time to come, from a clock that ran ahead,
-- is never old.
{record}
WHERE r.tenant = :tenant AND r.scope = :scope AND r.status = 'active'
    AND CASE WHEN :created::boolean THEN r.created_at ELSE greatest(r.updated_at, r.occurred_at, coalesce(a.last, 0)) END < :before
    AND (CASE WHEN :kinds::text IS NULL THEN r.kind <> 'message'
        ELSE r.kind = ANY (ARRAY(SELECT jsonb_array_elements_text(:kinds::jsonb))) END)
    AND (:keyed::boolean OR r.key IS NULL) AND (r.expires_at IS NULL OR r.expires_at > :now)
ORDER BY r.sequence LIMIT :limit

-- name: retention_lapsed
{record}
WHERE r.tenant = :tenant AND r.scope = $1 AND r.status IN ('active', 'quarantined') AND r.expires_at <= $2
ORDER BY r.sequence LIMIT $3

-- name: retention_excess
-- What is over a scope's cap, the least valuable first.
{record}
WHERE r.tenant = :tenant AND r.scope = :scope AND r.sequence IN (
    SELECT c.sequence FROM record AS c LEFT JOIN access AS d USING (tenant, sequence)
    WHERE c.tenant = :tenant AND c.scope = :scope AND c.status = 'active' AND c.key IS NULL
        AND c.kind = ANY (ARRAY(SELECT jsonb_array_elements_text(:kinds::jsonb)))
        AND (c.expires_at IS NULL OR c.expires_at > :now)
    ORDER BY c.importance, coalesce(d.count, 0), greatest(c.updated_at, coalesce(d.last, 0)), c.sequence
    LIMIT greatest(0, (SELECT count(*) FROM record AS e WHERE e.tenant = :tenant AND e.scope = :scope AND e.status = 'active'
        AND (e.expires_at IS NULL OR e.expires_at > :now)
        AND e.key IS NULL AND e.kind = ANY (ARRAY(SELECT jsonb_array_elements_text(:kinds::jsonb)))) - :most))
ORDER BY r.importance, coalesce(a.count, 0), r.sequence

-- name: retention_faded
-- What matters little and was left alone.
{record}
WHERE r.tenant = :tenant AND r.scope = $1 AND r.kind IN ('fact', 'note') AND r.key IS NULL AND r.status = 'active'
    AND r.importance < $2
    AND coalesce(a.count, 0) <= $3 AND greatest(r.updated_at, r.occurred_at, coalesce(a.last, 0)) < $4
    AND (r.expires_at IS NULL OR r.expires_at > $5)
ORDER BY r.sequence

-- name: review_add
INSERT INTO review (tenant, number, scope, sequence, version, flag, reason, evidence, at, state)
VALUES (:tenant, $1, $2, $3, $4, $5, $6, $7, $8, 'open')

-- name: review_known
-- Whether a flag is open, or was settled for the version that the record has now.
SELECT 1 FROM review WHERE tenant = :tenant AND sequence = $1 AND flag = $2 AND (state = 'open' OR version = $3) LIMIT 1

-- name: review_same
-- Whether a text is in quarantine and no decision was made yet.
SELECT r.id, r.version FROM review AS v JOIN record AS r USING (tenant, sequence)
WHERE r.tenant = :tenant AND v.scope = $1 AND v.state = 'open' AND v.flag = 'quarantined'
    AND r.hash = $2 AND r.status = 'quarantined' LIMIT 1

-- name: review
-- The beginning that every query of reviews shares, as {review}.
SELECT v.number, r.id, v.version, v.flag, v.reason, v.evidence, v.at, v.state
FROM review AS v JOIN record AS r USING (tenant, sequence)

-- name: review_list
{review}
WHERE v.tenant = :tenant AND v.scope = $1 AND v.state = $2 AND v.number > $3 ORDER BY v.number LIMIT $4

-- name: review_get
{review}
WHERE v.tenant = :tenant AND v.scope = $1 AND v.number = $2

-- name: review_settle
UPDATE review SET state = $3 WHERE tenant = :tenant AND scope = $1 AND number = $2 AND state = 'open'

-- name: review_close
-- What was open about a record is settled with it.
UPDATE review SET state = $3 WHERE tenant = :tenant AND sequence = $1 AND flag = $2 AND state = 'open'

-- name: review_drop
DELETE FROM review WHERE tenant = :tenant AND sequence = $1

-- name: record_release
UPDATE record SET status = 'active', changed = $2, expires_at = NULL WHERE tenant = :tenant AND sequence = $1

-- name: record_confirm
UPDATE record SET expires_at = NULL, changed = $2 WHERE tenant = :tenant AND sequence = $1

-- name: record_vector
SELECT vector FROM vector
WHERE tenant = :tenant AND sequence = $1
    AND scope = (SELECT r.scope FROM record AS r WHERE r.tenant = :tenant AND r.sequence = $1) AND model = $2

-- name: lease_take
-- A lease that ends in a far future was taken by a clock that ran ahead.
INSERT INTO lease (name, holder, until) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder = excluded.holder OR lease.until <= $4 OR lease.until > $5

-- name: lease_release
DELETE FROM lease WHERE name = $1 AND holder = $2

-- name: meta_next
-- "dimension id" of the embedder that vectors are gathered for.
SELECT value FROM meta WHERE name = 'next embedder'

-- name: meta_drop
DELETE FROM meta WHERE name = $1

-- name: next_clear
DELETE FROM vector_next WHERE tenant = :tenant

-- name: next_attach
INSERT INTO vector_next (tenant, sequence, version, vector)
SELECT tenant, sequence, version, $3 FROM vector
WHERE tenant = :tenant AND scope = $4 AND sequence = $1 AND version = $2
ON CONFLICT (tenant, sequence) DO UPDATE SET version = excluded.version, vector = excluded.vector

-- name: next_delete
DELETE FROM vector_next WHERE tenant = :tenant AND sequence = $1

-- name: next_delete_passages
DELETE FROM vector_next WHERE tenant = :tenant AND sequence BETWEEN $1 AND $2

-- name: next_pending
SELECT s.tenant, s.agent, s."user", r.sequence, v.version, r.content, r.key
FROM vector AS v JOIN record AS r USING (tenant, scope, sequence) JOIN scope AS s ON s.tenant = r.tenant AND s.scope = r.scope
LEFT JOIN vector_next AS n ON n.tenant = v.tenant AND n.sequence = v.sequence
WHERE v.tenant = :tenant AND v.sequence > $1 AND (n.version IS NULL OR n.version <> v.version) ORDER BY v.sequence LIMIT $2

-- name: next_passages
SELECT s.tenant, s.agent, s."user", v.sequence, v.version, v.start, v.stop
FROM vector AS v CROSS JOIN LATERAL (SELECT (-v.sequence) >> 14 AS record OFFSET 0) AS o
    JOIN record AS r ON r.tenant = v.tenant AND r.scope = v.scope AND r.sequence = o.record
    JOIN scope AS s ON s.tenant = r.tenant AND s.scope = r.scope
LEFT JOIN vector_next AS n ON n.tenant = v.tenant AND n.sequence = v.sequence
WHERE v.tenant = :tenant AND v.sequence < 0 AND v.sequence < $1 AND (n.version IS NULL OR n.version <> v.version)
ORDER BY v.sequence DESC LIMIT $2

-- name: next_count
SELECT count(*) FROM vector AS v LEFT JOIN vector_next AS n USING (tenant, sequence)
WHERE v.tenant = :tenant AND (n.version IS NULL OR n.version <> v.version)

-- name: next_switch
-- The gathered vectors take their places; what has none waits.
UPDATE vector SET model = CASE WHEN n.vector IS NULL THEN NULL ELSE $1 END, vector = n.vector
FROM (SELECT v.sequence, x.vector FROM vector AS v
    LEFT JOIN vector_next AS x ON x.tenant = v.tenant AND x.sequence = v.sequence AND x.version = v.version
    WHERE v.tenant = :tenant) AS n
WHERE vector.tenant = :tenant AND n.sequence = vector.sequence

-- name: jobs_naming
-- Jobs that name one of these records.
SELECT number, ids, problem FROM job AS j
WHERE j.tenant = :tenant AND j.scope = $1 AND j.ids::jsonb ?| ARRAY(SELECT jsonb_array_elements_text($2::jsonb))

-- name: job_without
UPDATE job SET ids = $2, problem = NULL WHERE tenant = :tenant AND number = $1

-- name: record_rewrite
-- A record without what was taken out of it, at the version it has.
UPDATE record SET changed = $2, content = $3, hash = $4, metadata = $5, gist = $6, blocks = $7, sensitive = $8, kind = $9,
    tag = $10, key = $11, source = $12, session = $13, role = $14, name = $15
WHERE tenant = :tenant AND sequence = $1

-- name: history_rewrite
UPDATE history SET content = $3, hash = $4, metadata = $5, terms = $6, model = NULL, vector = NULL, kind = $7, tag = $8,
    source = $9, session = $10, role = $11, name = $12
WHERE tenant = :tenant AND sequence = $1 AND version = $2

-- name: doctor_orphans
-- What hangs on a record that does not exist.
SELECT 'lineage', x.sequence FROM lineage AS x WHERE x.tenant = :tenant
    AND NOT EXISTS (SELECT 1 FROM record AS r WHERE r.tenant = :tenant AND r.sequence = x.sequence)
UNION ALL
SELECT 'a review', x.sequence FROM review AS x WHERE x.tenant = :tenant
    AND NOT EXISTS (SELECT 1 FROM record AS r WHERE r.tenant = :tenant AND r.sequence = x.sequence)
UNION ALL
SELECT 'a coming vector', x.sequence FROM vector_next AS x WHERE x.tenant = :tenant AND NOT EXISTS
    (SELECT 1 FROM record AS r WHERE r.tenant = :tenant AND r.sequence = CASE WHEN x.sequence > 0 THEN x.sequence ELSE (-x.sequence) >> 14 END)
UNION ALL
SELECT 'reads', x.sequence FROM access AS x WHERE x.tenant = :tenant
    AND NOT EXISTS (SELECT 1 FROM record AS r WHERE r.tenant = :tenant AND r.sequence = x.sequence)
UNION ALL
SELECT 'words', x.sequence FROM words AS x WHERE x.tenant = :tenant AND NOT EXISTS
    (SELECT 1 FROM record AS r WHERE r.tenant = :tenant AND r.sequence = CASE WHEN x.sequence > 0 THEN x.sequence ELSE (-x.sequence) >> 14 END)
