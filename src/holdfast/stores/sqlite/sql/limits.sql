-- name: queue
SELECT * FROM queues WHERE ns = :ns AND name = :name

-- name: queues_of_namespace
SELECT * FROM queues WHERE ns = :ns ORDER BY name

-- name: put_queue
INSERT INTO queues (
    ns, name, concurrency, key_concurrency, worker_concurrency, rate_count, rate_per, paused,
    changed_at, admitted, last_key, last_job_key
)
VALUES (
    :ns, :name, :concurrency, :key_concurrency, :worker_concurrency, :rate_count, :rate_per,
    :paused, :changed_at, :admitted, :last_key, :last_job_key
)
ON CONFLICT (ns, name) DO UPDATE
SET concurrency = excluded.concurrency, key_concurrency = excluded.key_concurrency,
    worker_concurrency = excluded.worker_concurrency, rate_count = excluded.rate_count,
    rate_per = excluded.rate_per, paused = excluded.paused, changed_at = excluded.changed_at,
    admitted = excluded.admitted, last_key = excluded.last_key,
    last_job_key = excluded.last_job_key

-- name: is_managed
SELECT EXISTS (SELECT 1 FROM queues WHERE ns = ? AND name = ?)

-- name: ticket
SELECT * FROM tickets WHERE ns = :ns AND run = :run

-- name: add_ticket
INSERT INTO tickets (ns, run, queue, key, priority, due_at, expires_at, state, admitted_at)
VALUES (:ns, :run, :queue, :key, :priority, :due_at, :expires_at, :state, :admitted_at)

-- name: free_ticket
UPDATE tickets SET state = 'done', expires_at = NULL WHERE ns = :ns AND run = :run AND state <> 'done'

-- name: admit_ticket
UPDATE tickets SET state = 'admitted', admitted_at = :now, expires_at = NULL
WHERE ns = :ns AND run = :run

-- name: leave_line
-- A run that is taken without a slot, to end.
UPDATE tickets SET state = 'new', expires_at = NULL
WHERE ns = :ns AND run = :run AND state = 'waiting'

-- name: tickets_of_runs
SELECT run FROM tickets WHERE ns = :ns AND run IN (SELECT value FROM json_each(:runs))

-- name: unplaced_runs
-- Due runs of a managed queue that hold no slot and have to stand in line. Those that have not begun
-- and only have to end need none.
SELECT r.id, r.priority, r.wake_at, r.deadline, t.state, t.due_at, t.expires_at
FROM runs r INDEXED BY runs_claim LEFT JOIN tickets t ON t.ns = r.ns AND t.run = r.id
WHERE r.ns = :ns AND r.queue = :queue AND r.priority IN (SELECT value FROM json_each(:priorities))
    AND r.wake_at <= :now
    AND r.status IN ('pending', 'waiting')
    AND coalesce(t.state, '') <> 'admitted'
    AND (t.expires_at IS NULL OR t.expires_at > :now)
    AND NOT (r.epoch = 0 AND (r.cancel = 1 OR coalesce(r.deadline, :now + 1) <= :now))
LIMIT :limit

-- name: join_line
INSERT INTO tickets (ns, run, queue, key, priority, due_at, expires_at, state, admitted_at)
VALUES (:ns, :run, :queue, '', :priority, :due_at, NULL, 'waiting', NULL)
ON CONFLICT (ns, run) DO UPDATE SET state = 'waiting', due_at = excluded.due_at

-- name: rest_in_line
UPDATE runs SET wake_at = :wake_at WHERE ns = :ns AND id = :run

-- name: claimable_begun
-- As claimable_runs, on a managed queue: those that hold a slot, or only have to end.
SELECT r.ns, r.id, r.workflow, r.version, r.status, r.reason, r.generation, r.epoch, r.seq,
    r.owner, r.wake_at, r.inbox_seq, r.inbox_read, r.cancel, r.strikes, r.input_digest,
    r.created_at, r.updated_at, r.closed_at, r.deadline, r.queue, r.priority
FROM runs r INDEXED BY runs_claim LEFT JOIN tickets t ON t.ns = r.ns AND t.run = r.id
WHERE r.ns = :ns AND r.queue = :queue AND r.priority = :priority AND r.wake_at <= :now
    AND r.status IN ('pending', 'waiting', 'paused', 'blocked')
    AND (r.workflow IN (SELECT value FROM json_each(:workflows))
        OR r.workflow || '/' || r.version IN (SELECT value FROM json_each(:workflows)))
    AND (r.strikes < 2 OR :suspects > 0)
    AND (t.state = 'admitted' OR r.status IN ('paused', 'blocked')
        OR (r.epoch = 0 AND (r.cancel = 1 OR coalesce(r.deadline, :now + 1) <= :now)))
ORDER BY r.wake_at, r.id
LIMIT :limit

-- name: first_key
SELECT key FROM tickets INDEXED BY tickets_line
WHERE ns = :ns AND queue = :queue AND priority = :priority AND state = 'waiting'
ORDER BY key
LIMIT 1

