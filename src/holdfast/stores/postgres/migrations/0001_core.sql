-- Runs, their histories and inboxes, and what is said beside them. Times are microseconds since
-- 1970 by the database's clock. Texts that are ordered compare by code point, as everywhere else.

CREATE SCHEMA IF NOT EXISTS holdfast;

-- The time: the database's own at the moment it is asked for, or the one that a test gives.
CREATE FUNCTION holdfast.clock(given bigint) RETURNS bigint LANGUAGE sql VOLATILE
AS $$ SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) $$;

-- A row a run, changed by every commit: narrow, with room on its page, so that an update that
-- touches no index stays there (HOT). Nothing that a turn changes each time is indexed.
CREATE TABLE holdfast.runs (
    ns           text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    workflow     text   NOT NULL,
    version      text   NOT NULL,
    status       text   NOT NULL,
    reason       text   NOT NULL,
    generation   bigint NOT NULL,
    epoch        bigint NOT NULL,
    seq          bigint NOT NULL,
    owner        text COLLATE "C",
    wake_at      bigint,
    inbox_seq    bigint NOT NULL,
    inbox_read   bigint NOT NULL,
    cancel       bigint NOT NULL,
    strikes      bigint NOT NULL,
    input_digest bytea  NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    closed_at    bigint,
    deadline     bigint,
    PRIMARY KEY (ns, id),
    -- A run that is held has an owner, and only such a run.
    CHECK ((status = 'running') = (owner IS NOT NULL))
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02
);

CREATE INDEX runs_claim ON holdfast.runs (ns, wake_at, id) WHERE wake_at IS NOT NULL;
-- The few that crashed their workers are found without reading past all the others.
CREATE INDEX runs_suspect ON holdfast.runs (ns, wake_at, id)
    WHERE strikes >= 2 AND wake_at IS NOT NULL;
CREATE INDEX runs_owner ON holdfast.runs (owner) WHERE owner IS NOT NULL;
-- The namespace as an expression: else a plan made while the table was small could look a run up
-- here, by its namespace alone, and be kept when the table is large.
CREATE INDEX runs_listed ON holdfast.runs ((ns || ''), created_at, id);
-- What workers look for every minute: few, and not to be found by a walk through all runs.
CREATE INDEX runs_blocked ON holdfast.runs (ns, created_at, id) WHERE status = 'blocked';
CREATE INDEX runs_closed ON holdfast.runs (ns, closed_at, id) WHERE closed_at IS NOT NULL;

CREATE TABLE holdfast.events (
    ns            text COLLATE "C" NOT NULL,
    run           text COLLATE "C" NOT NULL,
    seq           bigint NOT NULL,
    generation    bigint NOT NULL,
    epoch         bigint NOT NULL,
    kind          text   NOT NULL,
    key           text   NOT NULL,
    asked_seq     bigint NOT NULL,
    at            bigint NOT NULL,
    took          bigint,
    digest        bytea,
    codec         bigint NOT NULL,
    payload       bytea,
    superseded_by bigint,
    PRIMARY KEY (ns, run, seq)
);

CREATE TABLE holdfast.inbox (
    ns      text COLLATE "C" NOT NULL,
    run     text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    n       bigint NOT NULL,
    kind    text   NOT NULL,
    name    text   NOT NULL,
    payload bytea,
    at      bigint NOT NULL,
    PRIMARY KEY (ns, run, id),
    UNIQUE (ns, run, n)
);

CREATE TABLE holdfast.workers (
    id          text COLLATE "C" NOT NULL PRIMARY KEY,
    lease_until bigint NOT NULL,
    started_at  bigint NOT NULL,
    address     text   NOT NULL,
    info        text   NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE holdfast.progress (
    ns         text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    attempt    bigint NOT NULL,
    at         bigint NOT NULL,
    details    bytea,
    epoch      bigint NOT NULL,
    PRIMARY KEY (ns, run, key)
);

-- Texts of users' programs as bytes: they may hold what a text here must not (a zero).
CREATE TABLE holdfast.logs (
    ns         text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    at         bigint NOT NULL,
    level      bigint NOT NULL,
    logger     bytea  NOT NULL,
    message    bytea  NOT NULL,
    key        text   NOT NULL,
    attempt    bigint NOT NULL,
    generation bigint NOT NULL,
    epoch      bigint NOT NULL,
    fields     bytea,
    PRIMARY KEY (ns, run, at)
);

-- What a caller said of a run so that it can be found: a tag has no name, an attribute has one.
-- `kind` is tag, str, int, float or bool; numbers are exact, so that they compare as in Python.
CREATE TABLE holdfast.run_tags (
    ns     text COLLATE "C" NOT NULL,
    run    text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    kind   text NOT NULL,
    word   text COLLATE "C",
    number numeric,
    CHECK ((word IS NULL) <> (number IS NULL))
);

CREATE INDEX run_tags_of ON holdfast.run_tags (ns, run);
CREATE INDEX run_tags_words ON holdfast.run_tags (ns, name, word, run) WHERE word IS NOT NULL;
CREATE INDEX run_tags_numbers ON holdfast.run_tags (ns, name, number, run)
    WHERE number IS NOT NULL;

CREATE TABLE holdfast.definitions (
    ns       text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    version  text COLLATE "C" NOT NULL,
    shape    bytea  NOT NULL,
    first_at bigint NOT NULL,
    last_at  bigint NOT NULL,
    PRIMARY KEY (ns, workflow, version, shape)
);

CREATE TABLE holdfast.meta (
    key   text COLLATE "C" NOT NULL PRIMARY KEY,
    value bigint NOT NULL
);
