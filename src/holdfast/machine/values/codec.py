"""Encode, read back, compare: the hottest path of the engine.

A value is refused unless what comes back is the same, so every crossing pays for both ways. Speed
comes from comparing builtins by `marshal` (in C; its bytes are compared and thrown away, never
stored), and from looking for limits in the bytes instead of in the value: NUL is always written as
`\\u0000`, and no payload is deeper than the number of its brackets. What looks suspicious there is
looked at again, exactly and slowly.
"""

from __future__ import annotations

import logging
import marshal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidValue, PayloadTooLarge, Unserialisable, UnserialisableResult
from holdfast.machine.values import advice
from holdfast.machine.values.compare import difference
from holdfast.machine.values.core import Core
from holdfast.machine.values.limits import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_KEYS,
    Problem,
    json_depth,
    over_a_limit,
    too_deep,
    too_wide,
    widest,
)
from holdfast.machine.values.secrets import is_leaking, leak, refusal_of_secret
from holdfast.machine.values.walk import follow, join, key_step, locate
from holdfast.model import sizes
from holdfast.model.redacting import KNOWN

if TYPE_CHECKING:
    from pydantic_core import ValidationError

__all__ = ["MAX_DEPTH", "MAX_DIGITS", "MAX_PAYLOAD", "Codec", "invalid", "is_harmless"]

MAX_PAYLOAD = sizes.WITHOUT_BLOBS
LARGE_PAYLOAD = sizes.INLINE
"""From here on a value goes to the blob store, or is stored and named once in the log."""

log = logging.getLogger("holdfast.values")
_told: set[str] = set()

_NUL = b"\\u0000"
_BACKSLASH = ord("\\")
"""Looked for first: few payloads escape anything, and `bytes in bytes` raises inside and recovers
before it searches, which takes longer than to encode a small value."""
_MARSHAL_VERSION = 2  # the last one without references, whose bytes depend on identity


def is_harmless(payload: bytes) -> bool:
    """Tell whether the JSON of one or more scalars breaks no limit, whatever they are."""
    if KNOWN and is_leaking(payload):
        return False  # `Codec.cross` finds the words
    return len(payload) <= MAX_DIGITS and (_BACKSLASH not in payload or _NUL not in payload)


class Codec:
    """Takes values across the line by one core schema."""

    __slots__ = ("_core", "_equal_is_same", "_plain", "_to_json", "_validate_json")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._plain, self._equal_is_same = core.plain, core.equal_is_same
        self._to_json = core.serializer.to_json
        self._validate_json = core.validator.validate_json

    def cross(self, value: Any, where: str, root: str) -> tuple[bytes, Any]:
        """Return the canonical JSON of a value, and the value it comes back as.

        Raises `Unserialisable` if that would differ from the value, or `PayloadTooLarge`. The path
        in the message starts with `root`.
        """
        try:
            payload = self._to_json(value, warnings=False, round_trip=True)
            size = len(payload)
            if size > LARGE_PAYLOAD:
                _check_size(where, size)
            back = self._validate_json(payload)
        except ValueError as error:
            # Not chained: pydantic's message quotes the value, which has no place in a log.
            if (secret := refusal_of_secret(value, where, root)) is not None:
                raise secret from None
            raise _refusal(self._why(value, error), where, root) from None
        if not (self._plain and _same(value, back, self._equal_is_same)):
            self._compare(value, back, where, root)
        # 65 levels need 65 opening and 65 closing brackets; 10,001 keys more bytes than that.
        escapes_nul = _BACKSLASH in payload and _NUL in payload
        if escapes_nul or (size > 2 * MAX_DEPTH and _may_break_a_limit(payload)):
            _check_limits(value, payload, where, root)
        if KNOWN and is_leaking(payload):
            raise leak(value, where, root)
        return payload, back

    def _compare(self, value: Any, back: Any, where: str, root: str) -> None:
        found = difference(value, back)
        if found is None:
            return
        problem = over_a_limit(value) or advice.explain(found, in_union=self._core.in_union)
        raise _refusal(problem, where, root)

    def _why(self, value: Any, error: ValueError) -> Problem:
        problem = over_a_limit(value) or self._stranger(value)
        if problem is not None:
            return problem
        if not hasattr(error, "errors"):
            return advice.misfit("", value, _brief(error))
        first = _details(error)[0]
        location = first["loc"]
        if location[-1:] == ("[key]",):
            return advice.bad_key(*follow(value, location[:-2]))
        return advice.misfit(*follow(value, location), _brief(first["msg"]))

    def _stranger(self, value: Any) -> Problem | None:
        """Find the first object that has no JSON form at all."""
        strangers: list[Any] = []
        with suppress(ValueError):  # the caller is about to report the first error already
            self._to_json(value, warnings=False, round_trip=True, fallback=strangers.append)
        if not strangers:
            return None
        return advice.unknown(locate(value, strangers[0]) or "", strangers[0])


def _same(value: Any, back: Any, equal_is_same: bool) -> bool:
    try:
        sent = marshal.dumps(value, _MARSHAL_VERSION)
    except ValueError:  # no builtin; the exact comparison will tell
        return False
    if equal_is_same and value == back:
        return True
    return sent == marshal.dumps(back, _MARSHAL_VERSION)


def _may_break_a_limit(payload: bytes) -> bool:
    if payload.count(b"[") + payload.count(b"{") > MAX_DEPTH:
        return True
    return len(payload) > 4 * MAX_KEYS and payload.count(b'":') > MAX_KEYS


def _check_size(where: str, size: int) -> None:
    limit = sizes.limit()
    if size > limit:
        raise PayloadTooLarge(where=where, size=size, limit=limit)
    sizes.note_large()
    if limit == sizes.WITHOUT_BLOBS:
        _tell_large(where, size)


def _tell_large(where: str, size: int) -> None:
    """Say once in this process that a place carries much: a replay says nothing new."""
    place = where.partition("#")[0]
    if place not in _told and len(_told) < MAX_KEYS:
        _told.add(place)
        log.warning(
            "%s: %s bytes, of %s that a value may have; store large data elsewhere and pass its "
            "address",
            place,
            f"{size:,}",
            f"{MAX_PAYLOAD:,}",
        )


def _check_limits(value: Any, payload: bytes, where: str, root: str) -> None:
    from pydantic_core import from_json

    parsed = from_json(payload)
    depth, keys = json_depth(parsed), widest(parsed)
    if depth > MAX_DEPTH or keys > MAX_KEYS:
        raise _refusal(too_deep(depth) if depth > MAX_DEPTH else too_wide(keys), where, root)
    problem = over_a_limit(value) if _NUL in payload else None
    if problem is not None:
        raise _refusal(problem, where, root)


def _refusal(problem: Problem, where: str, root: str) -> Unserialisable:
    kind = UnserialisableResult if root == "result" else Unserialisable
    return kind(
        where=where,
        path=join(root, problem.steps) or "arguments",
        found=problem.found,
        wanted=problem.wanted,
        hint=problem.hint,
    )


def invalid(error: Any, where: str, root: str) -> InvalidValue:
    found = _details(error)
    steps = "".join(key_step(name) for name in found[0]["loc"])
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    problem = _brief(found[0]["msg"]) + more
    return InvalidValue(where=where, path=join(root, steps) or "arguments", problem=problem)


def _details(error: Any) -> list[Any]:
    failed: ValidationError = error
    found: list[Any] = failed.errors(include_url=False, include_context=False, include_input=False)
    return found


def _brief(message: object) -> str:
    text = str(message).splitlines()[0].rstrip(".")
    return text if len(text) <= 200 else f"{text[:197]}..."
