"""What callers give in plain values, checked before anything is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast, get_args

from holdfast.errors import InvalidName, InvalidValue
from holdfast.model.status import RunStatus

LONGEST_ID = 255
WIDEST_ID = 512
"""Bytes of an id: several of them have to fit into one row of an index."""
LONGEST_REASON = 2_000
LARGEST_PAGE = 1_000
_STATUSES: tuple[str, ...] = get_args(RunStatus)


def known_id(id: str, *, field: str = "run id") -> str:
    """Return the id if a run may have it: also one that a child was given. Raises `InvalidName`.

    A child has the id of its parent, a slash, and its key.
    """
    parent, _, key = str(id).partition("/")
    if not key or len(id) > LONGEST_ID or not key.isprintable():
        return checked_id(id, field=field)
    checked_id(parent, field=field)
    return id


def checked_id(id: str, *, field: str = "run id") -> str:
    """Return the id if it can be stored and shown. Raises `InvalidName`."""
    problem = ""
    if not isinstance(id, str):
        raise InvalidName(field=field, value=repr(id), problem="is no text")
    if not 1 <= len(id) <= LONGEST_ID:
        problem = f"has {len(id)} characters"
    elif not id.isprintable():
        problem = "has a character that cannot be printed"
    elif len(id) > WIDEST_ID // 4 and (width := len(id.encode())) > WIDEST_ID:
        problem = f"has {width} bytes"
    elif "/" in id or id.startswith("."):
        problem = "has a slash or a leading dot"
    if problem:
        raise InvalidName(field=field, value=id, problem=problem)
    return id


def checked_reason(reason: str, command: str) -> str:
    """Return why somebody steers a run, if it can be stored and shown. Raises `InvalidValue`."""
    if not isinstance(reason, str):
        problem = f"{type(reason).__name__} is no text"
    elif len(reason) > LONGEST_REASON:
        problem = f"{len(reason):,} characters, and the limit is {LONGEST_REASON:,}"
    elif "\0" in reason or any("\ud800" <= mark <= "\udfff" for mark in reason):
        problem = "text with NUL or a lone surrogate, which no store keeps"
    else:
        return reason
    hint = f"Give a text of at most {LONGEST_REASON:,} characters."
    raise InvalidValue(where=command, path="reason", problem=problem, hint=hint)


def checked_key(key: str | None, *, where: str, path: str) -> str | None:
    """Return the key of a step, if it can be one. Raises `InvalidValue`."""
    if key is None or isinstance(key, str):
        return key
    problem = f"{type(key).__name__} is no text"
    hint = "Give the key of a step, such as 'charge#2'."
    raise InvalidValue(where=where, path=path, problem=problem, hint=hint)


def checked_point(
    at: int | str | None, *, where: str = "fork", path: str = "at"
) -> int | str | None:
    """Return a place in a history, if it can be one. Raises `InvalidValue`."""
    if at is None or isinstance(at, str) or type(at) is int:
        return at
    problem = f"{type(at).__name__} is no place in a history"
    hint = "Give the number of an event, or the key of a step, such as 'charge#2'."
    raise InvalidValue(where=where, path=path, problem=problem, hint=hint)


def checked_seq(after: int) -> int:
    """Return the number of an event after which to go on, or 0. Raises `InvalidValue`."""
    if type(after) is int and after >= 0:
        return after
    hint = "Give the `seq` of the last event you have, or 0 for all."
    problem = f"{after!r:.60} is no number of an event"
    raise InvalidValue(where="events", path="after", problem=problem, hint=hint)


def checked_limit(limit: int) -> int:
    """Return how many runs a page may have. Raises `InvalidValue`."""
    if type(limit) is int and 0 <= limit <= LARGEST_PAGE:
        return limit
    hint = f"Give an int from 0 to {LARGEST_PAGE:,}; `after` gives the next page."
    problem = f"{limit!r:.60} is no size of a page"
    raise InvalidValue(where="list", path="limit", problem=problem, hint=hint)


def checked_statuses(status: RunStatus | Sequence[RunStatus]) -> tuple[RunStatus, ...]:
    """Return one status or several as a tuple. Raises `InvalidValue` for one there is not."""
    asked: object = status
    is_one = isinstance(asked, str) or not isinstance(asked, Iterable)
    given = cast("tuple[RunStatus, ...]", (status,) if is_one else tuple(status))
    unknown = next((each for each in given if each not in _STATUSES), None)
    if unknown is None:
        return given
    problem = f"{unknown!r:.60} is no status of a run"
    hint = f"There are: {', '.join(_STATUSES)}."
    raise InvalidValue(where="list", path="status", problem=problem, hint=hint)
