-- name: renew_worker
INSERT INTO workers (id, lease_until, started_at, address, info)
VALUES (:worker, :lease_until, :now, :address, :info)
ON CONFLICT (id) DO UPDATE
SET lease_until = max(lease_until, excluded.lease_until),
    address = iif(excluded.address = '', address, excluded.address),
    info = iif(excluded.info = '', info, excluded.info)

-- name: is_lease_new
-- By the clock of whoever is furthest ahead, as it is renewed.
SELECT EXISTS (
    SELECT 1 FROM workers
    WHERE id = :worker AND lease_until >= :lease - :lease / 10
        + max(:now, coalesce((SELECT value FROM meta WHERE key = 'clock'), 0))
)

-- name: other_workers
SELECT id, lease_until FROM workers WHERE id <> ?

-- name: next_owner
-- Asked again and again, it hops from owner to owner in the index, however many runs each of them
-- holds.
SELECT min(owner) FROM runs WHERE owner > ?

-- name: is_worker
SELECT EXISTS (SELECT 1 FROM workers WHERE id = ?)

-- name: delete_dead_worker
DELETE FROM workers WHERE id = :worker AND (:known_dead OR lease_until <= :now)

-- name: retire_worker
DELETE FROM workers
WHERE id = :worker
    AND NOT EXISTS (SELECT 1 FROM runs WHERE owner = :worker)
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE owner = :worker)

-- name: list_workers
SELECT id, lease_until, started_at, info,
    (SELECT count(*) FROM runs WHERE owner = workers.id) AS runs,
    (SELECT count(*) FROM jobs WHERE owner = workers.id) AS jobs
FROM workers
ORDER BY started_at, id
