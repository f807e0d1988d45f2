"""Schedules: a row changes once for each revision, together with the runs it starts."""

from __future__ import annotations

from typing import Any

from holdfast.errors import StoreError
from holdfast.kernel.dispatch import decide
from holdfast.model.commands import StartRun
from holdfast.model.labels import Labels
from holdfast.model.schedules import (
    How,
    Past,
    Schedule,
    Scheduled,
    ScheduleFilter,
    Slot,
    slot_id,
    slot_key,
)
from holdfast.model.writes import Claim, Create, Depart, Move, Notice, Reschedule
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.batches import bad_turn
from holdfast.testing.conformance.harness import LEASE, Harness, event, needs, refused

HOURLY = Schedule(every=3600).encoded()
BUFFERED = '{"every": 3600000000, "overlap": "buffer_all"}'
SLOT = 7_200_000_000


def schedule(harness: Harness, id: str = "s", **fields: Any) -> Scheduled:
    """Return a row that is not stored yet."""
    now = harness.store.now()
    made = Scheduled("default", id, 10, "w", HOURLY, b"\x00{}", How(queue="q", priority=2))
    return made._replace(**{"created_at": now, "updated_at": now, **fields})


async def write(harness: Harness, row: Scheduled | None, known: int | None, **fields: Any) -> bool:
    """Put a row in the place of the one of a revision; tell whether it was taken."""
    id, ns = ("s", "default") if row is None else (row.id, row.ns)
    write = Reschedule(ns, id, known, row)._replace(**fields)
    (outcome,) = await harness.store.write([write])
    return outcome.applied


async def rows(harness: Harness, ns: str = "default", **wanted: Any) -> list[Scheduled]:
    """Return schedules."""
    return await harness.store.schedules(ScheduleFilter(ns, **wanted))


def create(harness: Harness, id: str = "s@1") -> Create:
    """Return the start of a slot."""
    slot = slot_key("s", SLOT + int(id[-1]))
    command = StartRun("default", id, "w", "", b"{}", b"d", harness.store.now(), slot=slot)
    made = decide(command)
    assert isinstance(made, Create)
    return made


async def test_a_schedule_is_kept_as_it_is(harness: Harness) -> None:
    how = How(b"\x01", "v2", b"\xff", "q é", 5, 7, Labels(("a",), {"n": 1, "f": 1.5}), ("queue",))
    row = schedule(
        harness, how=how, paused=True, note="why é", cursor=6, since=7,
        buffer=(Slot(1), Slot(2, "backfill")), running=("s@1",), started=3, declared="mark",
        recent=(Past(1, "started"), Past(2, "missed", 9)), revision=1 << 60,
    )  # fmt: skip
    assert await write(harness, row, None)
    assert await rows(harness) == [row]
    assert await rows(harness, "other") == []


async def test_a_schedule_is_made_once(harness: Harness) -> None:
    row = schedule(harness)
    assert await write(harness, row, None)
    assert not await write(harness, row._replace(note="second"), None)
    assert await rows(harness) == [row]


async def test_who_read_an_older_row_is_refused(harness: Harness) -> None:
    await write(harness, schedule(harness), None)
    first, second = (schedule(harness, revision=11, note=note) for note in ("one", "two"))
    assert await write(harness, first, 10)
    assert not await write(harness, second, 10)
    assert not await write(harness, None, 10)
    assert [row.note for row in await rows(harness)] == ["one"]
    assert await write(harness, None, 11)
    assert await rows(harness) == []
    assert not await write(harness, second, 11), "it is gone"


async def test_runs_are_started_with_the_row(harness: Harness) -> None:
    await write(harness, schedule(harness), None)
    moved = schedule(harness, revision=11)
    assert await write(harness, moved, 10, sends=(create(harness), create(harness, "s@2")))
    loaded = await harness.load("s@1")
    assert (loaded.run.status, loaded.events[0].key) == ("pending", slot_key("s", SLOT + 1))
    assert (await harness.row("s@2")).status == "pending"


async def test_a_refused_row_starts_no_run(harness: Harness) -> None:
    await write(harness, schedule(harness), None)
    assert not await write(harness, schedule(harness), 9, sends=(create(harness),))
    assert await harness.store.load("default", "s@1") is None


async def test_a_slot_that_has_a_run_starts_no_other(harness: Harness) -> None:
    run = await harness.held("s@1")
    await write(harness, schedule(harness), None)
    moved = schedule(harness, revision=11)
    assert await write(harness, moved, 10, sends=(create(harness), create(harness, "s@2")))
    assert await harness.row("s@1") == run
    assert (await harness.row("s@2")).status == "pending"


async def test_what_is_early_by_the_clock_is_refused(harness: Harness) -> None:
    await write(harness, schedule(harness), None)
    due = harness.store.now() + SECOND
    moved, sends = schedule(harness, revision=11), (create(harness),)
    assert not await write(harness, moved, 10, sends=sends, not_before=due)
    assert not await write(harness, None, 10, not_before=due)
    assert not await write(harness, schedule(harness, "t"), None, not_before=due)
    harness.clock.advance(SECOND)
    assert await write(harness, moved, 10, sends=sends, not_before=due)


