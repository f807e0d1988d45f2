-- Which shapes each workflow had, and when a process last began to work with them.

CREATE TABLE definitions (
    ns       TEXT    NOT NULL,
    workflow TEXT    NOT NULL,
    version  TEXT    NOT NULL,
    shape    BLOB    NOT NULL,
    first_at INTEGER NOT NULL,
    last_at  INTEGER NOT NULL,
    PRIMARY KEY (ns, workflow, version, shape)
) STRICT, WITHOUT ROWID;
