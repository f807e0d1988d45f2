-- name: queue
SELECT * FROM holdfast.queues WHERE ns = :ns AND name = :name FOR UPDATE

-- name: queues_of_namespace
SELECT * FROM holdfast.queues WHERE ns = :ns ORDER BY name

-- name: locked_queues
-- Locked in the order of their names: who admits runs to a queue is alone there.
SELECT * FROM holdfast.queues
WHERE ns = :ns AND (:queues::text[] IS NULL OR name = ANY (:queues::text[]))
ORDER BY name
FOR NO KEY UPDATE

-- name: put_queue
INSERT INTO holdfast.queues (
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

-- name: add_queue
INSERT INTO holdfast.queues (ns, name, paused, changed_at, admitted)
VALUES (:ns, :name, 0, holdfast.clock(:now::int8), 0)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: ticket
SELECT * FROM holdfast.tickets WHERE ns = :ns AND run = :run

-- name: add_ticket
INSERT INTO holdfast.tickets (ns, run, queue, key, priority, due_at, expires_at, state, admitted_at)
VALUES (:ns, :run, :queue, :key, :priority, :due_at, :expires_at, :state, :admitted_at)

-- name: free_tickets
UPDATE holdfast.tickets SET state = 'done', expires_at = NULL
WHERE ns = :ns AND run = ANY (:runs::text[]) AND state <> 'done'
RETURNING 1

-- name: leave_line
-- Runs that are taken without a slot, to end.
UPDATE holdfast.tickets SET state = 'new', expires_at = NULL
WHERE ns = :ns AND run = ANY (:runs::text[]) AND state = 'waiting'

-- name: tickets_of_runs
SELECT run FROM holdfast.tickets WHERE ns = :ns AND run = ANY (:runs::text[])

-- name: line_up
-- Due runs of managed queues that hold no slot join the line. Those that have not begun and only
-- have to end need none.
WITH unplaced AS MATERIALIZED (
    SELECT r.ns, r.id, r.queue, r.priority, r.wake_at, r.deadline
    FROM unnest(:queues::text[]) AS q (name)
    CROSS JOIN unnest(:priorities::int2[]) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT * FROM holdfast.runs r
        WHERE r.ns = :ns AND r.queue = q.name AND r.priority = p.priority
            AND r.wake_at <= :now::int8
            AND r.status IN ('pending', 'waiting')
            AND NOT (r.epoch = 0 AND (r.cancel = 1 OR coalesce(r.deadline, :now::int8 + 1) <= :now::int8))
            AND NOT EXISTS (
                SELECT 1 FROM holdfast.tickets t
                WHERE t.ns = r.ns AND t.run = r.id
                    AND (t.state = 'admitted' OR t.expires_at <= :now::int8)
            )
        ORDER BY r.wake_at, r.id
        LIMIT :limit
        FOR NO KEY UPDATE SKIP LOCKED
    ) r
)
, joined AS (
    INSERT INTO holdfast.tickets AS t (ns, run, queue, key, priority, due_at, state)
    SELECT ns, id, queue, '', priority, wake_at, 'waiting' FROM unplaced
    ON CONFLICT (ns, run) DO UPDATE
    -- One in line that was only disturbed keeps its place.
    SET due_at = CASE
            WHEN t.state = 'waiting' THEN least(t.due_at, excluded.due_at) ELSE excluded.due_at
        END,
        state = 'waiting'
    RETURNING t.ns, t.run, t.expires_at
)
UPDATE holdfast.runs r
SET wake_at = least(
    CASE WHEN u.deadline > :now::int8 THEN u.deadline END,
    j.expires_at,
    253402300799000000
)
FROM unplaced u JOIN joined j ON j.ns = u.ns AND j.run = u.id
WHERE r.ns = u.ns AND r.id = u.id

