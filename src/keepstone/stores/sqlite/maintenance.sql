-- The statements of maintenance: the chain of the audit log, lineage, limits, what is archived, reviews, leases, the next embedder's vectors.

-- name: chain_last
-- The number of the next audit entry, and the hash of the tenant's last.
SELECT coalesce(max(number), 0) + 1, (SELECT head FROM chain WHERE tenant = ?) FROM audit

-- name: chain_extend
INSERT INTO chain (tenant, start, rows, head) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant) DO UPDATE SET rows = rows + excluded.rows, head = excluded.head

-- name: chain_of
SELECT start, rows, head FROM chain WHERE tenant = ?

-- name: chain_walk
-- A tenant's whole audit log in order; what was done to the whole store belongs to no tenant.
SELECT a.number, coalesce(s.tenant, ''), coalesce(s.agent, ''), coalesce(s.user, ''), a.at, a.verb, a.action, a.sequence, a.id,
    a.version, a.source, a.reasons, a.chain
FROM audit AS a LEFT JOIN scope AS s USING (scope) WHERE coalesce(s.tenant, '') = ? ORDER BY a.number

-- name: audit_newest
SELECT max(number) FROM audit WHERE scope = ?

-- name: audit_count
SELECT count(*) FROM audit WHERE scope = ?

-- name: audit_places
-- Of each number how many entries there are after the number before it.
SELECT value, (SELECT count(*) FROM audit WHERE scope = ?1 AND number > previous AND number <= value)
FROM (SELECT value, lag(value, 1, 0) OVER (ORDER BY value) AS previous FROM json_each(?2)) ORDER BY value

-- name: audit_at
SELECT number FROM audit WHERE scope = ? ORDER BY number LIMIT 1 OFFSET ?

-- name: merge_feed
-- Records of a scope in the order of their changes.
SELECT id, changed FROM record WHERE scope = ? AND changed > ? ORDER BY changed LIMIT ?

-- name: merge_feed_forgotten
SELECT id FROM audit AS a WHERE scope = ? AND number > ? AND number <= ? AND verb = 'forget' AND id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM record AS r WHERE r.scope = a.scope AND r.id = a.id) ORDER BY number

-- name: merge_forgotten
-- Which of these ids were forgotten and are not there.
SELECT DISTINCT id FROM audit AS a WHERE scope = ?1 AND verb = 'forget' AND id IN (SELECT value FROM json_each(?2))
    AND NOT EXISTS (SELECT 1 FROM record AS r WHERE r.scope = a.scope AND r.id = a.id)

-- name: merge_changed
-- The last change of each of these records.
SELECT r.id, a.at, a.reasons FROM record AS r JOIN audit AS a ON a.number = r.changed
WHERE r.scope = ?1 AND r.id IN (SELECT value FROM json_each(?2))

-- name: merge_erased
-- When versions of these records were erased or redacted.
SELECT id, verb, at, reasons FROM audit
WHERE scope = ?1 AND verb IN ('unsay', 'redact', 'sync') AND id IN (SELECT value FROM json_each(?2))

-- name: audit_days
SELECT min(at) AS first FROM audit WHERE scope = ? AND at >= ? GROUP BY at / 86400000000 ORDER BY first

-- name: record_in_other_scope
-- Whether an id belongs to some other scope.
SELECT 1 FROM scope AS s WHERE s.scope <> ?1 AND EXISTS (SELECT 1 FROM record AS r WHERE r.scope = s.scope AND r.id = ?2) LIMIT 1

-- name: lineage_add
INSERT OR IGNORE INTO lineage (scope, parent, sequence, version, support, session) VALUES (?, ?, ?, ?, ?, ?)

-- name: lineage_copy
-- The next version of a record rests on what the one before rested on.
INSERT OR IGNORE INTO lineage (scope, parent, sequence, version, support, session)
SELECT scope, parent, sequence, ?3, support, session FROM lineage WHERE sequence = ?1 AND version = ?2

-- name: lineage_supports
-- What a version rests on.
SELECT support, parent, session FROM lineage WHERE sequence = ? AND version = ? ORDER BY support, parent

