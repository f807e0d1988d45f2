-- What auditors read: the runs, and the nodes and ways of graphs, told by the events that count.
-- Nothing is stored twice. What is encrypted or in a blob has its size and codec, and no text.

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
    SELECT r.*, c.codec, length(c.payload) AS size,
        CASE c.codec WHEN 0 THEN CAST(c.payload AS TEXT) END AS ended
    FROM runs r LEFT JOIN events c
        ON c.ns = r.ns AND c.run = r.id AND c.seq = r.seq AND r.closed_at IS NOT NULL
) r
LEFT JOIN events s ON s.ns = r.ns AND s.seq = 1 AND s.run = coalesce((
    WITH RECURSIVE line (run) AS (
        SELECT origin FROM forks f WHERE f.ns = r.ns AND f.run = r.id
        UNION ALL
        SELECT f.origin FROM line JOIN forks f ON f.ns = r.ns AND f.run = line.run
    )
    SELECT run FROM line WHERE (r.ns, run) NOT IN (SELECT ns, run FROM forks)
), r.id);

-- Of forks, too: what they share with others, as it counted then.
CREATE VIEW living_events AS
WITH RECURSIVE line (ns, run, origin, upto, length, depth) AS (
    SELECT ns, run, run, 1 << 62, 1 << 62, 0 FROM forks
    UNION ALL
    SELECT line.ns, line.run, f.origin, min(f.at, line.upto),
        CASE WHEN f.at < line.length THEN f.length ELSE min(f.length, line.length) END,
        line.depth + 1
    FROM line JOIN forks f ON f.ns = line.ns AND f.run = line.origin
)
SELECT ns, run, seq, kind, key, asked_seq, at, took, codec,
    CASE codec WHEN 0 THEN CAST(payload AS TEXT) END AS told,
    iif(codec = 2, CAST(substr(payload, instr(payload, x'3a') + 1) AS INTEGER), length(payload))
        AS size
FROM (
    SELECT ns, run, seq, kind, key, asked_seq, at, took, codec, payload
    FROM events WHERE superseded_by IS NULL
    UNION ALL
    SELECT line.ns, line.run, e.seq, kind, key, asked_seq, e.at, took, codec, payload
    FROM line JOIN events e ON e.ns = line.ns AND e.run = line.origin AND e.seq <= line.upto
    WHERE line.depth > 0 AND (superseded_by IS NULL OR superseded_by > line.length)
        AND NOT EXISTS (
            SELECT 1 FROM line near JOIN events n ON n.ns = near.ns AND n.run = near.origin
            WHERE near.ns = line.ns AND near.run = line.run AND near.depth < line.depth
                AND n.seq = e.seq AND n.seq <= near.upto
        )
);

-- The ways that were taken; `scope` is the branch or graph in which. Each ends the visit of a node,
-- whose own event is the one before it, if that was asked for when the visit began.
CREATE VIEW ways AS
SELECT ns, run, seq, key, at, took, scope, told, input, iif(is_own, last_codec, codec) AS codec,
    substr(key, length(scope) + 1, length(rtrim(key, '0123456789')) - length(scope) - 6) AS node,
    json_extract(told, '$.to') AS target, json_extract(told, '$.fork') AS branches,
    json_extract(told, '$.iteration') AS iteration, json_extract(told, '$.next') AS next_iteration,
    iif(is_own, last_told, NULL) AS output, iif(is_own, last_size, NULL) AS size,
    lag(iif(is_own AND json_extract(told, '$.fork') IS NULL, last_told, NULL))
        OVER (PARTITION BY ns, run, scope ORDER BY seq) AS before
FROM (
    SELECT *, last_kind IN ('step.completed', 'child.closed') AND last_seq = asked_seq
        AND last_scope = scope AND coalesce(last_asked = json_extract(told, '$.began'), 1) AS is_own
    FROM (
        SELECT *, lag(kind) OVER w AS last_kind, lag(seq) OVER w AS last_seq,
            lag(scope) OVER w AS last_scope, lag(asked_seq) OVER w AS last_asked,
            lag(told) OVER w AS last_told, lag(size) OVER w AS last_size,
            lag(codec) OVER w AS last_codec, first_value(told) OVER w AS input
        FROM (
            SELECT *, rtrim(key, replace(key, '/', '')) AS scope FROM living_events
            WHERE kind IN ('run.started', 'step.completed', 'child.closed', 'note.decided')
        )
        WINDOW w AS (PARTITION BY ns, run ORDER BY seq)
    )
)
WHERE kind = 'note.decided' AND (key LIKE '%.next#%' OR key LIKE '%.join#%');

