-- What steps and bodies say while they work, beside the history.

CREATE TABLE progress (
    ns         TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    details    BLOB,
    epoch      INTEGER NOT NULL,
    PRIMARY KEY (ns, run, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE logs (
    ns         TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    level      INTEGER NOT NULL,
    logger     TEXT    NOT NULL,
    message    TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    fields     BLOB,
    PRIMARY KEY (ns, run, at)
) STRICT, WITHOUT ROWID;
