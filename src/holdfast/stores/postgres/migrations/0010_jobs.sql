-- Steps that other workers do: each waits here, with the secret of the row in `waits` that its
-- outcome settles, until somebody takes it.

CREATE TABLE holdfast.jobs (
    ns         text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    attempt    bigint NOT NULL,
    secret     text   NOT NULL,
    step       text   NOT NULL,
    queue      text COLLATE "C" NOT NULL,
    priority   bigint NOT NULL,
    args       bytea  NOT NULL,
    terms      bytea  NOT NULL,
    asked_at   bigint NOT NULL,
    wake_at    bigint NOT NULL,
    start_by   bigint,
    owner      text COLLATE "C",
    epoch      bigint NOT NULL,
    strikes    bigint NOT NULL,
    begun_at   bigint,
    PRIMARY KEY (ns, run, key)
);

CREATE INDEX jobs_due ON holdfast.jobs (ns, queue, priority, wake_at, run, key) WHERE owner IS NULL;
CREATE INDEX jobs_held ON holdfast.jobs (owner) WHERE owner IS NOT NULL;
