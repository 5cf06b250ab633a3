-- Every statement SqliteStore runs. A query: its name, a line that says what it is for, the statement.

-- name: meta_all
-- The store's own facts: id, embedder, cursor secret.
SELECT name, value FROM meta

-- name: meta_embedder
-- "number dimension id" of the present embedder; the number counts the embedders the store has had.
SELECT value FROM meta WHERE name = 'embedder'

-- name: meta_set
INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: scope_find
SELECT scope FROM scope WHERE tenant = ? AND agent = ? AND user = ?

-- name: scope_add
INSERT INTO scope (tenant, agent, user) VALUES (?, ?, ?) RETURNING scope

-- name: audit_add
-- The next number of the audit log: rows are never deleted, so numbers never come twice.
INSERT INTO audit (number, scope, at, verb, action, sequence, id, version, source, reasons, chain)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: audit_last
SELECT max(number) FROM audit

-- name: audit_list
SELECT number, at, verb, action, id, version, source, reasons FROM audit
WHERE scope = ? AND at >= ? ORDER BY number DESC LIMIT ?

-- name: idempotency_find
SELECT fingerprint, receipt FROM idempotency WHERE scope = ? AND key = ?

-- name: idempotency_add
INSERT INTO idempotency (scope, key, fingerprint, receipt, id, at) VALUES (?, ?, ?, ?, ?, ?)

-- name: idempotency_forget
-- A receipt names the record it made; when that record is erased the receipt goes too.
DELETE FROM idempotency INDEXED BY idempotency_id WHERE scope = ? AND id = ?

-- name: record_add
INSERT INTO record (sequence, scope, changed, id, kind, tag, key, content, hash, metadata, importance, source, trust,
    session, role, name, occurred_at, created_at, updated_at, valid_from, expires_at, version, status, parents, action,
    gist, blocks, sensitive)
VALUES (?1, ?2, ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?17, ?18, ?19, 1, ?20, ?21,
    'added', ?22, ?23, ?24)

-- name: record_restore
-- A record as an export had it.
INSERT INTO record (sequence, scope, changed, id, kind, tag, key, content, hash, metadata, importance, source, trust,
    session, role, name, occurred_at, created_at, updated_at, valid_from, expires_at, version, status, parents, action,
    gist, blocks, sensitive, aside_at, aside_why, ticket)
VALUES (?1, ?2, ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
    ?24, ?25, ?26, ?27, ?28, ?29, CASE WHEN ?28 IS NOT NULL THEN ?1 END)

-- name: record_change
-- The next version of a record; what it was has gone to history before.
UPDATE record SET changed = ?2, content = ?3, hash = ?4, metadata = ?5, importance = ?6, tag = ?7, source = ?8,
    trust = ?9, session = ?10, role = ?11, name = ?12, occurred_at = ?13, updated_at = ?14, valid_from = ?15,
    expires_at = ?16, version = ?17, action = ?18, kind = ?19, parents = ?20, gist = ?21, sensitive = ?22,
    blocks = CASE WHEN hash = ?4 THEN blocks END
WHERE sequence = ?1

-- name: record_extend
-- Said again: it may hold for longer, and was last said then.
UPDATE record SET expires_at = ?3, changed = ?2, occurred_at = ?4 WHERE sequence = ?1

-- name: record_changed
-- Tells readers to load the record again.
UPDATE record SET changed = ?2 WHERE sequence = ?1

-- name: record_delete
DELETE FROM record WHERE sequence = ?

-- name: record
-- The beginning that every query of whole records shares, as {record}: the row, its accesses, whether it has a vector. The index
-- of those without one is short; the rows of vectors would be a page of the file each.
SELECT r.sequence, r.id, r.kind, r.tag, r.key, r.content, r.metadata, r.importance, r.source, r.trust, r.session, r.role,
    r.name, r.occurred_at, r.created_at, r.updated_at, r.valid_from, r.expires_at, a.last, coalesce(a.count, 0),
    r.version, r.status, r.parents,
    NOT EXISTS (SELECT 1 FROM vector AS v INDEXED BY vector_pending WHERE v.sequence = r.sequence AND v.vector IS NULL),
    r.blocks, r.sensitive
