-- Jobs take turns by key on managed queues, and hold their slots.

ALTER TABLE holdfast.jobs ADD COLUMN queue_key text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE holdfast.queues ADD COLUMN last_job_key text COLLATE "C";

CREATE INDEX jobs_line ON holdfast.jobs (ns, queue, priority, queue_key, wake_at, run, key)
    WHERE owner IS NULL;
CREATE INDEX jobs_slots ON holdfast.jobs (ns, queue, queue_key, run) WHERE owner IS NOT NULL;

-- How many slots of a queue are held, or of one key there: by runs, and by jobs that are not done in
-- the slot of their run (`model/holders.py`).
CREATE FUNCTION holdfast.held(of_ns text, of_queue text, of_key text) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT (
        SELECT count(*) FROM holdfast.tickets t
        WHERE t.ns = of_ns AND t.queue = of_queue AND t.state = 'admitted'
            AND (of_key IS NULL OR t.key = of_key)
    ) + (
        SELECT count(*) FROM holdfast.jobs j
        WHERE j.ns = of_ns AND j.queue = of_queue AND j.owner IS NOT NULL
            AND (of_key IS NULL OR j.queue_key = of_key)
    ) - (
        SELECT count(DISTINCT j.run)
        FROM holdfast.jobs j JOIN holdfast.tickets t ON t.ns = j.ns AND t.run = j.run
        WHERE j.ns = of_ns AND j.queue = of_queue AND j.owner IS NOT NULL
            AND t.queue = j.queue AND t.state = 'admitted'
            AND (of_key IS NULL OR (j.queue_key = of_key AND t.key = of_key))
    )
$$;

-- Due jobs of a managed queue at one priority whose run holds a slot there, with no job in it.
CREATE FUNCTION holdfast.riding_jobs(
    of_ns text, of_queue text, of_priority bigint, known text[], suspects bigint, now bigint
) RETURNS TABLE (run text, key text, own_key text) LANGUAGE sql STABLE AS $$
    SELECT j.run, j.key, t.key
    FROM holdfast.tickets t JOIN holdfast.jobs j ON j.ns = t.ns AND j.run = t.run
    WHERE t.ns = of_ns AND t.queue = of_queue AND t.state = 'admitted'
        AND j.queue = of_queue AND j.priority = of_priority AND j.owner IS NULL
        AND j.wake_at <= now AND j.step = ANY (known) AND (j.strikes < 2 OR suspects > 0)
        AND NOT EXISTS (
            SELECT 1 FROM holdfast.runs r
            WHERE r.ns = j.ns AND r.id = j.run AND r.status = 'paused'
        )
        AND NOT EXISTS (
            SELECT 1 FROM holdfast.jobs o
            WHERE o.ns = j.ns AND o.run = j.run AND o.queue = j.queue AND o.owner IS NOT NULL
        )
    ORDER BY j.wake_at, j.run, j.key
$$;

