-- name: remember_result
-- Rows in the order of their keys, each once: two writers wait for each other in one direction.
INSERT INTO holdfast.step_cache (ns, step, version, key, result, run, made_at, expires_at)
SELECT * FROM unnest(
    :spaces::text[], :steps::text[], :versions::text[], :keys::text[], :results::bytea[],
    :runs::text[], :made_ats::int8[], :expires_ats::int8[]
)
ON CONFLICT (ns, step, version, key) DO UPDATE
SET result = excluded.result, run = excluded.run, made_at = excluded.made_at,
    expires_at = excluded.expires_at

-- name: recall_results
SELECT c.ns, c.step, c.version, c.key, c.result, c.run, c.made_at, c.expires_at
FROM unnest(:steps::text[], :versions::text[], :keys::text[]) AS w (step, version, key)
JOIN holdfast.step_cache AS c
    ON c.ns = :ns AND c.step = w.step AND c.version = w.version AND c.key = w.key
WHERE c.expires_at IS NULL OR c.expires_at > holdfast.clock(:now::int8)

-- name: forget_results
WITH chosen AS MATERIALIZED (
    SELECT ns, step, version, key FROM holdfast.step_cache
    WHERE ns = :ns AND step = :step AND (:key::text = '' OR key = :key)
    ORDER BY version, key LIMIT :limit
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM holdfast.step_cache AS c USING chosen AS o
    WHERE (c.ns, c.step, c.version, c.key) = (o.ns, o.step, o.version, o.key)
    RETURNING 1
)
SELECT count(*) FROM gone

-- name: forget_expired
WITH chosen AS MATERIALIZED (
    SELECT ns, step, version, key FROM holdfast.step_cache
    WHERE ns = :ns AND expires_at <= holdfast.clock(:now::int8)
    ORDER BY expires_at, step, version, key LIMIT :limit
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM holdfast.step_cache AS c USING chosen AS o
    WHERE (c.ns, c.step, c.version, c.key) = (o.ns, o.step, o.version, o.key)
    RETURNING 1
)
SELECT count(*) FROM gone

-- name: cached_steps
SELECT step, version, count(*),
    count(*) FILTER (WHERE expires_at <= holdfast.clock(:now::int8)),
    sum(octet_length(result))::int8, min(made_at), max(made_at)
FROM holdfast.step_cache
WHERE ns = :ns AND (:step::text = '' OR step = :step) AND (:key::text = '' OR key = :key)
GROUP BY step, version ORDER BY step, version

-- name: dump_cache
SELECT ns, step, version, key, result, run, made_at, expires_at FROM holdfast.step_cache
ORDER BY ns, step, version, key
