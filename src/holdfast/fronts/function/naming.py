"""Which functions may be registered, and under which names.

Everything that can be known at import is refused there, with the line to write instead: a worker
that meets a bad definition an hour later has already accepted runs of it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal

from holdfast.errors import BadDefinition

Kind = Literal["step", "workflow"]

LONGEST_NAME = 255
RESERVED = "/#[]"
"""Step keys are built from names with these: `ship[3]/pack#1`."""


def name_of(function: object, kind: Kind, given: str | None) -> str:
    """Return the name to register `function` under. Raises `BadDefinition`."""
    name = given if given is not None else getattr(function, "__name__", None)
    if name is None:
        raise BadDefinition(
            what=f"{described(function)} has no name of its own",
            hint=f'Give it one: @app.{kind}(name="...").',
        )
    return check_name(name, f"{kind.capitalize()} name")


def check_name(name: object, what: str) -> str:
    """Return `name`, unless it cannot be stored or would make keys ambiguous."""
    if not isinstance(name, str):
        raise BadDefinition(what=f"{what} {name!r} is no text", hint='Write it as "...".')
    bad = next((mark for mark in RESERVED if mark in name), None)
    if bad is not None:
        problem = f"contains {bad!r}"
    elif not name or len(name) > LONGEST_NAME:
        problem = f"has {len(name)} characters"
    elif not name.isprintable():
        problem = "contains unprintable characters"
    else:
        return name
    raise BadDefinition(
        what=f"{what} {name[:60]!r} {problem}",
        hint=f"Use 1 to {LONGEST_NAME} printable characters without / # [ ].",
    )


def check_function(function: Any, kind: Kind) -> None:
    """Refuse what cannot be run as a step or a workflow. Raises `BadDefinition`."""
    found = _fault_of(function, kind)
    if found is not None:
        fault, hint = found
        raise BadDefinition(what=f"{described(function)} {fault}", hint=hint)


def is_async(function: Any) -> bool:
    """Tell whether calling `function` gives a coroutine."""
    return inspect.iscoroutinefunction(_called(function))


def described(function: object) -> str:
    """Name a function, and where it was written, for the person who wrote it."""
    called = _called(function)
    name = getattr(called, "__qualname__", None) or f"a {type(function).__name__}"
    code = getattr(inspect.unwrap(called) if callable(called) else called, "__code__", None)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else str(name)


def _called(function: Any) -> Any:
    """Return what really runs: the function in a partial, the `__call__` of an object."""
    while isinstance(function, functools.partial | staticmethod):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    if inspect.isroutine(function) or inspect.isclass(function) or not callable(function):
        return function
    return function.__call__


def _fault_of(function: Any, kind: Kind) -> tuple[str, str] | None:
    """Return what is wrong with a function and what to write instead, or None."""
    called = _called(function)
    if hasattr(function, "plain"):
        return "is registered already", f"Register its bare function: app.{kind}(it.plain)."
    if not callable(function) or inspect.isclass(function):
        return f"is no function and cannot be a {kind}", f"Put @app.{kind} on a function."
    if getattr(called, "__name__", "") == "<lambda>":
        return f"is a lambda and cannot be a {kind}", "Write it as a named def with annotations."
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        hint = "Return the values as one list instead of yielding them."
        return f"is a generator and cannot be a {kind}", hint
    if _is_method(called):
        hint = f"Move it out of the class, or mark it @staticmethod above @app.{kind}."
        return f"is a method and cannot be a {kind}: nothing would pass it self", hint
    return None if inspect.iscoroutinefunction(called) else _sync_fault_of(called, kind)


def _sync_fault_of(called: Any, kind: Kind) -> tuple[str, str] | None:
    if inspect.iscoroutinefunction(inspect.unwrap(called)):
        hint = "Write the decorator's inner function as `async def` and await in it."
        return "is an async function inside a decorator that is not async", hint
    if kind == "workflow":
        return "is not async and cannot be a workflow", "Write `async def`; its steps may be sync."
    return None


def _is_method(function: Callable[..., object]) -> bool:
    """Tell whether `function` stands in a class body and wants its instance or class."""
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    if inspect.ismethod(function) or not owner or owner.endswith("<locals>"):
        return False
    return next(iter(inspect.signature(function).parameters), "") in ("self", "cls")
