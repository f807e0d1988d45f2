"""The one plain argument that most steps have, written down instead of given to pydantic.

The bytes are those that pydantic writes, at a third of the price, which every call pays, live and
in replay. Whatever may not be as simple as it looks is left to the codec, which can judge it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any

from holdfast.machine.values.limits import MAX_DIGITS
from holdfast.model.redacting import KNOWN

Write = Callable[[tuple[Any, ...]], bytes | None]
"""Returns the JSON of a call by its positional arguments; None to have the codec do it."""

_WRITERS: Mapping[type | None, Callable[[Any], str]] = {int: repr, str: encode_basestring}
_BACKSLASH = ord("\\")


def left(_: tuple[Any, ...]) -> None:
    """Leave it to the codec."""


def writer_of(name: str, kind: type | None) -> Write:
    """Return what writes calls with one argument of exactly this type, if that is a simple one."""
    write_value = _WRITERS.get(kind)
    if write_value is None:
        return left
    head = f"{{{encode_basestring(name)}:"

    def write(args: tuple[Any, ...]) -> bytes | None:
        if len(args) != 1 or type(args[0]) is not kind:
            return None
        try:
            payload = f"{head}{write_value(args[0])}}}".encode()
        except ValueError:  # a lone surrogate, or more digits than Python writes
            return None
        is_odd = KNOWN or len(payload) > MAX_DIGITS or _BACKSLASH in payload
        return None if is_odd else payload

    return write
