-- Runs, their histories and inboxes. Times are microseconds since 1970 by the store's clock.

CREATE TABLE runs (
    ns           TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    workflow     TEXT    NOT NULL,
    version      TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    generation   INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    owner        TEXT,
    wake_at      INTEGER,
    inbox_seq    INTEGER NOT NULL,
    inbox_read   INTEGER NOT NULL,
    cancel       INTEGER NOT NULL,
    strikes      INTEGER NOT NULL,
    input_digest BLOB    NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    closed_at    INTEGER,
    PRIMARY KEY (ns, id),
    -- A run that is held has an owner, and only such a run.
    CHECK ((status = 'running') = (owner IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_claim ON runs (ns, wake_at, id)
    WHERE status IN ('pending', 'waiting') AND wake_at IS NOT NULL;
CREATE INDEX runs_owner ON runs (owner) WHERE owner IS NOT NULL;
CREATE INDEX runs_listed ON runs (ns, created_at, id);
CREATE INDEX runs_closed ON runs (ns, closed_at) WHERE closed_at IS NOT NULL;

CREATE TABLE events (
    ns            TEXT    NOT NULL,
    run           TEXT    NOT NULL,
    seq           INTEGER NOT NULL,
    generation    INTEGER NOT NULL,
    epoch         INTEGER NOT NULL,
    kind          TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    asked_seq     INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    took          INTEGER,
    digest        BLOB,
    codec         INTEGER NOT NULL,
    payload       BLOB,
    superseded_by INTEGER,
    PRIMARY KEY (ns, run, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
    ns      TEXT    NOT NULL,
    run     TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    n       INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    payload BLOB,
    at      INTEGER NOT NULL,
    PRIMARY KEY (ns, run, id),
    UNIQUE (ns, run, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    id          TEXT    NOT NULL PRIMARY KEY,
    lease_until INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    address     TEXT    NOT NULL,
    info        TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value ANY
) STRICT, WITHOUT ROWID;
