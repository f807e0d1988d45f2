-- name: meta
SELECT value FROM meta WHERE key = ?

-- name: put_meta
INSERT INTO meta (key, value) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
