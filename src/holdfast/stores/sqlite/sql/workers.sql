-- name: renew_worker
INSERT INTO workers (id, lease_until, started_at, address, info)
VALUES (:worker, :lease_until, :now, :address, :info)
ON CONFLICT (id) DO UPDATE SET lease_until = max(lease_until, excluded.lease_until)

-- name: other_workers
SELECT id, lease_until FROM workers WHERE id <> ? ORDER BY id

-- name: is_worker
SELECT EXISTS (SELECT 1 FROM workers WHERE id = ?)

-- name: delete_dead_worker
DELETE FROM workers WHERE id = :worker AND (:known_dead OR lease_until <= :now)

-- name: retire_worker
DELETE FROM workers WHERE id = :worker AND NOT EXISTS (SELECT 1 FROM runs WHERE owner = :worker)

-- name: list_workers
SELECT id, lease_until, started_at, address, info FROM workers ORDER BY started_at, id
