-- Schedules. `next_at` is when a worker must look at one; `buffered` counts slots that wait for a run
-- to close, and is -1 if none ever does; all slots up to `settled_to` are settled.

CREATE TABLE schedules (
    ns         TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    revision   INTEGER NOT NULL,
    workflow   TEXT    NOT NULL,
    paused     INTEGER NOT NULL,
    note       TEXT    NOT NULL,
    next_at    INTEGER,
    buffered   INTEGER NOT NULL,
    settled_to INTEGER NOT NULL,
    spec       TEXT    NOT NULL,
    input      BLOB    NOT NULL,
    state      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (ns, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX schedules_next ON schedules (ns, next_at) WHERE next_at IS NOT NULL;
