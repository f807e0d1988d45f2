-- name: tie_child
INSERT INTO children (ns, run, parent, key, generation, policy) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (ns, run) DO UPDATE
SET parent = excluded.parent, key = excluded.key, generation = excluded.generation,
    policy = excluded.policy

-- name: link_of_run
SELECT parent, key, generation, policy FROM children WHERE ns = ? AND run = ?

-- name: open_children
SELECT c.run, c.parent, c.key, c.generation, c.policy
FROM children c JOIN runs r ON r.ns = c.ns AND r.id = c.run
WHERE c.ns = :ns AND c.parent = :parent
    AND r.status NOT IN (SELECT value FROM json_each(:closed))
ORDER BY c.run

-- name: last_living_event
SELECT kind, at, key, payload, asked_seq, digest, took, place & 4294967295, h.epoch, h.generation,
    codec, superseded_by
FROM runs r CROSS JOIN run_events h
WHERE r.ns = ? AND r.id = ? AND place BETWEEN number << 32 AND number << 32 | 4294967295
    AND superseded_by IS NULL
ORDER BY place DESC
LIMIT 1

-- name: delete_link
DELETE FROM children WHERE ns = ? AND run = ?

-- name: dump_children
SELECT ns, run, parent, key, generation, policy FROM children ORDER BY ns, run
