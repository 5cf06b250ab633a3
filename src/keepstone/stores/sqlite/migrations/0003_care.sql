-- Upkeep: what was noticed in a text, what was put aside and why, where a version came from, limits, reviews, the audit chain.

-- Kinds of sensitive data that a record holds and that the policy keeps, as JSON.
ALTER TABLE record ADD COLUMN sensitive TEXT NOT NULL DEFAULT '[]';

-- When and why a record was put aside, and with which batch; NULL while it is not.
ALTER TABLE record ADD COLUMN aside_at INTEGER;
ALTER TABLE record ADD COLUMN aside_why TEXT;
ALTER TABLE record ADD COLUMN ticket INTEGER;
CREATE INDEX audit_expired ON audit (sequence) WHERE action = 'expired';  -- for the next statement only
UPDATE record SET aside_why = CASE WHEN expires_at IS NULL THEN 'faded' ELSE 'expired' END,
    aside_at = coalesce((SELECT max(at) FROM audit WHERE audit.sequence = record.sequence AND audit.action = 'expired'), updated_at),
    ticket = (SELECT max(number) FROM audit WHERE audit.sequence = record.sequence AND audit.action = 'expired')
WHERE status = 'expired';
DROP INDEX audit_expired;
CREATE INDEX record_aside ON record (scope, aside_at) WHERE aside_at IS NOT NULL;
CREATE INDEX record_ticket ON record (scope, ticket) WHERE ticket IS NOT NULL;

-- What each version of a record was derived from. A version that was said several times has several supports, each with the
-- session it was said in; a parent '' stands for what was said directly. A version goes when its last support has gone.
CREATE TABLE lineage (
    scope INTEGER NOT NULL,
    parent TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    version INTEGER NOT NULL,
    support INTEGER NOT NULL,
    session TEXT,
    PRIMARY KEY (scope, parent, sequence, version, support)
) WITHOUT ROWID;
CREATE INDEX lineage_version ON lineage (sequence, version, support);
INSERT INTO lineage (scope, parent, sequence, version, support, session)
SELECT DISTINCT r.scope, p.value, r.sequence, r.version, 0, r.session FROM record AS r, json_each(r.parents) AS p;

-- The trail as a chain: each row's hash covers the one before it of the same tenant. Rows up to `start` are from before.
ALTER TABLE audit ADD COLUMN chain BLOB;
CREATE TABLE chain (
    tenant TEXT PRIMARY KEY,
    start INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    head BLOB NOT NULL
) WITHOUT ROWID;
DROP INDEX audit_writes;

-- Token buckets of rate limits.
CREATE TABLE bucket (
    scope INTEGER NOT NULL,
    name TEXT NOT NULL,
    tokens REAL NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;

-- What a person should look at; reason holds no content. number: that of the audit row that tells of it.
CREATE TABLE review (
    number INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    version INTEGER NOT NULL,
    flag TEXT NOT NULL,
    reason TEXT NOT NULL,
    evidence TEXT NOT NULL,
    at INTEGER NOT NULL,
    state TEXT NOT NULL
);
CREATE INDEX review_state ON review (scope, state, number);
CREATE INDEX review_sequence ON review (sequence);

-- Who of several processes does a piece of work.
CREATE TABLE lease (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;

-- Vectors of the embedder that the store is moving to, until it has them all.
CREATE TABLE vector_next (
    sequence INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    vector BLOB NOT NULL
);
