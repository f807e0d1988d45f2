-- name: clock
SELECT holdfast.clock(NULL)

-- name: meta
SELECT value FROM holdfast.meta WHERE key = :key

-- name: is_pruned_lately
SELECT EXISTS (
    SELECT 1 FROM holdfast.meta
    WHERE key = :key AND holdfast.clock(:now::int8) - value < :every::int8
)

-- name: mark_pruned
INSERT INTO holdfast.meta (key, value) VALUES (:key, holdfast.clock(:now::int8))
ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: server
SELECT current_setting('server_version_num')::int / 10000 AS version,
    pg_is_in_recovery() AS recovers,
    current_setting('server_encoding') AS encoding,
    current_setting('fsync') AS fsync,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('full_page_writes') AS full_page_writes,
    current_setting('idle_in_transaction_session_timeout') AS idle_in_transaction,
    pg_backend_pid() AS pid,
    pg_is_in_recovery() OR current_setting('transaction_read_only')::bool AS reads_only

-- name: has_schema
-- By the rows of the catalogue: a name that was looked up in vain may be remembered as such.
SELECT EXISTS (
    SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'holdfast' AND c.relname = 'meta'
)

-- name: server_at_home
-- What is asked in the same breath, where the schema is there: its version, the time, and, for
-- whoever starts after a crash, which processes hold runs, and one run of each.
(SELECT value FROM holdfast.meta WHERE key = 'schema') AS present,
    holdfast.clock(NULL) AS now,
    (SELECT role || ' ' || place FROM holdfast.moves WHERE closed) AS closed,
    ARRAY(
        SELECT concat_ws(E'\n', w.id, w.address, r.ns, r.id, r.workflow, r.version)
        FROM holdfast.workers w
        CROSS JOIN LATERAL (SELECT * FROM holdfast.runs WHERE owner = w.id LIMIT 1) r
        WHERE w.address <> ''
    ) AS holders

-- name: link
-- Who answers, and under which names it knows what was prepared.
SELECT pg_backend_pid() AS pid,
    pg_is_in_recovery() OR current_setting('transaction_read_only')::bool AS reads_only,
    ARRAY(SELECT name::text FROM pg_prepared_statements) AS prepared

-- name: limit_transactions
-- For the one session that was opened before it was known that the server can; as in `target.py`.
SET transaction_timeout = '30s'

-- name: timeline
-- Each promotion of a standby begins the next one.
SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline

-- name: schema_version
SELECT value FROM holdfast.meta WHERE key = 'schema'

-- name: mark_schema
INSERT INTO holdfast.meta (key, value) VALUES ('schema', :version)
ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: lock_schema
-- Given back with the transaction. A migration may take as long as it takes.
SELECT set_config('statement_timeout', '0', true),
    (SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout'),
    pg_advisory_xact_lock(:key::int8)
