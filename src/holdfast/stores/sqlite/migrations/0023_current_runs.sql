-- The row of a run that is held lags behind its events: a turn that only goes on writes the events
-- and leaves the row as it is. This is how long such a run is, and when it last went on; every other
-- run is as its row says. Whoever writes the row brings both up to date.

CREATE VIEW current_runs AS
SELECT ns, id, workflow, version, status, reason, r.generation AS generation, r.epoch AS epoch,
    max(seq, coalesce(place & 4294967295, 0)) AS seq,
    owner, wake_at, inbox_seq, inbox_read, cancel, strikes, input_digest, created_at,
    max(updated_at, coalesce(at, 0)) AS updated_at,
    closed_at, deadline, queue, priority, number
FROM runs r LEFT JOIN run_events ON status = 'running' AND place = (
    SELECT max(place) FROM run_events
    WHERE place BETWEEN number << 32 AND number << 32 | 4294967295
);

DROP VIEW workflow_runs;

CREATE VIEW workflow_runs AS
SELECT r.ns, r.id, r.workflow AS workflow_name, r.status,
    CASE s.codec WHEN 0 THEN CAST(s.payload AS TEXT) END AS params,
    iif(r.status = 'completed', ended, NULL) AS result,
    CASE WHEN r.status <> 'completed'
        THEN coalesce(json_extract(ended, '$.type') || ': ' || json_extract(ended, '$.message'),
            json_extract(ended, '$.reason'), iif(r.closed_at IS NULL, NULL, r.status))
        END AS error_message,
    strftime('%Y-%m-%dT%H:%M:%fZ', s.at / 1e6, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', r.closed_at / 1e6, 'unixepoch') AS completed_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', r.created_at / 1e6, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', r.updated_at / 1e6, 'unixepoch') AS updated_at,
    r.codec, r.size
FROM (
    SELECT r.*, c.codec, length(payload) AS size,
        CASE c.codec WHEN 0 THEN CAST(payload AS TEXT) END AS ended
    FROM current_runs r
    LEFT JOIN run_events c ON place = number << 32 | seq AND closed_at IS NOT NULL
) r
LEFT JOIN run_events s ON s.place = (
    WITH RECURSIVE line (run, depth) AS (
        SELECT r.id, 0
        UNION ALL
        SELECT origin, depth + 1 FROM line JOIN forks f ON f.ns = r.ns AND f.run = line.run
    )
    SELECT number << 32 | 1 FROM line JOIN runs o ON o.ns = r.ns AND o.id = run
    ORDER BY depth DESC LIMIT 1
);