-- name: lineage_children
-- The versions that rest on a record, by any of their supports.
SELECT sequence, version, support FROM lineage WHERE scope = ? AND parent = ? AND parent <> ''

-- name: lineage_of_session
-- The supports that stand in a session.
SELECT DISTINCT sequence, version, support FROM lineage WHERE scope = ? AND session = ?

-- name: lineage_drop_parent
DELETE FROM lineage WHERE scope = ? AND parent = ? AND sequence = ? AND version = ? AND support = ?

-- name: lineage_drop_support
DELETE FROM lineage WHERE sequence = ? AND version = ? AND support = ?

-- name: lineage_drop_version
DELETE FROM lineage WHERE sequence = ? AND version = ?

-- name: lineage_drop
DELETE FROM lineage WHERE sequence = ?

-- name: record_support
-- Another support takes the place of the first.
UPDATE record SET session = ?2, parents = ?3, trust = min(trust, coalesce(?4, trust)) WHERE sequence = ?1

-- name: forget_texts
-- What else of a record must not be found any more.
SELECT tag, source, name, blocks FROM record WHERE sequence = ?

-- name: history_texts
SELECT content, metadata, tag, source, session, name FROM history WHERE sequence = ? AND version = ?

-- name: vector_kept
SELECT 1 FROM vector WHERE sequence = ? AND vector IS NOT NULL

-- name: record_kind
SELECT kind FROM record WHERE sequence = ?

-- name: record_clear_parents
-- What a record rested on has gone, and it stays.
UPDATE record SET parents = '[]' WHERE sequence = ? AND version = ?

-- name: record_least_trust
SELECT min(trust) FROM record WHERE scope = ? AND id IN (SELECT value FROM json_each(?))

-- name: bucket_get
SELECT tokens, at FROM bucket WHERE scope = ? AND name = ?

-- name: bucket_put
INSERT INTO bucket (scope, name, tokens, at) VALUES (?, ?, ?, ?)
ON CONFLICT (scope, name) DO UPDATE SET tokens = excluded.tokens, at = excluded.at

-- name: record_with_status
-- One record that can be archived (?3 'active') or restored ('archived').
SELECT sequence, version, source, hash, kind, tag, key FROM record WHERE scope = ?1 AND id = ?2 AND status = ?3

-- name: archive_record
UPDATE record SET status = 'archived', changed = ?2, aside_at = ?3, aside_why = ?4, ticket = ?5 WHERE sequence = ?1

-- name: restore_record
-- One that had run out of time has none to keep any more, unless ?4; one that was not released from quarantine goes back there.
UPDATE record SET status = CASE WHEN EXISTS (SELECT 1 FROM review AS v WHERE v.sequence = ?1 AND v.flag = 'quarantined'
        AND v.state IN ('open', 'retired')) THEN 'quarantined' ELSE 'active' END,
    changed = ?2, aside_at = NULL, aside_why = NULL, ticket = NULL,
    expires_at = CASE WHEN expires_at <= ?3 AND NOT ?4 THEN NULL ELSE expires_at END
WHERE sequence = ?1

-- name: archived_as_compacted
SELECT 1 FROM record WHERE scope = ? AND id = ? AND status = 'archived' AND aside_why = 'compacted'

-- name: archived_how
SELECT aside_at, aside_why FROM record WHERE sequence = ?

-- name: archived_reason_change
-- A digest that was archived and erased leaves no reason to keep what it was made from.
UPDATE record SET aside_at = ?3, aside_why = ?4 WHERE scope = ?1 AND id = ?2 AND status = 'archived' AND aside_why = 'compacted'

-- name: archived_batch
SELECT id FROM record WHERE scope = ? AND ticket = ? AND status = 'archived' ORDER BY sequence

-- name: archived_list
-- The columns of a record, and how it was archived.
SELECT * FROM (
{record}
WHERE r.scope = :scope AND r.status = 'archived') AS found JOIN (
    SELECT sequence AS number, aside_why, aside_at, ticket FROM record WHERE scope = :scope AND aside_at IS NOT NULL
        AND (:before IS NULL OR aside_at < :before)
        AND (:why IS NULL OR aside_why IN (SELECT value FROM json_each(:why)))
) AS how ON how.number = found.sequence
ORDER BY how.aside_at, found.sequence LIMIT :limit

