-- name: is_worker
SELECT EXISTS (SELECT 1 FROM holdfast.workers WHERE id = :worker)

-- name: delete_dead_worker
DELETE FROM holdfast.workers
WHERE id = :worker AND (:known_dead::bool OR lease_until <= holdfast.clock(:now::int8))
RETURNING 1

-- name: retire_worker
DELETE FROM holdfast.workers
WHERE id = :worker AND NOT EXISTS (SELECT 1 FROM holdfast.runs WHERE owner = :worker)

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
