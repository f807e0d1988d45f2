-- A round: writes of many runs in one statement, which is one transaction and one round trip.
--
-- Fragments are put together from those that the writes of a round need (`rounds.py`). A run is
-- in a round at most once, so that no fragment could miss what another one did: all of them see
-- the rows as they were when the statement began, and the newest version of a row they lock.
--
-- `round_*` is for writes of every kind, some of which may be refused. `quick_*` is for turns and
-- starts that all apply, as they nearly always do: without a join, and in the order of ids, in
-- which they are given. If one of them is refused, the statement fails, and the round is written
-- the other way.

-- name: round_head
WITH clock AS MATERIALIZED (
    SELECT holdfast.clock(:now::int8) AS now
)

-- name: round_locked
-- In the order of their ids, so that two rounds never wait for each other.
, keys AS MATERIALIZED (
    SELECT * FROM unnest(:key_n::int4[], :key_ns::text[], :key_run::text[])
        AS k (n, key_ns, key_run)
)
, locked AS MATERIALIZED (
    SELECT k.n, r.*
    FROM keys k JOIN holdfast.runs r ON r.ns = k.key_ns AND r.id = k.key_run
    ORDER BY r.ns, r.id
    FOR NO KEY UPDATE OF r
)

-- name: round_turns
-- The guards stand in the writing statement: it checks them on the newest version of the row.
-- That of the owner is written so that no plan looks for all that an owner holds.
, turns AS (
    UPDATE holdfast.runs r
    SET seq = r.seq + t.count,
        status = t.status,
        reason = t.reason,
        owner = CASE WHEN t.status = 'running' THEN r.owner END,
        wake_at = t.wake_at,
        inbox_read = coalesce(t.inbox_read, r.inbox_read),
        cancel = CASE WHEN t.takes_cancel THEN 2 ELSE r.cancel END,
        strikes = CASE WHEN t.progresses THEN 0 ELSE r.strikes END,
        updated_at = t.at,
        closed_at = t.closed_at
    FROM unnest(
        :turn_n::int4[], :turn_epoch::int8[], :turn_seq::int8[], :turn_count::int8[],
        :turn_status::text[], :turn_reason::text[], :turn_owner::text[], :turn_wake_at::int8[],
        :turn_inbox_read::int8[], :turn_inbox_seq::int8[], :turn_takes_cancel::bool[],
        :turn_progresses::bool[], :turn_at::int8[], :turn_closed_at::int8[],
        :turn_not_before::int8[]
    ) AS t (
        n, epoch, seq, count, status, reason, owner, wake_at, inbox_read, inbox_seq,
        takes_cancel, progresses, at, closed_at, not_before
    )
    JOIN locked l ON l.n = t.n
    CROSS JOIN clock
    WHERE r.ns = l.ns AND r.id = l.id
        AND r.owner IS NOT DISTINCT FROM t.owner
        AND r.epoch = t.epoch AND r.seq = t.seq AND r.status = 'running'
        AND (r.cancel <> 1 OR t.takes_cancel)
        AND (t.inbox_seq IS NULL OR r.inbox_seq = t.inbox_seq)
        AND t.not_before <= clock.now
    RETURNING t.n, r.ns, r.id, r.inbox_seq, r.cancel
)

-- name: round_creates
, fresh AS MATERIALIZED (
    SELECT * FROM unnest(
        :create_n::int4[], :create_ns::text[], :create_id::text[], :create_workflow::text[],
        :create_version::text[], :create_status::text[], :create_epoch::int8[],
        :create_owner::text[], :create_wake_at::int8[], :create_input_digest::bytea[],
        :create_at::int8[], :create_deadline::int8[], :create_queue::text[],
        :create_priority::int2[]
    ) AS f (
        n, ns, id, workflow, version, status, epoch, owner, wake_at, input_digest, at, deadline,
        queue, priority
    )
)
, created AS (
    INSERT INTO holdfast.runs (
        ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at,
        inbox_seq, inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at,
        deadline, queue, priority
    )
    SELECT ns, id, workflow, version, status, '', 1, epoch, 1, owner, wake_at, 0, 0, 0, 0,
        input_digest, at, at, NULL, deadline, queue, priority
    FROM fresh
    ON CONFLICT DO NOTHING
    RETURNING ns, id
)

