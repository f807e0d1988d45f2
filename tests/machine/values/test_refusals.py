"""What would be lost is refused, with its path and with what to write instead."""

import math
from collections import defaultdict, deque
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from weakref import WeakSet
from zoneinfo import ZoneInfo

import pytest
from pydantic import SecretStr

from holdfast.errors import PayloadTooLarge, Unserialisable, UnserialisableResult
from holdfast.machine.values import MAX_PAYLOAD, Schema
from holdfast.model import sizes
from tests.machine.values.kinds import (
    Animal,
    Color,
    Counted,
    Dog,
    Level,
    Line,
    Login,
    Opaque,
    Order,
    RushOrder,
)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def counted() -> Counted:
    value = Counted(count=1)
    value._seen = 7
    return value


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


NOON = datetime(2026, 1, 2, 12)  # noqa: DTZ001
LOGIN = Login(password=SecretStr("x"))
SOLD = Order("o", [Line("a", 1), Line("b", 2), Line("c", 3), Line("d", (1, 2))])

LOSSES: dict[str, tuple[Any, Any, str, str, str, str]] = {
    # name: annotation, value, path, found, wanted, part of the hint
    "tuple under Any": (Any, (1, 2), "", "tuple", "list", "`tuple[int, int]`"),
    "tuple deep under Any": (Any, {"a": [0, ("x",)]}, ".a[1]", "tuple", "list", "`tuple[str]`"),
    "tuple in a field": (Order, SOLD, ".items[3].price", "tuple", "list", "`tuple[int, int]`"),
    "set under Any": (Any, {"s": {1}}, ".s", "set", "list", "`set[int]`"),
    "Enum under Any": (Any, [Color.RED], "[0]", "Color", "str", "`Color`"),
    "IntEnum under int": (int, Level.LOW, "", "Level", "int", "`Level`"),
    "datetime under Any": (Any, NOON, "", "datetime", "str", "`datetime`"),
    "int keys of a dict": (
        dict,
        {1: "a"},
        "",
        "dict with int keys",
        "other keys",
        "dict[int, str]",
    ),
    "str before datetime": (str | datetime, NOON, "", "datetime", "str", "Literal tag"),
    "datetime before str": (
        datetime | str,
        "2026-01-02T12:00:00",
        "",
        "str",
        "datetime",
        "Literal tag",
    ),
    "base before its subclass": (Dog | Animal, Animal(name="a"), "", "Animal", "Dog", "Literal"),
    "repeated hour": (
        list[datetime],
        [NOON.replace(fold=1)],
        "[0]",
        "datetime with fold=1",
        "datetime with fold=0",
        "tzinfo",
    ),
    "time with a zone": (
        list[time],
        [time(9, tzinfo=ZoneInfo("Europe/Berlin"))],
        "[0]",
        "time with a zone that has no offset",
        "time without a zone",
        "datetime",
    ),
    "bounded deque": (
        deque[int],
        deque([1], maxlen=3),
        "",
        "deque with maxlen=3",
        "deque with maxlen=None",
        "list",
    ),
    "default of another kind": (
        defaultdict[str, int],
        defaultdict(lambda: 5),
        "",
        "defaultdict with another default_factory",
        "defaultdict with int",
        "dict",
    ),
    "no default": (
        dict[str, defaultdict[str, int]],
        {"a": defaultdict(None, b=1)},
        ".a",
        "defaultdict with another default_factory",
        "defaultdict with int",
        "dict",
    ),
    "Decimal under Any": (Any, Decimal("1.0"), "", "Decimal", "str", "`Decimal`"),
    "infinity": (list[float], [1.0, math.inf], "[1]", "float inf", "null", "send None"),
    "bool under int": (int, True, "", "bool", "int", "`bool`"),
    "inexact float": (float, 2**53 + 1, "", "int", "float", "`int`"),
    "model behind its base": (list[Animal], [Dog(name="d")], "[0]", "Dog", "Animal", "`Dog`"),
    "dataclass behind its base": (Order, RushOrder("o"), "", "RushOrder", "Order", "`RushOrder`"),
    "secret": (
        Login,
        LOGIN,
        ".password",
        "SecretStr",
        "another SecretStr",
        "secret",
    ),
    "private attribute": (Counted, counted(), "._seen", "int", "another int", "private"),
    "bytearray": (bytes, bytearray(b"a"), "", "bytearray", "nothing: it has no JSON form", "JSON"),
    "unknown object": (
        dict[str, Any],
        {"a": [Opaque()]},
        ".a[0]",
        "Opaque",
        "nothing: it has no JSON form",
        "a dataclass",
    ),
    "wrong type": (
        Order,
        Order("o", [Line(sku=5, price=1)]),  # type: ignore[arg-type]
        ".items[0].sku",
        "int",
        "an error (Input should be a valid string)",
        "`int`",
    ),
    "tuple keys": (
        dict[tuple[int, int], int],
        {(1, 2): 3},
        "",
        "dict[tuple[int, int], int]",
        "an error (its keys cannot be read back)",
        "list of pairs",
    ),
    "keys that collide": (
        dict[int | str, int],
        {1: 1, "1": 2},
        "",
        "dict with int and str keys",
        "other keys",
        "keys of one type",
    ),
    "NaN": (Any, {"a": float("nan")}, ".a", "float nan", "null", "send None"),
    "optional NaN": (float | None, float("nan"), "", "float nan", "null", "send None"),
    "NUL": (
        str,
        "a\0b",
        "",
        "str with NUL at index 1",
        "nothing: databases cut text there",
        "bytes",
    ),
    "NUL in a key": (
        Any,
        {"a\0": 1},
        "{key}",
        "str with NUL at index 1",
        "nothing: databases cut text there",
        "bytes",
    ),
    "surrogate": (
        Any,
        {"two words": "a\ud800"},
        "['two words']",
        "str with a lone surrogate at index 1",
        "nothing: it is no valid UTF-8",
        "replace",
    ),
    "surrogate alone": (
        str,
        "\ud800",
        "",
        "str with a lone surrogate at index 0",
        "nothing: it is no valid UTF-8",
        "replace",
    ),
    "digits": (
        Any,
        [10**4300],
        "[0]",
        "int of about 4,301 digits",
        "nothing: the limit is 4,300 digits",
        "bytes",
    ),
    "depth": (Any, nested(65), "", "nesting depth 65", "nothing: the limit is 64", "Flatten"),
    "cycle": (
        Any,
        circular(),
        "",
        "nesting depth more than 64",
        "nothing: the limit is 64",
        "cycle",
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_refused_and_says_what_to_write(name):
    annotation, value, steps, found, wanted, hint = LOSSES[name]

    with pytest.raises(UnserialisableResult) as caught:
        Schema.of(annotation).cross(value, where="result of charge#1")

    error = caught.value
    assert (error.path, error.found, error.wanted) == (f"result{steps}", found, wanted)
    assert hint in error.hint
    assert error.where == "result of charge#1"
    assert error.path in str(error)


@pytest.mark.parametrize("annotation", [str, Any, list[str]])
def test_a_call_that_nobody_awaited_is_named_as_such(annotation):
    async def fetch() -> str:
        return "page"

    call = fetch()
    value = [call] if annotation == list[str] else call
    with pytest.raises(UnserialisableResult, match="nobody awaited: write `await` before it"):
        Schema.of(annotation).cross(value, where="result of the workflow")
    call.close()


def test_encode_refuses_what_cross_refuses():
    with pytest.raises(UnserialisableResult):
        Schema.of(Any).encode((1,), where="result")


def test_only_results_are_called_results():
    with pytest.raises(Unserialisable) as caught:
        Schema.of(Any).cross({"a": (1,)}, where="signal approve")

    assert type(caught.value) is Unserialisable
    assert caught.value.path == "signal.a"


def test_the_deepest_value_allowed_crosses():
    value = nested(64)
    assert Schema.of(Any).cross(value, where="result")[1] == value


def test_brackets_in_text_do_not_count_as_depth():
    value = ["[" * 1000, "{" * 1000]
    assert Schema.of(Any).cross(value, where="result")[1] == value


@pytest.mark.parametrize("annotation", [str, Any, list[str]])
def test_a_payload_over_the_limit_is_refused_with_its_size(annotation, monkeypatch):
    monkeypatch.setattr(sizes, "_keepers", WeakSet())  # what other tests have left open
    text = "x" * MAX_PAYLOAD
    value = [text] if annotation == list[str] else text

    with pytest.raises(PayloadTooLarge, match=r"2,097,15\d bytes.*limit is 2,097,152") as caught:
        Schema.of(annotation).encode(value, where="result of charge#1")

    assert caught.value.size > caught.value.limit == MAX_PAYLOAD


def test_an_open_file_is_named_as_such(tmp_path: Path):
    with (tmp_path / "a").open("w+") as file, pytest.raises(Unserialisable) as caught:
        Schema.of(Any).encode({"log": file}, where="result")

    assert caught.value.path == "result.log"
    assert "open files" in caught.value.hint


def test_a_refusal_does_not_quote_the_value():
    with pytest.raises(Unserialisable) as caught:
        Schema.of(list[int]).encode(["hunter2"], where="result")

    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__