-- name: next_key
SELECT key FROM tickets INDEXED BY tickets_line
WHERE ns = :ns AND queue = :queue AND priority = :priority AND state = 'waiting' AND key > :key
ORDER BY key
LIMIT 1

-- name: first_in_line
SELECT due_at FROM tickets INDEXED BY tickets_line
WHERE ns = :ns AND queue = :queue AND priority = :priority AND state = 'waiting' AND key = :key
ORDER BY due_at, run
LIMIT 1

-- name: next_in_line
SELECT r.ns, r.id, r.workflow, r.version, r.status, r.reason, r.generation, r.epoch, r.seq,
    r.owner, r.wake_at, r.inbox_seq, r.inbox_read, r.cancel, r.strikes, r.input_digest,
    r.created_at, r.updated_at, r.closed_at, r.deadline, r.queue, r.priority
FROM tickets t INDEXED BY tickets_line JOIN runs r ON r.ns = t.ns AND r.id = t.run
WHERE t.ns = :ns AND t.queue = :queue AND t.priority = :priority AND t.state = 'waiting'
    AND t.key = :key
    AND (t.expires_at IS NULL OR t.expires_at > :now)
    AND r.status IN ('pending', 'waiting')
    AND (r.workflow IN (SELECT value FROM json_each(:workflows))
        OR r.workflow || '/' || r.version IN (SELECT value FROM json_each(:workflows)))
ORDER BY t.due_at, t.run
LIMIT 1

-- name: held_of_queue
-- Slots that are held: by runs, and by jobs that are not done in the slot of their run.
SELECT (
        SELECT count(*) FROM tickets INDEXED BY tickets_held
        WHERE ns = :ns AND queue = :queue AND state = 'admitted'
    ) + (
        SELECT count(*) FROM jobs INDEXED BY jobs_slots
        WHERE ns = :ns AND queue = :queue AND owner IS NOT NULL
    ) - (
        SELECT count(DISTINCT j.run)
        FROM jobs j INDEXED BY jobs_slots CROSS JOIN tickets t ON t.ns = j.ns AND t.run = j.run
        WHERE j.ns = :ns AND j.queue = :queue AND j.owner IS NOT NULL
            AND t.queue = j.queue AND t.state = 'admitted'
    )

-- name: held_of_key
SELECT (
        SELECT count(*) FROM tickets INDEXED BY tickets_held
        WHERE ns = :ns AND queue = :queue AND key = :key AND state = 'admitted'
    ) + (
        SELECT count(*) FROM jobs INDEXED BY jobs_slots
        WHERE ns = :ns AND queue = :queue AND queue_key = :key AND owner IS NOT NULL
    ) - (
        SELECT count(DISTINCT j.run)
        FROM jobs j INDEXED BY jobs_slots CROSS JOIN tickets t ON t.ns = j.ns AND t.run = j.run
        WHERE j.ns = :ns AND j.queue = :queue AND j.queue_key = :key AND j.owner IS NOT NULL
            AND t.queue = j.queue AND t.key = j.queue_key AND t.state = 'admitted'
    )

-- name: held_on_worker
SELECT (SELECT count(*) FROM runs WHERE owner = :worker AND ns = :ns AND queue = :queue)
    + (SELECT count(*) FROM jobs WHERE owner = :worker AND ns = :ns AND queue = :queue)

-- name: waiting_of_queue
SELECT (
        SELECT count(*) FROM tickets INDEXED BY tickets_line
        WHERE ns = :ns AND queue = :queue AND state = 'waiting'
            AND priority IN (SELECT value FROM json_each(:priorities))
    ) + (
        SELECT count(*) FROM jobs INDEXED BY jobs_due
        WHERE ns = :ns AND queue = :queue AND owner IS NULL AND wake_at <= :now
            AND priority IN (SELECT value FROM json_each(:priorities))
    )

-- name: overdue_tickets
SELECT * FROM tickets INDEXED BY tickets_expiring
WHERE ns = :ns AND expires_at IS NOT NULL AND expires_at <= :now
ORDER BY expires_at, run
LIMIT 100

-- name: first_blocked
-- The first of the last admissions that is too recent for the rate, and when it was.
SELECT n, at FROM admissions
WHERE ns = :ns AND queue = :queue AND n >= :first AND at > :since
ORDER BY n
LIMIT 1

-- name: add_admission
INSERT INTO admissions (ns, queue, n, at) VALUES (:ns, :queue, :n, :at)

-- name: forget_admissions
DELETE FROM admissions WHERE ns = :ns AND queue = :queue AND n < :first

-- name: count_admissions
UPDATE queues SET admitted = :admitted, last_key = :last_key, last_job_key = :last_job_key
WHERE ns = :ns AND name = :name

-- name: delete_ticket
DELETE FROM tickets WHERE ns = ? AND run = ?

-- name: dump_queues
SELECT * FROM queues ORDER BY ns, name

-- name: dump_tickets
SELECT * FROM tickets ORDER BY ns, run
