-- name: put_job
INSERT OR REPLACE INTO jobs (
    ns, run, key, generation, attempt, secret, step, queue, priority, args, terms, asked_at,
    wake_at, start_by, owner, epoch, strikes, begun_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: drop_job
DELETE FROM jobs WHERE ns = ? AND run = ? AND key = ?

-- name: delete_jobs
DELETE FROM jobs WHERE ns = ? AND run = ?

-- name: is_job_held
SELECT EXISTS (
    SELECT 1 FROM jobs
    WHERE ns = :ns AND run = :run AND key = :key AND epoch = :epoch AND owner IS :owner
)

-- name: end_job
DELETE FROM jobs
WHERE ns = :ns AND run = :run AND key = :key AND epoch = :epoch AND owner IS :owner

-- name: give_job_back
UPDATE jobs SET owner = NULL, begun_at = NULL, wake_at = :at
WHERE ns = :ns AND run = :run AND key = :key AND epoch = :epoch AND owner IS :owner

-- name: clear_job_strikes
UPDATE jobs SET strikes = 0 WHERE ns = :ns AND run = :run AND key = :key AND strikes > 0

-- name: release_jobs_of
UPDATE jobs
SET owner = NULL, begun_at = NULL, wake_at = :now, start_by = NULL, strikes = strikes + 1
WHERE owner = :worker

-- name: job_queues
-- The recursion hops from queue to queue in the index, however many jobs each of them holds.
WITH RECURSIVE used (queue) AS (
    SELECT min(queue) FROM jobs WHERE ns = :ns AND owner IS NULL
    UNION ALL
    SELECT (SELECT min(queue) FROM jobs WHERE ns = :ns AND owner IS NULL AND queue > used.queue)
    FROM used WHERE used.queue IS NOT NULL
)
SELECT queue FROM used WHERE queue IS NOT NULL

-- name: due_jobs
SELECT
    ns, run, key, generation, attempt, secret, step, queue, priority, args, terms, asked_at,
    wake_at, start_by, owner, epoch, strikes, begun_at
FROM jobs INDEXED BY jobs_due
WHERE ns = :ns AND queue = :queue AND priority = :priority AND owner IS NULL AND wake_at <= :now
    AND step IN (SELECT value FROM json_each(:steps))
    AND (strikes < 2 OR :suspects > 0)
    AND NOT EXISTS (
        SELECT 1 FROM runs WHERE runs.ns = jobs.ns AND runs.id = jobs.run AND status = 'paused'
    )
ORDER BY wake_at, run, key
LIMIT :limit

-- name: next_job_at
SELECT min(wake_at) FROM jobs INDEXED BY jobs_due
WHERE ns = :ns AND queue = :queue AND priority = :priority AND owner IS NULL AND wake_at > :now

-- name: claim_job
UPDATE jobs SET owner = :worker, epoch = epoch + 1, begun_at = :now
WHERE ns = :ns AND run = :run AND key = :key AND owner IS NULL

-- name: held_jobs
SELECT
    ns, run, key, generation, attempt, secret, step, queue, priority, args, terms, asked_at,
    wake_at, start_by, owner, epoch, strikes, begun_at
FROM jobs WHERE owner = :worker AND ns = :ns
ORDER BY run, key

-- name: holders_of_jobs
SELECT DISTINCT j.owner, coalesce(w.lease_until, 0)
FROM jobs j LEFT JOIN workers w ON w.id = j.owner
WHERE j.owner IS NOT NULL AND j.owner <> :worker
ORDER BY j.owner

-- name: is_any_job
SELECT EXISTS (SELECT 1 FROM jobs WHERE ns = :ns)

-- name: find_jobs
SELECT
    ns, run, key, generation, attempt, secret, step, queue, priority, args, terms, asked_at,
    wake_at, start_by, owner, epoch, strikes, begun_at
FROM jobs
WHERE ns = :ns AND (:run = '' OR run = :run) AND (:queue = '' OR queue = :queue)
ORDER BY priority, wake_at, run, key
LIMIT :limit

-- name: dump_jobs
SELECT
    ns, run, key, generation, attempt, secret, step, queue, priority, args, terms, asked_at,
    wake_at, start_by, owner, epoch, strikes, begun_at
FROM jobs ORDER BY ns, run, key
