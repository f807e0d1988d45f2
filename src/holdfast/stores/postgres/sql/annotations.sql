-- name: add_line
INSERT INTO holdfast.logs (
    ns, run, at, level, logger, message, key, attempt, generation, epoch, fields
)
VALUES (
    :ns, :run, :at, :level, :logger, :message, :key, :attempt, :generation, :epoch, :fields
)
ON CONFLICT DO NOTHING

-- name: put_progress
INSERT INTO holdfast.progress (ns, run, key, generation, attempt, at, details, epoch)
VALUES (:ns, :run, :key, :generation, :attempt, :at, :details, :epoch)
ON CONFLICT (ns, run, key) DO UPDATE
SET generation = excluded.generation, attempt = excluded.attempt, at = excluded.at,
    details = excluded.details, epoch = excluded.epoch

-- name: lines
SELECT at, level, logger, message, key, attempt, generation, epoch, fields FROM holdfast.logs
WHERE ns = :ns AND run = :run AND at > :after
    AND (:attempt::int8 = 0 OR attempt = :attempt::int8)
    AND (:step::text = '' OR key = :step::text
        OR strpos('/' || key, '/' || :step::text || '#') > 0)
ORDER BY at
LIMIT :limit

-- name: delete_progress
DELETE FROM holdfast.progress WHERE ns = :ns AND run = :run

-- name: dump_progress
SELECT ns, run, key, generation, attempt, at, details, epoch FROM holdfast.progress
ORDER BY ns, run, key

-- name: dump_lines
SELECT ns, run, at, level, logger, message, key, attempt, generation, epoch, fields
FROM holdfast.logs
ORDER BY ns, run, at
