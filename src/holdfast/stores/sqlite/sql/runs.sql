-- name: create_run
INSERT INTO runs (
    ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at,
    inbox_seq, inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at,
    deadline, queue, priority, number
)
VALUES (
    ?, ?, ?, ?, ?, '', 1, ?, 1, ?, ?, 0, 0, 0, 0, ?, ?, ?, NULL, ?, ?, ?,
    (SELECT coalesce(max(number), 0) + 1 FROM runs)
)
ON CONFLICT (ns, id) DO NOTHING

-- name: import_run
INSERT INTO runs (
    ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at,
    inbox_seq, inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at,
    deadline, queue, priority, number
)
VALUES (
    :ns, :id, :workflow, :version, :status, :reason, :generation, :epoch, :seq, :owner, :wake_at,
    :inbox_seq, :inbox_read, :cancel, :strikes, :input_digest, :created_at, :updated_at, :closed_at,
    :deadline, :queue, :priority, (SELECT coalesce(max(number), 0) + 1 FROM runs)
)
ON CONFLICT (ns, id) DO NOTHING

-- name: run
SELECT ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at, deadline, queue,
    priority
FROM current_runs WHERE ns = ? AND id = ?

-- name: stored_run
-- The row alone: of a run that is held it may lag. To prepare takes a third of what `run` takes.
SELECT ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at, deadline, queue,
    priority
FROM runs WHERE ns = ? AND id = ?

-- name: advance_run
-- A turn that only goes on, by its one event: the row of its run is read, not written. What comes
-- before must be there, and nothing in its place.
INSERT INTO run_events (
    place, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
)
SELECT number << 32 | ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
FROM runs
WHERE ns = ?1 AND id = ?2 AND owner = ?15 AND epoch = ?5 AND status = 'running' AND cancel <> 1
    AND inbox_seq = ?14 AND strikes = 0
    AND (seq = ?3 - 1 OR seq < ?3 - 1 AND EXISTS (
        SELECT 1 FROM run_events WHERE place = (number << 32 | ?3) - 1
    ))
    AND NOT EXISTS (SELECT 1 FROM run_events WHERE place = number << 32 | ?3)

-- name: advance_run_by_two
-- The same of two events, as those of a graph's node: one statement needs no transaction around it.
INSERT INTO run_events (
    place, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
)
WITH added (seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload) AS (
    VALUES (?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13),
        (?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26)
)
SELECT number << 32 | a.seq, a.generation, a.epoch, kind, key, asked_seq, at, took, digest, codec,
    payload
FROM runs r CROSS JOIN added a
WHERE ns = ?1 AND id = ?2 AND owner = ?15 AND r.epoch = ?5 AND status = 'running' AND cancel <> 1
    AND inbox_seq = ?14 AND strikes = 0
    AND (r.seq = ?3 - 1 OR r.seq < ?3 - 1 AND EXISTS (
        SELECT 1 FROM run_events WHERE place = (number << 32 | ?3) - 1
    ))
    AND NOT EXISTS (SELECT 1 FROM run_events WHERE place = number << 32 | ?3)

-- name: close_run
-- Without RETURNING, which costs four times the update itself.
UPDATE runs
SET seq = ?4 + ?5, status = ?6, reason = ?7, owner = NULL, updated_at = ?8, closed_at = ?8,
    strikes = 0
WHERE ns = ?1 AND id = ?2 AND owner = ?10 AND epoch = ?3 AND status = 'running' AND cancel <> 1
    AND inbox_seq = ?9
    AND ?4 = (SELECT seq FROM current_runs WHERE ns = ?1 AND id = ?2)

-- name: inbox_of_run
SELECT inbox_seq, cancel FROM runs WHERE ns = ? AND id = ?

-- name: settle_run
UPDATE runs
SET seq = :seq + :count,
    status = :status,
    reason = :reason,
    owner = iif(:status = 'running', owner, NULL),
    wake_at = :wake_at,
    inbox_read = coalesce(:inbox_read, inbox_read),
    cancel = iif(:takes_cancel, 2, cancel),
    strikes = iif(:progresses, 0, strikes),
    updated_at = :at,
    closed_at = :closed_at
WHERE ns = :ns AND id = :run
    AND owner = :owner AND epoch = :epoch AND status = 'running'
    AND :seq = (SELECT seq FROM current_runs WHERE ns = :ns AND id = :run)
    AND (cancel <> 1 OR :takes_cancel)
    AND (:inbox_seq IS NULL OR inbox_seq = :inbox_seq)
    AND :not_before <= :now

