-- name: run
SELECT * FROM holdfast.runs WHERE ns = :ns AND id = :run

-- name: create_run
-- One start, with nothing beside it: what `rounds.sql` does for many, without arrays.
WITH made AS (
    INSERT INTO holdfast.runs (
        ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at,
        inbox_seq, inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at,
        deadline, queue, priority
    )
    VALUES (
        :ns, :id, :workflow, :version, :status, '', 1, :epoch::int8, 1, :owner, :wake_at, 0, 0, 0, 0,
        :input_digest, :created_at::int8, :created_at::int8, NULL, :deadline,
        :queue, :priority
    )
    ON CONFLICT DO NOTHING
    RETURNING 1
)
, told AS (
    INSERT INTO holdfast.events (
        ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
    )
    SELECT :ns, :id, 1, 1, :epoch::int8, :kind, :key, :asked_seq::int8, :created_at::int8,
        :took::int8, :digest::bytea, :codec::int8, :payload::bytea
    FROM made
)
SELECT 1 FROM made

-- name: lock_run
-- Before a statement that reads what others may have written under this lock: it begins after it.
SELECT FROM holdfast.runs WHERE ns = :ns AND id = :run FOR NO KEY UPDATE

-- name: import_run
INSERT INTO holdfast.runs (
    ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at,
    inbox_seq, inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at,
    deadline, queue, priority
)
VALUES (
    :ns, :id, :workflow, :version, :status, :reason, :generation, :epoch, :seq, :owner, :wake_at,
    :inbox_seq, :inbox_read, :cancel, :strikes, :input_digest, :created_at, :updated_at,
    :closed_at, :deadline, :queue, :priority
)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: move_run
UPDATE holdfast.runs
SET status = :status,
    reason = :reason,
    seq = seq + 1,
    epoch = epoch + 1,
    generation = generation + CASE WHEN :reopens::bool THEN 1 ELSE 0 END,
    owner = NULL,
    wake_at = :wake_at,
    strikes = 0,
    updated_at = :at::int8,
    closed_at = :closed_at,
    deadline = CASE WHEN :reopens::bool THEN :deadline::int8 ELSE deadline END,
    inbox_read = inbox_read - :returned::int8,
    cancel = CASE WHEN :forgets_cancel::bool AND cancel = 2 THEN 0 ELSE cancel END
WHERE ns = :ns AND id = :run
    AND status = ANY (:origins::text[])
    AND strikes >= :strikes::int8
    AND (:seq::int8 IS NULL OR seq = :seq::int8)
RETURNING *

-- name: lanes
-- The beginning of the two statements below. A lane is a queue at one priority; these are the ones
-- with due runs, in the order in which a claim walks them.
WITH RECURSIVE clock AS MATERIALIZED (SELECT holdfast.clock(:now::int8) AS now)
-- The recursion hops from queue to queue in the index, however many runs each of them holds.
, used (queue) AS (
    SELECT min(queue) FROM holdfast.runs WHERE ns = :ns AND wake_at IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(queue) FROM holdfast.runs
        WHERE ns = :ns AND wake_at IS NOT NULL AND queue > used.queue
    )
    FROM used WHERE used.queue IS NOT NULL
)
, served AS MATERIALIZED (
    SELECT s.queue, p.priority
    FROM (
        SELECT unnest(:queues::text[]) AS queue
        UNION ALL
        SELECT queue FROM used WHERE :queues::text[] IS NULL AND queue IS NOT NULL
    ) s
    CROSS JOIN unnest(:priorities::int2[]) AS p (priority)
)
, lanes AS MATERIALIZED (
    SELECT s.queue, s.priority,
        row_number() OVER (ORDER BY s.priority, first.wake_at, s.queue COLLATE "C") AS place
    FROM served s
    CROSS JOIN LATERAL (
        SELECT r.wake_at FROM holdfast.runs r
        WHERE r.ns = :ns AND r.queue = s.queue AND r.priority = s.priority
            AND r.wake_at <= (SELECT now FROM clock)
        ORDER BY r.wake_at
        LIMIT 1
    ) first
    WHERE :of_these_queues
)

