-- name: add_event
INSERT INTO holdfast.events (
    ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
)
VALUES (
    :ns, :run, :seq, :generation, :epoch, :kind, :key, :asked_seq, :at, :took, :digest, :codec,
    :payload
)

-- name: import_event
INSERT INTO holdfast.events (
    ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload,
    superseded_by
)
VALUES (
    :ns, :run, :seq, :generation, :epoch, :kind, :key, :asked_seq, :at, :took, :digest, :codec,
    :payload, :superseded_by
)

-- name: load
-- The run, its living events, its unread messages and the heartbeats of its open steps: one
-- statement, so that all of it is of one moment. All have the columns of an event, which are by far
-- the most; the run is told as JSON, or each of them would carry as many empty columns more. Its
-- digest is told apart: how JSON writes bytes is a setting of the database's.
WITH r AS MATERIALIZED (SELECT * FROM holdfast.runs WHERE ns = :ns AND id = :run)
SELECT 0 AS part,
    to_json(r)::text AS kind, NULL::int8 AS at, NULL::text AS key, r.input_digest AS payload,
    NULL::int8 AS asked_seq, NULL::bytea AS digest, NULL::int8 AS took, NULL::int8 AS seq,
    NULL::int8 AS epoch, NULL::int8 AS generation, NULL::int8 AS codec,
    NULL::int8 AS superseded_by
FROM r
UNION ALL
SELECT 1, e.kind, e.at, e.key, e.payload, e.asked_seq, e.digest, e.took, e.seq, e.epoch,
    e.generation, e.codec, e.superseded_by
FROM (
    SELECT * FROM holdfast.events
    WHERE ns = :ns AND run = :run AND seq > :after AND superseded_by IS NULL
    ORDER BY seq
) e
UNION ALL
SELECT 2, u.kind, u.at, u.id, u.payload, u.n, convert_to(u.name, 'UTF8'), NULL, NULL, NULL, NULL,
    NULL, NULL
FROM (
    SELECT inbox.* FROM r, holdfast.inbox
    WHERE inbox.ns = :ns AND inbox.run = :run AND inbox.kind = 'update' AND inbox.state = ''
        AND inbox.n <= r.inbox_read AND r.inbox_read > 0 AND r.closed_at IS NULL AND :is_whole::bool
    ORDER BY inbox.n
) u
UNION ALL
SELECT 2, i.kind, i.at, i.id, i.payload, i.n, convert_to(i.name, 'UTF8'), NULL, NULL, NULL, NULL,
    NULL, NULL
FROM (
    -- By a subquery: a join may read all that the run was ever sent.
    SELECT inbox.* FROM holdfast.inbox
    WHERE inbox.ns = :ns AND inbox.run = :run AND inbox.n > (SELECT inbox_read FROM r)
    ORDER BY inbox.n
) i
UNION ALL
SELECT 3, NULL, p.at, p.key, p.details, p.attempt, NULL, NULL, NULL, p.epoch, p.generation,
    NULL, NULL
FROM (
    SELECT progress.* FROM holdfast.progress, r
    WHERE progress.ns = :ns AND progress.run = :run AND r.closed_at IS NULL
    ORDER BY progress.key
) p

-- name: end
-- The run, and the event that closed it, if it is closed.
SELECT r.*, e.*
FROM holdfast.runs r
LEFT JOIN LATERAL (
    SELECT kind, at, key, payload, asked_seq, digest, took, seq, epoch, generation, codec,
        superseded_by
    FROM holdfast.events
    WHERE ns = r.ns AND run = r.id AND superseded_by IS NULL AND r.closed_at IS NOT NULL
    ORDER BY seq DESC
    LIMIT 1
) e ON true
WHERE r.ns = :ns AND r.id = :run

-- name: all_events
SELECT kind, at, key, payload, asked_seq, digest, took, seq, epoch, generation, codec, superseded_by
FROM holdfast.events
WHERE ns = :ns AND run = :run
ORDER BY seq

-- name: last_event_at
SELECT at FROM holdfast.events WHERE ns = :ns AND run = :run ORDER BY seq DESC LIMIT 1

-- name: supersede_events
UPDATE holdfast.events SET superseded_by = :by
WHERE ns = :ns AND run = :run AND seq = ANY (:seqs::int8[])
