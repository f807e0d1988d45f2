-- Steps that other workers do: each waits here, with the secret of the row in `waits` that its
-- outcome settles, until somebody takes it.

CREATE TABLE jobs (
    ns         TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    secret     TEXT    NOT NULL,
    step       TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    priority   INTEGER NOT NULL,
    args       BLOB    NOT NULL,
    terms      BLOB    NOT NULL,
    asked_at   INTEGER NOT NULL,
    wake_at    INTEGER NOT NULL,
    start_by   INTEGER,
    owner      TEXT,
    epoch      INTEGER NOT NULL,
    strikes    INTEGER NOT NULL,
    begun_at   INTEGER,
    PRIMARY KEY (ns, run, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX jobs_due ON jobs (ns, queue, priority, wake_at, run, key) WHERE owner IS NULL;
CREATE INDEX jobs_held ON jobs (owner) WHERE owner IS NOT NULL;