-- name: put_in_run
UPDATE runs
SET (seq, updated_at) = (SELECT seq, updated_at FROM current_runs WHERE ns = :ns AND id = :run),
    inbox_seq = inbox_seq + 1,
    cancel = iif(:cancels, 1, cancel),
    strikes = iif(:cancels, 0, strikes),
    wake_at = CASE
        WHEN status = 'waiting' OR (:cancels AND status IN (SELECT value FROM json_each(:aside)))
        THEN :now
        WHEN :cancels AND status = 'pending' THEN min(wake_at, :now)
        ELSE wake_at
    END,
    status = iif(
        :cancels AND status IN (SELECT value FROM json_each(:aside)), 'waiting', status
    )
WHERE ns = :ns AND id = :run
    AND status NOT IN (SELECT value FROM json_each(:closed))
    AND status IS NOT :unless
    AND NOT (:cancels AND cancel <> 0)
    AND NOT EXISTS (SELECT 1 FROM inbox WHERE ns = :ns AND run = :run AND id = :message)
RETURNING
    ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at, deadline, queue,
    priority

-- name: move_run
UPDATE runs
SET status = :status,
    reason = :reason,
    seq = (SELECT seq FROM current_runs WHERE ns = :ns AND id = :run) + 1,
    epoch = epoch + 1,
    generation = generation + :reopens,
    owner = NULL,
    wake_at = :wake_at,
    strikes = 0,
    updated_at = :at,
    closed_at = :closed_at,
    deadline = iif(:reopens, :deadline, deadline),
    inbox_read = inbox_read - :returned,
    cancel = iif(:forgets_cancel AND cancel = 2, 0, cancel)
WHERE ns = :ns AND id = :run
    AND status IN (SELECT value FROM json_each(:origins))
    AND strikes >= :strikes
    AND (:seq IS NULL OR :seq = (SELECT seq FROM current_runs WHERE ns = :ns AND id = :run))
RETURNING
    ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at, deadline, queue,
    priority

-- name: claim_runs
UPDATE runs
SET status = 'running', reason = '', owner = ?, epoch = epoch + 1, wake_at = NULL, updated_at = ?
WHERE ns = ? AND id = ?

-- name: next_lane
-- A lane is a queue at one priority. This is the next one of a queue, with the time of its first
-- run. Asked again and again, it hops from lane to lane in the index, however many runs each of
-- them holds; as one recursive statement it would take longer to prepare than all of a claim.
SELECT queue, priority, wake_at FROM runs INDEXED BY runs_claim
WHERE ns = ? AND queue = ? AND priority > ? AND wake_at IS NOT NULL
ORDER BY priority, wake_at
LIMIT 1

-- name: next_queue
-- The first lane of the next queue. Not one statement with the other: to compare both columns at
-- once, SQLite walks through the lane that is to be left behind.
SELECT queue, priority, wake_at FROM runs INDEXED BY runs_claim
WHERE ns = ? AND queue > ? AND wake_at IS NOT NULL
ORDER BY queue, priority, wake_at
LIMIT 1

-- name: claimable_runs
SELECT ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at, deadline, queue,
    priority
FROM runs INDEXED BY runs_claim
WHERE ns = :ns AND queue = :queue AND priority = :priority AND wake_at <= :now
    AND status IN ('pending', 'waiting', 'paused', 'blocked')
    AND (workflow IN (SELECT value FROM json_each(:workflows))
        OR workflow || '/' || version IN (SELECT value FROM json_each(:workflows)))
    AND (strikes < 2 OR :suspects > 0)
ORDER BY wake_at, id
LIMIT :limit

-- name: named_run
-- One that a hint named, if it can be claimed without a second thought: no suspect, in no line.
SELECT ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at, deadline, queue,
    priority
FROM runs
WHERE ns = :ns AND id = :run AND wake_at <= :now
    AND status IN ('pending', 'waiting', 'paused', 'blocked') AND strikes < 2
    AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.ns = :ns AND name = queue)

-- name: next_wake_at
SELECT wake_at FROM runs INDEXED BY runs_claim
WHERE ns = :ns AND queue = :queue AND priority = :priority
    AND wake_at > :now AND wake_at < 253402300799000000
    AND status IN ('pending', 'waiting', 'paused', 'blocked')
    AND (workflow IN (SELECT value FROM json_each(:workflows))
        OR workflow || '/' || version IN (SELECT value FROM json_each(:workflows)))
ORDER BY wake_at
LIMIT 1

