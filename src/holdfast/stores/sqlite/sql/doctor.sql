-- name: buckets
-- Every bucket each run is in, as model/buckets.py says it: exactly one, or the run is lost.
SELECT runs.ns, runs.id, trim(
    iif(status IN ('pending', 'waiting') AND owner IS NULL AND wake_at <= :now, ' claimable', '')
    || iif(status = 'running' AND owner IS NOT NULL
           AND coalesce(workers.lease_until, 0) > :now, ' leased', '')
    || iif(status = 'running' AND owner IS NOT NULL
           AND coalesce(workers.lease_until, 0) <= :now, ' orphaned', '')
    || iif(status IN ('pending', 'waiting') AND owner IS NULL AND wake_at > :now, ' due', '')
    || iif(status = 'waiting' AND owner IS NULL AND wake_at IS NULL
           AND inbox_seq <= inbox_read AND cancel <> 1, ' waiting', '')
    || iif(status = 'paused' AND owner IS NULL, ' paused', '')
    || iif(status = 'blocked' AND owner IS NULL, ' blocked', '')
    || iif(status = 'quarantined' AND owner IS NULL, ' quarantined', '')
    || iif(status IN (SELECT value FROM json_each(:closed)) AND owner IS NULL, ' closed', '')
)
FROM runs LEFT JOIN workers ON workers.id = runs.owner
ORDER BY runs.ns, runs.id

-- name: dump_runs
SELECT ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at, deadline, queue,
    priority
FROM current_runs ORDER BY ns, id

-- name: dump_events
-- Those of no run, too: where they are, nothing should be.
SELECT
    coalesce(r.ns, ''), coalesce(r.id, 'run number ' || (place >> 32)),
    kind, at, key, payload, asked_seq, digest, took, place & 4294967295, h.epoch, h.generation,
    codec, superseded_by
FROM run_events h LEFT JOIN runs r ON r.number = h.place >> 32
ORDER BY place

-- name: dump_inbox
SELECT ns, run, id, kind, name, payload, at, n, state, reply FROM inbox ORDER BY ns, run, n

-- name: dump_definitions
SELECT ns, workflow, version, shape, first_at, last_at FROM definitions
ORDER BY ns, workflow, version, shape

-- name: dump_workers
SELECT id, lease_until FROM workers ORDER BY id

-- name: backlog
-- By the index of what can be claimed: closed runs are not in it, however many there are.
SELECT
    r.workflow, r.queue, count(*) FILTER (WHERE r.wake_at <= :now),
    count(*) FILTER (WHERE r.wake_at > :now AND t.run IS NULL),
    coalesce(min(r.wake_at) FILTER (WHERE r.wake_at <= :now), 0),
    count(*) FILTER (WHERE r.wake_at > :now AND t.run IS NOT NULL)
FROM runs r INDEXED BY runs_claim
LEFT JOIN tickets t ON t.ns = r.ns AND t.run = r.id AND t.state = 'waiting'
WHERE r.ns = :ns AND r.wake_at IS NOT NULL AND r.status IN ('pending', 'waiting')
GROUP BY r.workflow, r.queue
ORDER BY r.workflow, r.queue
