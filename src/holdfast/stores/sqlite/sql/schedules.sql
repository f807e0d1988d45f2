-- name: add_schedule
INSERT INTO schedules (
    ns, id, revision, workflow, paused, note, next_at, buffered, settled_to, spec, input, state,
    created_at, updated_at
)
SELECT :ns, :id, :revision, :workflow, :paused, :note, :next_at, :buffered, :settled_to, :spec,
    :input, :state, :created_at, :updated_at
WHERE :not_before <= :now
ON CONFLICT DO NOTHING

-- name: change_schedule
UPDATE schedules
SET revision = :revision, workflow = :workflow, paused = :paused, note = :note,
    next_at = :next_at, buffered = :buffered, settled_to = :settled_to, spec = :spec,
    input = :input, state = :state, updated_at = :updated_at
WHERE ns = :ns AND id = :id AND revision = :known AND :not_before <= :now

-- name: delete_schedule
DELETE FROM schedules
WHERE ns = :ns AND id = :id AND revision = :known AND :not_before <= :now

-- name: rouse_schedule
UPDATE schedules
SET revision = revision + 1,
    next_at = iif(buffered > 0 AND NOT paused, :now, next_at)
WHERE ns = :ns AND id = :id AND buffered >= 0
RETURNING buffered > 0 AND NOT paused

-- name: next_schedule
-- When the first of those that these workers know has to be looked at.
SELECT next_at FROM schedules INDEXED BY schedules_next
WHERE ns = :ns AND next_at IS NOT NULL
    AND (workflow IN (SELECT value FROM json_each(:workflows))
        OR workflow || '/' IN (SELECT value FROM json_each(:workflows)))
ORDER BY next_at
LIMIT 1

-- name: due_schedules
SELECT ns, id, revision, workflow, paused, note, next_at, buffered, settled_to, spec, input, state,
    created_at, updated_at
FROM schedules
WHERE ns = :ns AND next_at IS NOT NULL
    AND (workflow IN (SELECT value FROM json_each(:workflows))
        OR workflow || '/' IN (SELECT value FROM json_each(:workflows)))
    AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
    AND id > :after
ORDER BY next_at, id
LIMIT :limit

-- name: schedules
SELECT ns, id, revision, workflow, paused, note, next_at, buffered, settled_to, spec, input, state,
    created_at, updated_at
FROM schedules
WHERE ns = :ns
    AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
    AND id > :after
ORDER BY id
LIMIT :limit

-- name: dump_schedules
SELECT ns, id, revision, workflow, paused, note, next_at, buffered, settled_to, spec, input, state,
    created_at, updated_at
FROM schedules ORDER BY ns, id
