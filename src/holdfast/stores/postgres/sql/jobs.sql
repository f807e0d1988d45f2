-- name: delete_jobs
DELETE FROM holdfast.jobs WHERE ns = :ns AND run = :run

-- name: is_job_held
-- Locked until the end of the transaction: nobody can take it over in between.
SELECT 1 FROM holdfast.jobs
WHERE ns = :ns AND run = :run AND key = :key AND epoch = :epoch
    AND owner IS NOT DISTINCT FROM :owner::text
FOR UPDATE

-- name: end_job
-- Tells whether it frees what others may wait for.
DELETE FROM holdfast.jobs j
WHERE ns = :ns AND run = :run AND key = :key AND epoch = :epoch
    AND owner IS NOT DISTINCT FROM :owner::text
RETURNING EXISTS (SELECT 1 FROM holdfast.queues q WHERE q.ns = j.ns AND q.name = j.queue)

-- name: give_job_back
UPDATE holdfast.jobs SET owner = NULL, begun_at = NULL, wake_at = :at::int8
WHERE ns = :ns AND run = :run AND key = :key AND epoch = :epoch
    AND owner IS NOT DISTINCT FROM :owner::text

-- name: clear_job_strikes
UPDATE holdfast.jobs SET strikes = 0 WHERE ns = :ns AND run = :run AND key = :key AND strikes > 0

-- name: job_lanes
-- The beginning of what follows: each queue that is served, at each priority.
WITH RECURSIVE clock AS MATERIALIZED (SELECT holdfast.clock(:now::int8) AS now)
, used (queue) AS (
    SELECT min(queue) FROM holdfast.jobs WHERE ns = :ns AND owner IS NULL
    UNION ALL
    SELECT (
        SELECT min(queue) FROM holdfast.jobs
        WHERE ns = :ns AND owner IS NULL AND queue > used.queue
    )
    FROM used WHERE used.queue IS NOT NULL
)
, lanes AS MATERIALIZED (
    SELECT s.queue, p.priority, EXISTS (
            SELECT 1 FROM holdfast.queues q WHERE q.ns = :ns AND q.name = s.queue
        ) AS is_managed
    FROM (
        SELECT unnest(:queues::text[]) AS queue
        UNION ALL
        SELECT queue FROM used WHERE :queues::text[] IS NULL AND queue IS NOT NULL
    ) s
    CROSS JOIN unnest(:priorities::int8[]) AS p (priority)
)

-- name: claim_jobs
-- As with runs: suspects apart, and what two want goes to the first. Beside lanes of managed queues,
-- whoever does not know of them takes nothing: those would go first, some of them.
, sound AS MATERIALIZED (
    SELECT j.* FROM lanes l
    CROSS JOIN LATERAL (
        SELECT ns, run, key, priority, wake_at FROM holdfast.jobs j
        WHERE ns = :ns AND queue = l.queue AND priority = l.priority AND owner IS NULL
            AND wake_at <= (SELECT now FROM clock)
            AND step = ANY (:steps::text[])
            AND strikes < 2
            AND NOT EXISTS (
                SELECT 1 FROM holdfast.runs r
                WHERE r.ns = j.ns AND r.id = j.run AND r.status = 'paused'
            )
        ORDER BY wake_at, run, key
        LIMIT :limit
        FOR UPDATE OF j SKIP LOCKED
    ) j
    WHERE NOT l.is_managed
        AND (:is_one_lane::bool OR NOT EXISTS (SELECT 1 FROM lanes WHERE is_managed))
    ORDER BY j.priority, j.wake_at, j.run, j.key
    LIMIT :limit
)
, suspects AS MATERIALIZED (
    SELECT j.* FROM lanes l
    CROSS JOIN LATERAL (
        SELECT ns, run, key, priority, wake_at FROM holdfast.jobs j
        WHERE ns = :ns AND queue = l.queue AND priority = l.priority AND owner IS NULL
            AND wake_at <= (SELECT now FROM clock)
            AND step = ANY (:steps::text[])
            AND strikes >= 2
            AND NOT EXISTS (
                SELECT 1 FROM holdfast.runs r
                WHERE r.ns = j.ns AND r.id = j.run AND r.status = 'paused'
            )
        ORDER BY wake_at, run, key
        LIMIT least(:suspects::int8, :limit::int8)
        FOR UPDATE OF j SKIP LOCKED
    ) j
    WHERE NOT l.is_managed
        AND (:is_one_lane::bool OR NOT EXISTS (SELECT 1 FROM lanes WHERE is_managed))
    ORDER BY j.priority, j.wake_at, j.run, j.key
    LIMIT least(:suspects::int8, :limit::int8)
)
, chosen AS MATERIALIZED (
    SELECT * FROM (SELECT * FROM sound UNION ALL SELECT * FROM suspects) both_
    ORDER BY priority, wake_at, run, key
    LIMIT :limit
)
, renewed AS (
    INSERT INTO holdfast.workers AS w (id, lease_until, started_at, address, info)
    SELECT :worker, holdfast.clock(:now::int8) + :lease::int8, holdfast.clock(:now::int8),
        :address, :info
    WHERE EXISTS (SELECT 1 FROM chosen)
    ON CONFLICT (id) DO UPDATE
    SET lease_until = greatest(w.lease_until, excluded.lease_until),
        address = CASE WHEN excluded.address = '' THEN w.address ELSE excluded.address END,
        info = CASE WHEN w.info = '' THEN excluded.info ELSE w.info END
)
, got AS (
    UPDATE holdfast.jobs j
    SET owner = :worker, epoch = j.epoch + 1, begun_at = (SELECT now FROM clock)
    FROM chosen c
    WHERE j.ns = c.ns AND j.run = c.run AND j.key = c.key
    RETURNING j.*
)

