-- name: reap_worker
-- A worker whose lease is over or that is known to be dead, and all that it holds. One that has no
-- row is gone already. Who renews meanwhile holds the lock on its row: then it is looked at again.
WITH gone AS (
    DELETE FROM holdfast.workers
    WHERE id = :worker AND (:known_dead::bool OR lease_until <= holdfast.clock(:now::int8))
    RETURNING id
)
, verdict AS MATERIALIZED (
    SELECT EXISTS (SELECT 1 FROM gone)
        OR NOT EXISTS (SELECT 1 FROM holdfast.workers WHERE id = :worker) AS is_gone
)
, locked AS MATERIALIZED (
    SELECT r.ns, r.id FROM holdfast.runs r
    WHERE r.owner = :worker AND (SELECT is_gone FROM verdict)
    ORDER BY r.ns, r.id
    FOR NO KEY UPDATE
)
, freed AS (
    UPDATE holdfast.runs r
    SET status = 'waiting', owner = NULL, wake_at = holdfast.clock(:now::int8),
        strikes = r.strikes + 1, reason = :reason
    FROM locked l
    WHERE r.ns = l.ns AND r.id = l.id AND r.owner = :worker
    RETURNING 1
)
, held AS MATERIALIZED (
    SELECT j.ns, j.run, j.key FROM holdfast.jobs j
    WHERE j.owner = :worker AND (SELECT is_gone FROM verdict)
    ORDER BY j.ns, j.run, j.key
    FOR NO KEY UPDATE
)
, jobs AS (
    UPDATE holdfast.jobs j
    SET owner = NULL, begun_at = NULL, wake_at = holdfast.clock(:now::int8), start_by = NULL,
        strikes = j.strikes + 1
    FROM held h
    WHERE j.ns = h.ns AND j.run = h.run AND j.key = h.key AND j.owner = :worker
    RETURNING 1
)
SELECT is_gone, (SELECT count(*) FROM freed) + (SELECT count(*) FROM jobs) AS freed FROM verdict

-- name: take_over
-- As reap_worker and claim_runs, in one: what a worker held whose process has ended goes to another
-- at once, as far as that may have it, and back into the queue otherwise. Under a new epoch, with a
-- strike. Runs of managed queues go back: whoever takes those has to look at their lines.
WITH clock AS MATERIALIZED (SELECT holdfast.clock(:now::int8) AS now)
, gone AS (
    DELETE FROM holdfast.workers
    WHERE id = :dead AND address = :ended
    RETURNING id
)
, verdict AS MATERIALIZED (
    SELECT EXISTS (SELECT 1 FROM gone)
        OR NOT EXISTS (SELECT 1 FROM holdfast.workers WHERE id = :dead) AS is_gone
)
, locked AS MATERIALIZED (
    SELECT r.ns, r.id, r.priority, r.strikes + 1 AS strikes,
        r.ns = :ns
            AND (:queues::text[] IS NULL OR r.queue = ANY (:queues::text[]))
            AND (r.workflow = ANY (:workflows::text[])
                OR r.workflow || '/' || r.version = ANY (:workflows::text[]))
            AND NOT EXISTS (
                SELECT 1 FROM holdfast.queues q WHERE q.ns = r.ns AND q.name = r.queue
            ) AS is_known
    FROM holdfast.runs r
    WHERE r.owner = :dead AND (SELECT is_gone FROM verdict)
    ORDER BY r.ns, r.id
    FOR NO KEY UPDATE OF r
)
, ranked AS (
    SELECT ns, id, priority, strikes,
        row_number() OVER (PARTITION BY strikes >= 2 ORDER BY priority, id) AS place
    FROM locked
    WHERE is_known AND strikes < greatest(:strikes::int8, 2)
)
, chosen AS MATERIALIZED (
    SELECT ns, id FROM ranked
    WHERE strikes < 2 OR place <= :suspects
    ORDER BY priority, id
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
, freed AS (
    UPDATE holdfast.runs r
    SET status = CASE WHEN c.id IS NULL THEN 'waiting' ELSE 'running' END,
        reason = CASE WHEN c.id IS NULL THEN :reason ELSE '' END,
        owner = CASE WHEN c.id IS NULL THEN NULL ELSE :worker END,
        epoch = CASE WHEN c.id IS NULL THEN r.epoch ELSE r.epoch + 1 END,
        wake_at = CASE WHEN c.id IS NULL THEN (SELECT now FROM clock) END,
        updated_at = CASE WHEN c.id IS NULL THEN r.updated_at ELSE (SELECT now FROM clock) END,
        strikes = r.strikes + 1
    FROM locked l LEFT JOIN chosen c ON c.ns = l.ns AND c.id = l.id
    WHERE r.ns = l.ns AND r.id = l.id AND r.owner = :dead
    RETURNING c.id IS NOT NULL AS is_taken, r.*
)
, held AS MATERIALIZED (
    SELECT j.ns, j.run, j.key FROM holdfast.jobs j
    WHERE j.owner = :dead AND (SELECT is_gone FROM verdict)
    ORDER BY j.ns, j.run, j.key
    FOR NO KEY UPDATE
)
, jobs AS (
    UPDATE holdfast.jobs j
    SET owner = NULL, begun_at = NULL, wake_at = (SELECT now FROM clock), start_by = NULL,
        strikes = j.strikes + 1
    FROM held h
    WHERE j.ns = h.ns AND j.run = h.run AND j.key = h.key AND j.owner = :dead
    RETURNING 1
)
SELECT total.freed, f.ns, f.id, f.workflow, f.version, f.status, f.reason, f.generation, f.epoch,
    f.seq, f.owner, f.wake_at, f.inbox_seq, f.inbox_read, f.cancel, f.strikes, f.input_digest,
    f.created_at, f.updated_at, f.closed_at, f.deadline, f.queue, f.priority
FROM (SELECT (SELECT count(*) FROM freed) + (SELECT count(*) FROM jobs) AS freed) total
LEFT JOIN freed f ON f.is_taken
ORDER BY f.priority, f.id

-- name: retire_worker
DELETE FROM holdfast.workers
WHERE id = :worker
    AND NOT EXISTS (SELECT 1 FROM holdfast.runs WHERE owner = :worker)
    AND NOT EXISTS (SELECT 1 FROM holdfast.jobs WHERE owner = :worker)

-- name: list_workers
SELECT id, lease_until, started_at, info,
    (SELECT count(*) FROM holdfast.runs WHERE owner = workers.id) AS runs,
    (SELECT count(*) FROM holdfast.jobs WHERE owner = workers.id) AS jobs
FROM holdfast.workers
ORDER BY started_at, id

-- name: notify
-- A hint may be lost: it does not wait for the disk, as its transaction otherwise would.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(:channel, :payload)

-- name: listening_workers
-- A worker that holds nothing has no row; its session that listens is named after it.
SELECT DISTINCT application_name FROM pg_stat_activity
WHERE datname = current_database() AND starts_with(application_name, :prefix)
