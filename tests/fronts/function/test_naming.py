"""What is refused when it is registered, in the exact words a user reads."""

import functools
import re

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

    @staticmethod
    async def close(day: str) -> str:
        return day

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
        "Shop.open (AT) is a method and cannot be a KIND: nothing would pass it self. "
        "Move it out of the class, or mark it @staticmethod above @app.KIND.",
    ),
    "a class": (
        Shop,
        "Shop is no function and cannot be a KIND. Put @app.KIND on a function.",
    ),
    "a value": (
        42,
        "a int is no function and cannot be a KIND. Put @app.KIND on a function.",
    ),
    "a partial without a name": (
        functools.partial(fetch, "a"),
        'fetch (AT) has no name of its own. Give it one: @app.KIND(name="...").',
    ),
    "an async function in a sync wrapper": (
        hurried(fetch),
        "fetch (AT) is an async function inside a decorator that is not async. "
        "Write the decorator's inner function as `async def` and await in it.",
    ),
    "a step": (
        App("other").step(fetch),
        "Step.__call__ (AT) is registered already. Register its bare function: app.KIND(it.plain).",
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
        App("shop").workflow(store)  # type: ignore[call-overload]
    assert said(refused) == (
        "store (AT) is not async and cannot be a workflow. "
        "Write `async def`; its steps may be sync. [HF101]"
    )


@pytest.mark.parametrize(
    "function",
    [functools.partial(fetch, "a"), Shop(), Shop.close, Shop().open],
    ids=["partial", "callable", "static method", "bound method"],
)
def test_what_runs_on_its_own_may_be_registered_by_name(function) -> None:
    app = App("shop")
    assert app.step(name="named")(function).is_async
    assert app.workflow(name="flow")(function).name == "flow"


def test_nested_functions_are_welcome() -> None:
    async def nested() -> None: ...

    assert App("shop").workflow(nested).name == "nested"


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
