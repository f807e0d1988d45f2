-- name: define_workflow
INSERT INTO holdfast.definitions AS d (ns, workflow, version, shape, first_at, last_at)
SELECT :ns, :workflow, :version, :shape, now, now
FROM (SELECT holdfast.clock(:now::int8) AS now OFFSET 0) clock
ON CONFLICT (ns, workflow, version, shape) DO UPDATE
SET last_at = greatest(d.last_at, excluded.last_at)

-- name: definitions_of_workflow
SELECT ns, workflow, version, shape, first_at, last_at FROM holdfast.definitions
WHERE ns = :ns AND workflow = :workflow
ORDER BY last_at, first_at, version, shape
