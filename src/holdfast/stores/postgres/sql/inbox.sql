-- name: add_message
INSERT INTO holdfast.inbox (ns, run, id, n, kind, name, payload, at)
VALUES (:ns, :run, :id, :n, :kind, :name, :payload, :at)

-- name: unread_messages
SELECT id, kind, name, payload, at, n FROM holdfast.inbox
WHERE ns = :ns AND run = :run AND n > :after
ORDER BY n