-- name: claim_runs
-- Lane after lane, until the limit is reached: no row is locked that is not taken, and the queue is
-- never sorted. Suspects are looked for apart, so that a crowd of them at the head uses up no place.
-- What two claimers want goes to the first; the other takes the next (SKIP LOCKED). Without
-- MATERIALIZED the inner query could be run again for every row, and each time take others.
, sound AS MATERIALIZED (
    SELECT l.place, r.ns, r.id, r.wake_at
    FROM (SELECT * FROM lanes ORDER BY place OFFSET 0) l
    CROSS JOIN LATERAL (
        SELECT ns, id, wake_at FROM holdfast.runs
        WHERE ns = :ns AND queue = l.queue AND priority = l.priority
            AND wake_at <= (SELECT now FROM clock)
            AND status IN ('pending', 'waiting', 'paused', 'blocked')
            AND (workflow = ANY (:workflows::text[])
                OR workflow || '/' || version = ANY (:workflows::text[]))
            AND strikes < 2
            AND :of_these_runs
        ORDER BY wake_at, id
        LIMIT :limit
        FOR NO KEY UPDATE SKIP LOCKED
    ) r
    ORDER BY l.place
    LIMIT :limit
)
, suspects AS MATERIALIZED (
    SELECT l.place, r.ns, r.id, r.wake_at
    FROM (SELECT * FROM lanes ORDER BY place OFFSET 0) l
    CROSS JOIN LATERAL (
        SELECT ns, id, wake_at FROM holdfast.runs
        WHERE ns = :ns AND queue = l.queue AND priority = l.priority
            AND wake_at <= (SELECT now FROM clock)
            AND status IN ('pending', 'waiting', 'paused', 'blocked')
            AND (workflow = ANY (:workflows::text[])
                OR workflow || '/' || version = ANY (:workflows::text[]))
            AND strikes >= 2 AND strikes < :strikes::int8
            AND :of_these_runs
        ORDER BY wake_at, id
        LIMIT :suspects
        FOR NO KEY UPDATE SKIP LOCKED
    ) r
    ORDER BY l.place
    LIMIT :suspects
)
, chosen AS MATERIALIZED (
    SELECT place, ns, id, wake_at AS due
    FROM (SELECT * FROM sound UNION ALL SELECT * FROM suspects) both_
    ORDER BY place, wake_at, id
    LIMIT :limit
)
, renewed AS (
    INSERT INTO holdfast.workers AS w (id, lease_until, started_at, address, info)
    SELECT :worker, holdfast.clock(:now::int8) + :lease::int8, holdfast.clock(:now::int8),
        :address, :info
    WHERE EXISTS (SELECT 1 FROM chosen)
    ON CONFLICT (id) DO UPDATE
    SET lease_until = greatest(w.lease_until, excluded.lease_until),
        address = CASE WHEN excluded.address = '' THEN w.address ELSE excluded.address END,
        info = CASE WHEN w.info = '' THEN excluded.info ELSE w.info END
)
, taken AS (
    UPDATE holdfast.runs r
    SET status = 'running', reason = '', owner = :worker, epoch = r.epoch + 1, wake_at = NULL,
        updated_at = (SELECT now FROM clock)
    FROM chosen c
    WHERE r.ns = c.ns AND r.id = c.id
    RETURNING c.place, c.due, r.*
)
SELECT t.place, t.due, true AS taken,
    e.kind, e.at, e.key, e.payload, e.asked_seq, e.digest, e.took, e.seq AS event_seq,
    e.epoch AS event_epoch, e.generation AS event_generation, e.codec, e.superseded_by,
    t.ns, t.id, t.workflow, t.version, t.status, t.reason, t.generation, t.epoch, t.seq,
    t.owner, t.wake_at, t.inbox_seq, t.inbox_read, t.cancel, t.strikes, t.input_digest,
    t.created_at, t.updated_at, t.closed_at, t.deadline, t.queue, t.priority
