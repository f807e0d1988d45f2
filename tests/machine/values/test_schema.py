"""What crosses comes back equal and of the same type, and as the same bytes everywhere."""

import os
import subprocess
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from typing_extensions import TypedDict

from holdfast.errors import BadDefinition, InvalidValue, Unserialisable
from holdfast.machine.values import Schema, digest
from holdfast.machine.values.compare import difference
from tests.machine.values.kinds import (
    Address,
    Animal,
    Blob,
    Break,
    Color,
    Dog,
    Level,
    Line,
    Opaque,
    Order,
    Point,
    Renamed,
    Shift,
    Tree,
)

WHERE = "result of charge#1"

CROSSES: list[tuple[Any, Any, bytes]] = [
    (Any, None, b"null"),
    (Any, {"a": [1, 2.5, True, None, "x", {}]}, b'{"a":[1,2.5,true,null,"x",{}]}'),
    (Parameter.empty, [], b"[]"),
    (object, 0, b"0"),
    (dict, {}, b"{}"),
    (list, [False], b"[false]"),
    (tuple, (1, "a"), b'[1,"a"]'),
    (None, None, b"null"),
    (bool, False, b"false"),
    (int, 0, b"0"),
    (int, 2**70, b"1180591620717411303424"),
    (float, -0.0, b"-0.0"),
    (float, 5, b"5.0"),
    (str, "", b'""'),
    (str, "é\n", '"é\\n"'.encode()),
    (str, "\\u0000", b'"\\\\u0000"'),
    (bytes, b"\xff\x00", b'"_wA="'),
    (Decimal, Decimal("1.50"), b'"1.50"'),
    (datetime, datetime(2026, 1, 2, 3, tzinfo=UTC), b'"2026-01-02T03:00:00Z"'),
    (datetime, datetime(2026, 1, 2, 3), b'"2026-01-02T03:00:00"'),  # noqa: DTZ001
    (date, date(2026, 1, 2), b'"2026-01-02"'),
    (time, time(3, 4), b'"03:04:00"'),
    (timedelta, timedelta(seconds=-1.5), b'"-PT1.5S"'),
    (uuid.UUID, uuid.UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
    (Path, Path("/a"), b'"/a"'),
    (Color, Color.TEN, b"10"),
    (Level, Level.LOW, b"1"),
    (Literal["a", 1], 1, b"1"),
    (int | None, None, b"null"),
    (int | str, "5", b'"5"'),
    (float | int, 1, b"1"),
    (str | datetime, "2026-01-02T03:00:00Z", b'"2026-01-02T03:00:00Z"'),
    (tuple[int, ...], (1, 2), b"[1,2]"),
    (tuple[int, str], (1, "a"), b'[1,"a"]'),
    (set[str], {"b", "a", "c"}, b'["a","b","c"]'),
    (frozenset[int], frozenset({3, 1}), b"[1,3]"),
    (dict[int, str], {2: "b", 1: "a"}, b'{"2":"b","1":"a"}'),
    (dict[date, list[Point]], {date(2026, 1, 2): [Point(1)]}, b'{"2026-01-02":[[1,0.0]]}'),
    (deque[int], deque([1]), b"[1]"),
    (OrderedDict[str, int], OrderedDict(a=1), b'{"a":1}'),
    (defaultdict[str, int], defaultdict(int, a=1), b'{"a":1}'),
    (time, time(9, tzinfo=UTC), b'"09:00:00Z"'),
    (Counter[str], Counter("aab"), b'{"a":2,"b":1}'),
    (Address, {"number": 1, "street": "s"}, b'{"number":1,"street":"s"}'),
    (Order, Order("o", [Line("s", 1)]), b'{"id":"o","items":[{"sku":"s","price":1,"tags":[]}]}'),
    (Dog, Dog(name="d", tricks={"z", "sit"}), b'{"name":"d","tricks":["sit","z"]}'),
    (Dog | Animal, Dog(name="a"), b'{"name":"a","tricks":[]}'),
    (Blob, Blob(content=b"\xff"), b'{"content":"_w==","at":null}'),
    (Renamed, Renamed(userId=3), b'{"user":3}'),
    (
        Shift,
        Shift(begins=datetime(2026, 1, 2, tzinfo=UTC), lasts=timedelta(hours=8)),
        b'{"begins":"2026-01-02T00:00:00Z","lasts":"PT8H"}',
    ),
    (Break, Break(lasts=timedelta(minutes=15)), b'{"lasts":"PT15M"}'),
    (
        Tree,
        Tree(value=Decimal("1"), children=[Tree(value=Decimal("2.0"))]),
        b'{"value":"1","children":[{"value":"2.0","children":[]}]}',
    ),
    (Annotated[int, Field(gt=0)], 4, b"4"),
]


@pytest.mark.parametrize(
    ("annotation", "value", "payload"),
    CROSSES,
    ids=[case[2].decode("ascii", "replace")[:40] for case in CROSSES],
)
def test_what_crosses_comes_back_the_same(annotation, value, payload):
    schema = Schema.of(annotation)

    written, back = schema.cross(value, where=WHERE)

    assert written == payload == schema.encode(value, where=WHERE)
    assert difference(value, back) is None
    assert difference(value, schema.decode(payload, where=WHERE)) is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab[{\\u0 "), inner),
    max_leaves=20,
)


def unfolded(clock: Any) -> Any:
    """Without a zone the fold cannot cross; `test_refusals` has a row for it."""
    return clock.replace(fold=0)


ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=-3, minutes=-30))])
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
MADE = {
    "any": (Any, JSON),
    "object": (dict[str, object], st.dictionaries(TEXT, JSON)),
    "int": (int, st.integers()),
    "float": (float, st.floats(allow_nan=False, allow_infinity=False)),
    "str": (str, TEXT),
    "bytes": (bytes, st.binary()),
    "datetime": (datetime, st.datetimes(timezones=ZONES).map(unfolded)),
    "date": (date, st.dates()),
    "time": (time, st.times().map(unfolded)),
    "timedelta": (timedelta, st.timedeltas()),
    "decimal": (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    "uuid": (uuid.UUID, st.uuids()),
    "enum": (Color, st.sampled_from(Color)),
    "union": (int | str | None, st.integers() | TEXT | st.none()),
    "tuple": (tuple[int, str, bool], st.tuples(st.integers(), TEXT, st.booleans())),
    "set": (set[bytes], st.sets(st.binary())),
    "nested": (dict[int, list[set[str]]], st.dictionaries(st.integers(), st.lists(st.sets(TEXT)))),
    "dataclass": (Line, st.builds(Line, TEXT, JSON, st.frozensets(TEXT))),
    "model": (Dog, st.builds(Dog, name=TEXT, tricks=st.sets(TEXT))),
    "named tuple": (list[Point], st.lists(st.builds(Point, st.integers(), st.just(0.5)))),
}


@pytest.mark.parametrize("kind", MADE)
def test_any_value_of_an_annotation_comes_back_the_same(kind):
    annotation, values = MADE[kind]
    schema = Schema.of(annotation)

    @given(values)
    def check(value):
        payload, back = schema.cross(value, where=WHERE)
        assert difference(value, back) is None
        assert schema.encode(back, where=WHERE) == payload

    check()


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (dict[str, int], {"a": True}),
        (list[float], [True]),
        (dict[bool, int], {1: 1}),
        (dict[int, int], {1.0: 1}),
        (dict[str, Any], {"a": Level.LOW}),
        (dict[str, Any], OrderedDict(a=1)),
    ],
    ids=str,
)
def test_an_equal_of_another_type_is_refused(annotation, value):
    with pytest.raises(Unserialisable):
        Schema.of(annotation).cross(value, where=WHERE)