-- name: scope_list
SELECT tenant, agent, user FROM scope WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR user = ?2)
ORDER BY tenant, agent, user

-- name: scope_with_record
-- The scopes of a tenant that have a record with an id.
SELECT s.tenant, s.agent, s.user FROM scope AS s
WHERE s.tenant = ?1 AND EXISTS (SELECT 1 FROM record AS r WHERE r.scope = s.scope AND r.id = ?2)
ORDER BY s.agent, s.user

-- name: scope_summaries
-- What each scope of a tenant holds: memories, messages, conversations, bytes of text, the last audit entry.
SELECT s.tenant, s.agent, s.user,
    count(*) FILTER (WHERE r.kind <> 'message'), count(*) FILTER (WHERE r.kind = 'message'),
    count(DISTINCT r.session) FILTER (WHERE r.kind = 'message' AND r.tag <> 'step'), coalesce(sum(octet_length(r.content)), 0),
    (SELECT a.at FROM audit AS a WHERE a.scope = s.scope ORDER BY a.number DESC LIMIT 1)
FROM scope AS s
LEFT JOIN record AS r ON r.scope = s.scope AND r.status = 'active' AND (r.expires_at IS NULL OR r.expires_at > ?2)
WHERE s.tenant = ?1 GROUP BY s.scope ORDER BY s.agent, s.user

-- name: lineage_active
-- What the active records of a scope rest on, and whether their present version does.
SELECT r.id, l.parent, max(l.version = r.version) FROM lineage AS l JOIN record AS r USING (sequence)
WHERE l.scope = ? AND l.parent <> '' AND r.status = 'active' GROUP BY r.id, l.parent ORDER BY r.id, l.parent

-- name: lineage_active_of
-- What some of them rest on.
SELECT r.id, l.parent, max(l.version = r.version) FROM record AS r JOIN lineage AS l USING (sequence)
WHERE r.scope = ? AND r.id IN (SELECT value FROM json_each(?)) AND l.parent <> '' AND r.status = 'active'
GROUP BY r.id, l.parent ORDER BY r.id, l.parent

-- name: stats_kinds
-- What list would show of a scope, by kind.
SELECT kind, count(*) FROM record WHERE scope = ?1 AND status = 'active' AND (expires_at IS NULL OR expires_at > ?2)
GROUP BY kind ORDER BY count(*) DESC, kind

-- name: stats_days
-- How many of these came on each day since a time.
SELECT created_at / 86400000000 AS day, count(*) FROM record
WHERE scope = ?1 AND status = 'active' AND (expires_at IS NULL OR expires_at > ?2) AND created_at >= ?3
GROUP BY day ORDER BY day

-- name: stats_rest
-- Quarantined records, open reviews, jobs to be done, jobs given up, conversations.
SELECT
    (SELECT count(*) FROM record WHERE scope = ?1 AND status = 'quarantined' AND (expires_at IS NULL OR expires_at > ?2)),
    (SELECT count(*) FROM review WHERE scope = ?1 AND state = 'open'),
    (SELECT count(*) FROM job WHERE scope = ?1 AND state <> 'failed'),
    (SELECT count(*) FROM job WHERE scope = ?1 AND state = 'failed'),
    (SELECT count(DISTINCT session) FROM record INDEXED BY record_session
        WHERE scope = ?1 AND session IS NOT NULL AND kind = 'message' AND tag <> 'step' AND status = 'active'
            AND (expires_at IS NULL OR expires_at > ?2))

-- name: retention_old
-- What was neither changed, said again nor read since, or was created before then. A time to come, from a clock that ran ahead,
-- is never old.
{record}
WHERE r.scope = :scope AND r.status = 'active' AND CASE WHEN :created THEN r.created_at ELSE max(r.updated_at, r.occurred_at, coalesce(a.last, 0)) END < :before
    AND (CASE WHEN :kinds IS NULL THEN r.kind <> 'message' ELSE r.kind IN (SELECT value FROM json_each(:kinds)) END)
    AND (:keyed OR r.key IS NULL) AND (r.expires_at IS NULL OR r.expires_at > :now)
