-- name: named_blobs
-- What begins with 2 names a blob; what a parent is told of a child may have one in it.
SELECT payload FROM run_events WHERE codec = 2
UNION ALL
SELECT payload FROM inbox
WHERE substr(payload, 1, 1) = x'02' OR (kind = 'child' AND instr(payload, x'02') > 0)
UNION ALL
SELECT reply FROM inbox WHERE substr(reply, 1, 1) = x'02'
UNION ALL
SELECT result FROM step_cache WHERE substr(result, 1, 1) = x'02'