-- name: round_placed_creates
-- As round_creates, for starts on named queues: on a managed one a run stands in line, and none is
-- born claimed. To have keys is to have a line.
, fresh AS MATERIALIZED (
    SELECT * FROM unnest(
        :create_n::int4[], :create_ns::text[], :create_id::text[], :create_workflow::text[],
        :create_version::text[], :create_status::text[], :create_epoch::int8[],
        :create_owner::text[], :create_wake_at::int8[], :create_input_digest::bytea[],
        :create_at::int8[], :create_deadline::int8[], :create_queue::text[],
        :create_priority::int2[]
    ) AS f (
        n, ns, id, workflow, version, status, epoch, owner, wake_at, input_digest, at, deadline,
        queue, priority
    )
)
, places AS MATERIALIZED (
    SELECT p.*, f.ns, f.id, f.queue, f.priority, f.owner IS NULL AND p.due_at <= f.at AS is_due,
        q.name IS NOT NULL OR p.is_given AS is_managed
    FROM unnest(
        :place_n::int4[], :place_key::text[], :place_due_at::int8[], :place_expires_at::int8[],
        :place_is_given::bool[]
    ) AS p (n, key, due_at, expires_at, is_given)
    JOIN fresh f ON f.n = p.n
    LEFT JOIN holdfast.queues q ON q.ns = f.ns AND q.name = f.queue
)
, created AS (
    INSERT INTO holdfast.runs (
        ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at,
        inbox_seq, inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at,
        deadline, queue, priority
    )
    SELECT f.ns, f.id, f.workflow, f.version, f.status, '', 1, f.epoch, 1, f.owner,
        CASE
            WHEN p.is_managed AND p.is_due
            THEN least(f.deadline, p.expires_at, 253402300799000000)
            ELSE f.wake_at
        END,
        0, 0, 0, 0, f.input_digest, f.at, f.at, NULL, f.deadline, f.queue, f.priority
    FROM fresh f LEFT JOIN places p ON p.n = f.n
    WHERE f.owner IS NULL OR p.is_managed IS NOT TRUE
    ON CONFLICT DO NOTHING
    RETURNING ns, id, wake_at
)
, lined AS (
    INSERT INTO holdfast.tickets (ns, run, queue, key, priority, due_at, expires_at, state)
    SELECT p.ns, p.id, p.queue, p.key, p.priority, p.due_at, p.expires_at,
        CASE WHEN p.is_due THEN 'waiting' ELSE 'new' END
    FROM places p JOIN created c ON c.ns = p.ns AND c.id = p.id
    WHERE p.is_managed
)
, arranged AS (
    INSERT INTO holdfast.queues (ns, name, paused, changed_at, admitted)
    SELECT DISTINCT p.ns, p.queue, 0, clock.now, 0
    FROM places p JOIN created c ON c.ns = p.ns AND c.id = p.id CROSS JOIN clock
    WHERE p.is_given
    ORDER BY p.ns, p.queue
    ON CONFLICT DO NOTHING
)

-- name: round_puts
-- A message that a round put just before is not seen here, and then the insert below fails.
, posts AS MATERIALIZED (
    SELECT * FROM unnest(
        :put_n::int4[], :put_id::text[], :put_kind::text[], :put_name::text[],
        :put_payload::bytea[], :put_at::int8[], :put_cancels::bool[], :put_unless::text[]
    ) AS p (n, message, kind, name, payload, posted_at, cancels, unless)
)
, puts AS (
    UPDATE holdfast.runs r
    SET inbox_seq = r.inbox_seq + 1,
        cancel = CASE WHEN p.cancels THEN 1 ELSE r.cancel END,
        strikes = CASE WHEN p.cancels THEN 0 ELSE r.strikes END,
        wake_at = CASE
            WHEN r.status = 'waiting' OR (p.cancels AND r.status = ANY (:aside::text[]))
            THEN clock.now
            WHEN p.cancels AND r.status = 'pending' THEN least(r.wake_at, clock.now)
            ELSE r.wake_at
        END,
        status = CASE
            WHEN p.cancels AND r.status = ANY (:aside::text[]) THEN 'waiting' ELSE r.status
        END
    FROM posts p
    JOIN locked l ON l.n = p.n
    CROSS JOIN clock
    WHERE r.ns = l.ns AND r.id = l.id
        AND r.status <> ALL (:closed::text[])
        AND r.status IS DISTINCT FROM p.unless
        AND NOT (p.cancels AND r.cancel <> 0)
        AND NOT EXISTS (
            SELECT 1 FROM holdfast.inbox i
            WHERE i.ns = l.ns AND i.run = l.id AND i.id = p.message
        )
    RETURNING p.n, r.*
)
, posted AS (
    INSERT INTO holdfast.inbox (ns, run, id, n, kind, name, payload, at)
    SELECT u.ns, u.id, p.message, u.inbox_seq, p.kind, p.name, p.payload, p.posted_at
    FROM puts u JOIN posts p ON p.n = u.n
)

