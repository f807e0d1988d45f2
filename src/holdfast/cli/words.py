"""Times and lengths of time in words. Times are microseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND


def span(microseconds: int) -> str:
    """Say how long something took: `246 ms`, `12.1 s`, `4m 02s`, `2h 14m`, `3d 4h`."""
    length = max(microseconds, 0)
    if length < SECOND:
        return f"{length / 1_000:.0f} ms" if length >= 1_000 or not length else "<1 ms"
    if length < 59_950_000:
        return f"{length / SECOND:.1f} s"
    if length < HOUR:
        return f"{length // MINUTE}m {length % MINUTE // SECOND:02d}s"
    if length < DAY:
        return f"{length // HOUR}h {length % HOUR // MINUTE:02d}m"
    return f"{length // DAY}d {length % DAY // HOUR}h"


def ago(at: int, now: int) -> str:
    """Say how long ago something was: `just now`, `12s ago`, `4m ago`, `3h ago`, `5d ago`."""
    if now - at < SECOND:
        return "just now"
    return f"{_rough(now - at)} ago"


def ahead(at: int, now: int) -> str:
    """Say how far off something is: `now`, `in 12s`, `in 4m`."""
    return "now" if at - now < SECOND else f"in {_rough(at - now)}"


def _rough(length: int) -> str:
    for size, letter in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        if length >= size:
            return f"{length // size}{letter}"
    return f"{length // SECOND}s"


def moment(at: int) -> str:
    """Return a time of day, with the date, in the reader's own zone."""
    return _local(at).strftime("%Y-%m-%d %H:%M:%S")


def clock(at: int) -> str:
    """Return a time of day in the reader's own zone."""
    return _local(at).strftime("%H:%M:%S")


def iso(at: int | None) -> str | None:
    """Return a time for programs, in UTC."""
    if at is None:
        return None
    return _utc(at).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _utc(at: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)


def _local(at: int) -> datetime:
    return _utc(at).astimezone()


def count(number: int, noun: str) -> str:
    """Say how many: `1 step`, `2 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def length(text: str, *, field: str) -> int:
    """Return the microseconds that `2w`, `30d`, `12h`, `90m` or `45s` mean.

    Raises `InvalidDuration`, also for more than a hundred years.
    """
    from holdfast.errors import InvalidDuration
    from holdfast.model.durations import LONGEST
    from holdfast.model.filters import AGO, UNITS

    typed = AGO.fullmatch(text)
    found = int(typed[1]) * UNITS[typed[2]] * SECOND if typed else LONGEST + 1
    if found > LONGEST:
        hint = "Write it as 2w, 30d, 12h, 90m or 45s, up to 100 years."
        raise InvalidDuration(field=field, value=text, hint=hint)
    return found
