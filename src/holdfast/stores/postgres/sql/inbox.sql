-- name: import_message
INSERT INTO holdfast.inbox (ns, run, id, n, kind, name, payload, at, state, reply)
VALUES (:ns, :run, :id, :n, :kind, :name, :payload, :at, :state, :reply)

-- name: first_message
UPDATE holdfast.runs SET inbox_seq = 1 WHERE ns = :ns AND id = :run

-- name: all_messages
SELECT id, kind, name, payload, at, n, state, reply FROM holdfast.inbox
WHERE ns = :ns AND run = :run
ORDER BY n

-- name: message
-- One statement, so that the run and what it said are of one moment.
SELECT r.*, i.id, i.kind, i.name, i.payload, i.at, i.n, i.state, i.reply
FROM holdfast.runs r
LEFT JOIN holdfast.inbox i ON i.ns = r.ns AND i.run = r.id AND i.id = :message
WHERE r.ns = :ns AND r.id = :run

-- name: return_messages
-- What is unread again is undecided, too. It stands between what stays read and what nobody has read. Below zero for the
-- moment, so that no two have one number in between.
UPDATE holdfast.inbox
SET n = -placed.place,
    state = CASE WHEN inbox.id = ANY (:ids::text[]) THEN '' ELSE state END,
    reply = CASE WHEN inbox.id = ANY (:ids::text[]) THEN NULL ELSE reply END
FROM (
    SELECT id, row_number() OVER (ORDER BY n > :read::int8, id = ANY (:ids::text[]), n) AS place
    FROM holdfast.inbox WHERE ns = :ns AND run = :run
) AS placed
WHERE inbox.ns = :ns AND inbox.run = :run AND inbox.id = placed.id

-- name: number_messages
UPDATE holdfast.inbox SET n = -n WHERE ns = :ns AND run = :run AND n < 0

-- name: is_message
SELECT 1 FROM holdfast.inbox WHERE ns = :ns AND run = :run AND id = :id
