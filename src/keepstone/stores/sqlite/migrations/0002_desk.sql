-- Messages with blocks, states, jobs.

-- The blocks of a message that is more than text, as JSON; content then is their text. Goes when the content changes.
ALTER TABLE record ADD COLUMN blocks TEXT;

-- What was said, in order, without the steps of tasks.
CREATE INDEX record_said ON record (scope) WHERE kind = 'message' AND tag <> 'step';

-- Texts under names that are no memories: working memory, running summaries. session: whose messages it was made from.
CREATE TABLE state (
    scope INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    session TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;

-- Work that waits: ids of messages, never their text. number: that of the audit row that tells of it, so it never comes twice.
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
CREATE INDEX audit_writes ON audit (scope, at) WHERE verb IN ('remember', 'update');
