"""What becomes of the slots of a schedule: by its rule of overlap, and by how late they are."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import holdfast as hf
from holdfast.kernel import dispatch
from holdfast.model.commands import (
    BackfillSchedule,
    Command,
    CreateSchedule,
    FireSchedule,
    PauseSchedule,
    ResumeSchedule,
    TriggerSchedule,
    UpdateSchedule,
)
from holdfast.model.schedules import EPOCH, MICROSECOND, How, Scheduled, Slot, slot_id
from holdfast.model.writes import Create, Move, Put, Reschedule

MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
NOON = (datetime(2026, 11, 16, 12, tzinfo=UTC) - EPOCH) // MICROSECOND
OLD = "s@old"


def schedule(**fields: Any) -> hf.Schedule:
    return hf.Schedule(**{"every": timedelta(hours=1), **fields})


def made(spec: hf.Schedule, **fields: Any) -> Scheduled:
    """Return a row as it is when it was just made, at noon."""
    row = Scheduled("ns", "s", NOON, "w", spec.encoded(), b"{}", How(queue="q", priority=3))
    row = row._replace(cursor=NOON, since=NOON, created_at=NOON, updated_at=NOON)
    return row_of(CreateSchedule(row))._replace(**fields)


def write_of(command: Command) -> Reschedule:
    write = dispatch.decide(command)
    assert isinstance(write, Reschedule)
    return write


def row_of(command: Command) -> Scheduled:
    row = write_of(command).row
    assert row is not None
    return row


def fired(row: Scheduled, at: int, open_runs: Sequence[str] = ()) -> Reschedule:
    return write_of(FireSchedule(row, at, frozenset(open_runs)))


def started(write: Reschedule) -> list[str]:
    """Return the hours whose slots are started, or the names of other runs."""
    ids = [send.id for send in write.sends if isinstance(send, Create)]
    return [id.partition("T")[2][:2] or id for id in ids]


def outcomes(write: Reschedule) -> list[tuple[int, str]]:
    """Return how many hours after noon each settled slot lies, and what became of it."""
    assert write.row is not None
    return [((past.at - NOON) // HOUR, past.outcome) for past in write.row.recent]


def test_the_first_slot_is_the_next_one() -> None:
    row = made(schedule())
    assert (row.next_at, row.cursor, row.recent) == (NOON + HOUR, NOON, ())


def test_nothing_is_settled_before_it_is_due() -> None:
    write = fired(made(schedule()), NOON + HOUR - 1)
    assert (write.sends, outcomes(write)) == ((), [])


def test_a_slot_starts_a_run_of_its_own_id() -> None:
    write = fired(made(schedule()), NOON + HOUR)
    (create,) = write.sends
    assert isinstance(create, Create)
    assert (create.id, create.event.key) == ("s@2026-11-16T13:00:00Z", f"@{NOON + HOUR} s")
    assert write.not_before == NOON + HOUR
    assert write.row is not None
    assert (write.row.cursor, write.row.next_at) == (NOON + HOUR, NOON + 2 * HOUR)
    assert (write.row.running, write.row.started) == ((create.id,), 1)


@pytest.mark.parametrize(
    ("overlap", "expected", "is_started"),
    [
        (hf.Overlap.SKIP, [(1, "skipped"), (2, "skipped"), (3, "skipped")], []),
        (hf.Overlap.BUFFER_ONE, [(1, "waiting"), (2, "skipped"), (3, "skipped")], []),
        (hf.Overlap.BUFFER_ALL, [(1, "waiting"), (2, "waiting"), (3, "waiting")], []),
        (hf.Overlap.CANCEL_OTHER, [(1, "skipped"), (2, "skipped"), (3, "waiting")], []),
        (hf.Overlap.TERMINATE_OTHER, [(1, "skipped"), (2, "skipped"), (3, "started")], ["15"]),
        (hf.Overlap.ALLOW, [(1, "started"), (2, "started"), (3, "started")], ["13", "14", "15"]),
    ],
)
def test_slots_that_come_while_a_run_is_open(
    overlap: hf.Overlap, expected: list[tuple[int, str]], is_started: list[str]
) -> None:
    row = made(schedule(overlap=overlap), running=(OLD,))
    write = fired(row, NOON + 3 * HOUR, [OLD])
    assert (outcomes(write), started(write)) == (expected, is_started)


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (hf.Overlap.SKIP, [(1, "started"), (2, "skipped"), (3, "skipped")]),
        (hf.Overlap.BUFFER_ONE, [(1, "started"), (2, "waiting"), (3, "skipped")]),
        (hf.Overlap.BUFFER_ALL, [(1, "started"), (2, "waiting"), (3, "waiting")]),
        (hf.Overlap.CANCEL_OTHER, [(1, "skipped"), (2, "skipped"), (3, "started")]),
        (hf.Overlap.TERMINATE_OTHER, [(1, "skipped"), (2, "skipped"), (3, "started")]),
        (hf.Overlap.ALLOW, [(1, "started"), (2, "started"), (3, "started")]),
    ],
)
def test_slots_that_are_caught_up_come_one_right_after_the_other(
    overlap: hf.Overlap, expected: list[tuple[int, str]]
) -> None:
    row = made(schedule(overlap=overlap), running=(OLD,))
    assert outcomes(fired(row, NOON + 3 * HOUR)) == expected


def test_a_run_in_the_way_is_cancelled_once() -> None:
    row = made(schedule(overlap=hf.Overlap.CANCEL_OTHER), running=(OLD,))
    first = fired(row, NOON + HOUR, [OLD])
    (put,) = first.sends
    assert isinstance(put, Put)
    assert (put.run, put.cancels) == (OLD, True)
    assert first.row is not None
    second = fired(first.row, NOON + 2 * HOUR, [OLD])
    assert outcomes(second) == [(1, "skipped"), (2, "waiting")]
    assert second.row is not None
    third = fired(second.row, NOON + 2 * HOUR + 1)
    assert (started(third), outcomes(third)) == (["14"], [(1, "skipped"), (2, "started")])


def test_a_run_in_the_way_is_terminated_and_the_slot_starts_at_once() -> None:
    row = made(schedule(overlap=hf.Overlap.TERMINATE_OTHER), running=(OLD,))
    move, create = fired(row, NOON + HOUR, [OLD]).sends
    assert isinstance(move, Move)
    assert isinstance(create, Create)
    assert (move.run, move.status) == (OLD, "terminated")


def test_what_waits_starts_before_what_comes() -> None:
    row = made(schedule(overlap=hf.Overlap.BUFFER_ALL), running=(OLD,))
    waits = fired(row, NOON + HOUR, [OLD]).row
    assert waits is not None
    write = fired(waits, NOON + 2 * HOUR)
    assert (started(write), outcomes(write)) == (["13"], [(1, "started"), (2, "waiting")])


def test_a_slot_that_begins_to_wait_is_looked_at_again_soon() -> None:
    row = made(schedule(overlap=hf.Overlap.BUFFER_ALL), running=(OLD,))
    waits = fired(row, NOON + HOUR, [OLD]).row
    assert waits is not None
    assert (waits.next_at, waits.buffered) == (NOON + HOUR + 1_000_000, 1)
    later = fired(waits, NOON + HOUR + 1_000_000, [OLD]).row
    assert later is not None
    assert later.next_at == NOON + 2 * HOUR, "from then on the close of the run tells"


def test_only_so_many_slots_wait() -> None:
    row = made(schedule(overlap=hf.Overlap.BUFFER_ALL), running=(OLD,))
    row = row._replace(buffer=tuple(Slot(NOON - n) for n in range(1_000, 0, -1)))
    assert outcomes(fired(row, NOON + HOUR, [OLD])) == [(1, "skipped")]


def test_what_is_too_late_is_missed() -> None:
    row = made(schedule(catch_up=timedelta(hours=2)))
    write = fired(row, NOON + 10 * HOUR + MINUTE)
    assert outcomes(write) == [(1, "missed"), (9, "started"), (10, "skipped")]
    assert write.row is not None
    assert write.row.recent[0].last < NOON + 9 * HOUR


def test_a_year_of_seconds_is_missed_at_once() -> None:
    row = made(schedule(every=1, catch_up=10))
    write = fired(row, NOON + 365 * DAY)
    assert started(write)
    assert write.row is not None
    assert write.row.cursor == NOON + 365 * DAY


def test_many_slots_are_settled_in_several_writes() -> None:
    row = made(schedule(every=60, overlap=hf.Overlap.ALLOW))
    first = fired(row, NOON + 150 * MINUTE)
    assert len(first.sends) == 100
    assert first.row is not None
    assert first.row.next_at == NOON + 101 * MINUTE, "due already"
    second = fired(first.row, NOON + 150 * MINUTE)
    assert len(second.sends) == 50


def test_jitter_delays_a_slot_and_keeps_its_name() -> None:
    spec = schedule(jitter=timedelta(minutes=10))
    row, delay = made(spec), spec.delay_of("s", NOON + HOUR)
    assert delay
    assert row.next_at == NOON + HOUR + delay
    assert fired(row, NOON + HOUR + delay - 1).sends == ()
    late = fired(row, NOON + HOUR + delay)
    assert (started(late), late.not_before) == (["13"], NOON + HOUR + delay)


def test_after_so_many_runs_it_is_over() -> None:
    row = made(schedule(limit=2, overlap=hf.Overlap.ALLOW))
    write = fired(row, NOON + 3 * HOUR)
    assert len(started(write)) == 2
    assert write.row is not None
    assert write.row.next_at is None


def test_it_is_over_after_its_end() -> None:
    spec = schedule(end=EPOCH + (NOON + HOUR) * MICROSECOND)
    write = fired(made(spec), NOON + 3 * HOUR)
    assert started(write) == ["13"]
    assert write.row is not None
    assert write.row.next_at is None


def test_a_paused_one_starts_nothing_and_catches_up_when_it_goes_on() -> None:
    paused = row_of(PauseSchedule(made(schedule()), NOON, "holidays"))
    assert (paused.next_at, paused.paused, paused.note) == (None, True, "holidays")
    assert fired(paused, NOON + 3 * HOUR).sends == ()
    resumed = write_of(ResumeSchedule(paused, NOON + 3 * HOUR, frozenset(), "back"))
    assert outcomes(resumed) == [(1, "started"), (2, "skipped"), (3, "skipped")]


def test_a_trigger_starts_beside_what_runs_and_stands_in_the_way_of_slots() -> None:
    row = made(schedule(), running=(OLD,))
    write = write_of(TriggerSchedule(row, NOON + 5, "s@trigger-1"))
    assert started(write) == ["s@trigger-1"]
    assert write.row is not None
    assert (write.row.running, write.row.cursor) == ((OLD, "s@trigger-1"), NOON)
    assert outcomes(fired(write.row, NOON + HOUR, ["s@trigger-1"])) == [(1, "skipped")]


def backfill(row: Scheduled, hours: int, settled: frozenset[int] = frozenset()) -> Reschedule:
    start = NOON - hours * HOUR
    return write_of(BackfillSchedule(row, NOON + 1, frozenset(), start, NOON + DAY, settled))


def test_a_backfill_starts_what_has_no_run_one_after_the_other() -> None:
    write = backfill(made(schedule()), 3, frozenset({NOON - 2 * HOUR}))
    assert (started(write), outcomes(write)) == (["09"], [])
    assert write.row is not None
    assert [slot.at for slot in write.row.buffer] == [NOON - HOUR, NOON]
    assert started(backfill(write.row, 3)) == ["11"], "those that wait are not asked for again"


def test_a_backfill_starts_all_at_once_where_they_may_overlap() -> None:
    assert started(backfill(made(schedule(overlap=hf.Overlap.ALLOW)), 2)) == ["10", "11", "12"]


def test_a_backfill_of_too_many_is_refused() -> None:
    with pytest.raises(hf.InvalidSchedule, match="1,001 slots wait, and the limit is 1,000"):
        backfill(made(schedule()), 1_000)


def update(row: Scheduled, at: int, spec: hf.Schedule) -> Reschedule:
    how = How(queue="other", priority=1)
    return write_of(UpdateSchedule(row, at, frozenset(), spec.encoded(), "v", b"[]", how))


def test_an_update_settles_what_was_due_and_counts_anew_from_now() -> None:
    write = update(made(schedule()), NOON + HOUR + 5, schedule(every=60))
    assert started(write) == ["13"]
    row = write.row
    assert row is not None
    assert (row.workflow, row.input, row.how.queue) == ("v", b"[]", "other")
    assert (row.cursor, row.next_at) == (NOON + HOUR + 5, NOON + HOUR + MINUTE)
    assert (row.running, row.revision) == ((slot_id("s", NOON + HOUR),), row.revision)
    (create,) = write.sends
    assert isinstance(create, Create)
    assert create.workflow == "w", "what was due before is the work of before"


def test_an_update_of_the_work_leaves_the_times_alone() -> None:
    row = made(schedule())
    write = update(row, NOON + HOUR + 5, schedule())
    assert write.sends == ()
    assert write.row is not None
    assert (write.row.cursor, write.row.next_at) == (NOON, NOON + HOUR)


def test_an_update_keeps_the_pause() -> None:
    paused = row_of(PauseSchedule(made(schedule()), NOON))
    changed = update(paused, NOON + 2 * HOUR, schedule(every=60)).row
    assert changed is not None
    assert (changed.paused, changed.next_at) == (True, None)


def test_each_change_has_a_revision_of_its_own() -> None:
    row = made(schedule())
    for command in (
        FireSchedule(row, NOON + HOUR, frozenset()),
        PauseSchedule(row, NOON),
        TriggerSchedule(row, NOON, "s@trigger-1"),
    ):
        write = write_of(command)
        assert write.row is not None
        assert (write.revision, write.row.revision > row.revision) == (row.revision, True)


def test_runs_are_started_as_the_code_at_hand_says() -> None:
    given = How(queue="mine", priority=1, given=("queue",))
    row = made(schedule())._replace(how=given)
    code = How(version="2", shape=b"2", queue="theirs", priority=5, timeout=9)
    (create,) = write_of(FireSchedule(row, NOON + HOUR, frozenset(), code)).sends
    assert isinstance(create, Create)
    assert (create.version, create.queue, create.priority) == ("2", "mine", 5)
    assert create.deadline == NOON + HOUR + 9