-- name: round_notes
, notes AS (
    UPDATE holdfast.runs r
    SET strikes = CASE WHEN t.moves_on THEN 0 ELSE r.strikes END
    FROM unnest(
        :note_n::int4[], :note_owner::text[], :note_epoch::int8[], :note_moves_on::bool[]
    ) AS t (n, owner, epoch, moves_on)
    JOIN locked l ON l.n = t.n
    WHERE r.ns = l.ns AND r.id = l.id AND r.owner IS NOT DISTINCT FROM t.owner
        AND r.epoch = t.epoch AND r.status = 'running'
    RETURNING t.n, r.ns, r.id
)

-- name: round_applied
, applied AS MATERIALIZED (:applied)

-- name: applied_turns
SELECT n, ns, id FROM turns

-- name: applied_creates
SELECT f.n, f.ns, f.id FROM fresh f JOIN created c ON c.ns = f.ns AND c.id = f.id

-- name: applied_notes
SELECT n, ns, id FROM notes

-- name: round_events
, told AS (
    INSERT INTO holdfast.events (
        ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
    )
    SELECT e.ns, e.run, e.seq, e.generation, e.epoch, e.kind, e.key, e.asked_seq, e.at, e.took,
        e.digest, e.codec, e.payload
    FROM unnest(
        :event_n::int4[], :event_ns::text[], :event_run::text[], :event_seq::int8[], :event_generation::int8[], :event_epoch::int8[],
        :event_kind::text[], :event_key::text[], :event_asked_seq::int8[], :event_at::int8[],
        :event_took::int8[], :event_digest::bytea[], :event_codec::int8[],
        :event_payload::bytea[]
    ) AS e (n, ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload)
    JOIN applied a ON a.n = e.n
)

-- name: round_supersedes
, superseded AS (
    UPDATE holdfast.events e SET superseded_by = s.by
    FROM unnest(:supersede_n::int4[], :supersede_seq::int8[], :supersede_by::int8[])
        AS s (n, seq, by)
    JOIN applied a ON a.n = s.n
    WHERE e.ns = a.ns AND e.run = a.id AND e.seq = s.seq
)

-- name: round_lines
, lines AS (
    INSERT INTO holdfast.logs (
        ns, run, at, level, logger, message, key, attempt, generation, epoch, fields
    )
    SELECT a.ns, a.id, s.at, s.level, s.logger, s.message, s.key, s.attempt, s.generation,
        s.epoch, s.fields
    FROM unnest(
        :line_n::int4[], :line_at::int8[], :line_level::int8[], :line_logger::bytea[],
        :line_message::bytea[], :line_key::text[], :line_attempt::int8[],
        :line_generation::int8[], :line_epoch::int8[], :line_fields::bytea[]
    ) AS s (n, at, level, logger, message, key, attempt, generation, epoch, fields)
    JOIN applied a ON a.n = s.n
    ON CONFLICT DO NOTHING
)

-- name: round_beats
, beats AS (
    INSERT INTO holdfast.progress AS p (
        ns, run, key, generation, attempt, at, details, epoch
    )
    SELECT a.ns, a.id, s.key, s.generation, s.attempt, s.at, s.details, s.epoch
    FROM unnest(
        :beat_n::int4[], :beat_key::text[], :beat_generation::int8[], :beat_attempt::int8[],
        :beat_at::int8[], :beat_details::bytea[], :beat_epoch::int8[]
    ) AS s (n, key, generation, attempt, at, details, epoch)
    JOIN applied a ON a.n = s.n
    ON CONFLICT (ns, run, key) DO UPDATE
    SET generation = excluded.generation, attempt = excluded.attempt, at = excluded.at,
        details = excluded.details, epoch = excluded.epoch
)

-- name: round_forgets
, forgotten AS (
    DELETE FROM holdfast.progress p
    USING unnest(:forget_n::int4[], :forget_key::text[]) AS s (n, key), applied a
    WHERE a.n = s.n AND p.ns = a.ns AND p.run = a.id AND p.key = s.key
)