FROM record AS r LEFT JOIN access AS a USING (sequence)

-- name: record_by_id
{record}
WHERE r.scope = ? AND r.id = ?

-- name: record_by_key
{record}
WHERE r.scope = ? AND r.key = ? AND r.status = 'active' AND (r.expires_at IS NULL OR r.expires_at > ?)

-- name: record_by_sequences
-- By their numbers; the plus keeps the index of scopes out, which would only be a detour.
{record}
WHERE +r.scope = ? AND r.sequence IN (SELECT value FROM json_each(?))

-- name: record_alike
-- Records that may say the same as a new one.
{record}
WHERE r.scope = ? AND r.gist = ? AND r.status = 'active' AND r.key IS NULL AND r.kind = ? AND r.tag = ?
    AND (r.expires_at IS NULL OR r.expires_at > ?)
ORDER BY r.sequence DESC LIMIT 8

-- name: listed
-- Which records a list may return, as {listed}; {filter} is a condition built from a parsed filter, or TRUE.
r.scope = :scope AND r.status = 'active'
    AND (r.expires_at IS NULL OR r.expires_at > :now)
    AND (:tag IS NULL OR r.tag = :tag) AND (:kind IS NULL OR r.kind = :kind)
    AND (:session IS NULL OR r.session = :session) AND (:without IS NULL OR r.kind <> :without)
    AND (:prefix IS NULL OR substr(r.id, 1, length(:prefix)) = :prefix) AND {filter}

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
WHERE r.sequence IN (SELECT r.sequence FROM record AS r
WHERE (:before = 4611686018427387904 OR (r.occurred_at, r.sequence) <
    (SELECT l.occurred_at, l.sequence FROM record AS l WHERE l.sequence = :before)) AND
{listed}
ORDER BY r.occurred_at DESC, r.sequence DESC LIMIT :limit)
ORDER BY r.occurred_at DESC, r.sequence DESC

-- name: record_walk
-- Every record of a scope in order, for export, or those with these ids.
{record}
WHERE r.scope = ?1 AND (?2 IS NULL OR r.id IN (SELECT value FROM json_each(?2))) ORDER BY r.sequence

-- name: record_same
-- The active record that has this content already.
{state}
FROM record
WHERE scope = ? AND hash = ? AND kind = ? AND tag = ? AND status = 'active' AND key IS NULL AND kind <> 'message'

-- name: record_name
SELECT id, version FROM record WHERE sequence = ?

-- name: record_text
SELECT content, key FROM record WHERE sequence = ?

-- name: record_sequence
SELECT sequence FROM record WHERE scope = ? AND id = ?

-- name: state
-- What a change needs to know of a record as it is, as {state}.
SELECT sequence, version, content, hash, metadata, importance, tag, source, trust, session, role, name, occurred_at,
    updated_at, valid_from, expires_at, action, kind, key, id, status, parents, gist,
    sensitive

-- name: record_state
{state}
FROM record WHERE scope = ? AND id = ?

-- name: record_state_by_key
{state}
FROM record WHERE scope = ? AND key = ? AND status = 'active'

-- name: record_count
-- What list would show of a scope.
SELECT count(*) FROM record WHERE scope = ? AND status = 'active' AND (expires_at IS NULL OR expires_at > ?)

-- name: record_matching
SELECT r.sequence FROM record AS r WHERE r.scope = :scope AND {filter} ORDER BY r.sequence