-- name: taken_jobs
SELECT * FROM got ORDER BY priority, wake_at, run, key

-- name: jobs_seen
, seen AS (
    SELECT
        (SELECT now FROM clock) AS now,
        EXISTS (SELECT 1 FROM holdfast.jobs WHERE ns = :ns) AS is_any,
        EXISTS (
            SELECT 1 FROM lanes l
            CROSS JOIN LATERAL (
                SELECT 1 FROM holdfast.jobs j
                WHERE ns = :ns AND queue = l.queue AND priority = l.priority AND owner IS NULL
                    AND wake_at <= (SELECT now FROM clock)
                    AND step = ANY (:steps::text[])
                    AND (strikes < 2 OR :suspects::int8 > 0)
                    AND NOT EXISTS (
                        SELECT 1 FROM holdfast.runs r
                        WHERE r.ns = j.ns AND r.id = j.run AND r.status = 'paused'
                    )
                LIMIT 1
            ) j
            WHERE NOT l.is_managed
        ) AS is_due,
        (SELECT array_agg(DISTINCT queue) FROM lanes WHERE is_managed) AS managed,
        (
            SELECT min(j.wake_at) FROM lanes l
            CROSS JOIN LATERAL (
                SELECT wake_at FROM holdfast.jobs
                WHERE ns = :ns AND queue = l.queue AND priority = l.priority AND owner IS NULL
                    AND wake_at > (SELECT now FROM clock)
                ORDER BY wake_at
                LIMIT 1
            ) j
        ) AS next_wake_at,
        (
            SELECT array_agg(DISTINCT j.owner || ' ' || coalesce(w.lease_until, 0) || ' '
                || coalesce(w.address, ''))
            FROM holdfast.jobs j LEFT JOIN holdfast.workers w ON w.id = j.owner
            WHERE j.owner IS NOT NULL AND j.owner <> :worker
        ) AS holders
)

-- name: look_at_jobs
SELECT * FROM seen

-- name: claimed_jobs
-- What was seen, beside each job that was taken now, or before: in one round trip.
SELECT s.now, s.is_any, s.managed, s.next_wake_at, s.holders, j.*
FROM seen s
LEFT JOIN (
    SELECT true AS is_new, got.* FROM got
    UNION ALL
    SELECT false, held.* FROM holdfast.jobs held WHERE held.owner = :worker AND held.ns = :ns
) j ON true
ORDER BY j.priority, j.wake_at, j.run, j.key

-- name: job_heads
-- The lanes of managed queues with due jobs, and of all others together, each with since when its
-- first is due.
, heads AS MATERIALIZED (
    SELECT l.queue, l.priority, l.is_managed, first.wake_at
    FROM lanes l
    CROSS JOIN LATERAL (
        SELECT j.wake_at FROM holdfast.jobs j
        WHERE ns = :ns AND queue = l.queue AND priority = l.priority AND owner IS NULL
            AND wake_at <= (SELECT now FROM clock)
            AND step = ANY (:steps::text[])
            AND (strikes < 2 OR :suspects::int8 > 0)
            AND NOT EXISTS (
                SELECT 1 FROM holdfast.runs r
                WHERE r.ns = j.ns AND r.id = j.run AND r.status = 'paused'
            )
        ORDER BY wake_at, run, key
        LIMIT 1
    ) first
)
SELECT priority, min(wake_at) AS since, CASE WHEN is_managed THEN queue ELSE '' END AS queue
FROM heads
GROUP BY 1, 3
ORDER BY 1, 2, 3

-- name: riding_jobs
SELECT EXISTS (
    SELECT 1 FROM unnest(:queues::text[], :priorities::int8[]) AS l (queue, priority)
    CROSS JOIN LATERAL holdfast.riding_jobs(
        :ns, l.queue, l.priority, :steps::text[], :suspects::int8, :now::int8
    )
)

-- name: admit_jobs
-- Take from one line.
WITH picked AS MATERIALIZED (
    SELECT p.*
    FROM holdfast.admit_jobs(
        :ns, :queue, :priority::int8, :limit::int8, :slots::int8, :key_most::int8, :after_key,
        :worker, :steps::text[], :suspects::int8, :now::int8
    ) WITH ORDINALITY AS p (of_run, of_job, of_key, rides, place)
)
, renewed AS (
    INSERT INTO holdfast.workers AS w (id, lease_until, started_at, address, info)
    SELECT :worker, :now::int8 + :lease::int8, :now::int8, :address, :info
    WHERE EXISTS (SELECT 1 FROM picked)
    ON CONFLICT (id) DO UPDATE
    SET lease_until = greatest(w.lease_until, excluded.lease_until),
        address = CASE WHEN excluded.address = '' THEN w.address ELSE excluded.address END,
        info = CASE WHEN w.info = '' THEN excluded.info ELSE w.info END
)
SELECT of_run, of_job, of_key, rides FROM picked ORDER BY place

-- name: admitted_jobs
SELECT j.*
FROM unnest(:runs::text[], :keys::text[]) WITH ORDINALITY AS p (run, key, place)
JOIN holdfast.jobs j ON j.ns = :ns AND j.run = p.run AND j.key = p.key
ORDER BY p.place

-- name: held_jobs
SELECT * FROM holdfast.jobs WHERE owner = :worker AND ns = :ns ORDER BY run, key

-- name: find_jobs
SELECT * FROM holdfast.jobs
WHERE ns = :ns AND (:run::text = '' OR run = :run::text)
    AND (:queue::text = '' OR queue = :queue::text)
ORDER BY priority, wake_at, run, key
LIMIT :limit

-- name: dump_jobs
SELECT * FROM holdfast.jobs ORDER BY ns, run, key
