-- name: end_waits
UPDATE holdfast.waits SET state = 'over', settled_at = :at::int8, why = :why
WHERE ns = :ns AND run = :run AND state = 'open'

-- name: answer_wait
UPDATE holdfast.waits
SET state = 'answered', settled_at = holdfast.clock(:now::int8), settled_by = :by,
    answer = :answer::bytea
WHERE ns = :ns AND run = :run AND key = :key AND secret = :secret AND state = 'open'

-- name: is_wait_open
SELECT EXISTS (
    SELECT 1 FROM holdfast.waits
    WHERE ns = :ns AND run = :run AND key = :key AND secret = :secret AND state = 'open'
)

-- name: waits_of_run
SELECT
    ns, run, key, kind, generation, attempt, secret, state, asked_at, expires_at, recipients,
    asked, settled_at, settled_by, answer, why
FROM holdfast.waits
WHERE ns = :ns AND run = :run
    AND (:key::text = '' OR key = :key::text)
    AND (:kind::text IS NULL OR kind = :kind::text)
    AND (:to::text = '' OR strpos(recipients, chr(10) || :to::text || chr(10)) > 0)
    AND (asked_at, run, key) > (:after_at::int8, :after_run::text, :after_key::text)
ORDER BY asked_at, run, key
LIMIT :limit

-- name: open_waits
SELECT
    ns, run, key, kind, generation, attempt, secret, state, asked_at, expires_at, recipients,
    asked, settled_at, settled_by, answer, why
FROM holdfast.waits
WHERE ns = :ns AND state = 'open'
    AND (:key::text = '' OR key = :key::text)
    AND (:kind::text IS NULL OR kind = :kind::text)
    AND (:to::text = '' OR strpos(recipients, chr(10) || :to::text || chr(10)) > 0)
    AND (asked_at, run, key) > (:after_at::int8, :after_run::text, :after_key::text)
ORDER BY asked_at, run, key
LIMIT :limit

-- name: dump_waits
SELECT
    ns, run, key, kind, generation, attempt, secret, state, asked_at, expires_at, recipients,
    asked, settled_at, settled_by, answer, why
FROM holdfast.waits ORDER BY ns, run, key
