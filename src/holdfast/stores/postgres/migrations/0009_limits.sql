-- Managed queues: what they allow, who stands in line or holds a slot, when the last were admitted.

CREATE TABLE holdfast.queues (
    ns                 text COLLATE "C" NOT NULL,
    name               text COLLATE "C" NOT NULL,
    concurrency        bigint,
    key_concurrency    bigint,
    worker_concurrency bigint,
    rate_count         bigint,
    rate_per           bigint,
    paused             bigint NOT NULL,
    changed_at         bigint NOT NULL,
    admitted           bigint NOT NULL,
    last_key           text COLLATE "C",
    PRIMARY KEY (ns, name)
) WITH (fillfactor = 50);

CREATE TABLE holdfast.tickets (
    ns          text COLLATE "C" NOT NULL,
    run         text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    priority    smallint NOT NULL,
    due_at      bigint NOT NULL,
    expires_at  bigint,
    state       text   NOT NULL,
    admitted_at bigint,
    PRIMARY KEY (ns, run)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);

CREATE INDEX tickets_line ON holdfast.tickets (ns, queue, priority, key, due_at, run)
    WHERE state = 'waiting';
CREATE INDEX tickets_held ON holdfast.tickets (ns, queue, key) WHERE state = 'admitted';
CREATE INDEX tickets_expiring ON holdfast.tickets (ns, expires_at, run)
    WHERE expires_at IS NOT NULL;

CREATE TABLE holdfast.admissions (
    ns    text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    n     bigint NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (ns, queue, n)
);

-- Admit at most so many runs of one line and give them to a worker, key after key (`stores/line.py`).
-- The caller holds the queue's row. A run that somebody has locked is passed over.
CREATE FUNCTION holdfast.admit(
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
        IF at_key = '' OR key_most IS NULL OR key_most > (
            SELECT count(*) FROM holdfast.tickets t
            WHERE t.ns = of_ns AND t.queue = of_queue AND t.key = at_key AND t.state = 'admitted'
        ) THEN
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
