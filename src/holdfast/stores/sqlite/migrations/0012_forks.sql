-- Runs that go on from a point of another's history: `origin` up to event `at`, as it counted when
-- that history was `length` events long. Their own events follow, or stand for one of the origin's.

CREATE TABLE forks (
    ns     TEXT    NOT NULL,
    run    TEXT    NOT NULL,
    origin TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    length INTEGER NOT NULL,
    PRIMARY KEY (ns, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX forks_of ON forks (ns, origin);
