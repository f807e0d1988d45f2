-- name: continue_run
-- Beside the turn that continues it, in the same transaction and under the same guards.
UPDATE runs SET generation = generation + 1 WHERE ns = ? AND id = ?

-- name: add_base
INSERT INTO bases (ns, run, seq) VALUES (?, ?, ?)

-- name: last_base
SELECT b.seq
FROM runs r CROSS JOIN bases b ON b.ns = r.ns AND b.run = r.id
CROSS JOIN run_events h ON h.place = r.number << 32 | b.seq
WHERE r.ns = ? AND r.id = ? AND h.superseded_by IS NULL
ORDER BY b.seq DESC
LIMIT 1

-- name: delete_bases
DELETE FROM bases WHERE ns = ? AND run = ?
