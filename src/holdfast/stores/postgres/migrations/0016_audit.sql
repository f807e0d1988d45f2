-- What auditors read: the runs, and the nodes and ways of graphs, told by the events that count.
-- Nothing is stored twice. What is encrypted or in a blob has its size and codec, and no text.

CREATE VIEW holdfast.workflow_runs AS
SELECT r.ns, r.id, r.workflow AS workflow_name, r.status,
    CASE s.codec WHEN 0 THEN convert_from(s.payload, 'UTF8')::json END AS params,
    CASE WHEN r.status = 'completed' THEN r.ended END AS result,
    CASE WHEN r.status <> 'completed' THEN coalesce(
        (r.ended ->> 'type') || ': ' || (r.ended ->> 'message'), r.ended ->> 'reason',
        CASE WHEN r.closed_at IS NOT NULL THEN r.status END
    ) END AS error_message,
    to_timestamp(s.at / 1e6) AS started_at, to_timestamp(r.closed_at / 1e6) AS completed_at,
    to_timestamp(r.created_at / 1e6) AS created_at, to_timestamp(r.updated_at / 1e6) AS updated_at,
    r.codec, r.size
FROM (
    SELECT r.*, c.codec, length(c.payload) AS size,
        CASE c.codec WHEN 0 THEN convert_from(c.payload, 'UTF8')::json END AS ended
    FROM holdfast.runs r LEFT JOIN holdfast.events c
        ON c.ns = r.ns AND c.run = r.id AND c.seq = r.seq AND r.closed_at IS NOT NULL
) r
LEFT JOIN holdfast.events s ON s.ns = r.ns AND s.seq = 1 AND s.run = coalesce((
    WITH RECURSIVE line (run) AS (
        SELECT f.origin FROM holdfast.forks f WHERE f.ns = r.ns AND f.run = r.id
        UNION ALL
        SELECT f.origin FROM line JOIN holdfast.forks f ON f.ns = r.ns AND f.run = line.run
    )
    SELECT line.run FROM line
    WHERE NOT EXISTS (SELECT 1 FROM holdfast.forks f WHERE f.ns = r.ns AND f.run = line.run)
), r.id);

-- Of forks, too: what they share with others, as it counted then.
CREATE VIEW holdfast.living_events AS
SELECT ns, run, seq, kind, key, asked_seq, at, took, codec,
    CASE codec WHEN 0 THEN convert_from(payload, 'UTF8')::json END AS told,
    CASE codec WHEN 2 THEN split_part(encode(payload, 'escape'), ':', 2)::int8
        ELSE length(payload) END AS size
FROM (
    SELECT ns, run, seq, kind, key, asked_seq, at, took, codec, payload
    FROM holdfast.events WHERE superseded_by IS NULL
    UNION ALL
    SELECT ns, run, seq, kind, key, asked_seq, at, took, codec, payload
    FROM (
        WITH RECURSIVE line (ns, run, origin, upto, length, depth) AS (
            SELECT ns, run, run, 1::int8 << 62, 1::int8 << 62, 0 FROM holdfast.forks
            UNION ALL
            SELECT line.ns, line.run, f.origin, least(f.at, line.upto),
                CASE WHEN f.at < line.length THEN f.length
                    ELSE least(f.length, line.length) END,
                line.depth + 1
            FROM line JOIN holdfast.forks f ON f.ns = line.ns AND f.run = line.origin
        )
        SELECT line.ns, line.run, e.seq, e.kind, e.key, e.asked_seq, e.at, e.took, e.codec,
            e.payload
        FROM line JOIN holdfast.events e
            ON e.ns = line.ns AND e.run = line.origin AND e.seq <= line.upto
        WHERE line.depth > 0 AND (e.superseded_by IS NULL OR e.superseded_by > line.length)
            AND NOT EXISTS (
                SELECT 1 FROM line near
                JOIN holdfast.events n ON n.ns = near.ns AND n.run = near.origin
                WHERE near.ns = line.ns AND near.run = line.run AND near.depth < line.depth
                    AND n.seq = e.seq AND n.seq <= near.upto
            )
    ) shared
) e;

-- The ways that were taken; `scope` is the branch or graph in which. Each ends the visit of a node,
-- whose own event is the one before it, if that was asked for when the visit began.
CREATE VIEW holdfast.ways AS
SELECT ns, run, seq, key, at, took, scope, told, input,
    CASE WHEN is_own THEN last_codec ELSE codec END AS codec,
    regexp_replace(substr(key, length(scope) + 1), '\.(next|join)#[0-9]+$', '') AS node,
    told ->> 'to' AS target, told -> 'fork' AS branches,
    (told ->> 'iteration')::int AS iteration, (told ->> 'next')::int AS next_iteration,
    CASE WHEN is_own THEN last_told END AS output, CASE WHEN is_own THEN last_size END AS size,
    lag(CASE WHEN is_own AND told -> 'fork' IS NULL THEN last_told END)
        OVER (PARTITION BY ns, run, scope ORDER BY seq) AS before
FROM (
    SELECT *, last_kind IN ('step.completed', 'child.closed') AND last_seq = asked_seq
        AND last_scope = scope AND coalesce(last_asked = (told ->> 'began')::int8, true) AS is_own
    FROM (
        SELECT *, lag(kind) OVER w AS last_kind, lag(seq) OVER w AS last_seq,
            lag(scope) OVER w AS last_scope, lag(asked_seq) OVER w AS last_asked,
            lag(told) OVER w AS last_told, lag(size) OVER w AS last_size,
            lag(codec) OVER w AS last_codec, first_value(told) OVER w AS input
        FROM (
            SELECT *, regexp_replace(key, '[^/]*$', '') AS scope FROM holdfast.living_events
            WHERE kind IN ('run.started', 'step.completed', 'child.closed', 'note.decided')
        ) scoped
        WINDOW w AS (PARTITION BY ns, run ORDER BY seq)
    ) beside
) owned
WHERE kind = 'note.decided' AND (key LIKE '%.next#%' OR key LIKE '%.join#%');

