-- name: renew_worker
INSERT INTO workers (id, lease_until, started_at, address, info)
VALUES (:worker, :lease_until, :now, :address, :info)
ON CONFLICT (id) DO UPDATE
SET lease_until = max(lease_until, excluded.lease_until),
    address = iif(excluded.address = '', address, excluded.address),
    info = iif(excluded.info = '', info, excluded.info)

-- name: other_workers
-- Also the owners without a row, whose lease never began or was reaped before they took a run.
-- The recursion hops from owner to owner in the index, however many runs each of them holds.
WITH RECURSIVE owners (id) AS (
    SELECT min(owner) FROM runs WHERE owner IS NOT NULL
    UNION ALL
    SELECT (SELECT min(owner) FROM runs WHERE owner > owners.id) FROM owners
    WHERE owners.id IS NOT NULL
)
SELECT id, lease_until FROM workers WHERE id <> :worker
UNION ALL
SELECT id, 0 FROM owners WHERE id <> :worker AND id NOT IN (SELECT id FROM workers)
ORDER BY id

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
    (SELECT count(*) FROM runs WHERE owner = workers.id) AS runs
FROM workers
ORDER BY started_at, id
