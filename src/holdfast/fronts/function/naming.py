"""Which functions may be registered, and under which names.

Everything that can be known at import is refused there, with the line to write instead: a worker
that meets a bad definition an hour later has already accepted runs of it.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any, Literal

from holdfast.errors import BadDefinition, SecretSerialisationError
from holdfast.model.secrets import Secret

Kind = Literal["step", "workflow"]

_IDENTIFIER = re.compile(r"\b[^\W\d]\w*")

LONGEST_NAME = 255
RESERVED = "/#[]"
"""Step keys are built from names with these: `ship[3]/pack#1`."""


def name_of(function: Callable[..., object], kind: Kind, given: str | None) -> str:
    """Return the name to register `function` under. Raises `BadDefinition`."""
    return check_name(function.__name__ if given is None else given, f"{kind.capitalize()} name")


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
    return inspect.iscoroutinefunction(function)


def described(function: object) -> str:
    """Name a function, and where it was written, for the person who wrote it."""
    name = getattr(function, "__qualname__", None) or f"{type(function).__qualname__} object"
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else str(name)


def local_names(function: Callable[..., object]) -> dict[str, Any]:
    """Return the names that a nested function's annotations take from the functions around it.

    To be called while these still run, as decorators are. Needed where annotations are text.
    """
    owner = function.__qualname__.rpartition(".<locals>.")[0]
    texts = [text for text in function.__annotations__.values() if isinstance(text, str)]
    used = {word for text in texts for word in _IDENTIFIER.findall(text)}
    found: dict[str, Any] = {}
    frame = inspect.currentframe() if owner and used else None
    while frame is not None:
        scope = frame.f_code.co_qualname
        if scope == owner or owner.startswith(f"{scope}.<locals>."):
            local = frame.f_locals
            found = {name: local[name] for name in used if name in local} | found
        frame = frame.f_back
    return found


def _fault_of(function: Any, kind: Kind) -> tuple[str, str] | None:
    """Return what is wrong with a function and what to write instead, or None."""
    if hasattr(function, "plain"):
        return "is registered already", f"Register its bare function: app.{kind}(it.plain)."
    plain = inspect.unwrap(function) if callable(function) else None
    if not (isinstance(plain, FunctionType) and isinstance(function, FunctionType)):
        hint = f"Write a `def` that does the call, and put @app.{kind} on it."
        return f"is no plain function and cannot be a {kind}", hint
    if plain.__name__ == "<lambda>":
        return f"is a lambda and cannot be a {kind}", "Write it as a named def with annotations."
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        hint = "Return the values as one list instead of yielding them."
        return f"is a generator and cannot be a {kind}", hint
    if next(iter(inspect.signature(function).parameters), "") in ("self", "cls"):
        hint = "Write a function outside the class, and pass it what it needs."
        return f"is a method and cannot be a {kind}: an object does not outlive a crash", hint
    for name, annotation in plain.__annotations__.items():
        if _is_secret(annotation, plain):
            subject = "its result" if name == "return" else f"its parameter {name!r}"
            hint = SecretSerialisationError.hint.removeprefix("Leave it out. ")
            return f"cannot be a {kind}: {subject} is an hf.Secret, which is never stored", hint
    return None if is_async(function) else _sync_fault_of(plain, kind)


def _is_secret(annotation: object, function: FunctionType) -> bool:
    if not isinstance(annotation, str):
        return annotation is Secret
    if not annotation.endswith("Secret"):
        return False
    first, *rest = annotation.split(".")
    return functools.reduce(_part_of, rest, function.__globals__.get(first)) is Secret


def _part_of(whole: object, name: str) -> object:
    return getattr(whole, name, None)


def _sync_fault_of(plain: FunctionType, kind: Kind) -> tuple[str, str] | None:
    if is_async(plain):
        hint = "Write the decorator's inner function as `async def` and await in it."
        return "is an async function inside a decorator that is not async", hint
    if kind == "workflow":
        return "is not async and cannot be a workflow", "Write `async def`; its steps may be sync."
    return None
