-- name: add_message
INSERT INTO inbox (ns, run, id, n, kind, name, payload, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: import_message
INSERT INTO inbox (ns, run, id, kind, name, payload, at, n, state, reply)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: first_message
UPDATE runs SET inbox_seq = 1 WHERE ns = ? AND id = ?

-- name: reply_to_message
UPDATE inbox SET state = ?, reply = ? WHERE ns = ? AND run = ? AND id = ?

-- name: unread_messages
SELECT id, kind, name, payload, at, n FROM inbox
WHERE ns = ? AND run = ? AND n > ?
ORDER BY n

-- name: undecided_updates
-- Read, and not decided on. The index is chosen only if its condition stands here as it is.
SELECT id, kind, name, payload, at, n FROM inbox
WHERE ns = ? AND run = ? AND n <= ? AND kind = 'update' AND state = ''
ORDER BY n

-- name: all_messages
SELECT id, kind, name, payload, at, n, state, reply FROM inbox
WHERE ns = ? AND run = ?
ORDER BY n

-- name: message
SELECT id, kind, name, payload, at, n, state, reply FROM inbox
WHERE ns = ? AND run = ? AND id = ?

-- name: is_message
SELECT EXISTS (SELECT 1 FROM inbox WHERE ns = ? AND run = ? AND id = ?)

-- name: delete_inbox
DELETE FROM inbox WHERE ns = ? AND run = ?

-- name: return_messages
-- What is unread again is undecided, too. It stands between what stays read and what nobody has read. Below zero for the
-- moment, so that no two have one number in between.
UPDATE inbox
SET n = -placed.place,
    state = iif(inbox.id IN (SELECT value FROM json_each(:ids)), '', state),
    reply = iif(inbox.id IN (SELECT value FROM json_each(:ids)), NULL, reply)
FROM (
    SELECT id, row_number() OVER (
        ORDER BY n > :read, id IN (SELECT value FROM json_each(:ids)), n
    ) AS place
    FROM inbox WHERE ns = :ns AND run = :run
) AS placed
WHERE inbox.ns = :ns AND inbox.run = :run AND inbox.id = placed.id

-- name: number_messages
UPDATE inbox SET n = -n WHERE ns = :ns AND run = :run AND n < 0
