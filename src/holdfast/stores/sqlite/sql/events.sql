-- The place of an event is `runs.number << 32 | seq`. What is added is selected from its run: of a
-- run that is not there nothing is, where a key that is NULL would get a number that SQLite invents.

-- name: add_event
INSERT INTO run_events (
    place, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
)
SELECT number << 32 | ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
FROM runs WHERE ns = ?1 AND id = ?2

-- name: import_event
INSERT INTO run_events (
    place, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload, superseded_by
)
SELECT number << 32 | ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14
FROM runs WHERE ns = ?1 AND id = ?2

-- name: living_events
SELECT kind, at, key, payload, asked_seq, digest, took, place & 4294967295, h.epoch, h.generation,
    codec, NULL
FROM runs r CROSS JOIN run_events h
WHERE r.ns = ?1 AND r.id = ?2
    AND place > (number << 32) + ?3 AND place <= number << 32 | 4294967295
    AND superseded_by IS NULL
ORDER BY place

-- name: all_events
SELECT kind, at, key, payload, asked_seq, digest, took, place & 4294967295, h.epoch, h.generation,
    codec, superseded_by
FROM runs r CROSS JOIN run_events h
WHERE r.ns = ? AND r.id = ? AND place BETWEEN number << 32 AND number << 32 | 4294967295
ORDER BY place

-- name: last_event_at
SELECT at FROM runs r CROSS JOIN run_events
WHERE r.ns = ? AND r.id = ? AND place BETWEEN number << 32 AND number << 32 | 4294967295
ORDER BY place DESC LIMIT 1

-- name: supersede_events
UPDATE run_events SET superseded_by = :by
WHERE place IN (
    SELECT r.number << 32 | s.value FROM runs r CROSS JOIN json_each(:seqs) s
    WHERE r.ns = :ns AND r.id = :run
)

-- name: delete_events
DELETE FROM run_events
WHERE place BETWEEN (SELECT number << 32 FROM runs WHERE ns = ?1 AND id = ?2)
    AND (SELECT number << 32 | 4294967295 FROM runs WHERE ns = ?1 AND id = ?2)
