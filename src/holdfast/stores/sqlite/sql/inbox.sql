-- name: add_message
INSERT INTO inbox (ns, run, id, n, kind, name, payload, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: unread_messages
SELECT id, kind, name, payload, at, n FROM inbox
WHERE ns = ? AND run = ? AND n > ?
ORDER BY n

-- name: is_message
SELECT EXISTS (SELECT 1 FROM inbox WHERE ns = ? AND run = ? AND id = ?)

-- name: delete_inbox
DELETE FROM inbox WHERE ns = ? AND run = ?