FROM taken t
LEFT JOIN holdfast.events e ON t.seq = 1 AND e.ns = t.ns AND e.run = t.id AND e.seq = 1
UNION ALL
SELECT l.place, r.wake_at, false,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    r.*
FROM lanes l
JOIN holdfast.runs r ON r.ns = :ns AND r.queue = l.queue AND r.priority = l.priority
WHERE :names_convicts
    AND r.status IN ('pending', 'waiting', 'paused', 'blocked')
    AND r.wake_at <= (SELECT now FROM clock)
    AND (r.workflow = ANY (:workflows::text[])
        OR r.workflow || '/' || r.version = ANY (:workflows::text[]))
    AND r.strikes >= 2 AND r.strikes >= :strikes::int8
    AND ((SELECT count(*) FROM chosen) < :limit
        OR (l.place, r.wake_at, r.id)
            < (SELECT place, due, id FROM chosen ORDER BY place DESC, due DESC, id DESC LIMIT 1))
ORDER BY 1, 2, id

-- name: claim_named
-- Runs that a hint named, by their keys, as claim_runs would take them; nothing that needs a second
-- thought (suspects, lines). A lease that is nearly new is left as it is.
WITH clock AS MATERIALIZED (SELECT holdfast.clock(:now::int8) AS now)
, chosen AS MATERIALIZED (
    SELECT ns, id, wake_at AS due FROM holdfast.runs
    WHERE ns = :ns AND id = ANY (:hints::text[])
        AND wake_at <= (SELECT now FROM clock)
        AND status IN ('pending', 'waiting', 'paused', 'blocked')
        AND (workflow = ANY (:workflows::text[])
            OR workflow || '/' || version = ANY (:workflows::text[]))
        AND (:queues::text[] IS NULL OR queue = ANY (:queues::text[]))
        AND NOT EXISTS (SELECT 1 FROM holdfast.queues q WHERE q.ns = :ns AND q.name = queue)
        AND strikes < 2
    ORDER BY id
    LIMIT :limit
    FOR NO KEY UPDATE SKIP LOCKED
)
, renewed AS (
    INSERT INTO holdfast.workers AS w (id, lease_until, started_at, address, info)
    SELECT :worker, holdfast.clock(:now::int8) + :lease::int8, holdfast.clock(:now::int8),
        :address, :info
    WHERE EXISTS (SELECT 1 FROM chosen)
        AND NOT EXISTS (
            SELECT 1 FROM holdfast.workers
            WHERE id = :worker
                AND lease_until >= (SELECT now FROM clock) + :lease::int8 - :lease::int8 / 10
        )
    ON CONFLICT (id) DO UPDATE
    SET lease_until = greatest(w.lease_until, excluded.lease_until),
        address = CASE WHEN excluded.address = '' THEN w.address ELSE excluded.address END,
        info = CASE WHEN w.info = '' THEN excluded.info ELSE w.info END
)
, taken AS (
    UPDATE holdfast.runs r
    SET status = 'running', reason = '', owner = :worker, epoch = r.epoch + 1, wake_at = NULL,
        updated_at = (SELECT now FROM clock)
    FROM chosen c
    WHERE r.ns = c.ns AND r.id = c.id
    RETURNING c.due, r.*
)
SELECT 1 AS place, t.due, true AS taken,
    e.kind, e.at, e.key, e.payload, e.asked_seq, e.digest, e.took, e.seq AS event_seq,
    e.epoch AS event_epoch, e.generation AS event_generation, e.codec, e.superseded_by,
    t.ns, t.id, t.workflow, t.version, t.status, t.reason, t.generation, t.epoch, t.seq,
    t.owner, t.wake_at, t.inbox_seq, t.inbox_read, t.cancel, t.strikes, t.input_digest,
    t.created_at, t.updated_at, t.closed_at, t.deadline, t.queue, t.priority
FROM taken t
LEFT JOIN holdfast.events e ON t.seq = 1 AND e.ns = t.ns AND e.run = t.id AND e.seq = 1

-- name: lanes_unmanaged
NOT EXISTS (SELECT 1 FROM holdfast.queues q WHERE q.ns = :ns AND q.name = s.queue)

-- name: runs_begun
-- On a managed queue: those that hold a slot, or only have to end.
(
    status IN ('paused', 'blocked')
    OR (epoch = 0 AND (cancel = 1 OR deadline <= (SELECT now FROM clock)))
    OR EXISTS (
        SELECT 1 FROM holdfast.tickets t
        WHERE t.ns = runs.ns AND t.run = runs.id AND t.state = 'admitted'
    )
)

