"""Lengths of time: users give seconds or timedelta, the engine keeps integer microseconds."""

from __future__ import annotations

from datetime import timedelta

from holdfast.errors import InvalidDuration

Duration = float | timedelta

LONGEST = 100 * 366 * 24 * 3600 * 1_000_000
"""A hundred years, the longest delay that is accepted, in microseconds."""


def microseconds(value: Duration, *, field: str) -> int:
    """Return `value` in whole microseconds. Raises `InvalidDuration`."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidDuration(field=field, value=value)
    if not 0 <= seconds <= LONGEST / 1_000_000:
        raise InvalidDuration(field=field, value=value)
    return round(seconds * 1_000_000)