ORDER BY r.sequence LIMIT :limit

-- name: retention_lapsed
{record}
WHERE r.scope = ? AND r.status IN ('active', 'quarantined') AND r.expires_at <= ? ORDER BY r.sequence LIMIT ?

-- name: retention_excess
-- What is over a scope's cap, the least valuable first.
{record}
WHERE r.sequence IN (
    SELECT c.sequence FROM record AS c LEFT JOIN access AS d USING (sequence)
    WHERE c.scope = :scope AND c.status = 'active' AND c.key IS NULL AND c.kind IN (SELECT value FROM json_each(:kinds))
        AND (c.expires_at IS NULL OR c.expires_at > :now)
    ORDER BY c.importance, coalesce(d.count, 0), max(c.updated_at, coalesce(d.last, 0)), c.sequence
    LIMIT max(0, (SELECT count(*) FROM record AS e WHERE e.scope = :scope AND e.status = 'active'
        AND (e.expires_at IS NULL OR e.expires_at > :now)
        AND e.key IS NULL AND e.kind IN (SELECT value FROM json_each(:kinds))) - :most))
ORDER BY r.importance, coalesce(a.count, 0), r.sequence

-- name: retention_faded
-- What matters little and was left alone.
{record}
WHERE r.scope = ?1 AND r.kind IN ('fact', 'note') AND r.key IS NULL AND r.status = 'active' AND r.importance < ?2
    AND coalesce(a.count, 0) <= ?3 AND max(r.updated_at, r.occurred_at, coalesce(a.last, 0)) < ?4
    AND (r.expires_at IS NULL OR r.expires_at > ?5)
ORDER BY r.sequence

-- name: review_add
INSERT INTO review (number, scope, sequence, version, flag, reason, evidence, at, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'open')

-- name: review_known
-- Whether a flag is open, or was settled for the version that the record has now.
SELECT 1 FROM review WHERE sequence = ?1 AND flag = ?2 AND (state = 'open' OR version = ?3) LIMIT 1

-- name: review_same
-- Whether a text is in quarantine and no decision was made yet.
SELECT r.id, r.version FROM review AS v JOIN record AS r USING (sequence)
WHERE v.scope = ? AND v.state = 'open' AND v.flag = 'quarantined' AND r.hash = ? AND r.status = 'quarantined' LIMIT 1

-- name: review
-- The beginning that every query of reviews shares, as {review}.
SELECT v.number, r.id, v.version, v.flag, v.reason, v.evidence, v.at, v.state
FROM review AS v JOIN record AS r USING (sequence)

-- name: review_list
{review}
WHERE v.scope = ? AND v.state = ? AND v.number > ? ORDER BY v.number LIMIT ?

-- name: review_get
{review}
WHERE v.scope = ? AND v.number = ?

-- name: review_settle
UPDATE review SET state = ?3 WHERE scope = ?1 AND number = ?2 AND state = 'open'

-- name: review_close
-- What was open about a record is settled with it.
UPDATE review SET state = ?3 WHERE sequence = ?1 AND flag = ?2 AND state = 'open'

-- name: review_drop
DELETE FROM review WHERE sequence = ?

-- name: record_release
UPDATE record SET status = 'active', changed = ?2, expires_at = NULL WHERE sequence = ?1

-- name: record_confirm
UPDATE record SET expires_at = NULL, changed = ?2 WHERE sequence = ?1

-- name: record_vector
SELECT vector FROM vector WHERE sequence = ? AND model = ?

-- name: lease_take
-- A lease that ends in a far future was taken by a clock that ran ahead.
INSERT INTO lease (name, holder, until) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE holder = excluded.holder OR until <= ?4 OR until > ?5

-- name: lease_release
DELETE FROM lease WHERE name = ? AND holder = ?

-- name: meta_next
-- "dimension id" of the embedder that vectors are gathered for.
SELECT value FROM meta WHERE name = 'next embedder'

-- name: meta_drop
DELETE FROM meta WHERE name = ?

-- name: next_clear
DELETE FROM vector_next