-- name: round_verdicts
, replied AS (
    UPDATE holdfast.inbox i SET state = s.state, reply = s.payload
    FROM unnest(
        :verdict_n::int4[], :verdict_message::text[], :verdict_state::text[], :verdict_payload::bytea[]
    ) AS s (n, message, state, payload)
    JOIN applied a ON a.n = s.n
    WHERE i.ns = a.ns AND i.run = a.id AND i.id = s.message
)

-- name: round_tags
, tagged AS (
    INSERT INTO holdfast.run_tags (ns, run, name, kind, word, number)
    SELECT s.ns, s.run, s.name, s.kind, s.word, s.number
    FROM unnest(
        :tag_n::int4[], :tag_ns::text[], :tag_run::text[], :tag_name::text[], :tag_kind::text[], :tag_word::text[],
        :tag_number::numeric[]
    ) AS s (n, ns, run, name, kind, word, number)
    JOIN applied a ON a.n = s.n
)

-- name: round_defines
, defined AS (
    INSERT INTO holdfast.definitions AS d (ns, workflow, version, shape, first_at, last_at)
    SELECT DISTINCT s.ns, s.workflow, s.version, s.shape, clock.now, clock.now
    FROM unnest(
        :define_n::int4[], :define_ns::text[], :define_workflow::text[], :define_version::text[],
        :define_shape::bytea[]
    ) AS s (n, ns, workflow, version, shape)
    JOIN applied a ON a.n = s.n
    CROSS JOIN clock
    ORDER BY s.ns, s.workflow, s.version, s.shape
    ON CONFLICT (ns, workflow, version, shape) DO UPDATE
    SET last_at = greatest(d.last_at, excluded.last_at)
)

-- name: round_waits
, waited AS (
    INSERT INTO holdfast.waits (
        ns, run, key, kind, generation, attempt, secret, state, asked_at, expires_at, recipients,
        asked, settled_at, settled_by, answer, why
    )
    SELECT s.ns, s.run, s.key, s.kind, s.generation, s.attempt, s.secret, s.state, s.asked_at,
        s.expires_at, s.recipients, s.asked, s.settled_at, s.settled_by, s.answer, s.why
    FROM unnest(
        :wait_n::int4[], :wait_ns::text[], :wait_run::text[], :wait_key::text[],
        :wait_kind::text[], :wait_generation::int8[], :wait_attempt::int8[],
        :wait_secret::text[], :wait_state::text[], :wait_asked_at::int8[],
        :wait_expires_at::int8[], :wait_recipients::text[], :wait_asked::bytea[],
        :wait_settled_at::int8[], :wait_settled_by::text[], :wait_answer::bytea[],
        :wait_why::text[]
    ) AS s (
        n, ns, run, key, kind, generation, attempt, secret, state, asked_at, expires_at,
        recipients, asked, settled_at, settled_by, answer, why
    )
    JOIN applied a ON a.n = s.n
    ON CONFLICT (ns, run, key) DO UPDATE
    SET kind = excluded.kind, generation = excluded.generation, attempt = excluded.attempt,
        secret = excluded.secret, state = excluded.state, asked_at = excluded.asked_at,
        expires_at = excluded.expires_at, recipients = excluded.recipients,
        asked = excluded.asked, settled_at = excluded.settled_at,
        settled_by = excluded.settled_by, answer = excluded.answer, why = excluded.why
)

-- name: round_overs
, ended AS (
    UPDATE holdfast.waits w SET state = 'over', settled_at = s.at, why = s.why
    FROM unnest(:over_n::int4[], :over_key::text[], :over_why::text[], :over_at::int8[])
        AS s (n, key, why, at)
    JOIN applied a ON a.n = s.n
    WHERE w.ns = a.ns AND w.run = a.id AND w.key = s.key AND w.state = 'open'
)

