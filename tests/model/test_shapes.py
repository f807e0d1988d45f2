"""What a process without the code can tell of an answer: whether its shape is right."""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import BaseModel, Field

from holdfast.errors import HoldfastError
from holdfast.machine.values import Schema
from holdfast.model.shapes import misfit, wanted


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Order(BaseModel):
    id: str
    points: list[Point]
    colour: Colour | None = None
    rest: dict[str, int] = Field(default_factory=dict)


class Strict(BaseModel, extra="forbid"):
    n: Annotated[int, Field(ge=1, le=9)]
    name: Annotated[str, Field(min_length=2, max_length=4)] = "ab"


KINDS: list[Any] = [
    bool, int, float, str, Colour, Point, Order, Strict, Literal["yes", "no", 3], int | str | None,
    list[Point], dict[str, bool], tuple[int, str], Any, None,
]  # fmt: skip

NAMES = some.sampled_from(["id", "points", "colour", "rest", "x", "y", "n", "name", "other"])
SIMPLE = some.none() | some.booleans() | some.integers(-3, 12) | some.floats(-2, 2)
WORDS = some.sampled_from(["red", "yes", "no", "a", "ab", "abcde", ""])
VALUES = some.recursive(
    SIMPLE | WORDS,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(some.sampled_from(KINDS), VALUES)
def test_what_the_code_takes_is_never_refused(kind: Any, value: Any) -> None:
    """The other way round is no rule: only the code knows all."""
    schema = Schema.of(kind)
    try:
        schema.decode(json.dumps(value).encode(), where="answer")
    except HoldfastError:
        return
    assert misfit(schema.json_schema(), value) is None


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        (bool, 1, ("answer", "1 is not true or false")),
        (bool, "yes", ("answer", '"yes" is not true or false')),
        (int, True, ("answer", "true is not a whole number")),
        (int, 1.5, ("answer", "1.5 is not a whole number")),
        (Colour, "green", ("answer", '"green" is not one of "red", "blue"')),
        (Literal["yes", "no"], "maybe", ("answer", '"maybe" is not one of "yes", "no"')),
        (Point, {"y": 1}, ("answer", "x is missing")),
        (Point, [], ("answer", "[] is not an object with x, y")),
        (Point, {"x": "1"}, ("answer.x", '"1" is not a whole number')),
        (Order, {"id": "a", "points": [{"x": 1}, {}]}, ("answer.points[1]", "x is missing")),
        (Order, {"id": "a", "points": [], "rest": {"k": "v"}},
         ("answer.rest.k", '"v" is not a whole number')),
        (Order, {"id": "a", "points": [], "colour": "green"},
         ("answer.colour", '"green" is not one of "red", "blue" or null')),
        (Strict, {"n": 0}, ("answer.n", "0 must be at least 1")),
        (Strict, {"n": 10}, ("answer.n", "10 must be at most 9")),
        (Strict, {"n": 1, "name": "a"}, ("answer.name", '"a" must have at least 2 characters')),
        (Strict, {"n": 1, "m": 2}, ("answer.m", "there is no such field; there are n, name")),
        (tuple[int, str], [1, 2], ("answer[1]", "2 is not a text")),
        (int | str, None, ("answer", "null is not a whole number or a text")),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(kind: Any, value: Any, problem: tuple[str, str]) -> None:
    assert misfit(Schema.of(kind).json_schema(), value) == problem


def test_what_fits_is_said_in_words() -> None:
    assert wanted(Schema.of(Order).json_schema()) == "an object with id, points, colour, rest"
    assert wanted(Schema.of(Any).json_schema()) == "any JSON"
    assert wanted(Schema.of(bool | None).json_schema()) == "true or false or null"


def test_a_schema_that_refers_to_itself_has_an_end() -> None:
    loop = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}
    assert misfit(loop, 1) is None
    tree = {"$ref": "#/$defs/T", "$defs": {"T": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    problem = misfit(tree, deep)
    assert problem is not None
    assert "deeper than 64" in problem[1]