-- name: forget_find
-- The records a selector means; a source stands for itself and, as a class, for "class:detail".
SELECT sequence, id FROM record
WHERE scope = :scope AND (:everything
    OR id = :id OR :ids IS NOT NULL AND id IN (SELECT value FROM json_each(:ids)) OR key = :key OR session = :session
    OR source = :source OR substr(source, 1, length(:source) + 1) = :source || ':')
    AND (:kind IS NULL OR kind = :kind) AND (NOT :aside OR status = 'archived')

-- name: forget_find_ids
-- The same for ids, by their index.
SELECT sequence, id FROM record
WHERE scope = :scope AND id IN (SELECT :id UNION ALL SELECT value FROM json_each(:ids))
    AND (:kind IS NULL OR kind = :kind) AND (NOT :aside OR status = 'archived')

-- name: forget_find_session
-- The same for a session, by its index.
SELECT sequence, id FROM record
WHERE scope = :scope AND session = :session AND (:kind IS NULL OR kind = :kind) AND (NOT :aside OR status = 'archived')
ORDER BY sequence

-- name: forget_versions
-- Past versions that came from a source, or from a session.
SELECT h.sequence, h.version, h.content, h.metadata FROM history AS h JOIN record AS r USING (sequence)
WHERE r.scope = :scope
    AND (h.session = :session OR h.source = :source OR substr(h.source, 1, length(:source) + 1) = :source || ':')
    AND (:kind IS NULL OR r.kind = :kind)

-- name: history_add
-- Keeps a record's present state before it changes.
INSERT INTO history (sequence, version, content, hash, metadata, importance, kind, tag, source, trust, session, role,
    name, occurred_at, valid_from, known_from, expires_at, action, terms, model, vector)
SELECT r.sequence, r.version, r.content, r.hash, r.metadata, r.importance, r.kind, r.tag, r.source, r.trust, r.session,
    r.role, r.name, r.occurred_at, r.valid_from, r.updated_at, r.expires_at, r.action, v.terms, v.model, v.vector
FROM record AS r JOIN vector AS v USING (sequence) WHERE r.sequence = ?

-- name: history_list
SELECT version, content, metadata, importance, kind, tag, source, trust, session, role, name, valid_from, known_from,
    expires_at, action
FROM history WHERE sequence = ? ORDER BY version

-- name: history_present
-- The present version with the columns of history_list, and what near-duplicates of it are found by.
SELECT version, content, metadata, importance, kind, tag, source, trust, session, role, name, valid_from, updated_at,
    expires_at, action, gist
FROM record WHERE sequence = ?

-- name: history_delete_version
DELETE FROM history WHERE sequence = ? AND version = ?

-- name: history_last
-- The last past version of a record, to make it the present one again.
SELECT version, content, hash, metadata, importance, kind, tag, source, trust, session, role, name, occurred_at, valid_from,
    expires_at, terms, model, vector
FROM history WHERE sequence = ? ORDER BY version DESC LIMIT 1

-- name: history_delete
DELETE FROM history WHERE sequence = ?

-- name: vector_add
-- A record's first passage, or a further one, whose number is negative: the record's number and its place in 14 bits.
INSERT INTO vector (sequence, version, terms, model, vector, start, stop) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: vector_change
UPDATE vector SET version = ?2, terms = ?3, model = ?4, vector = ?5, stop = ?6 WHERE sequence = ?1

-- name: vector_version
UPDATE vector SET version = ?2 WHERE sequence = ?1

-- name: vector_delete
DELETE FROM vector WHERE sequence = ?

-- name: passages_version
-- The further passages of a record, by the lowest and the highest of their numbers.
UPDATE vector SET version = ?4 WHERE ?1 IS NOT NULL AND sequence BETWEEN ?2 AND ?3

-- name: passages_delete
DELETE FROM vector WHERE ?1 IS NOT NULL AND sequence BETWEEN ?2 AND ?3