CREATE VIEW holdfast.stages AS
SELECT s.ns, s.run || ' ' || s.scope || s.node || ':' || coalesce(s.iteration, s.seq) AS id,
    s.run AS run_id, s.node AS node_name, s.iteration,
    CASE WHEN s.status IS NOT NULL THEN s.status WHEN r.closed_at IS NULL THEN 'started'
        ELSE 'failed' END AS status,
    s.input AS input_snapshot, s.output AS output_snapshot,
    coalesce(s.took, r.closed_at - s.at) / 1000 AS duration_ms,
    CASE WHEN s.status IS NULL AND r.closed_at IS NOT NULL THEN r.status ELSE s.error END
        AS error_message,
    to_timestamp(s.at / 1e6) AS created_at, rtrim(s.scope, '/') AS within, s.codec, s.size
FROM (
    SELECT *, lead(seq) OVER (PARTITION BY ns, run, node, iteration ORDER BY seq) AS ended
    FROM (
        SELECT ns, run, seq, scope, node, iteration, 'completed' AS status, at - took AS at, took,
            CASE WHEN iteration = 1 AND scope = '' THEN input ELSE before END AS input, output,
            NULL AS error, codec, size
        FROM holdfast.ways WHERE key LIKE '%.next#%' AND node <> 'START'
        UNION ALL
        SELECT ns, run, seq, coalesce(told -> 'details' ->> 'within', ''),
            told -> 'details' ->> 'node', (told -> 'details' ->> 'iteration')::int,
            'failed', at - (told -> 'details' ->> 'took')::int8,
            (told -> 'details' ->> 'took')::int8, NULL, NULL, told ->> 'message', codec, NULL
        FROM holdfast.living_events
        WHERE kind = 'run.failed' AND told -> 'details' ->> 'iteration' IS NOT NULL
        UNION ALL
        SELECT ns, run, seq, scope, target, next_iteration, NULL, at, NULL, output, NULL, NULL,
            codec, NULL
        FROM holdfast.ways WHERE target IS NOT NULL AND next_iteration IS NOT NULL
        UNION ALL
        SELECT ns, run, seq, scope, b.value, next_iteration + b.place::int - 1, NULL, w.at, NULL,
            output, NULL, NULL, codec, NULL
        FROM holdfast.ways w,
            json_array_elements_text(w.branches) WITH ORDINALITY AS b (value, place)
    ) visits
) s
JOIN holdfast.runs r ON r.ns = s.ns AND r.id = s.run
WHERE s.status IS NOT NULL OR s.ended IS NULL;

CREATE VIEW holdfast.decisions AS
SELECT ns, run || ' ' || seq || '.' || n AS id, run AS run_id, node AS from_node,
    target AS to_node, predicate AS predicate_name, held AS predicate_result, reason,
    to_timestamp(at / 1e6) AS created_at, rtrim(scope, '/') AS within, codec
FROM (
    SELECT ns, run, seq, 0 AS n, scope, node, target, told ->> 'by' AS predicate,
        CASE WHEN target IS NOT NULL THEN true END AS held, at, codec,
        CASE WHEN told ->> 'by' IS NULL THEN 'always' ELSE 'it held' END AS reason
    FROM holdfast.ways WHERE key LIKE '%.next#%' AND branches IS NULL
    UNION ALL
    SELECT ns, run, seq, b.place - 1, scope, node, b.value, NULL, true, w.at, codec,
        'fork, joined at ' || (told ->> 'join')
    FROM holdfast.ways w,
        json_array_elements_text(w.branches) WITH ORDINALITY AS b (value, place)
    UNION ALL
    SELECT ns, run, seq, x.place, scope, node, x.value ->> 'to', x.value ->> 'by', false, w.at,
        codec, 'it did not hold'
    FROM holdfast.ways w,
        json_array_elements(w.told -> 'rejected') WITH ORDINALITY AS x (value, place)
) d;

CREATE VIEW holdfast.checkpoints AS
SELECT c.ns, c.run AS run_id, c.node AS checkpoint_node, c.iteration, c.state AS state_data,
    to_timestamp(c.at / 1e6) AS created_at, to_timestamp(c.at / 1e6) AS updated_at,
    rtrim(c.scope, '/') AS within, c.seq
FROM (
    SELECT *, lead(output) OVER (PARTITION BY ns, run, scope, node, iteration ORDER BY seq) AS state
    FROM (
        SELECT ns, run, seq, at, regexp_replace(key, '[^/]*$', '') AS scope,
            substring(key FROM '([^/]*):[0-9]+$') AS node,
            substring(key FROM '[0-9]+$')::int AS iteration,
            NULL::json AS output, true AS is_mark, (told ->> 'preserve')::bool AS is_kept
        FROM holdfast.living_events WHERE kind = 'note.checkpoint'
        UNION ALL
        SELECT ns, run, seq, at, scope, node, iteration, output, false, false
        FROM holdfast.ways WHERE key LIKE '%.next#%'
    ) marks
) c
JOIN holdfast.runs r ON r.ns = c.ns AND r.id = c.run
WHERE c.is_mark AND (r.status <> 'completed' OR c.is_kept);
