-- name: tie_child
INSERT INTO holdfast.children (ns, run, parent, key, generation, policy)
VALUES (:ns, :run, :parent, :key, :generation, :policy)
ON CONFLICT (ns, run) DO UPDATE
SET parent = excluded.parent, key = excluded.key, generation = excluded.generation,
    policy = excluded.policy

-- name: link_of_run
SELECT run, parent, key, generation, policy FROM holdfast.children
WHERE ns = :ns AND run = ANY (:runs::text[])

-- name: open_children
SELECT c.run, c.parent, c.key, c.generation, c.policy
FROM holdfast.children c JOIN holdfast.runs r ON r.ns = c.ns AND r.id = c.run
WHERE c.ns = :ns AND c.parent = ANY (:parents::text[]) AND r.status <> ALL (:closed::text[])
ORDER BY c.run

-- name: last_living_event
SELECT kind, at, key, payload, asked_seq, digest, took, seq, epoch, generation, codec, superseded_by
FROM holdfast.events
WHERE ns = :ns AND run = :run AND superseded_by IS NULL
ORDER BY seq DESC
LIMIT 1

-- name: runs_of_ids
SELECT * FROM holdfast.runs WHERE ns = :ns AND id = ANY (:ids::text[])

-- name: lock_runs
-- In the order of their ids, as rounds do, so that two writers never wait for each other.
SELECT FROM holdfast.runs WHERE ns = :ns AND id = ANY (:ids::text[])
ORDER BY id FOR NO KEY UPDATE

-- name: post_messages
-- Messages to runs that this transaction has locked, several for some of them: the rows are as
-- they will be changed. The namespace comes with each message, as in rounds: were it one value, a
-- plan made while the table was small could read all runs of it, and be kept.
WITH clock AS MATERIALIZED (SELECT holdfast.clock(:now::int8) AS now)
, fresh AS MATERIALIZED (
    SELECT DISTINCT ON (p.run, p.id) p.place, p.ns, p.run, p.id, p.kind, p.name, p.payload, p.at,
        r.inbox_seq
    FROM unnest(
        :places::int4[], :spaces::text[], :runs::text[], :ids::text[], :kinds::text[],
        :names::text[], :payloads::bytea[], :ats::int8[]
    ) AS p (place, ns, run, id, kind, name, payload, at)
    JOIN holdfast.runs r ON r.ns = p.ns AND r.id = p.run
    WHERE r.status <> ALL (:closed::text[])
        -- Of many it is taken for granted that they are new, or the insert fails: a plan may read
        -- the whole inbox to look for one.
        AND (:are_new::bool OR (
            SELECT i.id FROM holdfast.inbox i
            WHERE i.ns = p.ns AND i.run = p.run AND i.id = p.id
        ) IS NULL)
    ORDER BY p.run, p.id, p.place
)
, numbered AS MATERIALIZED (
    SELECT *, inbox_seq + row_number() OVER (PARTITION BY run ORDER BY place) AS n FROM fresh
)
, woken AS (
    UPDATE holdfast.runs r
    SET inbox_seq = c.n, wake_at = CASE WHEN r.status = 'waiting' THEN clock.now ELSE r.wake_at END
    FROM (SELECT ns, run, max(n) AS n FROM numbered GROUP BY ns, run) c CROSS JOIN clock
    WHERE r.ns = c.ns AND r.id = c.run
)
, posted AS (
    INSERT INTO holdfast.inbox (ns, run, id, n, kind, name, payload, at)
    SELECT ns, run, id, n, kind, name, payload, at FROM numbered
)
SELECT DISTINCT run FROM numbered

-- name: dump_children
SELECT ns, run, parent, key, generation, policy FROM holdfast.children ORDER BY ns, run