-- Admit jobs of one line and give them to a worker (`stores/job_lines.py`): first those that are done
-- in the slots of their runs, then at most so many `slots`, key after key; never more than `most`.
-- The caller holds the queue's row. A job that somebody has locked is passed over.
CREATE FUNCTION holdfast.admit_jobs(
    of_ns text, of_queue text, of_priority bigint, most bigint, slots bigint, key_most bigint,
    after_key text, for_worker text, known text[], suspects bigint, now bigint
) RETURNS TABLE (of_run text, of_job text, of_key text, rides boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    at_key text COLLATE "C" := after_key;
    next_key text COLLATE "C";
    idle text COLLATE "C";
    chosen record;
    struck bigint;
    taken bigint := 0;
    seated bigint := 0;
BEGIN
    FOR chosen IN
        SELECT * FROM holdfast.riding_jobs(of_ns, of_queue, of_priority, known, suspects, now)
    LOOP
        EXIT WHEN taken >= most;
        SELECT j.queue_key, j.strikes INTO of_key, struck FROM holdfast.jobs j
        WHERE j.ns = of_ns AND j.run = chosen.run AND j.key = chosen.key AND j.owner IS NULL
            AND (j.strikes < 2 OR suspects > 0)
            AND NOT EXISTS (
                SELECT 1 FROM holdfast.jobs o
                WHERE o.ns = j.ns AND o.run = j.run AND o.queue = j.queue AND o.owner IS NOT NULL
            )
        FOR UPDATE OF j SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        CONTINUE WHEN of_key <> '' AND of_key <> chosen.own_key
            AND key_most <= holdfast.held(of_ns, of_queue, of_key);
        taken := taken + 1;
        suspects := suspects - (struck >= 2)::int;
        UPDATE holdfast.jobs j SET owner = for_worker, epoch = j.epoch + 1, begun_at = now
        WHERE j.ns = of_ns AND j.run = chosen.run AND j.key = chosen.key;
        of_run := chosen.run;
        of_job := chosen.key;
        rides := true;
        RETURN NEXT;
    END LOOP;
    WHILE taken < most AND seated < slots LOOP
        next_key := NULL;
        IF at_key IS NOT NULL THEN
            SELECT j.queue_key INTO next_key FROM holdfast.jobs j
            WHERE j.ns = of_ns AND j.queue = of_queue AND j.priority = of_priority
                AND j.owner IS NULL AND j.queue_key > at_key
            ORDER BY j.queue_key
            LIMIT 1;
        END IF;
        IF next_key IS NULL THEN
            SELECT j.queue_key INTO next_key FROM holdfast.jobs j
            WHERE j.ns = of_ns AND j.queue = of_queue AND j.priority = of_priority
                AND j.owner IS NULL
            ORDER BY j.queue_key
            LIMIT 1;
        END IF;
        EXIT WHEN next_key IS NULL OR next_key = idle;
        at_key := next_key;
        of_run := NULL;
        IF at_key = '' OR key_most IS NULL OR key_most > holdfast.held(of_ns, of_queue, at_key) THEN
            SELECT j.run, j.key, j.strikes INTO of_run, of_job, struck FROM holdfast.jobs j
            WHERE j.ns = of_ns AND j.queue = of_queue AND j.priority = of_priority
                AND j.owner IS NULL AND j.queue_key = at_key AND j.wake_at <= now
                AND j.step = ANY (known) AND (j.strikes < 2 OR suspects > 0)
                AND NOT EXISTS (
                    SELECT 1 FROM holdfast.runs r
                    WHERE r.ns = j.ns AND r.id = j.run AND r.status = 'paused'
                )
            ORDER BY j.wake_at, j.run, j.key
            LIMIT 1
            FOR UPDATE OF j SKIP LOCKED;
        END IF;
        IF of_run IS NULL THEN
            idle := coalesce(idle, at_key);
            CONTINUE;
        END IF;
        idle := NULL;
        taken := taken + 1;
        seated := seated + 1;
        suspects := suspects - (struck >= 2)::int;
        UPDATE holdfast.jobs j SET owner = for_worker, epoch = j.epoch + 1, begun_at = now
        WHERE j.ns = of_ns AND j.run = of_run AND j.key = of_job;
        of_key := at_key;
        rides := false;
        RETURN NEXT;
    END LOOP;
END
$$;

-- As in 0009, but that jobs count too.
CREATE OR REPLACE FUNCTION holdfast.admit(
    of_ns text, of_queue text, of_priority smallint, most bigint, key_most bigint, after_key text,
    for_worker text, known text[], now bigint
) RETURNS TABLE (of_key text, of_run text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    at_key text COLLATE "C" := after_key;
    next_key text COLLATE "C";
    idle text COLLATE "C";
    chosen text COLLATE "C";
    taken bigint := 0;
BEGIN
    WHILE taken < most LOOP
        next_key := NULL;
        IF at_key IS NOT NULL THEN
            SELECT t.key INTO next_key FROM holdfast.tickets t
            WHERE t.ns = of_ns AND t.queue = of_queue AND t.priority = of_priority
                AND t.state = 'waiting' AND t.key > at_key
            ORDER BY t.key
            LIMIT 1;
        END IF;
        IF next_key IS NULL THEN
            SELECT t.key INTO next_key FROM holdfast.tickets t
            WHERE t.ns = of_ns AND t.queue = of_queue AND t.priority = of_priority
                AND t.state = 'waiting'
            ORDER BY t.key
            LIMIT 1;
        END IF;
        EXIT WHEN next_key IS NULL OR next_key = idle;
        at_key := next_key;
        chosen := NULL;
        IF at_key = '' OR key_most IS NULL OR key_most > holdfast.held(of_ns, of_queue, at_key) THEN
            SELECT r.id INTO chosen
            FROM holdfast.tickets t JOIN holdfast.runs r ON r.ns = t.ns AND r.id = t.run
            WHERE t.ns = of_ns AND t.queue = of_queue AND t.priority = of_priority
                AND t.state = 'waiting' AND t.key = at_key
                AND (t.expires_at IS NULL OR t.expires_at > now)
                AND r.status IN ('pending', 'waiting')
                AND (r.workflow = ANY (known) OR r.workflow || '/' || r.version = ANY (known))
            ORDER BY t.due_at, t.run
            LIMIT 1
            FOR NO KEY UPDATE OF r SKIP LOCKED;
        END IF;
        IF chosen IS NULL THEN
            idle := coalesce(idle, at_key);
            CONTINUE;
        END IF;
        idle := NULL;
        taken := taken + 1;
        UPDATE holdfast.tickets t SET state = 'admitted', admitted_at = now, expires_at = NULL
        WHERE t.ns = of_ns AND t.run = chosen;
        UPDATE holdfast.runs r
        SET status = 'running', reason = '', owner = for_worker, epoch = r.epoch + 1,
            wake_at = NULL, updated_at = now
        WHERE r.ns = of_ns AND r.id = chosen;
        of_key := at_key;
        of_run := chosen;
        RETURN NEXT;
    END LOOP;
END
$$;
