-- name: add_tag
INSERT INTO run_tags (ns, run, name, kind, value) VALUES (?, ?, ?, ?, ?)

-- name: tags_of_runs
SELECT run, name, kind, value FROM run_tags
WHERE ns = ? AND run IN (SELECT value FROM json_each(?))

-- name: delete_tags
DELETE FROM run_tags WHERE ns = ? AND run = ?

-- name: dump_tags
SELECT ns, run, name, kind, value FROM run_tags ORDER BY ns, run
