-- name: put_secret
INSERT INTO holdfast.run_secrets (ns, run, name, key, sealed)
VALUES (:ns, :run, :name, :key, :sealed)
ON CONFLICT (ns, run, name) DO UPDATE SET key = excluded.key, sealed = excluded.sealed

-- name: secrets_of_run
SELECT name, key, sealed FROM holdfast.run_secrets WHERE ns = :ns AND run = :run ORDER BY name

-- name: dump_secrets
SELECT ns, run, name, key, sealed FROM holdfast.run_secrets ORDER BY ns, run, name