CREATE VIEW stages AS
SELECT s.ns, s.run || ' ' || s.scope || s.node || ':' || coalesce(s.iteration, s.seq) AS id,
    s.run AS run_id, s.node AS node_name, s.iteration,
    CASE WHEN s.status IS NOT NULL THEN s.status WHEN r.closed_at IS NULL THEN 'started'
        ELSE 'failed' END AS status,
    s.input AS input_snapshot, s.output AS output_snapshot,
    coalesce(s.took, r.closed_at - s.at) / 1000 AS duration_ms,
    iif(s.status IS NULL AND r.closed_at IS NOT NULL, r.status, s.error) AS error_message,
    strftime('%Y-%m-%dT%H:%M:%fZ', s.at / 1e6, 'unixepoch') AS created_at,
    rtrim(s.scope, '/') AS within, s.codec, s.size
FROM (
    SELECT *, lead(seq) OVER (PARTITION BY ns, run, node, iteration ORDER BY seq) AS ended
    FROM (
        SELECT ns, run, seq, scope, node, iteration, 'completed' AS status, at - took AS at, took,
            iif(iteration = 1 AND scope = '', input, before) AS input, output, NULL AS error,
            codec, size
        FROM ways WHERE key LIKE '%.next#%' AND node <> 'START'
        UNION ALL
        SELECT ns, run, seq, coalesce(json_extract(told, '$.details.within'), ''),
            json_extract(told, '$.details.node'), json_extract(told, '$.details.iteration'),
            'failed', at - json_extract(told, '$.details.took'),
            json_extract(told, '$.details.took'), NULL, NULL, json_extract(told, '$.message'),
            codec, NULL
        FROM living_events
        WHERE kind = 'run.failed' AND json_extract(told, '$.details.iteration') IS NOT NULL
        UNION ALL
        SELECT ns, run, seq, scope, target, next_iteration, NULL, at, NULL, output, NULL, NULL,
            codec, NULL
        FROM ways WHERE target IS NOT NULL AND next_iteration IS NOT NULL
        UNION ALL
        SELECT ns, run, seq, scope, b.value, next_iteration + b.key, NULL, w.at, NULL, output, NULL,
            NULL, codec, NULL
        FROM ways w, json_each(w.branches) b
    )
) s
JOIN runs r ON r.ns = s.ns AND r.id = s.run
WHERE s.status IS NOT NULL OR s.ended IS NULL;

CREATE VIEW decisions AS
SELECT ns, run || ' ' || seq || '.' || n AS id, run AS run_id, node AS from_node,
    target AS to_node, predicate AS predicate_name, held AS predicate_result, reason,
    strftime('%Y-%m-%dT%H:%M:%fZ', at / 1e6, 'unixepoch') AS created_at,
    rtrim(scope, '/') AS within, codec
FROM (
    SELECT ns, run, seq, 0 AS n, scope, node, target, json_extract(told, '$.by') AS predicate,
        iif(target IS NULL, NULL, 1) AS held, at, codec,
        iif(json_extract(told, '$.by') IS NULL, 'always', 'it held') AS reason
    FROM ways WHERE key LIKE '%.next#%' AND branches IS NULL
    UNION ALL
    SELECT ns, run, seq, b.key, scope, node, b.value, NULL, 1, w.at, codec,
        'fork, joined at ' || json_extract(told, '$.join')
    FROM ways w, json_each(w.branches) b
    UNION ALL
    SELECT ns, run, seq, x.key + 1, scope, node, json_extract(x.value, '$.to'),
        json_extract(x.value, '$.by'), 0, w.at, codec, 'it did not hold'
    FROM ways w, json_each(w.told, '$.rejected') x
);

CREATE VIEW checkpoints AS
SELECT c.ns, c.run AS run_id, c.node AS checkpoint_node, c.iteration, c.state AS state_data,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.at / 1e6, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.at / 1e6, 'unixepoch') AS updated_at,
    rtrim(c.scope, '/') AS within, c.seq
FROM (
    SELECT *, lead(output) OVER (PARTITION BY ns, run, scope, node, iteration ORDER BY seq) AS state
    FROM (
        SELECT ns, run, seq, at, scope,
            substr(key, length(scope) + 1, length(rtrim(key, '0123456789')) - length(scope) - 1)
                AS node,
            CAST(substr(key, length(rtrim(key, '0123456789')) + 1) AS INTEGER) AS iteration,
            NULL AS output, 1 AS is_mark, json_extract(told, '$.preserve') AS is_kept
        FROM (
            SELECT *, rtrim(key, replace(key, '/', '')) AS scope
            FROM living_events WHERE kind = 'note.checkpoint'
        )
        UNION ALL
        SELECT ns, run, seq, at, scope, node, iteration, output, 0, 0
        FROM ways WHERE key LIKE '%.next#%'
    )
) c
JOIN runs r ON r.ns = c.ns AND r.id = c.run
WHERE c.is_mark AND (r.status <> 'completed' OR c.is_kept);