-- name: round_jobs
, jobs AS (
    INSERT INTO holdfast.jobs (
        ns, run, key, generation, attempt, secret, step, queue, priority, args, terms, asked_at,
        wake_at, start_by, owner, epoch, strikes, begun_at, queue_key
    )
    SELECT s.ns, s.run, s.key, s.generation, s.attempt, s.secret, s.step, s.queue, s.priority,
        s.args, s.terms, s.asked_at, s.wake_at, s.start_by, s.owner, s.epoch, s.strikes,
        s.begun_at, s.queue_key
    FROM unnest(
        :job_n::int4[], :job_ns::text[], :job_run::text[], :job_key::text[],
        :job_generation::int8[], :job_attempt::int8[], :job_secret::text[], :job_step::text[],
        :job_queue::text[], :job_priority::int8[], :job_args::bytea[], :job_terms::bytea[],
        :job_asked_at::int8[], :job_wake_at::int8[], :job_start_by::int8[], :job_owner::text[],
        :job_epoch::int8[], :job_strikes::int8[], :job_begun_at::int8[],
        :job_queue_key::text[]
    ) AS s (
        n, ns, run, key, generation, attempt, secret, step, queue, priority, args, terms, asked_at,
        wake_at, start_by, owner, epoch, strikes, begun_at, queue_key
    )
    JOIN applied a ON a.n = s.n
    ON CONFLICT (ns, run, key) DO UPDATE
    SET generation = excluded.generation, attempt = excluded.attempt, secret = excluded.secret,
        step = excluded.step, queue = excluded.queue, priority = excluded.priority,
        args = excluded.args, terms = excluded.terms, asked_at = excluded.asked_at,
        wake_at = excluded.wake_at, start_by = excluded.start_by, owner = excluded.owner,
        epoch = excluded.epoch, strikes = excluded.strikes, begun_at = excluded.begun_at,
        queue_key = excluded.queue_key
)

-- name: round_drops
, dropped AS (
    DELETE FROM holdfast.jobs j
    USING unnest(:drop_n::int4[], :drop_key::text[]) AS s (n, key), applied a
    WHERE a.n = s.n AND j.ns = a.ns AND j.run = a.id AND j.key = s.key
)

-- name: round_renews
-- By the clock at the moment of writing, however long the statement has waited for a lock.
, renewed AS (
    INSERT INTO holdfast.workers AS w (id, lease_until, started_at, address, info)
    SELECT s.worker,
        holdfast.clock(:now::int8) + s.lease,
        clock.now, s.address, s.info
    FROM unnest(
        :renew_n::int4[], :renew_worker::text[], :renew_lease::int8[], :renew_address::text[],
        :renew_info::text[]
    ) AS s (n, worker, lease, address, info)
    CROSS JOIN clock
    ON CONFLICT (id) DO UPDATE
    SET lease_until = greatest(w.lease_until, excluded.lease_until),
        address = CASE WHEN excluded.address = '' THEN w.address ELSE excluded.address END,
        info = CASE WHEN excluded.info = '' THEN w.info ELSE excluded.info END
    -- A row that was there has been locked by this statement; a new one has not.
    RETURNING id, xmax = 0 AS is_new
)

-- name: told_turns
-- Of a run that refused, the row as it refused.
SELECT k.n, clock.now, t.n IS NOT NULL AS applied, 0::int8 AS total, t.inbox_seq AS inbox,
    t.cancel AS cancelled,
    x.ns, x.id, x.workflow, x.version, x.status, x.reason, x.generation, x.epoch, x.seq,
    x.owner, x.wake_at, x.inbox_seq, x.inbox_read, x.cancel, x.strikes, x.input_digest,
    x.created_at, x.updated_at, x.closed_at, x.deadline, x.queue, x.priority
FROM unnest(:turn_n::int4[]) AS k (n)
LEFT JOIN turns t ON t.n = k.n
LEFT JOIN locked x ON x.n = k.n AND t.n IS NULL
CROSS JOIN clock

-- name: told_creates
SELECT f.n, clock.now, c.id IS NOT NULL, 0::int8, 0::int8, 0::int8,
    x.ns, x.id, x.workflow, x.version, x.status, x.reason, x.generation, x.epoch, x.seq,
    x.owner, x.wake_at, x.inbox_seq, x.inbox_read, x.cancel, x.strikes, x.input_digest,
    x.created_at, x.updated_at, x.closed_at, x.deadline, x.queue, x.priority
FROM fresh f
LEFT JOIN created c ON c.ns = f.ns AND c.id = f.id
LEFT JOIN holdfast.runs x ON x.ns = f.ns AND x.id = f.id AND c.id IS NULL
CROSS JOIN clock

-- name: told_placed_creates
SELECT f.n, clock.now, c.id IS NOT NULL, 0::int8, c.wake_at, 0::int8,
    x.ns, x.id, x.workflow, x.version, x.status, x.reason, x.generation, x.epoch, x.seq,
    x.owner, x.wake_at, x.inbox_seq, x.inbox_read, x.cancel, x.strikes, x.input_digest,
    x.created_at, x.updated_at, x.closed_at, x.deadline, x.queue, x.priority
