"""The one plain argument that most steps have, or none, written instead of given to pydantic.

The bytes are those that pydantic writes, at a third of the price, which every call pays, live and
in replay. Whatever may not be as simple as it looks is left to the codec, which can judge it.
"""

from __future__ import annotations

from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any

from holdfast.machine.values.limits import MAX_DIGITS
from holdfast.model.redacting import KNOWN

Write = Callable[[tuple[Any, ...]], bytes | None]
"""Returns the JSON of a call by its positional arguments; None to have the codec do it."""

_BACKSLASH = ord("\\")


def left(_: tuple[Any, ...]) -> None:
    """Leave it to the codec."""


def nothing(args: tuple[Any, ...]) -> bytes | None:
    """Write a call without arguments."""
    return None if args else b"{}"


def writer_of(name: str, kind: type | None) -> Write:
    """Return what writes calls with one argument of exactly this type, if that is a simple one."""
    head = f"{{{encode_basestring(name)}:"
    if kind is int:
        return _writer_of_int(head.encode())
    return _writer_of_str(head) if kind is str else left


def _writer_of_int(head: bytes) -> Write:
    def write(args: tuple[Any, ...]) -> bytes | None:
        if len(args) != 1 or type(args[0]) is not int or KNOWN:
            return None
        try:
            payload = b"%b%d}" % (head, args[0])
        except ValueError:  # more digits than Python writes
            return None
        return payload if len(payload) <= MAX_DIGITS else None

    return write


def _writer_of_str(head: str) -> Write:
    def write(args: tuple[Any, ...]) -> bytes | None:
        if len(args) != 1 or type(args[0]) is not str or KNOWN:
            return None
        try:
            payload = f"{head}{encode_basestring(args[0])}}}".encode()
        except ValueError:  # a lone surrogate
            return None
        return None if len(payload) > MAX_DIGITS or _BACKSLASH in payload else payload

    return write