-- name: passages_count
-- Of the records of a scope, if they are few; else of all passages those of the scope.
SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM vector WHERE sequence < 0) THEN 0
    WHEN (SELECT count(*) FROM (SELECT 1 FROM record WHERE scope = ?1 LIMIT 1000)) < 1000
    THEN (SELECT count(*) FROM record AS r CROSS JOIN vector AS v INDEXED BY vector_passages ON v.sequence < 0
        AND v.sequence BETWEEN -(r.sequence << 14 | 16383) AND -(r.sequence << 14 | 1) WHERE r.scope = ?1)
    ELSE (SELECT count(*) FROM vector AS v INDEXED BY vector_passages CROSS JOIN record AS r ON r.sequence = -v.sequence >> 14
        WHERE v.sequence < 0 AND r.scope = ?1) END

-- name: vector_attach
UPDATE vector SET model = ?3, vector = ?4
WHERE sequence = ?1 AND version = ?2 AND EXISTS (SELECT 1 FROM record WHERE sequence = CASE WHEN ?1 > 0 THEN ?1 ELSE -?1 >> 14 END AND scope = ?5)

-- name: vector_drop_history
-- Another embedder: the old one's vectors of past versions go.
UPDATE history SET model = NULL, vector = NULL WHERE vector IS NOT NULL

-- name: vector_rechange
-- Tells every scope's readers that their vectors are gone.
UPDATE record SET changed = ?

-- name: pending_list
SELECT s.tenant, s.agent, s.user, r.sequence, v.version, r.content, r.key
FROM vector AS v INDEXED BY vector_pending JOIN record AS r USING (sequence) JOIN scope AS s ON s.scope = r.scope
WHERE v.vector IS NULL AND v.sequence > ? ORDER BY v.sequence LIMIT ?

-- name: pending_passages
SELECT s.tenant, s.agent, s.user, v.sequence, v.version, v.start, v.stop
FROM vector AS v INDEXED BY vector_pending JOIN record AS r ON r.sequence = -v.sequence >> 14 JOIN scope AS s ON s.scope = r.scope
WHERE v.vector IS NULL AND v.sequence < ? ORDER BY v.sequence DESC LIMIT ?

-- name: pending_count
SELECT count(*) FROM vector INDEXED BY vector_pending WHERE vector IS NULL

-- name: words_add
INSERT INTO words (rowid, scope, text) VALUES (?, ?, ?)

-- name: words_delete
-- The full-text index holds no text of its own, so it has to be told what to take out.
INSERT INTO words (words, rowid, scope, text) VALUES ('delete', ?, ?, ?)

-- name: words_secure
-- Whether a word that is taken out is overwritten at once; else it stays until the index is written anew.
INSERT INTO words (words, rank) VALUES ('secure-delete', ?)

-- name: words_delete_all
INSERT INTO words (words) VALUES ('delete-all')

-- name: savepoint
-- Makes FTS5 write what it has gathered.
SAVEPOINT words; RELEASE words

-- name: words_optimize
-- Writes the full-text index anew as one piece.
INSERT INTO words (words) VALUES ('optimize')

-- name: search_filter
-- Which records a search may return, as {search_filter}; {filter} is a condition built from a parsed filter, or TRUE.
r.scope = :scope AND r.status = 'active' AND (r.expires_at IS NULL OR r.expires_at > :now)
    AND (:kinds IS NULL OR r.kind IN (SELECT value FROM json_each(:kinds))) AND (:tag IS NULL OR r.tag = :tag)
    AND (:session IS NULL OR r.session = :session) AND r.importance >= :min_importance AND r.trust >= :min_trust
    AND (:steps OR r.tag <> 'step' OR r.kind <> 'message') AND {filter}

-- name: words_search
-- The best matches of a query built from our own terms; the scope's token weighs nothing.
SELECT w.rowid FROM words AS w JOIN record AS r ON r.sequence = CASE WHEN w.rowid > 0 THEN w.rowid ELSE -w.rowid >> 14 END
WHERE words MATCH :match AND
{search_filter}
ORDER BY bm25(words, 0.0, 1.0) LIMIT :limit

