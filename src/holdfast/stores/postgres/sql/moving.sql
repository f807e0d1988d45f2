-- name: current_move
SELECT id, role, place, state, at, step, progress FROM holdfast.moves
ORDER BY closed DESC, at DESC LIMIT 1

-- name: closed_by
SELECT role || ' ' || place FROM holdfast.moves WHERE closed

-- name: went_to
-- Where the runs went for good: a move that is not decided may be taken back.
SELECT place FROM holdfast.moves WHERE role = 'source' AND state = 'moved'

-- name: holders
-- Who may hold something: workers, and owners of runs and jobs that have no row.
SELECT id, lease_until, address FROM holdfast.workers
UNION ALL
SELECT h.owner, 0, '' FROM (
    SELECT owner FROM holdfast.runs WHERE owner IS NOT NULL
    UNION
    SELECT owner FROM holdfast.jobs WHERE owner IS NOT NULL
) h
WHERE NOT EXISTS (SELECT 1 FROM holdfast.workers w WHERE w.id = h.owner)
ORDER BY 1

-- name: anything_held
SELECT EXISTS (SELECT 1 FROM holdfast.runs WHERE owner IS NOT NULL)
    OR EXISTS (SELECT 1 FROM holdfast.jobs WHERE owner IS NOT NULL)

-- name: is_closed
SELECT EXISTS (SELECT 1 FROM holdfast.moves WHERE closed OR state = 'moved')

-- name: is_filled
-- A template, as are all that name a {table}: no name that a user gives goes there.
SELECT EXISTS (SELECT 1 FROM holdfast.{table})

-- name: close_store
INSERT INTO holdfast.moves (id, role, place, state, at, step, progress, closed)
VALUES (:id, :role, :place, :state, :at, 0, '', true)

-- name: lock_tables
-- Whoever is writing ends first, and nobody else begins. In the order in which turns take them.
DO $$ DECLARE kept text; BEGIN
    FOR kept IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'holdfast' AND tablename NOT IN ('meta', 'moves')
        ORDER BY tablename <> 'runs', tablename
    LOOP EXECUTE format('LOCK TABLE holdfast.%I IN SHARE ROW EXCLUSIVE MODE', kept); END LOOP;
END $$

-- name: fence
DO $$ DECLARE kept text; BEGIN
    FOR kept IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'holdfast' AND tablename NOT IN ('meta', 'moves') ORDER BY tablename
    LOOP EXECUTE format(
        'CREATE TRIGGER moved BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON holdfast.%I'
        ' FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse()', kept);
    END LOOP;
END $$

-- name: unfence
DO $$ DECLARE kept text; BEGIN
    FOR kept IN SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast' ORDER BY tablename
    LOOP EXECUTE format('DROP TRIGGER IF EXISTS moved ON holdfast.%I', kept); END LOOP;
END $$

-- name: begin_filling
-- Open to this transaction: others see it only when it has ended, and then it is closed again.
UPDATE holdfast.moves SET closed = false
WHERE id = :id AND role = 'target' AND state = 'filling' AND step = :step
RETURNING 1

-- name: end_filling
UPDATE holdfast.moves SET closed = true, step = step + 1, progress = :progress
WHERE id = :id AND role = 'target'

-- name: decide_move
UPDATE holdfast.moves SET state = 'moved'
WHERE id = :id AND role = 'source' AND state = 'moving'
RETURNING 1

-- name: open_filled
-- Not while the clock is behind what was recorded in the source: time never goes back.
UPDATE holdfast.moves SET state = 'filled', closed = false
WHERE id = :id AND role = 'target' AND state = 'filling' AND holdfast.clock(NULL) >= :now
RETURNING 1

-- name: forget_move
DELETE FROM holdfast.moves WHERE id = :id AND role = :role AND state = :state
RETURNING 1

-- name: first_rows
SELECT {columns} FROM holdfast.{table} ORDER BY {key} LIMIT :limit

-- name: next_rows
SELECT {columns} FROM holdfast.{table} WHERE ({key}) > ({after}) ORDER BY {key} LIMIT :limit

-- name: next_tags
-- A tag has a word and an attribute a name: together they tell the labels of a run apart.
SELECT ns, run, name, kind, word, number FROM holdfast.run_tags
WHERE (ns, run) >= (:k0, :k1) AND (ns, run, name, coalesce(word, '')) > (:k0, :k1, :k2, :k3)
ORDER BY ns, run, name, coalesce(word, '')
LIMIT :limit

-- name: count_rows
SELECT count(*) FROM holdfast.{table}

-- name: empty_table
TRUNCATE holdfast.{table}

-- name: truths
-- Columns that hold true and false, which elsewhere are numbers.
SELECT table_name::text, column_name::text FROM information_schema.columns
WHERE table_schema = 'holdfast' AND udt_name = 'bool'

-- name: reseal_row
-- Many at once. It waits for nobody who has such a row: what it leaves out is found again.
WITH mine AS (
    SELECT g.* FROM unnest({arrays}) AS g ({names})
    JOIN holdfast.{table} t ON {is_row} AND {is_same}
    FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE holdfast.{table} t SET {changes} FROM mine WHERE {is_row}
RETURNING 1

-- name: drop_row
WITH mine AS (
    SELECT g.* FROM unnest({arrays}) AS g ({names})
    JOIN holdfast.{table} t ON {is_row} AND {is_same}
    FOR UPDATE OF t SKIP LOCKED
)
DELETE FROM holdfast.{table} t USING mine WHERE {is_row}
RETURNING 1
