"""JSON as it is typed, read strictly: what two readers could take for two values is refused."""

from __future__ import annotations

import json
from typing import Any

from holdfast.errors import InvalidValue, PayloadTooLarge

MAX_TEXT = 4 * 1024 * 1024
"""Above the limit of one value, so that white space and escapes are no reason to refuse."""


class _Odd(ValueError):
    """Something that is well-formed for the parser, and not for us: a problem and a hint."""


def parse(text: str, *, where: str) -> Any:
    """Return the value of a JSON text.

    Raises `json.JSONDecodeError` if it is none, `InvalidValue` for repeated keys, NaN and infinity,
    ints without end and nesting without end, and `PayloadTooLarge`.
    """
    if len(text) > MAX_TEXT:
        raise PayloadTooLarge(where=where, size=len(text), limit=MAX_TEXT)
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError:
        raise
    except _Odd as odd:
        problem, hint = odd.args
    except RecursionError:
        problem, hint = "nested without end; the limit is 64 levels", "Flatten it."
    except ValueError:  # the interpreter's own limit
        problem, hint = "an int of more than 4,300 digits", "Send it as a text."
    raise InvalidValue(where=where, path="JSON", problem=problem, hint=hint)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Odd(f"the key {key!r:.60} stands there twice", "Give each key once.")
        found[key] = value
    return found


def _constant(name: str) -> Any:
    raise _Odd(f"{name} is no JSON", "Send null, or a text that says what happened.")


def decoded(data: bytes, *, where: str) -> str:
    """Return text from a file or a pipe. Raises `InvalidValue` if it is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is no valid UTF-8"
        hint = "Save the text as UTF-8."
        raise InvalidValue(where=where, path="text", problem=problem, hint=hint) from None
