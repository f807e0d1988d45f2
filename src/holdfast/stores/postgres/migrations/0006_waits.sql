-- What runs wait for from outside: open questions and steps that others complete. `recipients` holds
-- each name between two line breaks.

CREATE TABLE holdfast.waits (
    ns         text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    kind       text   NOT NULL,
    generation bigint NOT NULL,
    attempt    bigint NOT NULL,
    secret     text   NOT NULL,
    state      text   NOT NULL,
    asked_at   bigint NOT NULL,
    expires_at bigint,
    recipients text   NOT NULL,
    asked      bytea  NOT NULL,
    settled_at bigint,
    settled_by text   NOT NULL,
    answer     bytea,
    why        text   NOT NULL,
    PRIMARY KEY (ns, run, key)
);

CREATE INDEX waits_open ON holdfast.waits (ns, asked_at, run, key) WHERE state = 'open';
