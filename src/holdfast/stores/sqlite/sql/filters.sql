-- What a term of a filter means for one value. Whole fragments are put together, with AND, OR and
-- NOT between them; what a user typed is only ever bound. `model/filters.py` says the same.

-- name: term_status
status = :value

-- name: term_workflow
workflow = :value

-- name: term_queue
queue = :value

-- name: term_id
substr(id, 1, length(:value)) = :value

-- name: term_reason
instr(lower(reason), :value) > 0

-- name: term_since
created_at >= :value

-- name: term_before
created_at < :value

-- name: term_labelled
-- A tag has the name ''. What its values must be stands in one of the fragments below.
id IN (SELECT run FROM run_tags WHERE ns = :ns AND name = :name AND (:conditions))

-- name: value_is
value = :value

-- name: value_above
value > :value AND (typeof(value) = 'text') = (typeof(:value) = 'text')

-- name: value_from
value >= :value AND (typeof(value) = 'text') = (typeof(:value) = 'text')

-- name: value_below
value < :value AND (typeof(value) = 'text') = (typeof(:value) = 'text')

-- name: value_to
value <= :value AND (typeof(value) = 'text') = (typeof(:value) = 'text')

-- name: term_text
(
    instr(lower(id), :value) > 0
    OR instr(lower(workflow), :value) > 0
    OR instr(lower(reason), :value) > 0
    OR id IN (
        SELECT run FROM run_tags
        WHERE ns = :ns AND typeof(value) = 'text' AND instr(lower(value), :value) > 0
    )
)
