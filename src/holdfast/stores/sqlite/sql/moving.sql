-- name: current_move
SELECT id, role, place, state, at, step, progress FROM moves ORDER BY closed DESC, at DESC LIMIT 1

-- name: closed_by
SELECT role || ' ' || place FROM moves WHERE closed

-- name: went_to
-- Where the runs went for good: a move that is not decided may be taken back.
SELECT place FROM moves WHERE role = 'source' AND state = 'moved'

-- name: holders
-- Who may hold something: workers, and owners of runs and jobs that have no row.
SELECT id, lease_until, '' FROM workers
UNION ALL
SELECT owner, 0, '' FROM (
    SELECT owner FROM runs WHERE owner IS NOT NULL
    UNION
    SELECT owner FROM jobs WHERE owner IS NOT NULL
)
WHERE owner NOT IN (SELECT id FROM workers)
ORDER BY 1

-- name: anything_held
SELECT EXISTS (SELECT 1 FROM runs WHERE owner IS NOT NULL)
    OR EXISTS (SELECT 1 FROM jobs WHERE owner IS NOT NULL)

-- name: is_closed
SELECT EXISTS (SELECT 1 FROM moves WHERE closed OR state = 'moved')

-- name: is_filled
-- A template, as are all that name a {table}: no name that a user gives goes there.
SELECT EXISTS (SELECT 1 FROM {table})

-- name: close_store
INSERT INTO moves (id, role, place, state, at, step, progress, closed)
VALUES (:id, :role, :place, :state, :at, 0, '', 1)

-- name: fence
CREATE TRIGGER moved_{table}_{verb} BEFORE {verb} ON {table}
WHEN EXISTS (SELECT 1 FROM moves WHERE closed)
BEGIN
    SELECT RAISE(ABORT, 'holdfast moved: {told}');
END

-- name: unfence
DROP TRIGGER IF EXISTS moved_{table}_{verb}

-- name: begin_filling
-- Open to this transaction: nobody else can write until it has ended, and then it is closed again.
UPDATE moves SET closed = 0
WHERE id = :id AND role = 'target' AND state = 'filling' AND step = :step

-- name: end_filling
UPDATE moves SET closed = 1, step = step + 1, progress = :progress
WHERE id = :id AND role = 'target'

-- name: decide_move
UPDATE moves SET state = 'moved' WHERE id = :id AND role = 'source' AND state = 'moving'

-- name: open_filled
UPDATE moves SET state = 'filled', closed = 0
WHERE id = :id AND role = 'target' AND state = 'filling'

-- name: forget_move
DELETE FROM moves WHERE id = :id AND role = :role AND state = :state

-- name: first_rows
SELECT {columns} FROM {table} ORDER BY {key} LIMIT :limit

-- name: next_rows
SELECT {columns} FROM {table} WHERE ({key}) > ({after}) ORDER BY {key} LIMIT :limit

-- name: first_events
SELECT ns, id, place & 4294967295, {columns}
FROM (SELECT ns, id, number FROM runs) CROSS JOIN run_events
    ON place BETWEEN number << 32 AND number << 32 | 4294967295
ORDER BY ns, id, place LIMIT :limit

-- name: next_events
-- From within the run where the last rows ended: what was read of it is not walked through again.
SELECT ns, id, place & 4294967295, {columns}
FROM (SELECT ns, id, number FROM runs) CROSS JOIN run_events
    ON place > (number << 32) + iif(ns = :k0 AND id = :k1, :k2, 0)
        AND place <= number << 32 | 4294967295
WHERE (ns, id) >= (:k0, :k1)
ORDER BY ns, id, place LIMIT :limit

-- name: add_rows
INSERT INTO {table} ({columns}) VALUES ({places})

-- name: add_runs
INSERT INTO runs ({columns}, number)
VALUES ({places}, (SELECT coalesce(max(number), 0) + 1 FROM runs))

-- name: count_rows
SELECT count(*) FROM {table}

-- name: empty_table
DELETE FROM {table}

-- name: is_row
({key}) = ({keys})

-- name: is_event
place = (SELECT number << 32 FROM runs WHERE ns = ? AND id = ?) | ?

-- name: reseal_row
UPDATE {table} SET ({columns}) = ({places}) WHERE {is_row} AND ({columns}) IS ({places})

-- name: drop_row
DELETE FROM {table} WHERE {is_row} AND ({columns}) IS ({places})
