-- name: put_wait
INSERT OR REPLACE INTO waits (
    ns, run, key, kind, generation, attempt, secret, state, asked_at, expires_at, recipients,
    asked, settled_at, settled_by, answer, why
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: end_wait
UPDATE waits SET state = 'over', settled_at = :at, why = :why
WHERE ns = :ns AND run = :run AND key = :key AND state = 'open'

-- name: end_waits
UPDATE waits SET state = 'over', settled_at = :at, why = :why
WHERE ns = :ns AND run = :run AND state = 'open'

-- name: answer_wait
UPDATE waits SET state = 'answered', settled_at = :at, settled_by = :by, answer = :answer
WHERE ns = :ns AND run = :run AND key = :key AND secret = :secret AND state = 'open'

-- name: is_wait_open
SELECT EXISTS (
    SELECT 1 FROM waits
    WHERE ns = :ns AND run = :run AND key = :key AND secret = :secret AND state = 'open'
)

-- name: waits_of_run
SELECT
    ns, run, key, kind, generation, attempt, secret, state, asked_at, expires_at, recipients,
    asked, settled_at, settled_by, answer, why
FROM waits
WHERE ns = :ns AND run = :run
    AND (:key = '' OR key = :key)
    AND (:kind IS NULL OR kind = :kind)
    AND (:to = '' OR instr(recipients, char(10) || :to || char(10)) > 0)
    AND (asked_at, run, key) > (:after_at, :after_run, :after_key)
ORDER BY asked_at, run, key
LIMIT :limit

-- name: open_waits
SELECT
    ns, run, key, kind, generation, attempt, secret, state, asked_at, expires_at, recipients,
    asked, settled_at, settled_by, answer, why
FROM waits INDEXED BY waits_open
WHERE ns = :ns AND state = 'open'
    AND (:key = '' OR key = :key)
    AND (:kind IS NULL OR kind = :kind)
    AND (:to = '' OR instr(recipients, char(10) || :to || char(10)) > 0)
    AND (asked_at, run, key) > (:after_at, :after_run, :after_key)
ORDER BY asked_at, run, key
LIMIT :limit

-- name: dump_waits
SELECT
    ns, run, key, kind, generation, attempt, secret, state, asked_at, expires_at, recipients,
    asked, settled_at, settled_by, answer, why
FROM waits ORDER BY ns, run, key

-- name: delete_waits
DELETE FROM waits WHERE ns = ? AND run = ?
