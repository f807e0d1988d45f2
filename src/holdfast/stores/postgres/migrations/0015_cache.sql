-- Results that later calls of a step may use, until they expire.

CREATE TABLE holdfast.step_cache (
    ns         text COLLATE "C" NOT NULL,
    step       text COLLATE "C" NOT NULL,
    version    text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    result     bytea NOT NULL,
    run        text COLLATE "C" NOT NULL,
    made_at    int8 NOT NULL,
    expires_at int8,
    PRIMARY KEY (ns, step, version, key)
);

CREATE INDEX step_cache_expired ON holdfast.step_cache (ns, expires_at)
WHERE expires_at IS NOT NULL;
