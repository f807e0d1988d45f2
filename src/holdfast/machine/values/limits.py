"""What no annotation can make storable: NaN, lone surrogates, NUL, huge ints, endless depth.

Nothing here runs for a value that crosses. It finds the place and the words once a value was
refused, or once its bytes look as if it should be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from holdfast.machine.values.walk import is_kind, parts

MAX_DEPTH = 64
MAX_DIGITS = 4_300
MAX_KEYS = 10_000

# An int of fewer bits than this surely has no more than MAX_DIGITS digits.
_SURELY_SHORT = int(MAX_DIGITS * math.log2(10)) - 1


class Problem(NamedTuple):
    """Why the value at the end of `steps` cannot be stored."""

    steps: str
    found: str
    wanted: str
    hint: str


def over_a_limit(value: Any) -> Problem | None:
    """Return the first breach of a limit, depth first, or None."""
    return _search(value, "", 0)


def _search(value: Any, steps: str, depth: int) -> Problem | None:
    problem = _scalar_problem(value, steps)
    if problem is not None:
        return problem
    # The parts of a scalar are none, so depth counts containers only.
    for step, part in parts(value):
        if depth == MAX_DEPTH:
            return _too_deep()
        problem = _search(part, steps + step, depth + 1)
        if problem is not None:
            return problem
    return None


def _scalar_problem(value: Any, steps: str) -> Problem | None:
    if isinstance(value, str):
        return _text_problem(value, steps)
    if isinstance(value, int):
        return _int_problem(value, steps)
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        hint = "JSON has no NaN and no infinity: send None, or a str that says what happened."
        return Problem(steps, f"{type(value).__name__} {value}", "null", hint)
    return None


def _text_problem(text: str, steps: str) -> Problem | None:
    if "\0" in text:
        hint = "Remove it, or send the value as bytes with the annotation `bytes`."
        found = f"str with NUL at index {text.index(chr(0))}"
        return Problem(steps, found, "nothing: databases cut text there", hint)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        hint = 'Send bytes instead, or clean it: text.encode("utf-8", "replace").decode().'
        found = f"str with a lone surrogate at index {error.start}"
        return Problem(steps, found, "nothing: it is no valid UTF-8", hint)
    return None


def _int_problem(value: int, steps: str) -> Problem | None:
    if value.bit_length() <= _SURELY_SHORT or abs(value) < 10**MAX_DIGITS:
        return None
    digits = int(value.bit_length() * math.log10(2)) + 1
    found = f"int of about {digits:,} digits"
    return Problem(
        steps, found, f"nothing: the limit is {MAX_DIGITS:,} digits", "Send it as bytes."
    )


def json_depth(value: Any) -> int:
    """Return how many lists and dicts lie inside each other in parsed JSON."""
    depth = 0
    level: list[Any] = [value] if type(value) in _DEEP else []
    while level:
        depth += 1
        level = [part for container in level for part in _items(container) if type(part) in _DEEP]
    return depth


def widest(value: Any) -> int:
    """Return how many keys the largest object has in parsed JSON."""
    most = 0
    rest: list[Any] = [value]
    while rest:
        part = rest.pop()
        if is_kind(part, dict):
            most = max(most, len(part))
        rest += [each for each in _items(part) if type(each) in _DEEP] if part else []
    return most


_DEEP = frozenset({list, dict})


def _items(container: Any) -> Iterable[Any]:
    items: Iterable[Any] = container.values() if is_kind(container, dict) else container
    return items


def _too_deep() -> Problem:
    return too_deep(f"more than {MAX_DEPTH}")


def too_deep(depth: int | str) -> Problem:
    """Return the problem of a value that is nested `depth` levels deep."""
    hint = "Flatten it, pass its parts in a list, or break the cycle if it contains itself."
    return Problem("", f"nesting depth {depth}", f"nothing: the limit is {MAX_DEPTH}", hint)


def too_wide(keys: int) -> Problem:
    """Return the problem of an object of so many keys."""
    hint = "Send a list of pairs, or store the data elsewhere and pass its address."
    return Problem("", f"object of {keys:,} keys", f"nothing: the limit is {MAX_KEYS:,}", hint)
