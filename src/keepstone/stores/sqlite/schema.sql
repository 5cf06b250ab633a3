-- The schema that the migrations give, made by tools/make_schema.py; do not edit. The reasons stand in migrations/.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE scope (
    scope INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    agent TEXT NOT NULL,
    user TEXT NOT NULL,
    UNIQUE (tenant, agent, user)
);

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
, chain BLOB);

CREATE INDEX audit_scope ON audit (scope, number);

CREATE INDEX audit_removed ON audit (scope, number) WHERE verb = 'forget';

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
, blocks TEXT, sensitive TEXT NOT NULL DEFAULT '[]', aside_at INTEGER, aside_why TEXT, ticket INTEGER);

CREATE UNIQUE INDEX record_id ON record (scope, id);

CREATE INDEX record_scope ON record (scope);

CREATE INDEX record_changed ON record (scope, changed);

CREATE UNIQUE INDEX record_content ON record (scope, hash, kind, tag)
    WHERE status = 'active' AND key IS NULL AND kind <> 'message';

CREATE INDEX record_gist ON record (scope, gist) WHERE gist IS NOT NULL AND status = 'active';

CREATE UNIQUE INDEX record_key ON record (scope, key) WHERE key IS NOT NULL AND status = 'active';

CREATE INDEX record_session ON record (scope, session, sequence) WHERE session IS NOT NULL;

CREATE TABLE access (
    sequence INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    last INTEGER NOT NULL
);

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

CREATE TABLE vector (
    sequence INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    terms BLOB NOT NULL,
    model INTEGER,
    vector BLOB
, start INTEGER, stop INTEGER);

CREATE INDEX vector_pending ON vector (sequence) WHERE vector IS NULL;

CREATE VIRTUAL TABLE words USING fts5 (scope, text, content = '', tokenize = 'ascii');

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

CREATE INDEX record_said ON record (scope) WHERE kind = 'message' AND tag <> 'step';

CREATE TABLE state (
    scope INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    session TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;

CREATE TABLE job (
    number INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL,
    kind TEXT NOT NULL,
    session TEXT,
    ids TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    claims INTEGER NOT NULL DEFAULT 0,  -- never counts back, so that it tells one claim from another
    due INTEGER NOT NULL,
    lease INTEGER,
    created_at INTEGER NOT NULL,
    problem TEXT
);

CREATE INDEX job_scope ON job (scope, kind, session, state);

CREATE INDEX job_due ON job (state, due);

CREATE INDEX record_aside ON record (scope, aside_at) WHERE aside_at IS NOT NULL;

CREATE INDEX record_ticket ON record (scope, ticket) WHERE ticket IS NOT NULL;

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

CREATE TABLE chain (
    tenant TEXT PRIMARY KEY,
    start INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    head BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE bucket (
    scope INTEGER NOT NULL,
    name TEXT NOT NULL,
    tokens REAL NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;

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

CREATE TABLE lease (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE vector_next (
    sequence INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    vector BLOB NOT NULL
);

CREATE INDEX vector_passages ON vector (sequence) WHERE sequence < 0;
