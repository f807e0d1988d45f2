-- Runs that go on from a point of another's history: `origin` up to event `at`, as it counted when
-- that history was `length` events long. Their own events follow, or stand for one of the origin's.

CREATE TABLE holdfast.forks (
    ns     text COLLATE "C" NOT NULL,
    run    text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    at     bigint NOT NULL,
    length bigint NOT NULL,
    PRIMARY KEY (ns, run)
);

CREATE INDEX forks_of ON holdfast.forks (ns, origin);
