"""Cron lines against an oracle that walks through real time, minute by minute."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import product
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model import cron

MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Three days around a change of clocks, or a day that not every month has.
WINDOWS = {
    "Berlin, spring": ("Europe/Berlin", datetime(2026, 3, 28, tzinfo=UTC)),
    "Berlin, autumn": ("Europe/Berlin", datetime(2026, 10, 24, tzinfo=UTC)),
    "New York, spring": ("America/New_York", datetime(2026, 3, 7, tzinfo=UTC)),
    "Lord Howe, half an hour back": ("Australia/Lord_Howe", datetime(2026, 4, 3, 12, tzinfo=UTC)),
    "Lord Howe, half an hour on": ("Australia/Lord_Howe", datetime(2026, 10, 2, 12, tzinfo=UTC)),
    "Santiago, midnight skipped": ("America/Santiago", datetime(2026, 9, 5, tzinfo=UTC)),
    "Havana, midnight doubled": ("America/Havana", datetime(2026, 10, 31, tzinfo=UTC)),
    "Apia, a day skipped": ("Pacific/Apia", datetime(2011, 12, 29, tzinfo=UTC)),
    "Kolkata, never changed": ("Asia/Kolkata", datetime(2026, 3, 28, tzinfo=UTC)),
    "UTC, leap day": ("UTC", datetime(2028, 2, 28, tzinfo=UTC)),
    "Berlin, the 31st": ("Europe/Berlin", datetime(2026, 12, 30, tzinfo=UTC)),
}
MINUTES = ("*", "*/20", "0", "30", "15,45", "5-7")
HOURS = ("*", "*/2", "*/3", "0", "2", "1-3", "0,2,3", "23")
DAYS = ("*", "*", "29", "31", "1")


def values(field: str, size: int) -> set[int]:
    """Read the few forms that are used here."""
    if field.startswith("*"):
        return set(range(0, size, int(field[2:] or 1) if "/" in field else 1))
    first, _, last = field.partition("-")
    return set(range(int(first), int(last) + 1)) if last else {int(x) for x in field.split(",")}


def oracle(line: str, zone: str, begin: datetime) -> list[int]:
    """Return the moments of three days, by looking at the wall's clock each minute."""
    minute, hour, day, *_ = line.split()
    minutes, hours = values(minute, 60), values(hour, 24)
    is_rhythm = minute.startswith("*") or hour.startswith("*")

    def fits(wall: datetime) -> bool:
        on_day = day == "*" or wall.day == int(day)
        return on_day and wall.hour in hours and wall.minute in minutes

    found, before = list[int](), wall_of(begin - MINUTE, zone)
    for n in range(3 * 24 * 60):
        moment = begin + n * MINUTE
        wall = wall_of(moment, zone)
        is_shown = fits(wall) and (is_rhythm or not wall.fold)
        gap = [before + k * MINUTE for k in range(1, (wall - before) // MINUTE)]
        if is_shown or (not is_rhythm and any(map(fits, gap))):
            found.append((moment - EPOCH) // timedelta(microseconds=1))
        before = wall
    return found


@lru_cache(maxsize=100_000)
def wall_of(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=15)
@given(
    line=st.sampled_from([f"{m} {h} {d} * *" for m, h, d in product(MINUTES, HOURS, DAYS)]),
    later=st.integers(0, 3 * 24 * 3600 - 1),
)
def test_moments_are_those_that_the_wall_shows(window: str, line: str, later: int) -> None:
    zone, begin = WINDOWS[window]
    start = (begin - EPOCH) // timedelta(microseconds=1) + later * 1_000_000 - 1
    expected = [each for each in oracle(line, zone, begin) if each > start]
    found, moment = list[int](), cron.after(line, ZoneInfo(zone), start)
    end = start + (3 * 24 * 3600 - later) * 1_000_000
    while moment is not None and moment <= end:
        found.append(moment)
        moment = cron.after(line, ZoneInfo(zone), moment)
    assert found == expected


def shown(line: str, zone: str, after: str, count: int) -> list[str]:
    """Return the first moments of a line, on the wall's clock."""
    moment = (datetime.fromisoformat(after) - EPOCH) // timedelta(microseconds=1)
    found = list[str]()
    for _ in range(count):
        following = cron.after(line, ZoneInfo(zone), moment)
        assert following is not None
        moment = following
        local = (EPOCH + timedelta(microseconds=moment)).astimezone(ZoneInfo(zone))
        found.append(f"{local:%Y-%m-%d %H:%M%z}")
    return found


@pytest.mark.parametrize(
    ("line", "after", "expected"),
    [
        # Skipped: once, at the first moment after the gap.
        ("30 2 * * *", "2026-03-29T00:00Z", ["2026-03-29 03:00+0200", "2026-03-30 02:30+0200"]),
        ("0 2,3 * * *", "2026-03-29T00:00Z", ["2026-03-29 03:00+0200", "2026-03-30 02:00+0200"]),
        # Doubled: once, the first time; also when the search begins between the two.
        ("30 2 * * *", "2026-10-24T20:00Z", ["2026-10-25 02:30+0200", "2026-10-26 02:30+0100"]),
        ("30 2 * * *", "2026-10-25T00:45Z", ["2026-10-26 02:30+0100"]),
        # A rhythm goes on through both.
        ("30 * * * *", "2026-03-29T00:00Z", ["2026-03-29 01:30+0100", "2026-03-29 03:30+0200"]),
        ("30 * * * *", "2026-10-25T00:00Z", ["2026-10-25 02:30+0200", "2026-10-25 02:30+0100"]),
        # Days that are not in every month, or year.
        ("0 0 29 2 *", "2026-01-01T00:00Z", ["2028-02-29 00:00+0100", "2032-02-29 00:00+0100"]),
        ("0 9 31 * *", "2026-01-31T12:00Z", ["2026-03-31 09:00+0200", "2026-05-31 09:00+0200"]),
        ("0 9 L * *", "2026-02-01T00:00Z", ["2026-02-28 09:00+0100", "2026-03-31 09:00+0200"]),
        ("0 9 * * MON#1", "2026-01-01T00:00Z", ["2026-01-05 09:00+0100", "2026-02-02 09:00+0100"]),
        # Day of month and of week, both said: either counts.
        ("0 0 13 * FRI", "2026-02-07T00:00Z", ["2026-02-13 00:00+0100", "2026-02-20 00:00+0100"]),
    ],
)
def test_berlin(line: str, after: str, expected: list[str]) -> None:
    assert shown(line, "Europe/Berlin", after, len(expected)) == expected


def test_the_calendar_ends() -> None:
    last = (datetime(9999, 12, 31, 12, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    assert cron.after("0 3 * * *", ZoneInfo("Europe/Berlin"), last) is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("* * * *", "it has 4 fields, and cron has five"),
        ("0 0 * * * *", "it has 6 fields, and cron has five"),
        ("", "it has 0 fields, and cron has five"),
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 0 * *", "bad day-of-month"),
        ("* * 31 2 *", "bad day-of-month"),
        ("* * * 13 *", "bad month"),
        ("* * * * 8", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
        ("5-1 * * * *", "bad minute"),
        ("\ud800 * * * *", "bad minute"),
    ],
)
def test_what_is_no_cron(line: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        cron.read(line)
