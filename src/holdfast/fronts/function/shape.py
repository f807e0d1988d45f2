"""The shape of a definition: a few bytes that change when its code does.

They are made of what a run depends on and can be seen without running it: the schemas of input and
result, the text of the body and of the helpers of its module, and the names of the steps these
call. Indentation and blank lines do not count. The same code has the same shape on every Python.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from holdfast.fronts.function.step import Step
from holdfast.machine.values import Signature, digest

STEP = "step "


def shape_of(sources: Sequence[Any], signature: Signature, version: str) -> bytes:
    """Return the shape of this version of the workflow that consists of these functions."""
    types = (signature.schema.hex(), signature.result.digest.hex())
    seen: set[Any] = set()
    parts = [part for function in sources for part in _parts(function, seen)]
    return digest("\n".join((version, *types, *parts)).encode())


def steps_of(function: FunctionType) -> frozenset[str]:
    """Return the names of the steps that a body and the helpers of its module call."""
    parts = _parts(function, set())
    return frozenset(part.removeprefix(STEP) for part in parts if part.startswith(STEP))


def _parts(function: Any, seen: set[Any]) -> Iterator[str]:
    """Yield the text of a function and of the helpers it names, and the names of their steps."""
    seen.add(function)
    yield _text(function)
    known = {**function.__globals__, **_closure(function)}
    for value in [known.get(name) for name in _names(function.__code__)]:
        if isinstance(value, Step):
            yield f"{STEP}{value.name}"
        elif isinstance(value, FunctionType) and value not in seen and _is_near(value, function):
            yield from _parts(value, seen)


def _is_near(helper: FunctionType, function: FunctionType) -> bool:
    return helper.__module__ == function.__module__


def _names(code: CodeType) -> list[str]:
    """Return the global and outer names a function uses, the functions in it included, sorted."""
    found = {*code.co_names, *code.co_freevars}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(_names(constant))
    return sorted(found)


def _closure(function: FunctionType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # defined further down
            continue
    return found


def _text(function: FunctionType) -> str:
    """Return the source, line by line, or the names in it if there is none."""
    code = function.__code__
    # Not by `inspect` and `tokenize`, which take milliseconds: the first start waits for this.
    lines = linecache.getlines(code.co_filename, function.__globals__)
    own = lines[code.co_firstlineno - 1 : _last_line(code)]
    return "\n".join(filter(None, map(str.strip, own))) or " ".join(_names(code))


def _last_line(code: CodeType) -> int:
    ends = [end for _, end, _, _ in code.co_positions() if end is not None]
    ends += [_last_line(part) for part in code.co_consts if isinstance(part, CodeType)]
    return max(ends, default=0)
