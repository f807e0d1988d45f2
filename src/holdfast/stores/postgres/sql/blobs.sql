-- name: named_blobs
-- What begins with 2 names a blob; what a parent is told of a child may have one in it.
SELECT payload FROM holdfast.events WHERE codec = 2
UNION ALL
SELECT payload FROM holdfast.inbox
WHERE substring(payload FROM 1 FOR 1) = '\x02'::bytea
    OR (kind = 'child' AND position('\x02'::bytea IN payload) > 0)
UNION ALL
SELECT reply FROM holdfast.inbox WHERE substring(reply FROM 1 FOR 1) = '\x02'::bytea
UNION ALL
SELECT result FROM holdfast.step_cache WHERE substring(result FROM 1 FOR 1) = '\x02'::bytea
