-- name: remember_result
INSERT OR REPLACE INTO step_cache (ns, step, version, key, result, run, made_at, expires_at)
VALUES (:ns, :step, :version, :key, :result, :run, :made_at, :expires_at)

-- name: recall_results
SELECT c.ns, c.step, c.version, c.key, c.result, c.run, c.made_at, c.expires_at
FROM json_each(:wanted) AS w
-- As it stands: each key is looked up, however many rows there are.
CROSS JOIN step_cache AS c
WHERE c.ns = :ns AND c.step = json_extract(w.value, '$[0]')
    AND c.version = json_extract(w.value, '$[1]') AND c.key = json_extract(w.value, '$[2]')
    AND (c.expires_at IS NULL OR c.expires_at > :now)

-- name: forget_results
DELETE FROM step_cache WHERE (ns, step, version, key) IN (
    SELECT ns, step, version, key FROM step_cache
    WHERE ns = :ns AND step = :step AND (:key = '' OR key = :key)
    ORDER BY version, key LIMIT :limit
)

-- name: forget_expired
DELETE FROM step_cache WHERE (ns, step, version, key) IN (
    SELECT ns, step, version, key FROM step_cache
    WHERE ns = :ns AND expires_at <= :now
    ORDER BY expires_at, step, version, key LIMIT :limit
)

-- name: cached_steps
SELECT step, version, count(*), sum(coalesce(expires_at <= :now, 0)), sum(length(result)),
    min(made_at), max(made_at)
FROM step_cache
WHERE ns = :ns AND (:step = '' OR step = :step) AND (:key = '' OR key = :key)
GROUP BY step, version ORDER BY step, version

-- name: dump_cache
SELECT ns, step, version, key, result, run, made_at, expires_at FROM step_cache
ORDER BY ns, step, version, key