-- name: look
-- The queue as one worker sees it: can anything be taken, what is ours, who is gone.
-- The recursion hops from owner to owner in the index, however many runs each of them holds.
, owners (id) AS (
    SELECT min(owner) FROM holdfast.runs WHERE owner IS NOT NULL
    UNION ALL
    SELECT (SELECT min(owner) FROM holdfast.runs WHERE owner > owners.id) FROM owners
    WHERE owners.id IS NOT NULL
)
-- Apart, or a plan could go through all runs for the sake of their order.
, mine AS MATERIALIZED (
    SELECT id, inbox_seq > inbox_read AS has_mail FROM holdfast.runs
    WHERE owner = :worker AND ns = :ns
)
SELECT
    (SELECT now FROM clock) AS now,
    EXISTS (
        SELECT 1 FROM lanes l
        CROSS JOIN LATERAL (
            SELECT 1 FROM holdfast.runs
            WHERE ns = :ns AND queue = l.queue AND priority = l.priority
                AND wake_at <= (SELECT now FROM clock)
                AND status IN ('pending', 'waiting', 'paused', 'blocked')
                AND (workflow = ANY (:workflows::text[])
                    OR workflow || '/' || version = ANY (:workflows::text[]))
                AND (strikes < 2 OR :suspects > 0)
            LIMIT 1
        ) r
        WHERE NOT EXISTS (SELECT 1 FROM holdfast.queues q WHERE q.ns = :ns AND q.name = l.queue)
    ) AS claimable,
    (
        SELECT min(r.wake_at) FROM served s
        CROSS JOIN LATERAL (
            SELECT wake_at FROM holdfast.runs
            WHERE ns = :ns AND queue = s.queue AND priority = s.priority
                AND wake_at > (SELECT now FROM clock) AND wake_at < 253402300799000000
                AND status IN ('pending', 'waiting', 'paused', 'blocked')
                AND (workflow = ANY (:workflows::text[])
                    OR workflow || '/' || version = ANY (:workflows::text[]))
            ORDER BY wake_at
            LIMIT 1
        ) r
    ) AS next_wake_at,
    (SELECT array_agg(id) FROM mine) AS held,
    (SELECT array_agg(id ORDER BY id) FROM mine WHERE has_mail) AS mail,
    (
        -- A worker that holds nothing does not renew: only holders are missed.
        SELECT array_agg(owners.id ORDER BY owners.id)
        FROM owners LEFT JOIN holdfast.workers w ON w.id = owners.id
        WHERE owners.id <> :worker AND coalesce(w.lease_until, 0) <= (SELECT now FROM clock)
    ) AS dead,
    (
        -- Of a few due runs: nobody takes those, so in time they are the oldest.
        SELECT array_agg(DISTINCT rtrim(r.workflow || '/' || r.version, '/'))
        FROM lanes l
        CROSS JOIN LATERAL (
            SELECT workflow, version FROM holdfast.runs
            WHERE ns = :ns AND queue = l.queue AND priority = l.priority
                AND wake_at <= (SELECT now FROM clock)
                AND status IN ('pending', 'waiting', 'paused', 'blocked')
            ORDER BY wake_at
            LIMIT greatest(200 / greatest((SELECT count(*) FROM lanes), 1), 1)
        ) r
        WHERE r.workflow <> ALL (:workflows::text[])
            AND r.workflow || '/' || r.version <> ALL (:workflows::text[])
    ) AS unregistered,
    (
        SELECT array_agg(owners.id || ' ' || w.address)
        FROM owners JOIN holdfast.workers w ON w.id = owners.id
        WHERE owners.id <> :worker AND w.lease_until > (SELECT now FROM clock) AND w.address <> ''
    ) AS living,
    (
        -- Of the first hundred queues.
        SELECT array_agg(u.queue)
        FROM (SELECT queue FROM used WHERE queue IS NOT NULL LIMIT 100) u
        WHERE u.queue <> ALL (:queues::text[])
            AND EXISTS (
                SELECT 1 FROM unnest(:priorities::int2[]) AS p (priority)
                CROSS JOIN LATERAL (
                    SELECT 1 FROM holdfast.runs
                    WHERE ns = :ns AND queue = u.queue AND priority = p.priority
                        AND wake_at <= (SELECT now FROM clock) - :neglected::int8
                    LIMIT 1
                ) r
            )
    ) AS unserved,
    (
        SELECT array_agg(name ORDER BY name) FROM holdfast.queues
        WHERE ns = :ns AND (:queues::text[] IS NULL OR name = ANY (:queues::text[]))
    ) AS managed,
    CASE WHEN :schedules::bool THEN (
        SELECT next_at FROM holdfast.schedules
        WHERE ns = :ns AND next_at IS NOT NULL
            AND (workflow = ANY (:workflows::text[]) OR workflow || '/' = ANY (:workflows::text[]))
        ORDER BY next_at
        LIMIT 1
    ) END AS schedule_at