FROM fresh f
LEFT JOIN created c ON c.ns = f.ns AND c.id = f.id
LEFT JOIN holdfast.runs x ON x.ns = f.ns AND x.id = f.id AND c.id IS NULL
CROSS JOIN clock

-- name: told_puts
SELECT u.n, clock.now, true, 0::int8, 0::int8, 0::int8,
    u.ns, u.id, u.workflow, u.version, u.status, u.reason, u.generation, u.epoch, u.seq,
    u.owner, u.wake_at, u.inbox_seq, u.inbox_read, u.cancel, u.strikes, u.input_digest,
    u.created_at, u.updated_at, u.closed_at, u.deadline, u.queue, u.priority
FROM puts u CROSS JOIN clock
UNION ALL
SELECT p.n, clock.now, false,
    CASE WHEN i.id IS NULL THEN 0 ELSE 1 END::int8, 0::int8, 0::int8,
    x.ns, x.id, x.workflow, x.version, x.status, x.reason, x.generation, x.epoch, x.seq,
    x.owner, x.wake_at, x.inbox_seq, x.inbox_read, x.cancel, x.strikes, x.input_digest,
    x.created_at, x.updated_at, x.closed_at, x.deadline, x.queue, x.priority
FROM posts p
LEFT JOIN locked x ON x.n = p.n
LEFT JOIN holdfast.inbox i ON i.ns = x.ns AND i.run = x.id AND i.id = p.message
CROSS JOIN clock
WHERE NOT EXISTS (SELECT 1 FROM puts u WHERE u.n = p.n)

-- name: told_notes
SELECT k.n, clock.now, t.n IS NOT NULL, 0::int8, 0::int8, 0::int8,
    NULL::text, NULL::text, NULL::text, NULL::text, NULL::text, NULL::text, NULL::int8,
    NULL::int8, NULL::int8, NULL::text, NULL::int8, NULL::int8, NULL::int8, NULL::int8,
    NULL::int8, NULL::bytea, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::text,
    NULL::int2
FROM unnest(:note_n::int4[]) AS k (n)
LEFT JOIN notes t ON t.n = k.n
CROSS JOIN clock

-- name: told_renews
SELECT s.n, clock.now, true, CASE WHEN w.is_new THEN 1 ELSE 0 END::int8, 0::int8, 0::int8,
    NULL::text, NULL::text, NULL::text, NULL::text, NULL::text, NULL::text, NULL::int8,
    NULL::int8, NULL::int8, NULL::text, NULL::int8, NULL::int8, NULL::int8, NULL::int8,
    NULL::int8, NULL::bytea, NULL::int8, NULL::int8, NULL::int8, NULL::int8, NULL::text,
    NULL::int2
FROM unnest(:renew_n::int4[], :renew_worker::text[]) AS s (n, worker)
JOIN renewed w ON w.id = s.worker
CROSS JOIN clock

-- name: quick_turns
, turns AS (
    UPDATE holdfast.runs r
    SET seq = r.seq + t.count,
        status = t.status,
        reason = t.reason,
        owner = CASE WHEN t.status = 'running' THEN r.owner END,
        wake_at = t.wake_at,
        inbox_read = coalesce(t.inbox_read, r.inbox_read),
        cancel = CASE WHEN t.takes_cancel THEN 2 ELSE r.cancel END,
        strikes = CASE WHEN t.progresses THEN 0 ELSE r.strikes END,
        updated_at = t.at,
        closed_at = t.closed_at
    FROM unnest(
        :turn_n::int4[], :turn_ns::text[], :turn_run::text[], :turn_epoch::int8[], :turn_seq::int8[], :turn_count::int8[],
        :turn_status::text[], :turn_reason::text[], :turn_owner::text[], :turn_wake_at::int8[],
        :turn_inbox_read::int8[], :turn_inbox_seq::int8[], :turn_takes_cancel::bool[],
        :turn_progresses::bool[], :turn_at::int8[], :turn_closed_at::int8[],
        :turn_not_before::int8[]
    ) AS t (
        n, ns, run, epoch, seq, count, status, reason, owner, wake_at, inbox_read, inbox_seq,
        takes_cancel, progresses, at, closed_at, not_before
    )
    CROSS JOIN clock
    WHERE r.ns = t.ns AND r.id = t.run
        AND r.owner IS NOT DISTINCT FROM t.owner
        AND r.epoch = t.epoch AND r.seq = t.seq AND r.status = 'running'
        AND (r.cancel <> 1 OR t.takes_cancel)
        AND (t.inbox_seq IS NULL OR r.inbox_seq = t.inbox_seq)
        AND t.not_before <= clock.now
    RETURNING t.n, r.inbox_seq, r.cancel
)