def test_no_mutable_object_is_shared():
    sent = {"a": [1]}

    _, back = Schema.of(Any).cross(sent, where=WHERE)
    back["a"].append(2)

    assert sent == {"a": [1]}


def test_a_zone_comes_back_as_its_offset_even_in_the_repeated_hour():
    sent = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))

    _, back = Schema.of(datetime).cross(sent, where=WHERE)

    assert back.utcoffset() == timedelta(hours=1)
    assert back.replace(tzinfo=None) == datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001


def test_an_int_of_the_most_digits_allowed_crosses():
    sent = 10**4299
    assert Schema.of(int).cross(sent, where=WHERE)[1] == sent


def test_many_small_containers_are_not_deep():
    sent = [{"a": [index]} for index in range(200)]
    assert Schema.of(Any).cross(sent, where=WHERE)[1] == sent


@pytest.mark.parametrize(
    ("annotation", "payload", "path", "problem"),
    [
        (Order, b'{"id":"o","items":[{"sku":1,"price":0}]}', "input.items[0].sku", "valid string"),
        (int, b'"5"', "input", "valid integer"),
        (int, b"1.5", "input", "valid integer"),
        (int, b"{", "input", "Invalid JSON"),
        (float, b"NaN", "input", "finite number"),
        (Order, b"{}", "input.id", "Field required"),
        (dict[str, int], b'{"a b":[],"c":[]}', "input['a b']", "valid integer (and 1 more)"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_with_its_path(annotation, payload, path, problem):
    with pytest.raises(InvalidValue) as caught:
        Schema.of(annotation).decode(payload, where="input of shop")

    assert caught.value.path == path
    assert problem in caught.value.problem


def test_a_refusal_does_not_quote_the_value():
    with pytest.raises(InvalidValue) as caught:
        Schema.of(int).decode(b'"hunter2"', where="input of shop")

    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_type_that_cannot_be_stored_is_refused_when_built():
    with pytest.raises(BadDefinition, match=r"`Opaque` cannot be stored as JSON.*dataclass"):
        Schema.of(Opaque).build()


def test_schemas_are_kept_by_annotation_and_order():
    assert Schema.of(list[int]) is Schema.of(list[int])
    assert Schema.of(int | str) is not Schema.of(str | int)
    assert Schema.of(Annotated[int, {"not": "hashable"}]).encode(1, where=WHERE) == b"1"


def test_digests_tell_shapes_apart():
    annotations = [Any, int, str, list[int], tuple[int, int], set[int], Order, Dog, int | None]
    assert len({Schema.of(annotation).digest for annotation in annotations}) == len(annotations)
    assert all(len(Schema.of(annotation).digest) == 8 for annotation in annotations)
    assert Schema.of(int | str).digest == Schema.of(str | int).digest


def test_a_digest_ignores_prose_but_not_a_field_named_title():
    class Titled(TypedDict):
        title: int

    class Other(TypedDict):
        name: int

    described = Annotated[int, Field(description="how many")]

    assert Schema.of(described).digest == Schema.of(int).digest
    assert Schema.of(Titled).digest != Schema.of(Other).digest


def test_json_schemas_use_field_names_and_leave_open_what_they_cannot_say():
    assert Schema.of(dict[str, int]).json_schema()["additionalProperties"] == {"type": "integer"}
    assert list(Schema.of(Renamed).json_schema()["properties"]) == ["user"]
    assert Schema.of(Callable[[], int]).json_schema() == {"$comment": "python: callable"}


SCRIPT = """
from tests.machine.values.kinds import *
from holdfast.machine.values import Schema
value = Dog(name="d", tricks={str(n) for n in range(50)})
print(Schema.of(dict[str, Dog | Order | Color]).digest.hex())
print(Schema.of(dict[str, Dog]).encode({"a": value}, where="result").hex())
"""


def test_bytes_and_digests_do_not_depend_on_the_start_of_the_interpreter():
    def run(seed):
        paths = os.pathsep.join(entry for entry in [*sys.path, "."] if entry)
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        command = [sys.executable, "-c", SCRIPT]
        return subprocess.run(command, env=environment, capture_output=True, check=True).stdout

    assert run("1") == run("2")


def test_the_digest_of_a_payload_is_fixed_for_ever():
    assert digest(b"{}").hex() == "01e7b720ff566d53"
