-- name: add_schedule
INSERT INTO holdfast.schedules (
    ns, id, revision, workflow, paused, note, next_at, buffered, settled_to, spec, input, state,
    created_at, updated_at
)
SELECT :ns, :id, :revision::int8, :workflow, :paused::int8, :note, :next_at::int8,
    :buffered::int8, :settled_to::int8, :spec, :input::bytea, :state, :created_at::int8,
    :updated_at::int8
WHERE :not_before::int8 <= holdfast.clock(:now::int8)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: change_schedule
UPDATE holdfast.schedules
SET revision = :revision::int8, workflow = :workflow, paused = :paused::int8, note = :note,
    next_at = :next_at::int8, buffered = :buffered::int8, settled_to = :settled_to::int8,
    spec = :spec, input = :input::bytea, state = :state, updated_at = :updated_at::int8
WHERE ns = :ns AND id = :id AND revision = :known::int8
    AND :not_before::int8 <= holdfast.clock(:now::int8)
RETURNING 1

-- name: delete_schedule
DELETE FROM holdfast.schedules
WHERE ns = :ns AND id = :id AND revision = :known::int8
    AND :not_before::int8 <= holdfast.clock(:now::int8)
RETURNING 1

-- name: rouse_schedule
UPDATE holdfast.schedules
SET revision = revision + 1,
    next_at = CASE
        WHEN buffered > 0 AND paused = 0 THEN holdfast.clock(:now::int8) ELSE next_at
    END
WHERE ns = :ns AND id = :id AND buffered >= 0
RETURNING buffered > 0 AND paused = 0

-- name: due_schedules
SELECT ns, id, revision, workflow, paused, note, next_at, buffered, settled_to, spec, input, state,
    created_at, updated_at
FROM holdfast.schedules
WHERE ns = :ns AND next_at IS NOT NULL
    AND (workflow = ANY (:workflows::text[]) OR workflow || '/' = ANY (:workflows::text[]))
    AND (:ids::text[] IS NULL OR id = ANY (:ids::text[]))
    AND id > :after::text COLLATE "C"
ORDER BY next_at, id
LIMIT :limit

-- name: schedules
SELECT ns, id, revision, workflow, paused, note, next_at, buffered, settled_to, spec, input, state,
    created_at, updated_at
FROM holdfast.schedules
WHERE ns = :ns
    AND (:ids::text[] IS NULL OR id = ANY (:ids::text[]))
    AND id > :after::text COLLATE "C"
ORDER BY id
LIMIT :limit

-- name: dump_schedules
SELECT ns, id, revision, workflow, paused, note, next_at, buffered, settled_to, spec, input, state,
    created_at, updated_at
FROM holdfast.schedules ORDER BY ns, id