-- name: quick_creates
, created AS (
    INSERT INTO holdfast.runs (
        ns, id, workflow, version, status, reason, generation, epoch, seq, owner, wake_at,
        inbox_seq, inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at,
        deadline, queue, priority
    )
    SELECT f.ns, f.id, f.workflow, f.version, f.status, '', 1, f.epoch, 1, f.owner, f.wake_at,
        0, 0, 0, 0, f.input_digest, f.at, f.at, NULL, f.deadline, f.queue, f.priority
    FROM unnest(
        :create_ns::text[], :create_id::text[], :create_workflow::text[],
        :create_version::text[], :create_status::text[], :create_epoch::int8[],
        :create_owner::text[], :create_wake_at::int8[], :create_input_digest::bytea[],
        :create_at::int8[], :create_deadline::int8[], :create_queue::text[],
        :create_priority::int2[]
    ) AS f (
        ns, id, workflow, version, status, epoch, owner, wake_at, input_digest, at, deadline,
        queue, priority
    )
    ON CONFLICT DO NOTHING
    RETURNING 1
)

-- name: quick_events
, told AS (
    INSERT INTO holdfast.events (
        ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
    )
    SELECT * FROM unnest(
        :event_ns::text[], :event_run::text[], :event_seq::int8[], :event_generation::int8[],
        :event_epoch::int8[], :event_kind::text[], :event_key::text[],
        :event_asked_seq::int8[], :event_at::int8[], :event_took::int8[],
        :event_digest::bytea[], :event_codec::int8[], :event_payload::bytea[]
    )
)

-- name: quick_tags
, tagged AS (
    INSERT INTO holdfast.run_tags (ns, run, name, kind, word, number)
    SELECT * FROM unnest(
        :tag_ns::text[], :tag_run::text[], :tag_name::text[], :tag_kind::text[],
        :tag_word::text[], :tag_number::numeric[]
    )
)

-- name: quick_defines
, defined AS (
    INSERT INTO holdfast.definitions AS d (ns, workflow, version, shape, first_at, last_at)
    SELECT DISTINCT s.ns, s.workflow, s.version, s.shape, clock.now, clock.now
    FROM unnest(
        :define_ns::text[], :define_workflow::text[], :define_version::text[],
        :define_shape::bytea[]
    ) AS s (ns, workflow, version, shape)
    CROSS JOIN clock
    ORDER BY s.ns, s.workflow, s.version, s.shape
    ON CONFLICT (ns, workflow, version, shape) DO UPDATE
    SET last_at = greatest(d.last_at, excluded.last_at)
)

-- name: quick_all_turns
(SELECT count(*) FROM turns) = cardinality(:turn_n::int4[])

-- name: quick_all_creates
(SELECT count(*) FROM created) = cardinality(:create_ns::text[])

-- name: quick_answer
-- If anything was refused, the cast fails, and with it all of the statement. Its text is for whoever
-- reads the server's log. It holds something that is not known when the statement is planned, or
-- the planner would try the cast.
SELECT a.n, clock.now, true, a.total, a.inbox, a.cancelled
FROM (:answers) AS a (n, total, inbox, cancelled)
CROSS JOIN clock
WHERE 1 = (
    SELECT CASE
        WHEN :all_applied THEN 1
        ELSE (
            'holdfast: one of a group of writes was refused, so each is tried alone; session '
            || pg_backend_pid()
        )::int
    END
)

-- name: quick_told_turns
SELECT n, 0::int8, inbox_seq, cancel FROM turns

-- name: quick_told_creates
SELECT n, 0::int8, 0::int8, 0::int8 FROM unnest(:create_n::int4[]) AS c (n)

-- name: quick_told_placed_creates
SELECT f.n, 0::int8, c.wake_at, 0::int8
FROM fresh f JOIN created c ON c.ns = f.ns AND c.id = f.id

-- name: quick_told_renews
SELECT s.n, CASE WHEN w.is_new THEN 1 ELSE 0 END::int8, 0::int8, 0::int8
FROM unnest(:renew_n::int4[], :renew_worker::text[]) AS s (n, worker)
JOIN renewed w ON w.id = s.worker