async def test_a_run_in_the_way_is_ended_with_the_row(harness: Harness) -> None:
    await harness.park(await harness.held("s@1"))
    await harness.closed("s@2")
    await write(harness, schedule(harness), None)
    terminated = event("run.terminated", payload=b"{}")._replace(at=harness.store.now())
    moves = tuple(
        Move("default", id, frozenset({"waiting"}), "terminated", terminated)
        for id in ("s@1", "s@2")
    )
    assert await write(harness, schedule(harness, revision=11), 10, sends=moves)
    assert [(await harness.row(id)).status for id in ("s@1", "s@2")] == ["terminated", "completed"]


async def test_a_batch_that_fails_changes_no_schedule(harness: Harness) -> None:
    await write(harness, schedule(harness), None)
    held = await harness.held("r")
    moved = Reschedule("default", "s", 10, schedule(harness, revision=11), (create(harness),))
    with refused(StoreError):
        await harness.store.write([moved, bad_turn(harness, held)])
    assert [row.revision for row in await rows(harness)] == [10]
    assert await harness.store.load("default", "s@1") is None


async def test_they_are_read_in_order(harness: Harness) -> None:
    for id, next_at in (("c", 1), ("a", 3), ("b", None)):
        await write(harness, schedule(harness, id, next_at=next_at), None)
    assert [row.id for row in await rows(harness)] == ["a", "b", "c"]
    assert [row.id for row in await rows(harness, after="a", limit=1)] == ["b"]
    assert [row.id for row in await rows(harness, ids=("c", "x"))] == ["c"]
    assert [row.id for row in await rows(harness, workflows=("w",))] == ["c", "a"]
    assert [row.id for row in await rows(harness, workflows=("w",), limit=1)] == ["c"]
    assert [row.id for row in await rows(harness, workflows=("w/", "v"))] == ["c", "a"]
    assert await rows(harness, workflows=("w/1",)) == []


async def test_a_claim_may_ask_when_one_is_due(harness: Harness) -> None:
    asked = Claim("default", "A", ("w/",), 1, LEASE, schedules=True)
    assert (await harness.store.claim(asked)).schedule_at is None
    for id, next_at in (("a", 30), ("b", 20), ("c", None)):
        await write(harness, schedule(harness, id, next_at=next_at), None)
    await write(harness, schedule(harness, "d", next_at=10, workflow="v"), None)
    assert (await harness.store.claim(asked)).schedule_at == 20
    assert (await harness.store.claim(asked._replace(schedules=False))).schedule_at is None
    assert (await harness.store.claim(asked._replace(ns="other"))).schedule_at is None


async def closed_by_turn(harness: Harness, id: str = "s@1") -> None:
    """Close a run of the schedule `s` by a turn of its own."""
    run = await harness.held(id)
    closing = event("run.completed", payload=b"1")
    turn = harness.turn(run, closing, status="completed")
    departs = Depart("default", id, 1, turn.events[0], False, False, "s")
    assert await harness.send(turn._replace(sends=(departs,))) == "applied"


async def test_a_close_rouses_a_schedule_with_slots_that_wait(harness: Harness) -> None:
    row = schedule(harness, spec=BUFFERED, buffer=(Slot(1),), running=("s@1",), next_at=1 << 60)
    await write(harness, row, None)
    heard: list[Notice] = []
    stop = harness.store.listen(heard.extend, near=True)
    await closed_by_turn(harness)
    stop()
    assert await rows(harness) == [row._replace(revision=11, next_at=harness.store.now())]
    assert [notice.what for notice in heard][-1] == "schedule"


async def test_a_close_by_hand_rouses_it_too(harness: Harness) -> None:
    row = schedule(harness, spec=BUFFERED, buffer=(Slot(1),), running=("s@1",))
    await write(harness, row, None)
    await harness.park(await harness.held("s@1"))
    await harness.move("terminate", "s@1")
    assert await rows(harness) == [row._replace(revision=11, next_at=harness.store.now())]


async def test_a_close_outdates_whoever_lets_a_slot_wait_for_it(harness: Harness) -> None:
    row = schedule(harness, spec=BUFFERED, running=("s@1",), next_at=5)
    await write(harness, row, None)
    await closed_by_turn(harness)
    assert await rows(harness) == [row._replace(revision=11)], "it may wait: decide again"
    waits = row._replace(buffer=(Slot(1),))
    assert not await write(harness, waits, 10)


async def test_a_close_leaves_a_paused_schedule_and_others_alone(harness: Harness) -> None:
    paused = schedule(harness, spec=BUFFERED, buffer=(Slot(1),), paused=True)
    await write(harness, paused, None)
    await closed_by_turn(harness)
    assert await rows(harness) == [paused._replace(revision=11)]
    plain = schedule(harness, revision=20, next_at=5)
    await write(harness, plain, 11)
    await closed_by_turn(harness, slot_id("s", 0))
    assert await rows(harness) == [plain]


@needs("durable")
async def test_schedules_outlive_the_store(harness: Harness) -> None:
    row = schedule(harness, next_at=5, buffer=(Slot(1),))
    await write(harness, row, None)
    await harness.reopen()
    assert await rows(harness) == [row]
