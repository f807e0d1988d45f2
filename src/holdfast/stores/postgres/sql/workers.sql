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
, jobs AS (
    UPDATE holdfast.jobs j
    SET owner = NULL, begun_at = NULL, wake_at = holdfast.clock(:now::int8), start_by = NULL,
        strikes = j.strikes + 1
    WHERE j.owner = :worker AND (SELECT is_gone FROM verdict)
    RETURNING 1
)
SELECT is_gone, (SELECT count(*) FROM freed) + (SELECT count(*) FROM jobs) AS freed FROM verdict

-- name: retire_worker
DELETE FROM holdfast.workers
WHERE id = :worker
    AND NOT EXISTS (SELECT 1 FROM holdfast.runs WHERE owner = :worker)
    AND NOT EXISTS (SELECT 1 FROM holdfast.jobs WHERE owner = :worker)

-- name: list_workers
SELECT id, lease_until, started_at, info,
    (SELECT count(*) FROM holdfast.runs WHERE owner = workers.id) AS runs
FROM holdfast.workers
ORDER BY started_at, id

-- name: notify
-- A hint may be lost: it does not wait for the disk, as its transaction otherwise would.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(:channel, :payload)

-- name: listening_workers
-- A worker that holds nothing has no row; its session that listens is named after it.
SELECT DISTINCT application_name FROM pg_stat_activity
WHERE datname = current_database() AND starts_with(application_name, :prefix)
