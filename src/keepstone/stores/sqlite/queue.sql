-- The statements of messages, states and jobs: messages in order, states, jobs, limits. Shared beginnings stand in queries.sql.

-- name: record_newest
-- The last of these records to have come.
SELECT max(sequence) FROM record WHERE scope = ? AND id IN (SELECT value FROM json_each(?))

-- name: record_version
SELECT version FROM record WHERE scope = ? AND id = ?

-- name: tags
-- The tags of a scope's memories; what was said or done is none.
SELECT tag, count(*) FROM record
WHERE scope = ?1 AND kind NOT IN ('message', 'episode', 'summary') AND status = 'active' AND (expires_at IS NULL OR expires_at > ?2)
GROUP BY tag ORDER BY count(*) DESC, tag LIMIT ?3

-- name: turns_of_session
-- {order} is ASC or DESC. The inner query names its index: else the whole scope is walked. What is in quarantine was said
-- all the same: its own conversation has it.
{record}
WHERE r.sequence IN (
    SELECT sequence FROM record INDEXED BY record_session
    WHERE scope = :scope AND session = :session AND sequence > :after AND sequence < :before AND kind = 'message'
        AND status <> 'archived' AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY sequence {order} LIMIT :limit)
ORDER BY r.sequence {order}

-- name: turns_of_all
-- Those of every session, without the steps of tasks.
{record}
WHERE r.sequence IN (
    SELECT sequence FROM record INDEXED BY record_said
    WHERE scope = :scope AND sequence > :after AND sequence < :before AND kind = 'message' AND tag <> 'step'
        AND status = 'active' AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY sequence {order} LIMIT :limit)
ORDER BY r.sequence {order}

-- name: turns_count_session
SELECT count(*) FROM record INDEXED BY record_session
WHERE scope = ?1 AND session = ?2 AND sequence > ?3 AND kind = 'message' AND status <> 'archived'
    AND (expires_at IS NULL OR expires_at > ?4)

-- name: turns_count_all
SELECT count(*) FROM record INDEXED BY record_said
WHERE scope = ?1 AND sequence > ?2 AND kind = 'message' AND tag <> 'step' AND status = 'active'
    AND (expires_at IS NULL OR expires_at > ?3)

-- name: sessions
SELECT session, count(*), min(occurred_at), max(occurred_at) FROM record INDEXED BY record_session
WHERE scope = ?1 AND session IS NOT NULL AND kind = 'message' AND tag <> 'step' AND status = 'active'
    AND (expires_at IS NULL OR expires_at > ?2)
GROUP BY session ORDER BY max(sequence) DESC LIMIT ?3

-- name: state_get
SELECT value FROM state WHERE scope = ? AND name = ?

-- name: state_put
INSERT INTO state (scope, name, value, session, updated_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (scope, name) DO UPDATE SET value = excluded.value, session = excluded.session, updated_at = excluded.updated_at

-- name: state_all
SELECT name, value FROM state WHERE scope = ? ORDER BY name

-- name: state_drop
DELETE FROM state WHERE scope = ? AND name = ?

-- name: state_derived
-- What was made from a session's messages and, if ?3, from those of all sessions; without a session: everything.
DELETE FROM state WHERE scope = ?1 AND (?2 IS NULL OR session = ?2 OR ?3 AND session = char(1)) RETURNING value, name

-- name: job_add
INSERT INTO job (number, scope, kind, session, ids, state, attempts, due, created_at)
VALUES (?, ?, ?, ?, ?, 'waiting', 0, ?, ?)

-- name: job_fresh
-- What a transaction has added.
SELECT id FROM record WHERE scope = ? AND sequence > ? AND status = 'active' ORDER BY sequence

-- name: job_open
-- The newest job of a session that still waits and has never been tried: it can take more messages.
SELECT number, ids FROM job WHERE scope = ? AND kind = ? AND session IS ? AND state = 'waiting' AND attempts = 0
ORDER BY number DESC LIMIT 1

-- name: job_extend
UPDATE job SET ids = ?2 WHERE number = ?1

-- name: job_forget
DELETE FROM job WHERE scope = ?1 AND (?2 IS NULL OR session = ?2) RETURNING session, problem

-- name: job
-- The beginning that every query of jobs shares, as {job}.
SELECT j.number, s.tenant, s.agent, s.user, j.kind, j.session, j.ids, j.state, j.attempts, j.due, j.created_at, j.problem, j.claims
FROM job AS j JOIN scope AS s USING (scope)

-- name: job_next
-- One that waits and is due (or was put off by a clock that ran ahead), or whose worker has vanished.
{job}
WHERE (:scope IS NULL OR j.scope = :scope) AND j.kind IN (SELECT value FROM json_each(:kinds))
    AND j.number NOT IN (SELECT value FROM json_each(:exclude))
    AND (j.state = 'waiting' AND (:early OR j.due <= :now OR j.due > :beyond)
        OR j.state = 'running' AND (j.lease <= :now OR j.lease > :beyond))
ORDER BY j.due, j.number LIMIT 1

-- name: job_claim
UPDATE job SET state = 'running', attempts = attempts + 1, claims = claims + 1, lease = ?2 WHERE number = ?1

-- name: job_finish
-- Only by the process that claimed it last.
DELETE FROM job WHERE number = ? AND state = 'running' AND claims = ?

-- name: job_put_back
UPDATE job SET state = ?3, problem = ?4, due = ?5, lease = NULL WHERE number = ?1 AND state = 'running' AND claims = ?2

-- name: job_list
{job}
WHERE (?1 IS NULL OR j.scope = ?1) AND (?2 IS NULL OR j.state = ?2) ORDER BY j.number LIMIT ?3

-- name: job_retry
UPDATE job SET state = 'waiting', attempts = 0, due = ?3, problem = NULL
WHERE state = 'failed' AND (?1 IS NULL OR scope = ?1) AND (?2 IS NULL OR number = ?2)

-- name: job_drop
DELETE FROM job WHERE number = ?2 AND (?1 IS NULL OR scope = ?1)

-- name: job_next_due
SELECT min(CASE state WHEN 'running' THEN lease ELSE due END) FROM job
WHERE state <> 'failed' AND kind IN (SELECT value FROM json_each(?))

-- name: index_page
-- A scope's records in the order of their sequences, some at a time.
{index} WHERE r.scope = ? AND r.sequence > ? ORDER BY r.sequence LIMIT ?

-- name: index_erased
SELECT DISTINCT sequence FROM audit
WHERE scope = ? AND number > ? AND verb IN ('forget', 'redact', 'unsay') AND sequence IS NOT NULL

-- name: index_mark
SELECT json_array(scope, at, verb, id, version, hex(chain)) FROM audit WHERE number = ?