-- name: plain_turn
-- One turn that comes alone (`lone.py`), adds one event, and leaves its run running.
WITH moved AS (
    UPDATE holdfast.runs r
    SET seq = r.seq + 1, updated_at = :at, strikes = 0
    WHERE r.ns = :ns AND r.id = :run
        AND r.owner IS NOT DISTINCT FROM :owner
        AND r.epoch = :epoch AND r.seq = :known_seq AND r.status = 'running' AND r.cancel <> 1
    RETURNING r.inbox_seq, r.cancel, r.generation
)
, told AS (
    INSERT INTO holdfast.events (
        ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
    )
    SELECT :ns, :run, :known_seq::int8 + 1, generation, :epoch::int8, :kind, :key, :asked_seq::int8,
        :at::int8, :took::int8, :digest::bytea, :codec::int8, :payload::bytea
    FROM moved
)
SELECT inbox_seq, cancel FROM moved

-- name: plain_pair
-- The same with two events: a node of a graph, and the way that was taken.
WITH moved AS (
    UPDATE holdfast.runs r
    SET seq = r.seq + 2, updated_at = :at, strikes = 0
    WHERE r.ns = :ns AND r.id = :run
        AND r.owner IS NOT DISTINCT FROM :owner
        AND r.epoch = :epoch AND r.seq = :known_seq AND r.status = 'running' AND r.cancel <> 1
    RETURNING r.inbox_seq, r.cancel, r.generation
)
, told AS (
    INSERT INTO holdfast.events (
        ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
    )
    SELECT :ns, :run, :known_seq::int8 + e.n, moved.generation, :epoch::int8, e.kind, e.key,
        e.asked_seq, e.at, e.took, e.digest, e.codec, e.payload
    FROM moved CROSS JOIN (VALUES
        (1, :kind, :at::int8, :key, :payload::bytea, :asked_seq::int8, :digest::bytea,
            :took::int8, :codec::int8),
        (2, :kind2, :at2::int8, :key2, :payload2::bytea, :asked_seq2::int8, :digest2::bytea,
            :took2::int8, :codec2::int8)
    ) AS e (n, kind, at, key, payload, asked_seq, digest, took, codec)
)
SELECT inbox_seq, cancel FROM moved

-- name: lone_turn
-- One turn that comes alone (`lone.py`): without arrays, or with arrays of its events only. What
-- refuses it changes nothing and returns no row.
WITH moved AS (
    UPDATE holdfast.runs r
    SET seq = r.seq + :count::int8,
        status = :status,
        reason = :reason,
        owner = CASE WHEN :status = 'running' THEN r.owner END,
        wake_at = :wake_at,
        inbox_read = coalesce(:inbox_read::int8, r.inbox_read),
        cancel = CASE WHEN :takes_cancel::bool THEN 2 ELSE r.cancel END,
        strikes = CASE WHEN :progresses::bool THEN 0 ELSE r.strikes END,
        updated_at = :updated_at,
        closed_at = :closed_at
    WHERE r.ns = :ns AND r.id = :run
        AND r.owner IS NOT DISTINCT FROM :owner
        AND r.epoch = :held_epoch AND r.seq = :known_seq AND r.status = 'running'
        AND (r.cancel <> 1 OR :takes_cancel::bool)
        AND (:inbox_seq::int8 IS NULL OR r.inbox_seq = :inbox_seq::int8)
        AND :not_before::int8 <= holdfast.clock(:now::int8)
    RETURNING r.inbox_seq, r.cancel
)

-- name: lone_event
, told AS (
    INSERT INTO holdfast.events (
        ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
    )
    SELECT :ns, :run, :seq::int8, :generation::int8, :epoch::int8, :kind, :key, :asked_seq::int8,
        :at::int8, :took::int8, :digest::bytea, :codec::int8, :payload::bytea
    FROM moved
)

-- name: lone_events
, told AS (
    INSERT INTO holdfast.events (
        ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
    )
    SELECT :ns, :run, e.seq, e.generation, e.epoch, e.kind, e.key, e.asked_seq, e.at, e.took,
        e.digest, e.codec, e.payload
    FROM moved
    CROSS JOIN unnest(
        :kind::text[], :at::int8[], :key::text[], :payload::bytea[], :asked_seq::int8[],
        :digest::bytea[], :took::int8[], :seq::int8[], :epoch::int8[], :generation::int8[],
        :codec::int8[]
    ) AS e (kind, at, key, payload, asked_seq, digest, took, seq, epoch, generation, codec)
)

-- name: lone_answer
SELECT inbox_seq, cancel FROM moved