-- name: recent_search
SELECT r.sequence FROM record AS r WHERE
{search_filter}
ORDER BY r.sequence DESC LIMIT :limit

-- name: words_count
SELECT count(*) FROM words WHERE words MATCH ?

-- name: access_add
INSERT INTO access (sequence, count, last)
SELECT sequence, ?3, ?4 FROM record WHERE scope = ?1 AND sequence = ?2
ON CONFLICT (sequence) DO UPDATE SET count = count + excluded.count, last = max(last, excluded.last)

-- name: access_restore
INSERT INTO access (sequence, count, last) VALUES (?, ?, ?)

-- name: access_delete
DELETE FROM access WHERE sequence = ?

-- name: index
-- The ranking columns, as {index}.
SELECT r.sequence, r.kind, r.tag, r.session, r.role, r.name, r.importance, r.trust, r.occurred_at, r.valid_from,
    r.expires_at, r.status, v.terms, v.vector, v.stop
FROM record AS r JOIN vector AS v USING (sequence)

-- name: index_passages
-- The further passages of a record.
SELECT v.sequence, v.start, v.stop, v.terms, v.vector FROM vector AS v
WHERE v.sequence BETWEEN -(:sequence << 14 | 16383) AND -(:sequence << 14 | 1)
    AND EXISTS (SELECT 1 FROM record AS r WHERE r.sequence = :sequence AND r.scope = :scope)
ORDER BY v.sequence DESC

-- name: index_passage
-- One of them.
SELECT v.sequence, v.start, v.stop, v.terms, v.vector FROM vector AS v JOIN record AS r ON r.sequence = -v.sequence >> 14
WHERE v.sequence = :sequence AND r.scope = :scope

-- name: index_changed
-- What changed in a scope.
{index} WHERE r.scope = ? AND r.changed > ? ORDER BY r.changed

-- name: index_latest
SELECT max(changed) FROM record WHERE scope = ?

-- name: index_one
{index} WHERE r.scope = :scope AND r.sequence = :sequence

-- name: neighbours
WITH here AS (SELECT scope, session, sequence FROM record WHERE scope = :scope AND sequence = :sequence AND kind = 'message' AND session IS NOT NULL)
SELECT sequence FROM (SELECT r.sequence FROM here CROSS JOIN record r ON r.scope = here.scope AND r.session = here.session
    AND r.sequence < here.sequence AND r.kind = 'message' ORDER BY r.sequence DESC LIMIT :reach)
UNION ALL
SELECT sequence FROM (SELECT r.sequence FROM here CROSS JOIN record r ON r.scope = here.scope AND r.session = here.session
    AND r.sequence > here.sequence AND r.kind = 'message' ORDER BY r.sequence LIMIT :reach)

-- name: index_removed
SELECT sequence, number FROM audit WHERE scope = ? AND number > ? AND verb = 'forget' AND sequence IS NOT NULL ORDER BY number

-- name: index_size
SELECT count(*) FROM record WHERE scope = ?

-- name: vectors_walk
-- Vectors of a scope, for a scan without holding them all.
SELECT r.sequence, v.vector FROM record AS r JOIN vector AS v USING (sequence) WHERE v.vector IS NOT NULL AND
{search_filter}

-- name: passages_walk
-- The same for further passages.
SELECT v.sequence, v.vector FROM vector AS v INDEXED BY vector_passages CROSS JOIN record AS r ON r.sequence = -v.sequence >> 14
WHERE v.sequence < 0 AND v.vector IS NOT NULL AND
{search_filter}

