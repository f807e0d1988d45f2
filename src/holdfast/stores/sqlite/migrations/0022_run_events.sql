-- Events by one whole number each, their place: the number of the run, then 32 bits for the event's
-- own. Only a table with such a key takes what is added at its end without a look at the pages
-- beside the last one, which it would write again. `events` stays, to be read. The number of a run
-- means nothing outside of this file, and may be another run's after the run is deleted.

DROP VIEW workflow_runs;
DROP VIEW living_events;

-- A file that was moved is closed by triggers; it is open here until its runs have numbers. The
-- triggers of `events` go with that table: who would write an event meets those of `runs`.
UPDATE moves SET closed = 0, step = -1 - step WHERE closed;

ALTER TABLE runs ADD COLUMN number INTEGER NOT NULL DEFAULT 0 CHECK (number < 1 << 31);
UPDATE runs SET number = numbered.n
FROM (SELECT ns, id, row_number() OVER (ORDER BY created_at, ns, id) AS n FROM runs) AS numbered
WHERE runs.ns = numbered.ns AND runs.id = numbered.id;
UPDATE moves SET closed = 1, step = -1 - step WHERE step < 0;
CREATE UNIQUE INDEX runs_number ON runs (number);

CREATE TABLE run_events (
    place         INTEGER PRIMARY KEY,
    generation    INTEGER NOT NULL,
    epoch         INTEGER NOT NULL,
    kind          TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    asked_seq     INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    took          INTEGER,
    digest        BLOB,
    codec         INTEGER NOT NULL,
    payload       BLOB,
    superseded_by INTEGER
) STRICT;

INSERT INTO run_events
SELECT r.number << 32 | e.seq, e.generation, e.epoch, e.kind, e.key, e.asked_seq, e.at, e.took,
    e.digest, e.codec, e.payload, e.superseded_by
FROM runs r INDEXED BY runs_number CROSS JOIN events e ON e.ns = r.ns AND e.run = r.id
ORDER BY r.number, e.seq;
DROP TABLE events;
CREATE INDEX run_events_blobs ON run_events (codec) WHERE codec = 2;

-- Ask it for runs, not for single events: those it finds by a walk through their run.
CREATE VIEW events AS
SELECT ns, id AS run, place & 4294967295 AS seq, h.generation, h.epoch, kind, key, asked_seq, at,
    took, digest, codec, payload, superseded_by
FROM runs CROSS JOIN run_events h ON place BETWEEN number << 32 AND number << 32 | 4294967295;

CREATE VIEW workflow_runs AS
SELECT r.ns, r.id, r.workflow AS workflow_name, r.status,
    CASE s.codec WHEN 0 THEN CAST(s.payload AS TEXT) END AS params,
    iif(r.status = 'completed', ended, NULL) AS result,
    CASE WHEN r.status <> 'completed'
        THEN coalesce(json_extract(ended, '$.type') || ': ' || json_extract(ended, '$.message'),
            json_extract(ended, '$.reason'), iif(r.closed_at IS NULL, NULL, r.status))
        END AS error_message,
    strftime('%Y-%m-%dT%H:%M:%fZ', s.at / 1e6, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', r.closed_at / 1e6, 'unixepoch') AS completed_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', r.created_at / 1e6, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', r.updated_at / 1e6, 'unixepoch') AS updated_at,
    r.codec, r.size
FROM (
    SELECT r.*, c.codec, length(payload) AS size,
        CASE c.codec WHEN 0 THEN CAST(payload AS TEXT) END AS ended
    FROM runs r LEFT JOIN run_events c ON place = number << 32 | seq AND closed_at IS NOT NULL
) r
LEFT JOIN run_events s ON s.place = (
    WITH RECURSIVE line (run, depth) AS (
        SELECT r.id, 0
        UNION ALL
        SELECT origin, depth + 1 FROM line JOIN forks f ON f.ns = r.ns AND f.run = line.run
    )
    SELECT number << 32 | 1 FROM line JOIN runs o ON o.ns = r.ns AND o.id = run
    ORDER BY depth DESC LIMIT 1
);

-- Of forks, too: what they share with others, as it counted then. Of several events of one number,
-- that of the least depth stands for the others.
CREATE VIEW living_events AS
WITH RECURSIVE line (ns, run, origin, upto, length, depth) AS (
    SELECT ns, run, run, 1 << 31, 1 << 31, 0 FROM forks
    UNION ALL
    SELECT line.ns, line.run, f.origin, min(f.at, upto),
        iif(f.at < line.length, f.length, min(f.length, line.length)), depth + 1
    FROM line JOIN forks f ON f.ns = line.ns AND f.run = line.origin
)
SELECT ns, run, seq, kind, key, asked_seq, at, took, codec,
    CASE codec WHEN 0 THEN CAST(payload AS TEXT) END AS told,
    iif(codec = 2, CAST(substr(payload, instr(payload, x'3a') + 1) AS INTEGER), length(payload))
        AS size
FROM (
    SELECT ns, run, seq, kind, key, asked_seq, at, took, codec, payload
    FROM events WHERE superseded_by IS NULL
    UNION ALL
    SELECT ns, run, seq, kind, key, asked_seq, at, took, codec, payload
    FROM (
        SELECT line.ns, line.run, place & 4294967295 AS seq, line.length, min(depth) AS depth, h.*
        FROM line JOIN runs o ON o.ns = line.ns AND o.id = origin
        JOIN run_events h ON place BETWEEN number << 32 AND (number << 32) + upto
        GROUP BY 1, 2, 3
    )
    WHERE depth > 0 AND (superseded_by IS NULL OR superseded_by > length)
);
