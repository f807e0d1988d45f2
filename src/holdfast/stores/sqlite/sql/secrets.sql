-- name: put_secret
INSERT OR REPLACE INTO run_secrets (ns, run, name, key, sealed)
VALUES (:ns, :run, :name, :key, :sealed)

-- name: secrets_of_run
SELECT name, key, sealed FROM run_secrets WHERE ns = :ns AND run = :run ORDER BY name

-- name: dump_secrets
SELECT ns, run, name, key, sealed FROM run_secrets ORDER BY ns, run, name
