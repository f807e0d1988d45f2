-- name: buckets
-- Every bucket each run is in, as model/buckets.py says it: exactly one, or the run is lost.
SELECT r.ns, r.id, concat_ws(' ',
    CASE WHEN r.status IN ('pending', 'waiting') AND r.owner IS NULL AND r.wake_at <= c.now
        THEN 'claimable' END,
    CASE WHEN r.status = 'running' AND r.owner IS NOT NULL
        AND coalesce(w.lease_until, 0) > c.now THEN 'leased' END,
    CASE WHEN r.status = 'running' AND r.owner IS NOT NULL
        AND coalesce(w.lease_until, 0) <= c.now THEN 'orphaned' END,
    CASE WHEN r.status IN ('pending', 'waiting') AND r.owner IS NULL AND r.wake_at > c.now
        THEN 'due' END,
    CASE WHEN r.status = 'waiting' AND r.owner IS NULL AND r.wake_at IS NULL
        AND r.inbox_seq <= r.inbox_read AND r.cancel <> 1 THEN 'waiting' END,
    CASE WHEN r.status = 'paused' AND r.owner IS NULL THEN 'paused' END,
    CASE WHEN r.status = 'blocked' AND r.owner IS NULL THEN 'blocked' END,
    CASE WHEN r.status = 'quarantined' AND r.owner IS NULL THEN 'quarantined' END,
    CASE WHEN r.status = ANY (:closed::text[]) AND r.owner IS NULL THEN 'closed' END
) AS names
FROM holdfast.runs r
LEFT JOIN holdfast.workers w ON w.id = r.owner
CROSS JOIN (SELECT holdfast.clock(:now::int8) AS now OFFSET 0) c
ORDER BY r.ns, r.id

-- name: dump_runs
SELECT * FROM holdfast.runs ORDER BY ns, id

-- name: dump_events
SELECT
    ns, run,
    kind, at, key, payload, asked_seq, digest, took, seq, epoch, generation, codec, superseded_by
FROM holdfast.events
ORDER BY ns, run, seq

-- name: dump_inbox
SELECT ns, run, id, kind, name, payload, at, n, state, reply FROM holdfast.inbox ORDER BY ns, run, n

-- name: dump_definitions
SELECT ns, workflow, version, shape, first_at, last_at FROM holdfast.definitions
ORDER BY ns, workflow, version, shape

-- name: dump_workers
SELECT id, lease_until FROM holdfast.workers ORDER BY id

-- name: sizes
-- How much room each table takes, its payloads included, and how much of it its indexes.
SELECT c.relname::text AS name, pg_table_size(c.oid) AS table_bytes,
    pg_indexes_size(c.oid) AS index_bytes, s.n_live_tup AS rows, s.n_dead_tup AS dead_rows
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE n.nspname = 'holdfast' AND c.relkind = 'r'
ORDER BY c.relname

-- name: oldest_transaction
-- Seconds for which somebody here keeps dead rows from being cleared away; 0 if nobody does.
SELECT coalesce(ceil(max(extract(epoch FROM clock_timestamp() - xact_start))), 0)::int8
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND backend_type = 'client backend'
    AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)

-- name: backlog
-- By the index of what can be claimed: closed runs are not in it, however many there are.
SELECT
    r.workflow, r.queue, count(*) FILTER (WHERE r.wake_at <= c.now),
    count(*) FILTER (WHERE r.wake_at > c.now AND t.run IS NULL),
    coalesce(min(r.wake_at) FILTER (WHERE r.wake_at <= c.now), 0),
    count(*) FILTER (WHERE r.wake_at > c.now AND t.run IS NOT NULL)
FROM holdfast.runs r
LEFT JOIN holdfast.tickets t ON t.ns = r.ns AND t.run = r.id AND t.state = 'waiting'
CROSS JOIN (SELECT holdfast.clock(:now::int8) AS now OFFSET 0) c
WHERE r.ns = :ns::text AND r.wake_at IS NOT NULL AND r.status IN ('pending', 'waiting')
GROUP BY r.workflow, r.queue
ORDER BY r.workflow, r.queue