-- name: rooms
-- What keeps each managed queue: slots held, runs and jobs on this worker, the first admission that
-- is too recent for the rate.
SELECT q.name,
    CASE WHEN q.concurrency IS NULL THEN 0 ELSE holdfast.held(q.ns, q.name, NULL) END AS held,
    CASE WHEN q.worker_concurrency IS NULL THEN 0 ELSE (
        SELECT count(*) FROM holdfast.runs r
        WHERE r.owner = :worker AND r.ns = q.ns AND r.queue = q.name
    ) + (
        SELECT count(*) FROM holdfast.jobs j
        WHERE j.owner = :worker AND j.ns = q.ns AND j.queue = q.name
    ) END AS on_worker,
    a.n AS blocked, a.at AS blocked_at
FROM holdfast.queues q
LEFT JOIN LATERAL (
    SELECT n, at FROM holdfast.admissions a
    WHERE a.ns = q.ns AND a.queue = q.name AND a.n >= q.admitted - q.rate_count
        AND a.at > :now::int8 - q.rate_per
    ORDER BY a.n
    LIMIT 1
) a ON true
WHERE q.ns = :ns AND q.name = ANY (:queues::text[])

-- name: heads
-- The lines in which runs stand, each with since when the run does that is next, as far as keys go.
SELECT q.name, p.priority, head.due_at
FROM holdfast.queues q
CROSS JOIN unnest(:priorities::int2[]) AS p (priority)
CROSS JOIN LATERAL (
    SELECT coalesce(
        (
            SELECT t.key FROM holdfast.tickets t
            WHERE t.ns = q.ns AND t.queue = q.name AND t.priority = p.priority
                AND t.state = 'waiting' AND t.key > q.last_key
            ORDER BY t.key
            LIMIT 1
        ),
        (
            SELECT t.key FROM holdfast.tickets t
            WHERE t.ns = q.ns AND t.queue = q.name AND t.priority = p.priority
                AND t.state = 'waiting'
            ORDER BY t.key
            LIMIT 1
        )
    ) AS key
) next
CROSS JOIN LATERAL (
    SELECT t.due_at FROM holdfast.tickets t
    WHERE t.ns = q.ns AND t.queue = q.name AND t.priority = p.priority AND t.state = 'waiting'
        AND t.key = next.key
    ORDER BY t.due_at, t.run
    LIMIT 1
) head
WHERE q.ns = :ns AND q.name = ANY (:queues::text[])

-- name: due_lanes
-- All lanes with due runs, managed or not, and since when the first of each is due.
WITH RECURSIVE used (queue) AS (
    SELECT min(queue) FROM holdfast.runs WHERE ns = :ns AND wake_at IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(queue) FROM holdfast.runs
        WHERE ns = :ns AND wake_at IS NOT NULL AND queue > used.queue
    )
    FROM used WHERE used.queue IS NOT NULL
)
SELECT s.queue, p.priority, first.wake_at
FROM (
    SELECT unnest(:queues::text[]) AS queue
    UNION ALL
    SELECT queue FROM used WHERE :queues::text[] IS NULL AND queue IS NOT NULL
) s
CROSS JOIN unnest(:priorities::int2[]) AS p (priority)
CROSS JOIN LATERAL (
    SELECT r.wake_at FROM holdfast.runs r
    WHERE r.ns = :ns AND r.queue = s.queue AND r.priority = p.priority AND r.wake_at <= :now::int8
    ORDER BY r.wake_at
    LIMIT 1
) first

-- name: unplaced_runs
SELECT EXISTS (
    SELECT 1
    FROM unnest(:queues::text[]) AS q (name)
    CROSS JOIN unnest(:priorities::int2[]) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT 1 FROM holdfast.runs r
        LEFT JOIN holdfast.tickets t ON t.ns = r.ns AND t.run = r.id
        WHERE r.ns = :ns AND r.queue = q.name AND r.priority = p.priority AND r.wake_at <= :now::int8
            -- One whose time in line is over goes on only to end.
            AND (
                t.expires_at IS NULL OR t.expires_at > :now::int8
                OR r.status IN ('paused', 'blocked')
                OR (r.epoch = 0 AND (r.cancel = 1 OR r.deadline <= :now::int8))
            )
        LIMIT 1
    ) r
)

