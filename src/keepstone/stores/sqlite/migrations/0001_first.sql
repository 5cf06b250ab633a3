-- The first schema. A store's schema is the sum of its migrations; schema.sql shows the result and a test compares them.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- Scopes are interned: every other table names one by its number, the full-text index by a token made of it.
CREATE TABLE scope (
    scope INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    user TEXT NOT NULL,
    UNIQUE (tenant, agent, user)
);

-- The trail of everything done, and at once the clock of the store: its numbers order all writes. Never holds content.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL,
    at INTEGER NOT NULL,
    verb TEXT NOT NULL,
    action TEXT NOT NULL,
    sequence INTEGER,
    id TEXT,
    version INTEGER NOT NULL,
    source TEXT NOT NULL,
    reasons TEXT NOT NULL
);
CREATE INDEX audit_scope ON audit (scope, number);
CREATE INDEX audit_removed ON audit (scope, number) WHERE verb = 'forget';

-- One row a memory, as it is now. sequence: the audit number of its first write; changed: that of its last.
CREATE TABLE record (
    sequence INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    tag TEXT NOT NULL,
    key TEXT,
    content TEXT NOT NULL,
    hash BLOB NOT NULL,
    gist BLOB,
    metadata TEXT NOT NULL,
    importance REAL NOT NULL,
    source TEXT NOT NULL,
    trust REAL NOT NULL,
    session TEXT,
    role TEXT,
    name TEXT,
    occurred_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    valid_from INTEGER NOT NULL,
    expires_at INTEGER,
    version INTEGER NOT NULL,
    status TEXT NOT NULL,
    parents TEXT NOT NULL,
    action TEXT NOT NULL
);
CREATE UNIQUE INDEX record_id ON record (scope, id);
CREATE INDEX record_scope ON record (scope);  -- with the rowid behind it: a scope's records in order
CREATE INDEX record_changed ON record (scope, changed);
CREATE UNIQUE INDEX record_content ON record (scope, hash, kind, tag)
    WHERE status = 'active' AND key IS NULL AND kind <> 'message';
CREATE INDEX record_gist ON record (scope, gist) WHERE gist IS NOT NULL AND status = 'active';
CREATE UNIQUE INDEX record_key ON record (scope, key) WHERE key IS NOT NULL AND status = 'active';
CREATE INDEX record_session ON record (scope, session, sequence) WHERE session IS NOT NULL;

-- Reading a memory is recorded apart from it, so that a read never rewrites the memory's own pages.
CREATE TABLE access (
    sequence INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    last INTEGER NOT NULL
);

-- What a record was before each change; the vector moves along so that a past view can be ranked by meaning too.
CREATE TABLE history (
    sequence INTEGER NOT NULL,
    version INTEGER NOT NULL,
    content TEXT NOT NULL,
    hash BLOB NOT NULL,
    metadata TEXT NOT NULL,
    importance REAL NOT NULL,
    kind TEXT NOT NULL,
    tag TEXT NOT NULL,
    source TEXT NOT NULL,
    trust REAL NOT NULL,
    session TEXT,
    role TEXT,
    name TEXT,
    occurred_at INTEGER NOT NULL,
    valid_from INTEGER NOT NULL,
    known_from INTEGER NOT NULL,
    expires_at INTEGER,
    action TEXT NOT NULL,
    terms BLOB NOT NULL,
    model INTEGER,
    vector BLOB,
    PRIMARY KEY (sequence, version)
);

-- What ranking reads: the hashes of a record's terms in order, and its unit vector (float32, little-endian).
-- model counts the embedders the store has had; a vector of another model than the present one is never used.
CREATE TABLE vector (
    sequence INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    terms BLOB NOT NULL,
    model INTEGER,
    vector BLOB
);
CREATE INDEX vector_pending ON vector (sequence) WHERE vector IS NULL;

-- The words of every record, led by the scope's token, so that one scope's search never touches another's postings.
-- Terms come ready made, so the tokenizer only has to split at spaces.
CREATE VIRTUAL TABLE words USING fts5 (scope, text, content = '', tokenize = 'ascii');
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);

CREATE TABLE idempotency (
    scope INTEGER NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    receipt TEXT NOT NULL,
    id TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_id ON idempotency (scope, id);