-- name: next_attach
INSERT INTO vector_next (sequence, version, vector) SELECT ?1, ?2, ?3
WHERE EXISTS (SELECT 1 FROM vector AS v JOIN record AS r ON r.sequence = CASE WHEN ?1 > 0 THEN ?1 ELSE -?1 >> 14 END
    WHERE v.sequence = ?1 AND v.version = ?2 AND r.scope = ?4)
ON CONFLICT (sequence) DO UPDATE SET version = excluded.version, vector = excluded.vector

-- name: next_delete
DELETE FROM vector_next WHERE sequence = ?

-- name: next_delete_passages
DELETE FROM vector_next WHERE sequence BETWEEN ? AND ?

-- name: next_pending
SELECT s.tenant, s.agent, s.user, r.sequence, v.version, r.content, r.key
FROM vector AS v JOIN record AS r USING (sequence) JOIN scope AS s ON s.scope = r.scope
LEFT JOIN vector_next AS n USING (sequence)
WHERE v.sequence > ? AND (n.version IS NULL OR n.version <> v.version) ORDER BY v.sequence LIMIT ?

-- name: next_passages
SELECT s.tenant, s.agent, s.user, v.sequence, v.version, v.start, v.stop
FROM vector AS v INDEXED BY vector_passages JOIN record AS r ON r.sequence = -v.sequence >> 14 JOIN scope AS s ON s.scope = r.scope
LEFT JOIN vector_next AS n ON n.sequence = v.sequence
WHERE v.sequence < 0 AND v.sequence < ? AND (n.version IS NULL OR n.version <> v.version) ORDER BY v.sequence DESC LIMIT ?

-- name: next_count
SELECT count(*) FROM vector AS v LEFT JOIN vector_next AS n USING (sequence) WHERE n.version IS NULL OR n.version <> v.version

-- name: next_switch
-- The gathered vectors take their places; what has none waits.
UPDATE vector SET model = CASE WHEN n.vector IS NULL THEN NULL ELSE ?1 END, vector = n.vector
FROM (SELECT v.sequence, x.vector FROM vector AS v LEFT JOIN vector_next AS x ON x.sequence = v.sequence AND x.version = v.version) AS n
WHERE n.sequence = vector.sequence

-- name: jobs_naming
-- Jobs that name one of these records.
SELECT number, ids, problem FROM job AS j
WHERE scope = ?1 AND EXISTS (SELECT 1 FROM json_each(j.ids) AS n WHERE n.value IN (SELECT value FROM json_each(?2)))

-- name: job_without
UPDATE job SET ids = ?2, problem = NULL WHERE number = ?1

-- name: record_rewrite
-- A record without what was taken out of it, at the version it has.
UPDATE record SET changed = ?2, content = ?3, hash = ?4, metadata = ?5, gist = ?6, blocks = ?7, sensitive = ?8, kind = ?9,
    tag = ?10, key = ?11, source = ?12, session = ?13, role = ?14, name = ?15
WHERE sequence = ?1

-- name: history_rewrite
UPDATE history SET content = ?3, hash = ?4, metadata = ?5, terms = ?6, model = NULL, vector = NULL, kind = ?7, tag = ?8,
    source = ?9, session = ?10, role = ?11, name = ?12
WHERE sequence = ?1 AND version = ?2

-- name: doctor_orphans
-- What hangs on a record that does not exist.
SELECT 'lineage', sequence FROM lineage WHERE NOT EXISTS (SELECT 1 FROM record AS r WHERE r.sequence = lineage.sequence)
UNION ALL SELECT 'a review', sequence FROM review WHERE NOT EXISTS (SELECT 1 FROM record AS r WHERE r.sequence = review.sequence)
UNION ALL SELECT 'a coming vector', sequence FROM vector_next
    WHERE NOT EXISTS (SELECT 1 FROM record AS r WHERE r.sequence = CASE WHEN vector_next.sequence > 0 THEN vector_next.sequence ELSE -vector_next.sequence >> 14 END)
UNION ALL SELECT 'reads', sequence FROM access WHERE NOT EXISTS (SELECT 1 FROM record AS r WHERE r.sequence = access.sequence)
