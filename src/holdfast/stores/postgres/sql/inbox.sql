-- name: add_message
INSERT INTO holdfast.inbox (ns, run, id, n, kind, name, payload, at)
VALUES (:ns, :run, :id, :n, :kind, :name, :payload, :at)

-- name: unread_messages
SELECT id, kind, name, payload, at, n FROM holdfast.inbox
WHERE ns = :ns AND run = :run AND n > :after
ORDER BY n

-- name: return_messages
-- What is unread again stands between what stays read and what nobody has read. Below zero for the
-- moment, so that no two have one number in between.
UPDATE holdfast.inbox SET n = -placed.place
FROM (
    SELECT id, row_number() OVER (ORDER BY n > :read::int8, id = ANY (:ids::text[]), n) AS place
    FROM holdfast.inbox WHERE ns = :ns AND run = :run
) AS placed
WHERE inbox.ns = :ns AND inbox.run = :run AND inbox.id = placed.id

-- name: number_messages
UPDATE holdfast.inbox SET n = -n WHERE ns = :ns AND run = :run AND n < 0
