"""A call crosses as one object by parameter name, however it was written."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import BadDefinition, InvalidValue, PayloadTooLarge, Unserialisable
from holdfast.machine.values import Schema, Signature
from tests.machine.values.kinds import Address, Dog, Line, Opaque, Order, Tree

if TYPE_CHECKING:
    from typing import Unpack

    from nowhere import Hidden  # type: ignore[import-not-found]


def one(x: int) -> str: ...  # type: ignore[empty-body]
def untyped(x): ...
def nothing() -> None: ...
def usual(order: Order, times: int = 2, *, fast: bool = False) -> list[Order]: ...  # type: ignore[empty-body]
def many(first: int, *rest: Line, **named: Dog) -> None: ...
def only(a: int, b: str = "b", /, c: float = 1.5) -> None: ...
def trees(a: Tree, b: Tree, c: list[Tree]) -> Tree: ...  # type: ignore[empty-body]
def hidden(x: Hidden) -> None: ...
def hidden_result(x: int) -> Hidden: ...
def opaque(fine: int, bad: Opaque) -> None: ...
def opaque_result() -> Opaque: ...  # type: ignore[empty-body]


ORDER = Order("o", [Line("s", 1)])
ORDER_JSON = b'{"id":"o","items":[{"sku":"s","price":1,"tags":[]}]}'

CALLS: dict[str, tuple[Any, list[tuple[tuple[Any, ...], dict[str, Any]]], bytes]] = {
    "one": (one, [((1,), {}), ((), {"x": 1})], b'{"x":1}'),
    "untyped": (untyped, [(({"a": None},), {})], b'{"x":{"a":null}}'),
    "nothing": (nothing, [((), {})], b"{}"),
    "usual": (
        usual,
        [((ORDER,), {}), ((), {"times": 2, "order": ORDER}), ((ORDER, 2), {"fast": False})],
        b'{"order":' + ORDER_JSON + b',"times":2,"fast":false}',
    ),
    "many": (
        many,
        [((1, Line("a", 0), Line("b", 0)), {"rex": Dog(name="r")})],
        b'{"first":1,"rest":[{"sku":"a","price":0,"tags":[]},{"sku":"b","price":0,"tags":[]}],'
        b'"named":{"rex":{"name":"r","tricks":[]}}}',
    ),
    "many of none": (many, [((1,), {})], b'{"first":1,"rest":[],"named":{}}'),
    "many, one named": (many, [((), {"first": 1})], b'{"first":1,"rest":[],"named":{}}'),
    "only": (only, [((1,), {}), ((1, "b"), {"c": 1.5})], b'{"a":1,"b":"b","c":1.5}'),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_one_form_however_it_is_written(name):
    function, calls, payload = CALLS[name]
    signature = Signature.of(function)

    assert {signature.encode(args, kwargs) for args, kwargs in calls} == {payload}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_decoded_makes_the_same_call(name):
    function, _, payload = CALLS[name]
    signature = Signature.of(function)

    args, kwargs = signature.decode(payload)

    assert signature.encode(args, kwargs) == payload


def test_positional_parameters_are_passed_by_position():
    assert Signature.of(one).decode(b'{"x":1}') == ((1,), {})
    args, kwargs = Signature.of(usual).decode(CALLS["usual"][2])
    assert (args, kwargs) == ((ORDER, 2), {"fast": False})


def test_a_parameter_added_with_a_default_leaves_old_payloads_readable():
    args, kwargs = Signature.of(usual).decode(b'{"order":' + ORDER_JSON + b"}")
    assert (args, kwargs) == ((ORDER, 2), {"fast": False})
    assert Signature.of(only).decode(b'{"a":1}') == ((1, "b", 1.5), {})
    assert Signature.of(many).decode(b'{"first":1}') == ((1,), {})


def test_recursive_classes_may_be_shared_by_parameters():
    signature = Signature.of(trees)
    leaf = Tree(value=1, children=[])  # type: ignore[arg-type]

    args, _ = signature.decode(signature.encode((leaf, leaf, [leaf]), {}))

    assert args == (leaf, leaf, [leaf])


def test_keywords_typed_by_a_typed_dict():
    def send(**address: Unpack[Address]) -> None: ...

    from typing import Unpack as Present

    signature = Signature.of(send, names={"Unpack": Present})

    assert signature.decode(signature.encode((), {"street": "s"})) == ((), {"street": "s"})
    with pytest.raises(Unserialisable, match="street"):
        signature.encode((), {"street": 5})


@pytest.mark.parametrize(
    ("args", "kwargs", "path", "found"),
    [
        ((Order("o", [Line("s", {"a": (1,)})]),), {}, "order.items[0].price.a", "tuple"),
        ((ORDER,), {"times": True}, "times", "bool"),
        ((ORDER,), {"times": "2"}, "times", "str"),
        ((ORDER, 10**4300), {}, "times", "int of about 4,301 digits"),
        ((Order("\ud800"),), {}, "order.id", "str with a lone surrogate at index 0"),
    ],
)
def test_an_argument_that_would_be_lost_is_refused_with_its_path(args, kwargs, path, found):
    with pytest.raises(Unserialisable) as caught:
        Signature.of(usual).encode(args, kwargs)

    assert type(caught.value) is Unserialisable
    assert (caught.value.path, caught.value.found) == (path, found)
    assert caught.value.where == "arguments of usual"


@pytest.mark.parametrize("bad", ["\ud800", "a\0b"])
def test_the_fast_path_for_exact_scalars_keeps_the_limits(bad):
    def greet(name: str) -> None: ...

    with pytest.raises(Unserialisable) as caught:
        Signature.of(greet).encode((bad,), {})
    assert caught.value.path == "name"

    with pytest.raises(PayloadTooLarge):
        Signature.of(greet).encode(("x" * 3_000_000,), {})


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "problem"),
    [
        (one, (), {}, "missing a required argument: 'x'"),
        (one, (1, 2), {}, "too many positional arguments"),
        (one, (1,), {"x": 1}, "multiple values for argument 'x'"),
        (one, (1,), {"y": 1}, "got an unexpected keyword argument 'y'"),
        (only, (), {"a": 1}, "positional"),
        (usual, (ORDER, 1, True), {}, "too many positional arguments"),
    ],
)
def test_a_call_the_function_would_not_take_is_a_type_error(function, args, kwargs, problem):
    with pytest.raises(TypeError, match=problem) as caught:
        Signature.of(function).encode(args, kwargs)

    assert f": {function.__name__}(" in str(caught.value)


@pytest.mark.parametrize(
    ("payload", "path", "problem"),
    [
        (b"{}", "x", "Field required"),
        (b'{"x":"1"}', "x", "Input should be a valid integer"),
        (b'{"x":1,"y":2}', "y", "Extra inputs are not permitted"),
        (b"[]", "arguments", "Input should be an object"),
    ],
)
def test_a_payload_that_is_no_call_is_refused(payload, path, problem):
    with pytest.raises(InvalidValue) as caught:
        Signature.of(one).decode(payload)

    assert (caught.value.path, caught.value.problem) == (path, problem)


def test_results_have_a_schema():
    assert Signature.of(one).result is Schema.of(str)
    assert Signature.of(untyped).result is Schema.of(Any)
    assert Signature.of(nothing).result is Schema.of(type(None))
    assert Signature.of(nothing).result.encode(None, where="result") == b"null"


def test_the_schema_digest_knows_names_order_and_types():
    def ab(a: int, b: int) -> None: ...
    def ba(b: int, a: int) -> None: ...
    def ac(a: int, c: int) -> None: ...
    def text(a: int, b: str) -> None: ...
    def default(a: int, b: int = 1) -> None: ...

    digests = [Signature.of(function).schema for function in (ab, ba, ac, text, default)]
    assert len(set(digests)) == 5
    assert {len(digest) for digest in digests} == {8}
    assert Signature.of(ab).schema == digests[0]


def test_a_wrapped_function_has_the_signature_of_the_inner_one():
    @functools.wraps(one)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return one(*args, **kwargs)

    assert Signature.of(wrapper).encode((1,), {}) == b'{"x":1}'


class Shop:
    def sell(self, x: int) -> None: ...


def local_function() -> Any:
    class Local: ...

    def use(x: Local) -> None: ...

    return use


@pytest.mark.parametrize(
    ("function", "what", "hint"),
    [
        (Shop.sell, "Shop.sell takes 'self', so it is a method", "plain function"),
        (Shop().sell, "Shop.sell is no plain function", "def sell(...)"),
        (functools.partial(one, 1), "partial is no plain function", "def partial(...)"),
        (hidden, "Parameter 'x' of hidden is annotated 'Hidden'", "not under TYPE_CHECKING"),
        (hidden_result, "The result of hidden_result is annotated 'Hidden'", "TYPE_CHECKING"),
        (local_function(), "Parameter 'x' of use is annotated 'Local'", "not inside a function"),
        (opaque, "Parameter 'bad' of opaque (`Opaque`) cannot be stored", "a dataclass"),
        (opaque_result, "The result of opaque_result cannot be stored", "a dataclass"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_cannot_cross_is_refused_when_it_is_registered(function, what, hint):
    with pytest.raises(BadDefinition) as caught:
        Signature.of(function)

    assert what in caught.value.what
    assert hint in caught.value.hint
