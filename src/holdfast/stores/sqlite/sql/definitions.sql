-- name: define_workflow
INSERT INTO definitions (ns, workflow, version, shape, first_at, last_at)
VALUES (:ns, :workflow, :version, :shape, :now, :now)
ON CONFLICT DO UPDATE SET last_at = max(last_at, excluded.last_at)

-- name: definitions_of_workflow
SELECT ns, workflow, version, shape, first_at, last_at FROM definitions
WHERE ns = ? AND workflow = ?
ORDER BY last_at, first_at, version, shape
