"""Schedules: what is refused, how times are counted, and that rows keep all of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.model.schedules import (
    EPOCH,
    MICROSECOND,
    checked_schedule_id,
    iso,
    schedule_in,
    schedule_of,
    scheduled_by,
    slot_id,
    slot_in,
    slot_key,
)

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "cron=None is given together with every, or neither is"),
        ({"cron": "0 3 * * *", "every": 60}, "together with every"),
        ({"cron": "0 3 * *"}, "is no cron: it has 4 fields"),
        ({"cron": 5}, "cron=5 is no text"),
        ({"cron": "0 0 31 2 *"}, "is no cron: bad day-of-month"),
        ({"cron": "0 3 * * *", "offset": 5}, "offset=5 goes with every"),
        ({"cron": "0 3 * * *", "zone": "Mars/Olympus"}, "is no time zone that this host knows"),
        ({"cron": "0 3 * * *", "zone": "../etc/passwd"}, "is no time zone"),
        ({"cron": "0 3 * * *", "zone": None}, "is no time zone"),
        ({"every": 0.5}, "every=0.5 is shorter than a second"),
        ({"every": -5}, "every=-5 is no length of time"),
        ({"every": "1h"}, "is no length of time"),
        ({"every": float("nan")}, "every=nan is no length of time"),
        ({"every": 60, "offset": 60}, "offset=60 is not less than every=60"),
        ({"every": 60, "jitter": -1}, "jitter=-1 is no length of time"),
        ({"every": 60, "catch_up": 5}, "catch_up=5 is shorter than 10 seconds"),
        ({"every": 60, "overlap": "both"}, "is none of hf.Overlap: SKIP, BUFFER_ONE"),
        ({"every": 60, "start": datetime(2026, 1, 1)}, "is no datetime with a time zone"),  # noqa: DTZ001
        ({"every": 60, "end": "2026"}, "end='2026' is no datetime"),
        ({"every": 60, "limit": 0}, "limit=0 is no number of runs"),
        ({"every": 60, "limit": True}, "limit=True is no number of runs"),
        (
            {"every": 60, "start": EPOCH + HOUR, "end": EPOCH},
            "is before start",
        ),
    ],
)
def test_what_no_clock_can_keep_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(hf.InvalidSchedule) as raised:
        hf.Schedule(**fields)
    assert problem in str(raised.value)
    assert "hf.Schedule(" in str(raised.value)


def test_intervals_count_from_1970() -> None:
    noon = datetime(2026, 11, 16, 12, 7, tzinfo=UTC)
    assert hf.Schedule(every=timedelta(minutes=5)).after(noon) == noon.replace(minute=10)
    shifted = hf.Schedule(every=HOUR, offset=timedelta(minutes=3))
    assert shifted.after(noon) == noon.replace(hour=13, minute=3)
    assert shifted.after(noon.replace(minute=3)) == noon.replace(hour=13, minute=3)
    assert shifted.after(noon.replace(minute=2)) == noon.replace(minute=3)


def test_slots_lie_between_start_and_end() -> None:
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 2, tzinfo=UTC)
    schedule = hf.Schedule(every=HOUR, start=start, end=end)
    slots = [schedule.shown(slot) for slot in schedule.slots(0)]
    assert slots == [start, start + HOUR, end]


def test_times_are_shown_in_the_zone() -> None:
    berlin = hf.Schedule(cron="0 3 * * *", zone="Europe/Berlin")
    following = berlin.after(datetime(2026, 7, 1, 12, tzinfo=UTC))
    assert str(following) == "2026-07-02 03:00:00+02:00"


def test_no_slot_is_after_the_calendar() -> None:
    late = datetime(9999, 6, 1, tzinfo=UTC)
    assert hf.Schedule(every=HOUR).after(late) is None
    assert hf.Schedule(cron="* * * * *").after(late) is None


@given(st.integers(0, 1 << 52))
def test_jitter_is_the_same_for_a_slot_and_within_its_bound(slot: int) -> None:
    schedule = hf.Schedule(every=60, jitter=30)
    delay = schedule.delay_of("s", slot)
    assert 0 <= delay < 30_000_000
    assert delay == hf.Schedule(every=60, jitter=30).delay_of("s", slot)
    assert hf.Schedule(every=60).delay_of("s", slot) == 0


def test_jitter_spreads_schedules_of_the_same_time() -> None:
    schedule = hf.Schedule(every=60, jitter=30)
    assert len({schedule.delay_of(f"s{n}", 0) for n in range(100)}) == 100


@pytest.mark.parametrize(
    "schedule",
    [
        hf.Schedule(cron="0 3 * * *"),
        hf.Schedule(every=300),
        hf.Schedule(
            every=1.5, offset=0.25, zone="Europe/Berlin", jitter=2, overlap=hf.Overlap.ALLOW,
            catch_up=timedelta(days=400), start=EPOCH + MICROSECOND, end=EPOCH + HOUR, limit=7,
        ),
    ],
)  # fmt: skip
def test_a_row_keeps_all_of_it(schedule: hf.Schedule) -> None:
    again = schedule_of(schedule.encoded())
    assert again.encoded() == schedule.encoded()
    assert list(zip(range(3), again.slots(0))) == list(zip(range(3), schedule.slots(0)))  # noqa: B905
    assert (again.overlap, again.limit, again.window) == (
        schedule.overlap, schedule.limit, schedule.window,
    )  # fmt: skip


def test_the_same_time_said_otherwise_is_the_same() -> None:
    assert hf.Schedule(every=300).encoded() == hf.Schedule(every=timedelta(minutes=5)).encoded()


def test_names_of_slots() -> None:
    slot = (datetime(2026, 3, 29, 1, tzinfo=UTC) - EPOCH) // MICROSECOND
    assert slot_id("nightly", slot) == "nightly@2026-03-29T01:00:00Z"
    assert scheduled_by("nightly@2026-03-29T01:00:00Z") == "nightly"
    assert iso(slot + 5) == "2026-03-29T01:00:00.000005Z"
    key = slot_key("a b", slot)
    assert (schedule_in(key), slot_in(key)) == ("a b", slot)
    assert (schedule_in("1 parent"), slot_in("1 parent"), slot_in("")) == ("", None, None)


@pytest.mark.parametrize("id", ["", "a@b", "a/b", "x" * 201, "a\nb", ".a"])
def test_what_is_no_id_of_a_schedule(id: str) -> None:
    with pytest.raises(hf.InvalidName):
        checked_schedule_id(id)
