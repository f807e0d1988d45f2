"""What is refused when it is registered, in the exact words a user reads."""

import functools
import re
from dataclasses import dataclass

import pytest

from holdfast.app import App
from holdfast.errors import BadDefinition


def numbers():
    yield 1


async def later_numbers():
    yield 1


async def fetch(url: str) -> str:
    return url


def store(url: str) -> str:
    return url


def hurried(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


class Shop:
    async def open(self) -> None: ...

    async def __call__(self, day: str) -> str:
        return day


REFUSED = {
    "a lambda": (
        lambda url: url,
        "<lambda> (AT) is a lambda and cannot be a KIND. Write it as a named def with annotations.",
    ),
    "a generator": (
        numbers,
        "numbers (AT) is a generator and cannot be a KIND. "
        "Return the values as one list instead of yielding them.",
    ),
    "an async generator": (
        later_numbers,
        "later_numbers (AT) is a generator and cannot be a KIND. "
        "Return the values as one list instead of yielding them.",
    ),
    "a method": (
        Shop.open,
        "Shop.open (AT) is a method and cannot be a KIND: an object does not outlive a crash. "
        "Write a function outside the class, and pass it what it needs.",
    ),
    "a bound method": (
        Shop().open,
        "Shop.open (AT) is no plain function and cannot be a KIND. "
        "Write a `def` that does the call, and put @app.KIND on it.",
    ),
    "a class": (
        Shop,
        "Shop is no plain function and cannot be a KIND. "
        "Write a `def` that does the call, and put @app.KIND on it.",
    ),
    "a callable object": (
        Shop(),
        "Shop object is no plain function and cannot be a KIND. "
        "Write a `def` that does the call, and put @app.KIND on it.",
    ),
    "a partial": (
        functools.partial(fetch, "a"),
        "partial object is no plain function and cannot be a KIND. "
        "Write a `def` that does the call, and put @app.KIND on it.",
    ),
    "a builtin": (
        len,
        "len is no plain function and cannot be a KIND. "
        "Write a `def` that does the call, and put @app.KIND on it.",
    ),
    "a value": (
        42,
        "int object is no plain function and cannot be a KIND. "
        "Write a `def` that does the call, and put @app.KIND on it.",
    ),
    "an async function in a sync wrapper": (
        hurried(fetch),
        "fetch (AT) is an async function inside a decorator that is not async. "
        "Write the decorator's inner function as `async def` and await in it.",
    ),
    "a step": (
        App("other").step(fetch),
        "fetch (AT) is registered already. Register its bare function: app.KIND(it.plain).",
    ),
}


def said(refused: pytest.ExceptionInfo[BadDefinition]) -> str:
    return re.sub(r"\([^()]*\.py:\d+\)", "(AT)", str(refused.value))


@pytest.mark.parametrize("kind", ["step", "workflow"])
@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_run_is_refused(kind, what) -> None:
    function, message = REFUSED[what]
    with pytest.raises(BadDefinition) as refused:
        getattr(App("shop"), kind)(function)
    assert said(refused) == message.replace("KIND", kind) + " [HF101]"


def test_the_place_of_the_function_is_named() -> None:
    line = numbers.__code__.co_firstlineno
    with pytest.raises(BadDefinition, match=re.escape(f"numbers ({__file__}:{line})")):
        App("shop").step(numbers)


def test_a_sync_function_is_no_workflow() -> None:
    with pytest.raises(BadDefinition) as refused:
        App("shop").workflow(store)  # type: ignore[arg-type]
    assert said(refused) == (
        "store (AT) is not async and cannot be a workflow. "
        "Write `async def`; its steps may be sync. [HF101]"
    )


def test_nested_functions_are_welcome() -> None:
    async def nested() -> None: ...

    assert App("shop").workflow(nested).name == "nested"


def test_wrapped_functions_are_welcome() -> None:
    @functools.wraps(store)
    def wrapper(*args):
        return store(*args).upper()

    step = App("shop").step(wrapper)
    assert (step.name, step.plain("a")) == ("store", "A")


def test_text_annotations_may_name_locals_of_the_functions_around() -> None:
    @dataclass
    class Order:
        id: str

    def define():
        @App("shop").step
        def ship(order: "Order", note: "list[str] | None" = None) -> "Order":
            return order

        return ship

    payload = define().signature.encode((Order("42"),), {})
    assert define().signature.decode(payload) == ((Order("42"), None), {})


@pytest.mark.parametrize("name", ["a", "a" * 255, "charge card", "städte.füllen-2", "日本"])
def test_good_names(name) -> None:
    assert App("shop").step(name=name)(fetch).name == name


@pytest.mark.parametrize("kind", ["step", "workflow"])
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "'' has 0 characters"),
        ("a" * 256, f"{'a' * 60!r} has 256 characters"),
        ("a/b", "'a/b' contains '/'"),
        ("a#1", "'a#1' contains '#'"),
        ("a[1]", "'a[1]' contains '['"),
        ("a]", "'a]' contains ']'"),
        ("a\nb", "'a\\nb' contains unprintable characters"),
        ("\ud800", "'\\ud800' contains unprintable characters"),
    ],
)
def test_bad_names(kind, name, problem) -> None:
    with pytest.raises(BadDefinition) as refused:
        getattr(App("shop"), kind)(name=name)(fetch)
    assert str(refused.value) == (
        f"{kind.capitalize()} name {problem}. "
        f"Use 1 to 255 printable characters without / # [ ]. [HF101]"
    )


def test_a_name_that_is_no_text() -> None:
    with pytest.raises(BadDefinition) as refused:
        App("shop").step(name=42)(fetch)  # type: ignore[call-overload]
    assert str(refused.value) == 'Step name 42 is no text. Write it as "...". [HF101]'
