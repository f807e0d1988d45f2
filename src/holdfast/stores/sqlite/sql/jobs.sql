-- name: put_job
INSERT OR REPLACE INTO jobs (
    ns, run, key, generation, attempt, secret, step, queue, priority, args, terms, asked_at,
    wake_at, start_by, owner, epoch, strikes, begun_at, queue_key
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

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
-- Tells whether it frees what others may wait for.
DELETE FROM jobs
WHERE ns = :ns AND run = :run AND key = :key AND epoch = :epoch AND owner IS :owner
RETURNING EXISTS (SELECT 1 FROM queues q WHERE q.ns = jobs.ns AND q.name = jobs.queue)

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
    wake_at, start_by, owner, epoch, strikes, begun_at, queue_key
FROM jobs INDEXED BY jobs_due
WHERE ns = :ns AND queue = :queue AND priority = :priority AND owner IS NULL AND wake_at <= :now
    AND step IN (SELECT value FROM json_each(:steps))
    AND (strikes < 2 OR :suspects > 0)
    AND NOT EXISTS (
        SELECT 1 FROM runs WHERE runs.ns = jobs.ns AND runs.id = jobs.run AND status = 'paused'
    )
ORDER BY wake_at, run, key
LIMIT :limit

-- name: first_job_key
SELECT queue_key FROM jobs INDEXED BY jobs_line
WHERE ns = :ns AND queue = :queue AND priority = :priority AND owner IS NULL
ORDER BY queue_key
LIMIT 1

-- name: next_job_key
SELECT queue_key FROM jobs INDEXED BY jobs_line
WHERE ns = :ns AND queue = :queue AND priority = :priority AND owner IS NULL AND queue_key > :key
ORDER BY queue_key
LIMIT 1

-- name: first_job_of_key
SELECT
    ns, run, key, generation, attempt, secret, step, queue, priority, args, terms, asked_at,
    wake_at, start_by, owner, epoch, strikes, begun_at, queue_key
FROM jobs INDEXED BY jobs_line
WHERE ns = :ns AND queue = :queue AND priority = :priority AND owner IS NULL
    AND queue_key = :key AND wake_at <= :now
    AND step IN (SELECT value FROM json_each(:steps))
    AND (strikes < 2 OR :suspects > 0)
    AND NOT EXISTS (
        SELECT 1 FROM runs WHERE runs.ns = jobs.ns AND runs.id = jobs.run AND status = 'paused'
    )
ORDER BY wake_at, run, key
LIMIT 1

-- name: riding_jobs
-- Due jobs whose run holds a slot of their queue, with no job in it, each with the key of the run.
SELECT
    j.ns, j.run, j.key, j.generation, j.attempt, j.secret, j.step, j.queue, j.priority, j.args,
    j.terms, j.asked_at, j.wake_at, j.start_by, j.owner, j.epoch, j.strikes, j.begun_at,
    j.queue_key, t.key
FROM tickets t INDEXED BY tickets_held CROSS JOIN jobs j ON j.ns = t.ns AND j.run = t.run
WHERE t.ns = :ns AND t.queue = :queue AND t.state = 'admitted'
    AND j.queue = :queue AND j.priority = :priority AND j.owner IS NULL AND j.wake_at <= :now
    AND j.step IN (SELECT value FROM json_each(:steps))
    AND (j.strikes < 2 OR :suspects > 0)
    AND NOT EXISTS (
        SELECT 1 FROM runs WHERE runs.ns = j.ns AND runs.id = j.run AND status = 'paused'
    )
    AND NOT EXISTS (
        SELECT 1 FROM jobs o
        WHERE o.ns = j.ns AND o.run = j.run AND o.queue = j.queue AND o.owner IS NOT NULL
    )
ORDER BY j.wake_at, j.run, j.key

-- name: next_job_at
SELECT min(wake_at) FROM jobs INDEXED BY jobs_due
WHERE ns = :ns AND queue = :queue AND priority = :priority AND owner IS NULL AND wake_at > :now

-- name: claim_job
UPDATE jobs SET owner = :worker, epoch = epoch + 1, begun_at = :now
WHERE ns = :ns AND run = :run AND key = :key AND owner IS NULL

-- name: held_jobs
SELECT
    ns, run, key, generation, attempt, secret, step, queue, priority, args, terms, asked_at,
    wake_at, start_by, owner, epoch, strikes, begun_at, queue_key
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
    wake_at, start_by, owner, epoch, strikes, begun_at, queue_key
FROM jobs
WHERE ns = :ns AND (:run = '' OR run = :run) AND (:queue = '' OR queue = :queue)
ORDER BY priority, wake_at, run, key
LIMIT :limit

-- name: dump_jobs
SELECT
    ns, run, key, generation, attempt, secret, step, queue, priority, args, terms, asked_at,
    wake_at, start_by, owner, epoch, strikes, begun_at, queue_key
FROM jobs ORDER BY ns, run, key
