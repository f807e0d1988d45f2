-- name: continue_run
-- Beside the turn that continues it, in the same transaction and under the same guards.
UPDATE holdfast.runs SET generation = generation + 1 WHERE ns = :ns AND id = :run

-- name: add_base
INSERT INTO holdfast.bases (ns, run, seq) VALUES (:ns, :run, :seq)

-- name: last_base
SELECT b.seq FROM holdfast.bases b
JOIN holdfast.events e ON e.ns = b.ns AND e.run = b.run AND e.seq = b.seq
WHERE b.ns = :ns AND b.run = :run AND e.superseded_by IS NULL
ORDER BY b.seq DESC
LIMIT 1