-- name: is_owner
SELECT EXISTS (SELECT 1 FROM holdfast.runs WHERE owner = :worker)
    OR EXISTS (SELECT 1 FROM holdfast.jobs WHERE owner = :worker)

-- name: find_runs
SELECT * FROM holdfast.runs
WHERE ns || '' = :ns
    AND (:before_at::int8 IS NULL OR (created_at, id) < (:before_at::int8, :before_id))
    AND (:statuses::text[] IS NULL OR status = ANY (:statuses::text[]))
    AND (:workflow = '' OR workflow = :workflow)
    AND (:id_prefix = '' OR starts_with(id, :id_prefix))
    AND (:ids::text[] IS NULL OR id = ANY (:ids::text[]))
    AND created_at >= :created_after
ORDER BY created_at DESC, id DESC
LIMIT :limit

-- name: find_blocked_runs
-- As find_runs, for what workers look for every minute, by an index that holds few rows.
SELECT * FROM holdfast.runs
WHERE ns = :ns AND status = 'blocked'
    AND (:before_at::int8 IS NULL OR (created_at, id) < (:before_at::int8, :before_id))
ORDER BY created_at DESC, id DESC
LIMIT :limit

-- name: find_runs_by_id
SELECT * FROM holdfast.runs
WHERE ns = :ns AND id = ANY (:ids::text[])
    AND (:statuses::text[] IS NULL OR status = ANY (:statuses::text[]))
    AND created_at >= :created_after
ORDER BY created_at DESC, id DESC

-- name: prunable_runs
-- Locked, so that whoever prunes at the same time takes others, and nobody forks one of them now.
SELECT id FROM holdfast.runs
WHERE ns = :ns AND closed_at < :before
ORDER BY closed_at, id
LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: prune_runs
-- One statement takes locked runs and everything of them.
WITH old AS MATERIALIZED (SELECT unnest(:ids::text[]) AS id)
, e AS (DELETE FROM holdfast.events t USING old o WHERE t.ns = :ns AND t.run = o.id)
, b AS (DELETE FROM holdfast.bases t USING old o WHERE t.ns = :ns AND t.run = o.id)
, i AS (DELETE FROM holdfast.inbox t USING old o WHERE t.ns = :ns AND t.run = o.id)
, g AS (DELETE FROM holdfast.run_tags t USING old o WHERE t.ns = :ns AND t.run = o.id)
, p AS (DELETE FROM holdfast.progress t USING old o WHERE t.ns = :ns AND t.run = o.id)
, l AS (DELETE FROM holdfast.logs t USING old o WHERE t.ns = :ns AND t.run = o.id)
, c AS (DELETE FROM holdfast.children t USING old o WHERE t.ns = :ns AND t.run = o.id)
, w AS (DELETE FROM holdfast.waits t USING old o WHERE t.ns = :ns AND t.run = o.id)
, k AS (DELETE FROM holdfast.tickets t USING old o WHERE t.ns = :ns AND t.run = o.id)
, j AS (DELETE FROM holdfast.jobs t USING old o WHERE t.ns = :ns AND t.run = o.id)
, f AS (DELETE FROM holdfast.forks t USING old o WHERE t.ns = :ns AND t.run = o.id)
DELETE FROM holdfast.runs t USING old o WHERE t.ns = :ns AND t.id = o.id