-- name: unregistered_workflows
SELECT DISTINCT rtrim(workflow || '/' || version, '/') AS named FROM (
    SELECT workflow, version FROM runs INDEXED BY runs_claim
    WHERE ns = :ns AND queue = :queue AND priority = :priority AND wake_at <= :now
        AND status IN ('pending', 'waiting', 'paused', 'blocked')
    ORDER BY wake_at
    LIMIT :limit
)
WHERE workflow NOT IN (SELECT value FROM json_each(:workflows))
    AND workflow || '/' || version NOT IN (SELECT value FROM json_each(:workflows))

-- name: unserved_queues
-- Hops as `next_lane` does; at most a hundred queues are looked at.
WITH RECURSIVE used (queue, n) AS (
    SELECT min(queue), 1 FROM runs INDEXED BY runs_claim WHERE ns = :ns AND wake_at IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(queue) FROM runs INDEXED BY runs_claim
        WHERE ns = :ns AND wake_at IS NOT NULL AND queue > used.queue
    ), n + 1
    FROM used WHERE used.queue IS NOT NULL AND n < 100
)
SELECT queue FROM used
WHERE queue NOT IN (SELECT value FROM json_each(:queues))
    AND EXISTS (
        SELECT 1 FROM json_each(:priorities) p CROSS JOIN runs INDEXED BY runs_claim
        WHERE runs.ns = :ns AND runs.queue = used.queue AND runs.priority = p.value
            AND runs.wake_at <= :before
    )
ORDER BY queue

-- name: runs_of_worker
SELECT ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at, deadline, queue,
    priority
FROM current_runs WHERE owner = ? ORDER BY priority, ns, id

-- name: held_runs
SELECT id, inbox_seq > inbox_read FROM runs WHERE owner = ? AND ns = ?

-- name: holds_runs
SELECT EXISTS (SELECT 1 FROM runs WHERE owner = :worker)

-- name: is_owner
SELECT EXISTS (SELECT 1 FROM runs WHERE owner = :worker)
    OR EXISTS (SELECT 1 FROM jobs WHERE owner = :worker)

-- name: release_runs_of
-- Up to date as `current_runs` has it, in a form that takes half the time to prepare: whoever comes
-- after a crash waits for that.
UPDATE runs
SET seq = max(seq, coalesce((
        SELECT max(place) & 4294967295 FROM run_events
        WHERE place BETWEEN number << 32 AND number << 32 | 4294967295
    ), 0)),
    updated_at = max(updated_at, coalesce((
        SELECT at FROM run_events
        WHERE place BETWEEN number << 32 AND number << 32 | 4294967295
        ORDER BY place DESC LIMIT 1
    ), 0)),
    status = 'waiting', owner = NULL, wake_at = :now, strikes = strikes + 1, reason = :reason
WHERE owner = :worker

-- name: find_runs
SELECT ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at, deadline, queue,
    priority
FROM current_runs
WHERE ns = :ns
    AND (:before_at IS NULL OR (created_at, id) < (:before_at, :before_id))
    AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
    AND (:workflow = '' OR workflow = :workflow)
    AND (:id_prefix = '' OR substr(id, 1, length(:id_prefix)) = :id_prefix)
    AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
    AND created_at >= :created_after
ORDER BY created_at DESC, id DESC
LIMIT :limit

-- name: find_blocked_runs
-- As find_runs, for what workers look for every minute. An index that holds few rows is chosen only
-- if its condition stands in the statement as it is.
SELECT ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at, deadline, queue,
    priority
FROM runs
WHERE ns = :ns AND status = 'blocked'
    AND (:before_at IS NULL OR (created_at, id) < (:before_at, :before_id))
ORDER BY created_at DESC, id DESC
LIMIT :limit

-- name: find_labelled_runs
-- As find_runs, for filters by tag or attribute: the `+` keeps SQLite from walking through all runs
-- in their order where an index leads to the few that fit.
SELECT ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at, deadline, queue,
    priority
FROM current_runs
WHERE ns = :ns
    AND (:before_at IS NULL OR (created_at, id) < (:before_at, :before_id))
    AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
    AND (:workflow = '' OR workflow = :workflow)
    AND (:id_prefix = '' OR substr(id, 1, length(:id_prefix)) = :id_prefix)
    AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
    AND +created_at >= :created_after
ORDER BY +created_at DESC, +id DESC
LIMIT :limit

-- name: find_runs_by_id
SELECT ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at, deadline, queue,
    priority
FROM current_runs
WHERE ns = :ns AND id IN (SELECT value FROM json_each(:ids))
    AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
    AND created_at >= :created_after
ORDER BY created_at DESC, id DESC

-- name: prunable_runs
SELECT id FROM runs
WHERE ns = ? AND closed_at < ?
ORDER BY closed_at, id
LIMIT ?

-- name: delete_run
DELETE FROM runs WHERE ns = ? AND id = ?
