-- Results that later calls of a step may use, until they expire.

CREATE TABLE step_cache (
    ns         TEXT NOT NULL,
    step       TEXT NOT NULL,
    version    TEXT NOT NULL,
    key        TEXT NOT NULL,
    result     BLOB NOT NULL,
    run        TEXT NOT NULL,
    made_at    INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (ns, step, version, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX step_cache_expired ON step_cache (ns, expires_at) WHERE expires_at IS NOT NULL;
