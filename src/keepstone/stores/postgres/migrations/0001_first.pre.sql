-- The tables of SqliteStore, tenant first in every key, so that the schema shards by tenant and no index is shared by two.
-- Times are microseconds since 1970 and JSON is text, as written: an export is the same from every engine.

CREATE TABLE meta (
    name text PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE lease (
    name text PRIMARY KEY,
    holder text NOT NULL,
    until bigint NOT NULL
);

-- One row a tenant. Whoever writes holds it, so the numbers of the trail come in the order of the commits. job_due and pending are
-- hints for work on the whole store: which tenants to look at.
CREATE TABLE tenant (
    tenant text PRIMARY KEY,
    start bigint,
    rows bigint NOT NULL DEFAULT 0,
    head bytea,
    job_due bigint,
    pending boolean NOT NULL DEFAULT false
);

CREATE INDEX tenant_jobs ON tenant (tenant) WHERE job_due IS NOT NULL;
CREATE INDEX tenant_pending ON tenant (tenant) WHERE pending;

-- A transaction takes a block of numbers at once.
CREATE SEQUENCE number AS bigint INCREMENT BY 64 START WITH 64;

CREATE TABLE scope (
    tenant text NOT NULL,
    scope bigint NOT NULL,
    agent text NOT NULL,
    "user" text NOT NULL,
    PRIMARY KEY (tenant, scope)
);

-- By hashes: two names of 256 characters are longer than what an index takes.
CREATE UNIQUE INDEX scope_names ON scope (tenant, md5(agent), md5("user"));

CREATE TABLE audit (
    tenant text NOT NULL,
    number bigint NOT NULL,
    scope bigint NOT NULL,
    at bigint NOT NULL,
    verb text NOT NULL,
    action text NOT NULL,
    sequence bigint,
    id text,
    version integer NOT NULL,
    source text NOT NULL,
    reasons text NOT NULL,
    chain bytea,
    PRIMARY KEY (tenant, number)
);

CREATE INDEX audit_scope ON audit (tenant, scope, number);
CREATE INDEX audit_removed ON audit (tenant, scope, number) WHERE verb = 'forget';

CREATE TABLE record (
    tenant text NOT NULL,
    sequence bigint NOT NULL,
    scope bigint NOT NULL,
    changed bigint NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    tag text NOT NULL,
    key text,
    content text NOT NULL,
    hash bytea NOT NULL,
    gist bytea,
    metadata text NOT NULL,
    importance double precision NOT NULL,
    source text NOT NULL,
    trust double precision NOT NULL,
    session text,
    role text,
    name text,
    occurred_at bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    valid_from bigint NOT NULL,
    expires_at bigint,
    version integer NOT NULL,
    status text NOT NULL,
    parents text NOT NULL,
    action text NOT NULL,
    blocks text,
    sensitive text NOT NULL DEFAULT '[]',
    aside_at bigint,
    aside_why text,
    ticket bigint,
    PRIMARY KEY (tenant, sequence),
    UNIQUE (tenant, scope, id)
);

CREATE INDEX record_scope ON record (tenant, scope, sequence);
CREATE INDEX record_changed ON record (tenant, scope, changed);
CREATE UNIQUE INDEX record_content ON record (tenant, scope, hash, kind, tag)
    WHERE status = 'active' AND key IS NULL AND kind <> 'message';
CREATE INDEX record_gist ON record (tenant, scope, gist) WHERE gist IS NOT NULL AND status = 'active';
CREATE UNIQUE INDEX record_key ON record (tenant, scope, key) WHERE key IS NOT NULL AND status = 'active';
CREATE INDEX record_session ON record (tenant, scope, session, sequence) WHERE session IS NOT NULL;
CREATE INDEX record_expiry ON record (tenant, scope, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX record_aside ON record (tenant, scope, aside_at) WHERE aside_at IS NOT NULL;
CREATE INDEX record_ticket ON record (tenant, scope, ticket) WHERE ticket IS NOT NULL;

CREATE TABLE access (
    tenant text NOT NULL,
    sequence bigint NOT NULL,
    count bigint NOT NULL,
    last bigint NOT NULL,
    PRIMARY KEY (tenant, sequence)
);

CREATE TABLE history (
    tenant text NOT NULL,
    sequence bigint NOT NULL,
    version integer NOT NULL,
    content text NOT NULL,
    hash bytea NOT NULL,
    metadata text NOT NULL,
    importance double precision NOT NULL,
    kind text NOT NULL,
    tag text NOT NULL,
    source text NOT NULL,
    trust double precision NOT NULL,
    session text,
    role text,
    name text,
    occurred_at bigint NOT NULL,
    valid_from bigint NOT NULL,
    known_from bigint NOT NULL,
    expires_at bigint,
    action text NOT NULL,
    terms bytea NOT NULL,
    model integer,
    vector halfvec,
    PRIMARY KEY (tenant, sequence, version)
);

-- Apart from the record, so that a record that is read, put aside or confirmed does not write its vector and its words again.
CREATE TABLE vector (
    tenant text NOT NULL,
    scope bigint NOT NULL,
    sequence bigint NOT NULL,
    version integer NOT NULL,
    terms bytea NOT NULL,
    model integer,
    vector halfvec,
    PRIMARY KEY (tenant, scope, sequence)
);

CREATE INDEX vector_pending ON vector (tenant, sequence) WHERE vector IS NULL;

-- The words as keepstone splits them, and their index form.
CREATE TABLE words (
    tenant text NOT NULL,
    scope bigint NOT NULL,
    sequence bigint NOT NULL,
    text text NOT NULL,
    tokens tsvector GENERATED ALWAYS AS (array_to_tsvector(string_to_array(text, ' '))) STORED,
    PRIMARY KEY (tenant, scope, sequence)
);

CREATE TABLE idempotency (
    tenant text NOT NULL,
    scope bigint NOT NULL,
    key text NOT NULL,
    fingerprint text NOT NULL,
    receipt text NOT NULL,
    id text,
    at bigint NOT NULL,
    PRIMARY KEY (tenant, scope, key)
);

CREATE INDEX idempotency_id ON idempotency (tenant, scope, id);

CREATE TABLE state (
    tenant text NOT NULL,
    scope bigint NOT NULL,
    name text NOT NULL,
    value text NOT NULL,
    session text,
    updated_at bigint NOT NULL,
    PRIMARY KEY (tenant, scope, name)
);

CREATE TABLE job (
    tenant text NOT NULL,
    number bigint NOT NULL,
    scope bigint NOT NULL,
    kind text NOT NULL,
    session text,
    ids text NOT NULL,
    state text NOT NULL,
    attempts integer NOT NULL,
    claims integer NOT NULL DEFAULT 0,
    due bigint NOT NULL,
    lease bigint,
    created_at bigint NOT NULL,
    problem text,
    PRIMARY KEY (tenant, number)
);

CREATE INDEX job_scope ON job (tenant, scope, kind, session, state);

CREATE TABLE lineage (
    tenant text NOT NULL,
    scope bigint NOT NULL,
    parent text NOT NULL,
    sequence bigint NOT NULL,
    version integer NOT NULL,
    support integer NOT NULL,
    session text,
    PRIMARY KEY (tenant, scope, parent, sequence, version, support)
);

CREATE INDEX lineage_version ON lineage (tenant, sequence, version, support);

CREATE TABLE bucket (
    tenant text NOT NULL,
    scope bigint NOT NULL,
    name text NOT NULL,
    tokens double precision NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (tenant, scope, name)
);

CREATE TABLE review (
    tenant text NOT NULL,
    number bigint NOT NULL,
    scope bigint NOT NULL,
    sequence bigint NOT NULL,
    version integer NOT NULL,
    flag text NOT NULL,
    reason text NOT NULL,
    evidence text NOT NULL,
    at bigint NOT NULL,
    state text NOT NULL,
    PRIMARY KEY (tenant, number)
);

CREATE INDEX review_state ON review (tenant, scope, state, number);
CREATE INDEX review_sequence ON review (tenant, sequence);

CREATE TABLE vector_next (
    tenant text NOT NULL,
    sequence bigint NOT NULL,
    version integer NOT NULL,
    vector halfvec NOT NULL,
    PRIMARY KEY (tenant, sequence)
);

-- How many rows a scope has depends on which scope it is: without this a large one is taken for a small one.
CREATE STATISTICS record_scopes (dependencies, mcv) ON tenant, scope FROM record;
CREATE STATISTICS vector_scopes (dependencies, mcv) ON tenant, scope FROM vector;

-- Every table of a tenant shows a transaction the rows of the tenant it has named, and of no other, to the owner too.
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['scope', 'audit', 'record', 'access', 'history', 'vector', 'words', 'idempotency', 'state', 'job',
        'lineage', 'bucket', 'review', 'vector_next']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY own_tenant ON %I USING (tenant = current_setting(''keepstone.tenant'', true)) '
            'WITH CHECK (tenant = current_setting(''keepstone.tenant'', true))', name);
    END LOOP;
END $$;

-- Which tenants there are is seen by work on the whole store; a tenant's row is changed only by itself.
ALTER TABLE tenant ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant FORCE ROW LEVEL SECURITY;
CREATE POLICY names ON tenant FOR SELECT USING (true);
CREATE POLICY own_row ON tenant FOR INSERT WITH CHECK (tenant = current_setting('keepstone.tenant', true));
CREATE POLICY own_change ON tenant FOR UPDATE USING (tenant = current_setting('keepstone.tenant', true))
    WITH CHECK (tenant = current_setting('keepstone.tenant', true));
CREATE POLICY own_end ON tenant FOR DELETE USING (tenant = current_setting('keepstone.tenant', true));
