-- name: continue_run
-- Beside the turn that continues it, in the same transaction and under the same guards.
UPDATE runs SET generation = generation + 1 WHERE ns = ? AND id = ?

-- name: add_base
INSERT INTO bases (ns, run, seq) VALUES (?, ?, ?)

-- name: last_base
SELECT b.seq FROM bases b JOIN events e ON e.ns = b.ns AND e.run = b.run AND e.seq = b.seq
WHERE b.ns = ? AND b.run = ? AND e.superseded_by IS NULL
ORDER BY b.seq DESC
LIMIT 1

-- name: delete_bases
DELETE FROM bases WHERE ns = ? AND run = ?
