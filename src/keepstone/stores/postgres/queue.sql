-- The statements of messages, states and jobs: messages in order, states, jobs, limits. Shared beginnings stand in queries.sql.

-- name: record_newest
-- The last of these records to have come.
SELECT max(sequence) FROM record WHERE tenant = :tenant AND scope = $1
    AND id = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb)))

-- name: record_version
SELECT version FROM record WHERE tenant = :tenant AND scope = $1 AND id = $2

-- name: tags
-- The tags of a scope's memories; what was said or done is none.
SELECT tag, count(*) FROM record
WHERE tenant = :tenant AND scope = $1 AND kind NOT IN ('message', 'episode', 'summary')
    AND status = 'active' AND (expires_at IS NULL OR expires_at > $2)
GROUP BY tag ORDER BY count(*) DESC, tag LIMIT $3

-- name: turns_of_session
-- {order} is ASC or DESC. What is in quarantine was said all the same: its own conversation has it.
{record}
WHERE r.tenant = :tenant AND r.scope = :scope AND r.session = :session AND r.sequence > :after AND r.sequence < :before
    AND r.kind = 'message' AND r.status <> 'archived' AND (r.expires_at IS NULL OR r.expires_at > :now)
ORDER BY r.sequence {order} LIMIT :limit

-- name: turns_of_all
-- Those of every session, without the steps of tasks.
{record}
WHERE r.tenant = :tenant AND r.scope = :scope AND r.sequence > :after AND r.sequence < :before
    AND r.kind = 'message' AND r.tag <> 'step' AND r.status = 'active' AND (r.expires_at IS NULL OR r.expires_at > :now)
ORDER BY r.sequence {order} LIMIT :limit

-- name: turns_count_session
SELECT count(*) FROM record
WHERE tenant = :tenant AND scope = $1 AND session = $2 AND sequence > $3 AND kind = 'message' AND status <> 'archived'
    AND (expires_at IS NULL OR expires_at > $4)

-- name: turns_count_all
SELECT count(*) FROM record
WHERE tenant = :tenant AND scope = $1 AND sequence > $2 AND kind = 'message' AND tag <> 'step' AND status = 'active'
    AND (expires_at IS NULL OR expires_at > $3)

-- name: sessions
SELECT session, count(*), min(occurred_at), max(occurred_at) FROM record
WHERE tenant = :tenant AND scope = $1 AND session IS NOT NULL AND kind = 'message' AND tag <> 'step' AND status = 'active'
    AND (expires_at IS NULL OR expires_at > $2)
GROUP BY session ORDER BY max(sequence) DESC LIMIT $3

-- name: state_get
SELECT value FROM state WHERE tenant = :tenant AND scope = $1 AND name = $2

-- name: state_put
INSERT INTO state (tenant, scope, name, value, session, updated_at) VALUES (:tenant, $1, $2, $3, $4, $5)
ON CONFLICT (tenant, scope, name) DO UPDATE SET value = excluded.value, session = excluded.session, updated_at = excluded.updated_at

-- name: state_all
SELECT name, value FROM state WHERE tenant = :tenant AND scope = $1 ORDER BY name

-- name: state_drop
DELETE FROM state WHERE tenant = :tenant AND scope = $1 AND name = $2

-- name: state_derived
-- What was made from a session's messages and, if $3, from those of all sessions; without a session: everything.
DELETE FROM state WHERE tenant = :tenant AND scope = $1 AND ($2::text IS NULL OR session = $2 OR $3 AND session = chr(1))
RETURNING value, name

-- name: job_add
INSERT INTO job (tenant, number, scope, kind, session, ids, state, attempts, due, created_at)
VALUES (:tenant, $1, $2, $3, $4, $5, 'waiting', 0, $6, $7)

-- name: job_fresh
-- What a transaction has added.
SELECT id FROM record WHERE tenant = :tenant AND scope = $1 AND sequence > $2 AND status = 'active' ORDER BY sequence

-- name: job_open
-- The newest job of a session that still waits and has never been tried: it can take more messages.
SELECT number, ids FROM job WHERE tenant = :tenant AND scope = $1 AND kind = $2 AND session IS NOT DISTINCT FROM $3
    AND state = 'waiting' AND attempts = 0
ORDER BY number DESC LIMIT 1

-- name: job_extend
UPDATE job SET ids = $2 WHERE tenant = :tenant AND number = $1

-- name: job_forget
DELETE FROM job WHERE tenant = :tenant AND scope = $1 AND ($2::text IS NULL OR session = $2) RETURNING session, problem

-- name: job
-- The beginning that every query of jobs shares, as {job}.
SELECT j.number, s.tenant, s.agent, s."user", j.kind, j.session, j.ids, j.state, j.attempts, j.due, j.created_at,
    j.problem, j.claims
FROM job AS j JOIN scope AS s USING (tenant, scope)

-- name: job_next
-- One that waits and is due (or was put off by a clock that ran ahead), or whose worker has vanished.
{job}
WHERE j.tenant = :tenant AND (:scope::bigint IS NULL OR j.scope = :scope)
    AND j.kind = ANY (ARRAY(SELECT jsonb_array_elements_text(:kinds::jsonb)))
    AND NOT j.number = ANY (ARRAY(SELECT jsonb_array_elements_text(:exclude::jsonb)::bigint))
    AND (j.state = 'waiting' AND (:early::boolean OR j.due <= :now OR j.due > :beyond)
        OR j.state = 'running' AND (j.lease <= :now OR j.lease > :beyond))
ORDER BY j.due, j.number LIMIT 1

-- name: job_claim
UPDATE job SET state = 'running', attempts = attempts + 1, claims = claims + 1, lease = $2
WHERE tenant = :tenant AND number = $1

-- name: job_finish
-- Only by the process that claimed it last.
DELETE FROM job WHERE tenant = :tenant AND number = $1 AND state = 'running' AND claims = $2

-- name: job_put_back
UPDATE job SET state = $3, problem = $4, due = $5, lease = NULL
WHERE tenant = :tenant AND number = $1 AND state = 'running' AND claims = $2

-- name: job_list
{job}
WHERE j.tenant = :tenant AND ($1::bigint IS NULL OR j.scope = $1) AND ($2::text IS NULL OR j.state = $2)
ORDER BY j.number LIMIT $3

-- name: job_retry
UPDATE job SET state = 'waiting', attempts = 0, due = $3, problem = NULL
WHERE tenant = :tenant AND state = 'failed' AND ($1::bigint IS NULL OR scope = $1) AND ($2::bigint IS NULL OR number = $2)

-- name: job_drop
DELETE FROM job WHERE tenant = :tenant AND number = $2 AND ($1::bigint IS NULL OR scope = $1)

-- name: job_next_due
SELECT min(CASE state WHEN 'running' THEN lease ELSE due END) FROM job
WHERE tenant = :tenant AND state <> 'failed' AND kind = ANY (ARRAY(SELECT jsonb_array_elements_text($1::jsonb)))
