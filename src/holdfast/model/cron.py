"""Cron texts: which moments a line such as `30 2 * * MON-FRI` means in a time zone.

The five fields are read by cronsim; the moments are found here, day by day, so that the search may
begin at any moment and gives the same. The rule where clocks are changed is that of Debian's cron:

- a line with a fixed hour and minute means a time of day: it comes once each day. A time that is
  skipped comes at the first moment after the gap; of a time that is doubled, the first counts;
- a line whose minute or hour begins with `*` means a rhythm: it comes whenever the clock on the
  wall shows a fitting time, in a doubled hour twice, in a skipped one not at all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from cronsim import CronSim

DAY = timedelta(days=1)
SECOND = 1_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
SEARCHED = 40 * 366
"""Days that are looked through for the next moment: a 29th of February on a given day of the week
may be forty years away."""
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - of the wall's clock
UNIX = datetime(1970, 1, 1, tzinfo=UTC)


class Fields(NamedTuple):
    """What the line says of the time of day, sorted; whether it is a rhythm; and of the day."""

    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    is_rhythm: bool
    days: CronSim


@lru_cache(maxsize=256)
def read(line: str) -> Fields:
    """Return what a line of five fields says. Raises `ValueError` with the reason."""
    from cronsim import CronSim, CronSimError

    parts = line.split()
    if len(parts) != 5:
        raise ValueError(f"it has {len(parts)} fields, and cron has five")
    try:
        days = CronSim(line, EPOCH)
    except CronSimError as error:
        raise ValueError(f"{str(error)[:1].lower()}{str(error)[1:]}") from error
    is_rhythm = parts[0].startswith("*") or parts[1].startswith("*")
    return Fields(tuple(sorted(days.hours)), tuple(sorted(days.minutes)), is_rhythm, days)


def after(line: str, zone: ZoneInfo, moment: int) -> int | None:
    """Return the first moment of the line after `moment`, both in microseconds since 1970.

    None if there is none within forty years, or before the calendar ends.
    """
    fields = read(line)
    try:
        # A gap may carry a time of the day before past midnight.
        day = (UNIX + timedelta(microseconds=moment)).astimezone(zone).date() - DAY
        for _ in range(SEARCHED):
            if day.month in fields.days.months and fields.days.match_day(day):
                found = _first(line, zone, day, moment)
                if found is not None:
                    return found
            day += DAY
    except OverflowError:
        return None
    return None


def _first(line: str, zone: ZoneInfo, day: date, moment: int) -> int | None:
    """Return the first moment of a day after `moment`."""
    midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - of the wall's clock
    offset = _offset(midnight, zone)
    if offset == _offset(midnight + DAY, zone):
        return _on_a_plain_day(read(line), _microseconds(midnight - offset), moment)
    moments = _of_an_odd_day(line, zone, midnight)
    place = bisect_right(moments, moment)
    return moments[place] if place < len(moments) else None


@lru_cache(maxsize=64)
def _of_an_odd_day(line: str, zone: ZoneInfo, midnight: datetime) -> list[int]:
    """Return the moments of a day on which clocks are changed, in order."""
    fields = read(line)
    walls = [midnight.replace(hour=h, minute=m) for h in fields.hours for m in fields.minutes]
    return sorted({each for wall in walls for each in _of_wall(wall, zone, fields.is_rhythm)})


def _on_a_plain_day(fields: Fields, midnight: int, moment: int) -> int | None:
    for hour in fields.hours:
        begin = midnight + hour * HOUR
        if begin + HOUR <= moment:
            continue
        for minute in fields.minutes:
            if begin + minute * MINUTE > moment:
                return begin + minute * MINUTE
    return None


def _of_wall(wall: datetime, zone: ZoneInfo, is_rhythm: bool) -> Iterator[int]:
    """Yield the moments at which the clock on the wall shows this, or stands for it."""
    early, late = _offset(wall, zone), _offset(wall.replace(fold=1), zone)
    if early < late:  # skipped: no clock shows it
        if not is_rhythm:
            yield _end_of_gap(wall, zone)
        return
    yield _microseconds(wall - early)
    if early > late and is_rhythm:
        yield _microseconds(wall - late)


def _end_of_gap(wall: datetime, zone: ZoneInfo) -> int:
    """Return the first moment after the gap that this time falls into: to the second."""
    before = _microseconds(wall - _offset(wall.replace(fold=1), zone)) // SECOND
    behind = _microseconds(wall - _offset(wall, zone)) // SECOND
    old = _at(before, zone)
    while behind - before > 1:
        middle = (before + behind) // 2
        if _at(middle, zone) == old:
            before = middle
        else:
            behind = middle
    return behind * SECOND


def _at(second: int, zone: ZoneInfo) -> timedelta:
    return (UNIX + timedelta(seconds=second)).astimezone(zone).utcoffset() or timedelta()


def _offset(wall: datetime, zone: ZoneInfo) -> timedelta:
    return wall.replace(tzinfo=zone).utcoffset() or timedelta()


def _microseconds(wall: datetime) -> int:
    return (wall.replace(fold=0) - EPOCH) // timedelta(microseconds=1)
