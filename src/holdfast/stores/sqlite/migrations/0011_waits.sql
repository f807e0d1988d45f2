-- What runs wait for from outside: open questions and steps that others complete. `recipients` holds
-- each name between two line breaks.

CREATE TABLE waits (
    ns         TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    secret     TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    asked_at   INTEGER NOT NULL,
    expires_at INTEGER,
    recipients TEXT    NOT NULL,
    asked      BLOB    NOT NULL,
    settled_at INTEGER,
    settled_by TEXT    NOT NULL,
    answer     BLOB,
    why        TEXT    NOT NULL,
    PRIMARY KEY (ns, run, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX waits_open ON waits (ns, asked_at, run, key) WHERE state = 'open';
