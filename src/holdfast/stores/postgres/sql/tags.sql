-- name: add_tag
INSERT INTO holdfast.run_tags (ns, run, name, kind, word, number)
VALUES (:ns, :run, :name, :kind, :word, :number)

-- name: tags_of_runs
SELECT run, name, kind, word, number FROM holdfast.run_tags
WHERE ns = :ns AND run = ANY (:runs::text[])

-- name: dump_tags
SELECT ns, run, name, kind, word, number FROM holdfast.run_tags ORDER BY ns, run
