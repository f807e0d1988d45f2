-- Schedules. `next_at` is when a worker must look at one; `buffered` counts slots that wait for a run
-- to close, and is -1 if none ever does; all slots up to `settled_to` are settled.

CREATE TABLE holdfast.schedules (
    ns         text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    revision   bigint  NOT NULL,
    workflow   text    NOT NULL,
    paused     bigint  NOT NULL,
    note       text    NOT NULL,
    next_at    bigint,
    buffered   bigint  NOT NULL,
    settled_to bigint  NOT NULL,
    spec       text    NOT NULL,
    input      bytea   NOT NULL,
    state      text    NOT NULL,
    created_at bigint  NOT NULL,
    updated_at bigint  NOT NULL,
    PRIMARY KEY (ns, id)
);

CREATE INDEX schedules_next ON holdfast.schedules (ns, next_at) WHERE next_at IS NOT NULL;
