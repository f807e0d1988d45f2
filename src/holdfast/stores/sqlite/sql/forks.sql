-- name: add_fork
INSERT INTO forks (ns, run, origin, at, length) VALUES (:ns, :run, :origin, :at, :length)

-- name: is_origin
SELECT EXISTS (SELECT 1 FROM runs WHERE ns = :ns AND id = :origin AND created_at = :created_at)

-- name: shared_events
-- What a fork shares with its origin, with the origin's own origin, and so on, as it counted then.
-- A nearer event stands for a farther one of the same number. What had been superseded by then is
-- superseded here by the event that begins the fork, or that began the nearest it is shared by.
WITH RECURSIVE line (origin, upto, length, depth) AS (
    SELECT origin, at, length, 1 FROM forks WHERE ns = :ns AND run = :run
    UNION ALL
    -- A fork may go back to a time before its origin was forked itself.
    SELECT f.origin, min(f.at, line.upto),
        CASE WHEN f.at < line.length THEN f.length ELSE min(f.length, line.length) END,
        line.depth + 1
    FROM line JOIN forks f ON f.ns = :ns AND f.run = line.origin
)
, shared AS (
    SELECT h.*, h.place & 4294967295 AS seq, line.upto, line.length,
        row_number() OVER (PARTITION BY h.place & 4294967295 ORDER BY line.depth) AS nearness
    FROM line CROSS JOIN runs r ON r.ns = :ns AND r.id = line.origin
    CROSS JOIN run_events h
        ON h.place > (r.number << 32) + :after AND h.place <= (r.number << 32) + line.upto
    WHERE NOT EXISTS (
        SELECT 1 FROM run_events own
        WHERE own.place = (SELECT number << 32 FROM runs WHERE ns = :ns AND id = :run)
            | (h.place & 4294967295)
    )
)
SELECT kind, at, key, payload, asked_seq, digest, took, seq, epoch, generation, codec,
    iif(superseded_by <= length, min(superseded_by, upto + 1), NULL) AS superseded_by
FROM shared WHERE nearness = 1
ORDER BY seq

-- name: forks_of
SELECT run FROM forks WHERE ns = :ns AND origin = :origin ORDER BY run

-- name: forget_fork
DELETE FROM forks WHERE ns = ? AND run = ?

-- name: dump_forks
SELECT ns, run FROM forks ORDER BY ns, run
