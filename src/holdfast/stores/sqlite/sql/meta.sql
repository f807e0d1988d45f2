-- name: meta
SELECT value FROM meta WHERE key = ?

-- name: mark_pruned
INSERT INTO meta (key, value) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: mark_clock
INSERT INTO meta (key, value) VALUES ('clock', ?)
ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)
RETURNING value
