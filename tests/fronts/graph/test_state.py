"""The immutable map, the predicates over it, and how branches merge."""

from typing import Any

import pytest
from pydantic import TypeAdapter

import holdfast as hf
from holdfast.fronts.graph.merging import Branch, merged, rule_of


def test_every_change_of_a_state_gives_a_new_one() -> None:
    state = hf.State({"a": 1})
    assert state.set("b", 2) == hf.State({"a": 1, "b": 2})
    assert state.merge(hf.State({"a": 9})) == hf.State({"a": 9})
    assert state.without("a", "x") == hf.State()
    assert state.clone() == state
    assert state.clone() is not state
    assert dict(state) == {"a": 1}
    assert state.get("x", "none") == "none"
    assert repr(state) == "State({'a': 1})"


def test_a_state_keeps_none_of_what_it_was_made_of() -> None:
    data = {"a": 1}
    state = hf.State(data)
    data["a"] = 2
    assert state["a"] == 1


class Touchy:
    def __eq__(self, other: object) -> bool:
        raise TypeError("do not compare me")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        (hf.always(), True),
        (hf.key_exists("none"), True),
        (hf.key_exists("x"), False),
        (hf.key_equals("one", 1), True),
        (hf.key_equals("one", 2), False),
        (hf.key_equals("x", None), False),
        (hf.key_equals("touchy", 1), False),
        (hf.not_(hf.key_exists("x")), True),
        (hf.and_(), True),
        (hf.and_(hf.always(), hf.key_exists("x")), False),
        (hf.or_(), False),
        (hf.or_(hf.key_exists("x"), hf.always()), True),
    ],
)
def test_a_predicate_holds_or_not_and_never_raises(predicate: Any, holds: bool) -> None:
    assert predicate(hf.State({"none": None, "one": 1, "touchy": Touchy()})) is holds


def test_a_predicate_is_named_after_what_it_asks() -> None:
    told = hf.and_(hf.not_(hf.key_exists("a")), hf.key_equals("b", "x")).__name__
    assert told == "and_(not_(key_exists(a)), key_equals(b, 'x'))"


def test_predicates_read_fields_too() -> None:
    class Doc:
        page = 3

    assert hf.key_equals("page", 3)(Doc())
    assert not hf.key_exists("title")(Doc())


@pytest.mark.parametrize(
    ("rule", "base", "values", "expected"),
    [
        ("append", ["x"], [["x", "a"], ["x", "b", "c"]], ["x", "a", "b", "c"]),
        ("append", None, [["a"], None, ["b"]], ["a", "b"]),
        ("union", {"x": 1}, [{"x": 1, "a": 2}, {"x": 3}], {"x": 3, "a": 2}),
        ("total", 10, [12, 15], 17),
        ("total", None, [2, 3], 5),
        ("first", 0, [1, 2], 1),
        ("last", 0, [1, 2], 2),
    ],
)
def test_a_rule_merges_what_branches_made_of_a_field(
    rule: Any, base: Any, values: list[Any], expected: Any
) -> None:
    assert rule_of("n", rule)(base, values) == expected


def test_branches_merge_in_declared_order_and_a_lone_writer_needs_no_rule() -> None:
    branches = [
        Branch({"a": 1, "n": [1]}, {"a": "left", "n": "left"}),
        Branch({"a": 0, "n": [2]}, {"n": "right"}),
    ]
    update, writers = merged({"a": 0, "n": []}, branches, {"n": rule_of("n", "append")})
    assert update == {"a": 1, "n": [1, 2]}
    assert writers == {"a": "left", "n": "right"}


def test_a_conflict_names_both_writers() -> None:
    branches = [Branch({"n": 1}, {"n": "left"}), Branch({"n": 1}, {"n": "right"})]
    with pytest.raises(hf.MergeConflict, match="Nodes left and right both changed 'n'"):
        merged({"n": 0}, branches, {})


def test_secrets_of_a_state_are_beside_its_values() -> None:
    state = hf.State({"a": 1}).set_secret("token", "hunter22-hunter22")
    assert state.get_secret("token") == hf.Secret("hunter22-hunter22")
    assert "hunter22" not in f"{state!r} {state} {dict(state)} {state.secrets}"
    assert state == hf.State({"a": 1})
    later = state.set("b", 2).without("a").clone()
    assert later.get_secret("token") is not None
    merged = state.merge(hf.State({"c": 3}).set_secret("other", "swordfish"))
    assert [*merged.secrets] == ["token"]
    assert hf.State({"c": 3}).merge(state).get_secret("token") is None
    without = state.delete_secret("token").delete_secret("missing")
    assert without.get_secret("token") is None
    assert state.get_secret("token") is not None


def test_a_secret_needs_a_name_and_a_text() -> None:
    with pytest.raises(hf.InvalidName):
        hf.State().set_secret("", "x")
    with pytest.raises(hf.InvalidValue, match="int is no text"):
        hf.State().set_secret("token", 4711)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_state_outside_of_runs_belongs_to_none() -> None:
    state = hf.State({"a": 1})
    assert (state.run_id, state.checkpoint_node, state.timestamp) == ("", "", None)
    assert hf.State(run_id="doc-42").set("a", 1).merge({"b": 2}).run_id == "doc-42"
    with pytest.raises(hf.InvalidName):
        hf.State(run_id="no\nid")


def test_a_state_tells_what_is_done_to_it() -> None:
    heard: list[hf.ExecutionEvent] = []
    state = hf.State({"a": 1}, run_id="r", on_event=heard.append)
    state.set("b", 2).merge({"c": 3, "d": 4}).clone().without("a")
    told = [(event.type, dict(event.data)) for event in heard]
    assert told == [
        ("state.create", {}),
        ("state.clone", {"keys": 1}),
        ("state.set", {"key": "b"}),
        ("state.clone", {"keys": 2}),
        ("state.merge", {"keys": 2}),
        ("state.clone", {"keys": 4}),
        ("state.clone", {"keys": 4}),
    ]
    assert {(event.source, event.run_id) for event in heard} == {("state", "r")}


def test_a_secret_is_told_as_a_copy_only() -> None:
    heard: list[hf.ExecutionEvent] = []
    hf.State(on_event=heard.append).set_secret("key", "hunter22").delete_secret("key")
    assert [event.type for event in heard] == ["state.create", "state.clone", "state.clone"]
    assert "hunter22" not in repr(heard)


def test_who_hears_of_a_state_disturbs_nothing_and_is_no_part_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(event: hf.ExecutionEvent) -> None:
        raise ValueError("no")

    state = hf.State({"a": 1}, on_event=broken).set("a", 2)
    assert state == hf.State({"a": 2})
    assert "on_event of a state failed" in caplog.text
    caplog.clear()
    assert state.telling(None).set("a", 3)["a"] == 3
    back: hf.State = TypeAdapter(hf.State).validate_json(TypeAdapter(hf.State).dump_json(state))
    assert back.set("a", 4)["a"] == 4
    assert not caplog.text
