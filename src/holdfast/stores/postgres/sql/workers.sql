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
SELECT id, lease_until, started_at, address, info FROM holdfast.workers ORDER BY started_at, id

-- name: notify
SELECT pg_notify(:channel, :payload)