-- name: admit_runs
-- Take from one line; with the first event of runs that hold nothing else, as `claim_runs` tells it.
WITH picked AS MATERIALIZED (
    SELECT p.of_run, p.of_key, p.place
    FROM holdfast.admit(
        :ns, :queue, :priority::int2, :most, :key_most, :after_key, :worker,
        :workflows::text[], :now::int8
    ) WITH ORDINALITY AS p (of_key, of_run, place)
)
, renewed AS (
    INSERT INTO holdfast.workers AS w (id, lease_until, started_at, address, info)
    SELECT :worker, :now::int8 + :lease::int8, :now::int8, :address, :info
    WHERE EXISTS (SELECT 1 FROM picked)
    ON CONFLICT (id) DO UPDATE
    SET lease_until = greatest(w.lease_until, excluded.lease_until),
        address = CASE WHEN excluded.address = '' THEN w.address ELSE excluded.address END,
        info = CASE WHEN w.info = '' THEN excluded.info ELSE w.info END
)
SELECT of_run, of_key FROM picked ORDER BY place

-- name: admitted_runs
SELECT 0::int8 AS place, 0::int8 AS due, true AS taken,
    e.kind, e.at, e.key, e.payload, e.asked_seq, e.digest, e.took, e.seq AS event_seq,
    e.epoch AS event_epoch, e.generation AS event_generation, e.codec, e.superseded_by,
    t.ns, t.id, t.workflow, t.version, t.status, t.reason, t.generation, t.epoch, t.seq,
    t.owner, t.wake_at, t.inbox_seq, t.inbox_read, t.cancel, t.strikes, t.input_digest,
    t.created_at, t.updated_at, t.closed_at, t.deadline, t.queue, t.priority
FROM unnest(:runs::text[]) WITH ORDINALITY AS p (run, place)
JOIN holdfast.runs t ON t.ns = :ns AND t.id = p.run
LEFT JOIN holdfast.events e ON t.seq = 1 AND e.ns = t.ns AND e.run = t.id AND e.seq = 1
ORDER BY p.place

-- name: count_admissions
WITH added AS (
    INSERT INTO holdfast.admissions (ns, queue, n, at)
    SELECT :ns, :name, n, :now::int8 FROM generate_series(:before::int8, :admitted::int8 - 1) AS g (n)
    WHERE :rate_count::int8 IS NOT NULL
)
, forgotten AS (
    DELETE FROM holdfast.admissions
    WHERE ns = :ns AND queue = :name AND n < :admitted::int8 - :rate_count::int8
)
UPDATE holdfast.queues
SET admitted = :admitted::int8, last_key = :last_key, last_job_key = :last_job_key
WHERE ns = :ns AND name = :name

-- name: overdue_tickets
SELECT * FROM holdfast.tickets
WHERE ns = :ns AND expires_at IS NOT NULL AND expires_at <= :now::int8
ORDER BY expires_at, run
LIMIT 100

-- name: queue_states
SELECT q.*, holdfast.held(q.ns, q.name, NULL) AS held, (
        SELECT count(*) FROM holdfast.tickets t
        WHERE t.ns = q.ns AND t.queue = q.name AND t.state = 'waiting'
    ) + (
        SELECT count(*) FROM holdfast.jobs j
        WHERE j.ns = q.ns AND j.queue = q.name AND j.owner IS NULL
            AND j.wake_at <= holdfast.clock(:now::int8)
    ) AS waiting, a.n AS blocked, a.at AS blocked_at
FROM holdfast.queues q
LEFT JOIN LATERAL (
    SELECT n, at FROM holdfast.admissions a
    WHERE a.ns = q.ns AND a.queue = q.name AND a.n >= q.admitted - q.rate_count
        AND a.at > holdfast.clock(:now::int8) - q.rate_per
    ORDER BY a.n
    LIMIT 1
) a ON true
WHERE q.ns = :ns
ORDER BY q.name

-- name: dump_queues
SELECT * FROM holdfast.queues ORDER BY ns, name

-- name: dump_tickets
SELECT * FROM holdfast.tickets ORDER BY ns, run
