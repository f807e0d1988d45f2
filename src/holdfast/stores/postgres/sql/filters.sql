-- What a term of a filter means for one value. Whole fragments are put together, with AND, OR and
-- NOT between them; what a user typed is only ever bound. `model/filters.py` says the same.

-- name: term_status
status = :value::text

-- name: term_workflow
workflow = :value::text

-- name: term_queue
queue = :value::text

-- name: term_id
starts_with(id, :value::text)

-- name: term_reason
strpos(lower(reason COLLATE "C"), :value::text) > 0

-- name: term_since
created_at >= :value::int8

-- name: term_before
created_at < :value::int8

-- name: term_labelled
-- A tag has the name ''. What its values must be stands in one of the fragments below.
id IN (SELECT run FROM holdfast.run_tags WHERE ns = :ns AND name = :name::text AND (:conditions))

-- name: term_never
-- For a text with a zero in it: no text here has one.
false

-- name: word_is
word = :value::text

-- name: word_above
word > :value::text

-- name: word_from
word >= :value::text

-- name: word_below
word < :value::text

-- name: word_to
word <= :value::text

-- name: number_is
number = :value::numeric

-- name: number_above
number > :value::numeric

-- name: number_from
number >= :value::numeric

-- name: number_below
number < :value::numeric

-- name: number_to
number <= :value::numeric

-- name: term_text
(
    strpos(lower(id COLLATE "C"), :value::text) > 0
    OR strpos(lower(workflow COLLATE "C"), :value::text) > 0
    OR strpos(lower(reason COLLATE "C"), :value::text) > 0
    OR id IN (
        SELECT run FROM holdfast.run_tags
        WHERE ns = :ns AND word IS NOT NULL AND strpos(lower(word COLLATE "C"), :value::text) > 0
    )
)
