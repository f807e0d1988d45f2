-- name: is_held
SELECT EXISTS (
    SELECT 1 FROM runs WHERE ns = ? AND id = ? AND owner = ? AND epoch = ? AND status = 'running'
)

-- name: clear_strikes
UPDATE runs SET strikes = 0 WHERE ns = ? AND id = ? AND strikes > 0

-- name: put_progress
INSERT OR REPLACE INTO progress (ns, run, key, generation, attempt, at, details, epoch)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: progress
SELECT key, generation, attempt, at, details, epoch FROM progress
WHERE ns = ? AND run = ?
ORDER BY key

-- name: delete_progress_of
DELETE FROM progress WHERE ns = ? AND run = ? AND key = ?

-- name: delete_progress
DELETE FROM progress WHERE ns = ? AND run = ?

-- name: add_line
INSERT INTO logs (
    ns, run, at, level, logger, message, key, attempt, generation, epoch, fields
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: lines
SELECT at, level, logger, message, key, attempt, generation, epoch, fields FROM logs
WHERE ns = :ns AND run = :run AND at > :after
    AND (:attempt = 0 OR attempt = :attempt)
    AND (:step = '' OR key = :step OR instr('/' || key, '/' || :step || '#') > 0)
ORDER BY at
LIMIT :limit

-- name: delete_lines
DELETE FROM logs WHERE ns = ? AND run = ?

-- name: dump_progress
SELECT ns, run, key, generation, attempt, at, details, epoch FROM progress ORDER BY ns, run, key

-- name: dump_lines
SELECT ns, run, at, level, logger, message, key, attempt, generation, epoch, fields FROM logs
ORDER BY ns, run, at
