-- name: add_event
INSERT INTO events (
    ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: import_event
INSERT INTO events (
    ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload,
    superseded_by
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: living_events
SELECT kind, at, key, payload, asked_seq, digest, took, seq, epoch, generation, codec, NULL
FROM events
WHERE ns = ? AND run = ? AND seq > ? AND superseded_by IS NULL
ORDER BY seq

-- name: all_events
SELECT kind, at, key, payload, asked_seq, digest, took, seq, epoch, generation, codec, superseded_by
FROM events
WHERE ns = ? AND run = ?
ORDER BY seq

-- name: last_event_at
SELECT at FROM events WHERE ns = ? AND run = ? ORDER BY seq DESC LIMIT 1

-- name: supersede_events
UPDATE events SET superseded_by = :by
WHERE ns = :ns AND run = :run AND seq IN (SELECT value FROM json_each(:seqs))

-- name: delete_events
DELETE FROM events WHERE ns = ? AND run = ?