-- name: snapshot
-- Of each record's versions known by then and valid by then, the last: as ranking columns, then as a record. A record that
-- was archived since was there before.
WITH version AS (
    SELECT r.sequence, r.version, r.content, r.metadata, r.importance, r.kind, r.tag, r.source, r.trust, r.session, r.role,
        r.name, CASE WHEN r.occurred_at > min(:as_of, :known_at) THEN r.valid_from ELSE r.occurred_at END AS occurred_at,
        r.valid_from, r.updated_at AS known_from, r.expires_at, v.terms, v.vector, v.stop
    FROM record AS r JOIN vector AS v USING (sequence) WHERE r.scope = :scope
    UNION ALL
    SELECT h.sequence, h.version, h.content, h.metadata, h.importance, h.kind, h.tag, h.source, h.trust, h.session, h.role,
        h.name, h.occurred_at, h.valid_from, h.known_from, h.expires_at, h.terms, h.vector,
        CASE WHEN h.hash = r.hash THEN v.stop END
    FROM history AS h JOIN record AS r USING (sequence) JOIN vector AS v USING (sequence) WHERE r.scope = :scope
), seen AS (
    SELECT *, row_number() OVER (PARTITION BY sequence ORDER BY version DESC) AS place
    FROM version WHERE known_from <= :known_at AND valid_from <= :as_of
)
SELECT s.sequence, s.kind, s.tag, s.session, s.role, s.name, s.importance, s.trust, s.occurred_at, s.valid_from,
    s.expires_at, CASE WHEN r.status = 'archived' AND r.aside_at > min(:as_of, :known_at) THEN 'active' ELSE r.status END, s.terms, s.vector, s.stop,
    r.id, r.key, s.content, s.metadata, s.source, r.created_at, s.known_from, s.version, r.parents,
    (SELECT min(n.valid_from) FROM version AS n
     WHERE n.sequence = s.sequence AND n.version > s.version AND n.known_from <= :known_at)
FROM seen AS s JOIN record AS r USING (sequence)
WHERE s.place = 1 ORDER BY s.sequence

-- name: history_put
-- A version from elsewhere: a wording that was merged away, or a past that an import brings.
INSERT INTO history (sequence, version, content, hash, metadata, importance, kind, tag, source, trust, session, role,
    name, occurred_at, valid_from, known_from, expires_at, action, terms, model, vector)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL)

-- name: reindex_walk
SELECT sequence, scope, content, key, version FROM record ORDER BY sequence

-- name: reindex_terms
UPDATE vector SET terms = ?2, stop = ?3 WHERE sequence = ?1

-- name: reindex_history_walk
SELECT h.sequence, h.version, h.content, r.key FROM history AS h JOIN record AS r USING (sequence)

-- name: reindex_history_terms
UPDATE history SET terms = ?3 WHERE sequence = ?1 AND version = ?2

-- name: doctor_records
SELECT sequence, scope, id, key, content, hash, version, status FROM record ORDER BY sequence

-- name: doctor_history
SELECT h.sequence, h.version, h.content, h.hash, r.sequence IS NULL
FROM history AS h LEFT JOIN record AS r USING (sequence)

-- name: doctor_vectors
SELECT v.sequence, r.sequence IS NULL, v.version, r.version, v.terms, v.vector
FROM vector AS v LEFT JOIN record AS r ON r.sequence = CASE WHEN v.sequence > 0 THEN v.sequence ELSE -v.sequence >> 14 END ORDER BY v.sequence

-- name: doctor_words
-- Every (record, column, term) of the full-text index.
SELECT doc, col, term, offset FROM words_instance ORDER BY doc, col, offset

-- name: doctor_words_table
CREATE VIRTUAL TABLE temp.words_instance USING fts5vocab ('main', 'words', 'instance')

-- name: doctor_words_drop
DROP TABLE temp.words_instance

-- name: doctor_integrity
PRAGMA integrity_check(20)

-- name: schema_objects
-- What a file's schema consists of; statistics are SQLite's own.
SELECT type, name, sql FROM sqlite_schema WHERE substr(name, 1, 11) <> 'sqlite_stat'
