-- Managed queues: what they allow, who stands in line or holds a slot, when the last were admitted.

CREATE TABLE queues (
    ns                 TEXT    NOT NULL,
    name               TEXT    NOT NULL,
    concurrency        INTEGER,
    key_concurrency    INTEGER,
    worker_concurrency INTEGER,
    rate_count         INTEGER,
    rate_per           INTEGER,
    paused             INTEGER NOT NULL,
    changed_at         INTEGER NOT NULL,
    admitted           INTEGER NOT NULL,
    last_key           TEXT,
    PRIMARY KEY (ns, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE tickets (
    ns          TEXT    NOT NULL,
    run         TEXT    NOT NULL,
    queue       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    priority    INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    expires_at  INTEGER,
    state       TEXT    NOT NULL,
    admitted_at INTEGER,
    PRIMARY KEY (ns, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX tickets_line ON tickets (ns, queue, priority, key, due_at, run)
    WHERE state = 'waiting';
CREATE INDEX tickets_held ON tickets (ns, queue, key) WHERE state = 'admitted';
CREATE INDEX tickets_expiring ON tickets (ns, expires_at, run) WHERE expires_at IS NOT NULL;

CREATE TABLE admissions (
    ns    TEXT    NOT NULL,
    queue TEXT    NOT NULL,
    n     INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    PRIMARY KEY (ns, queue, n)
) STRICT, WITHOUT ROWID;
