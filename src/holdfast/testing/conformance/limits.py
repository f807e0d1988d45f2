"""Managed queues: never more runs than allowed, keys in turn, and nothing lost on the way."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from holdfast.kernel.dispatch import decide
from holdfast.model.commands import ChangeQueue, PruneRuns
from holdfast.model.events import Event
from holdfast.model.family import Link
from holdfast.model.limits import Limits, Place, QueueState, Ticket
from holdfast.model.queues import IN_LINE
from holdfast.model.writes import Claim, Free
from holdfast.ports.inspection import InspectedStore
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.children import child, start_children
from holdfast.testing.conformance.harness import LEASE, Harness, event, ids, needs

DONE = Event("run.completed", 0, payload=b"1")


async def manage(harness: Harness, name: str = "q", **limits: int) -> bool:
    """Give a queue limits; tell whether that changed anything."""
    return bool(await harness.send(ChangeQueue("default", name, Limits(**limits))))


async def pause(harness: Harness, paused: bool, name: str = "q") -> bool:
    """Pause a queue, or let it go on."""
    return bool(await harness.send(ChangeQueue("default", name, paused=paused)))


async def start(harness: Harness, *starts: str, queue: str = "q", **fields: Any) -> None:
    """Start runs on a queue; `a1` has the key `a`."""
    for id in starts:
        await harness.start(id, queue=queue, place=Place(id.rstrip("0123456789")), **fields)


async def take(harness: Harness, limit: int = 100, worker: str = "A", **fields: Any) -> list[str]:
    """Claim runs; return their ids."""
    return ids((await harness.claim(worker, limit=limit, **fields)).runs)


async def close(harness: Harness, id: str) -> None:
    """Close a held run, as the worker that holds it does."""
    run = await harness.row(id)
    frees = (Free(run.ns, run.id),)
    assert await harness.commit(run, DONE, status="completed", sends=frees) == "applied"


async def ticket(harness: Harness, id: str) -> Ticket:
    """Return the place of a run at its queue."""
    found = await ticket_or_none(harness, id)
    assert found is not None, id
    return found


async def ticket_or_none(harness: Harness, id: str) -> Ticket | None:
    """Return the place of a run at its queue, if it has one."""
    return await cast("InspectedStore", harness.store).ticket("default", id)


async def state(harness: Harness, name: str = "q") -> QueueState:
    """Return a managed queue as it is."""
    return next(each for each in await harness.store.queues("default") if each.queue.name == name)


async def test_a_queue_has_a_row_once_it_has_limits(harness: Harness) -> None:
    assert await harness.store.queues("default") == []
    assert await manage(harness, "b", concurrency=2, rate_count=5, rate_per=SECOND)
    assert await manage(harness, "a", key_concurrency=1, worker_concurrency=3)
    first, second = await harness.store.queues("default")
    assert (first.queue.name, first.queue.limits) == ("a", Limits(None, 1, 3))
    assert (second.queue.name, second.queue.limits) == ("b", Limits(2, None, None, 5, SECOND))
    assert (second.held, second.waiting, second.queue.paused) == (0, 0, False)
    assert await harness.store.queues("other") == []


async def test_what_changes_nothing_about_a_queue_is_refused(harness: Harness) -> None:
    await manage(harness, concurrency=2)
    before = (await state(harness)).queue
    harness.clock.advance()
    assert not await manage(harness, concurrency=2)
    assert not await pause(harness, False)
    assert (await state(harness)).queue == before
    assert await pause(harness, True)
    assert (await state(harness)).queue == before._replace(paused=True)
    assert await manage(harness, concurrency=3)
    changed = (await state(harness)).queue
    assert (changed.concurrency, changed.paused) == (3, True)
    assert changed.changed_at == harness.store.now() > before.changed_at


async def test_never_more_runs_are_admitted_than_allowed(harness: Harness) -> None:
    await manage(harness, concurrency=2)
    await start(harness, "a1", "a2", "a3", "a4")
    assert await take(harness, 1) == ["a1"]
    assert await take(harness, worker="B") == ["a2"]
    assert await take(harness) == []
    assert ((await state(harness)).held, (await state(harness)).waiting) == (2, 2)
    await close(harness, "a1")
    assert (await state(harness)).held == 1
    assert await take(harness, worker="B") == ["a3"]
    assert await take(harness) == []


async def test_a_run_in_line_is_due_at_no_time(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    run = await harness.start("r", queue="q")
    assert run == await harness.row("r")
    assert (run.status, run.wake_at) == ("pending", IN_LINE)
    assert (await ticket(harness, "r")).state == "waiting"
    assert (await harness.claim(limit=0)).next_wake_at is None


async def test_who_takes_a_run_is_told_that_it_has_a_ticket(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await harness.start("mine", queue="q")
    await harness.start("other", queue="free")
    claimed = await harness.claim()
    assert set(ids(claimed.runs)) == {"mine", "other"}
    assert claimed.ticketed == {"mine"}
    assert set(claimed.first_events) == {"mine", "other"}


async def test_no_run_of_a_managed_queue_is_born_claimed(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    command = harness.starting("r", queue="q", owner="A")
    [outcome] = await harness.store.write([decide(command)])
    assert (outcome.applied, outcome.run) == (False, None)
    assert await harness.store.load("default", "r") is None


async def test_a_run_holds_its_slot_while_it_waits(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await start(harness, "a1", "a2")
    [run] = (await harness.claim()).runs
    await harness.park(run)
    assert await take(harness) == []
    await harness.signal("s1", run="a1")
    claimed = await harness.claim("B")
    assert (ids(claimed.runs), [*claimed.ticketed]) == (["a1"], ["a1"])
    assert await take(harness) == []


async def test_a_run_that_lost_its_worker_holds_its_slot_and_is_counted_once(
    harness: Harness,
) -> None:
    await manage(harness, concurrency=2)
    await start(harness, "a1", "a2", "a3")
    assert await take(harness) == ["a1", "a2"]
    harness.clock.advance(LEASE)
    assert await harness.reap("A") == 2
    assert (await state(harness)).held == 2
    assert sorted(await take(harness, worker="B")) == ["a1", "a2"]
    assert ((await state(harness)).held, await take(harness, worker="C")) == (2, [])


async def test_a_run_that_is_set_aside_holds_its_slot(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await start(harness, "a1", "a2")
    [run] = (await harness.claim()).runs
    await harness.commit(run, event("run.paused"), status="paused")
    assert await take(harness) == []
    await harness.move("resume", "a1")
    assert await take(harness) == ["a1"]


async def test_a_run_that_is_terminated_gives_its_slot_back(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await start(harness, "a1", "a2", "a3")
    assert await take(harness) == ["a1"]
    await harness.move("terminate", "a1")
    await harness.move("terminate", "a2")
    assert ((await state(harness)).held, (await state(harness)).waiting) == (0, 1)
    assert await take(harness) == ["a3"]


async def test_a_run_that_is_tried_again_stands_in_line_again(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await start(harness, "a1", "a2")
    [run] = (await harness.claim()).runs
    failed = Event("run.failed", 0, payload=b'{"type":"E","message":"m"}')
    await harness.commit(run, failed, status="failed", sends=(Free("default", "a1"),))
    assert await take(harness) == ["a2"]
    await harness.retry("a1")
    assert await take(harness) == []
    assert (await ticket(harness, "a1")).key == "a"
    assert (await harness.row("a1")).wake_at == IN_LINE
    await close(harness, "a2")
    assert await take(harness) == ["a1"]


async def test_only_so_many_runs_of_a_key_are_admitted(harness: Harness) -> None:
    await manage(harness, key_concurrency=1)
    await start(harness, "a1", "a2", "b1", "b2")
    assert await take(harness) == ["a1", "b1"]
    await close(harness, "b1")
    assert await take(harness) == ["b2"]
    await close(harness, "a1")
    assert await take(harness) == ["a2"]


async def test_runs_without_a_key_are_not_limited_as_one(harness: Harness) -> None:
    await manage(harness, key_concurrency=1)
    for n in range(3):
        await harness.start(f"r{n}", queue="q")
    assert await take(harness) == ["r0", "r1", "r2"]


async def test_only_so_many_begin_in_any_stretch_of_time(harness: Harness) -> None:
    await manage(harness, rate_count=2, rate_per=10 * SECOND)
    await start(harness, *(f"a{n}" for n in range(1, 6)))
    assert await take(harness, 1) == ["a1"]
    harness.clock.advance(4 * SECOND)
    assert await take(harness) == ["a2"]
    begun = harness.store.now()
    claimed = await harness.claim()
    assert (claimed.runs, claimed.next_wake_at) == ((), begun + 6 * SECOND)
    assert (await state(harness)).next_at == begun + 6 * SECOND
    harness.clock.advance(6 * SECOND)
    assert await take(harness) == ["a3"]
    harness.clock.advance(4 * SECOND - 1)
    assert await take(harness) == []
    harness.clock.advance(1)
    assert await take(harness) == ["a4"]
    harness.clock.advance(20 * SECOND)
    await start(harness, "a6", "a7")
    assert await take(harness) == ["a5", "a6"]


async def test_a_closed_run_gives_nothing_back_of_the_rate(harness: Harness) -> None:
    await manage(harness, rate_count=1, rate_per=SECOND)
    await start(harness, "a1", "a2")
    assert await take(harness) == ["a1"]
    await close(harness, "a1")
    assert await take(harness) == []
    harness.clock.advance(SECOND)
    assert await take(harness) == ["a2"]


async def test_nothing_begins_on_a_paused_queue(harness: Harness) -> None:
    await pause(harness, True)
    await start(harness, "a1")
    assert await take(harness) == []
    await pause(harness, False)
    assert await take(harness) == ["a1"]


async def test_what_has_begun_goes_on_when_its_queue_is_paused(harness: Harness) -> None:
    await manage(harness, concurrency=5)
    await start(harness, "a1", "a2")
    [run] = (await harness.claim(limit=1)).runs
    await pause(harness, True)
    await harness.park(run)
    await harness.signal("s1", run="a1")
    assert await take(harness) == ["a1"]


async def test_runs_of_a_queue_that_gets_limits_join_its_line(harness: Harness) -> None:
    for n in range(3):
        await harness.start(f"r{n}", queue="q")
    parked = await harness.park(await harness.held("begun", queue="q"))
    assert await manage(harness, concurrency=1)
    harness.clock.advance()
    await harness.signal("s1", run=parked.id)
    assert await take(harness) == ["r0"]
    assert (await state(harness)).waiting == 3
    for closed, expected in (("r0", "r1"), ("r1", "r2"), ("r2", "begun")):
        await close(harness, closed)
        assert await take(harness) == [expected]


async def test_a_limit_that_is_lowered_takes_nothing_away(harness: Harness) -> None:
    await manage(harness, concurrency=3)
    await start(harness, "a1", "a2", "a3", "a4")
    assert await take(harness) == ["a1", "a2", "a3"]
    await manage(harness, concurrency=1)
    for id in ("a1", "a2"):
        await close(harness, id)
        assert await take(harness) == []
    await close(harness, "a3")
    assert await take(harness) == ["a4"]


async def test_a_run_with_a_key_makes_a_line_of_its_queue(harness: Harness) -> None:
    await start(harness, "a1")
    assert (await state(harness)).queue.limits == Limits()
    assert (await state(harness)).waiting == 1
    assert await take(harness) == ["a1"]


async def test_a_child_stands_in_line_too(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    ties = [Link("p", f"w#{n}", 1, "abandon") for n in (1, 2)]
    children = [child(harness, f"c{tie.key[-1]}", tie, queue="q") for tie in ties]
    await start_children(harness, await harness.held("p"), *children)
    assert await take(harness) == ["c1"]
    assert (await state(harness)).waiting == 1


async def test_forgotten_runs_leave_no_ticket(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await start(harness, "a1")
    await take(harness)
    await close(harness, "a1")
    harness.clock.advance()
    await harness.send(PruneRuns("default", harness.store.now()))
    assert await ticket_or_none(harness, "a1") is None


async def test_a_refused_turn_gives_nothing_back(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await start(harness, "a1", "a2")
    [run] = (await harness.claim()).runs
    stale = run._replace(epoch=run.epoch - 1)
    sends = (Free("default", "a1"),)
    assert await harness.commit(stale, DONE, status="completed", sends=sends) == "lost"
    assert ((await state(harness)).held, await take(harness)) == (1, [])


async def test_namespaces_have_queues_of_their_own(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    for ns in ("default", "other"):
        for n in range(2):
            await harness.start(f"r{n}", queue="q", ns=ns)
    assert await take(harness) == ["r0"]
    assert await take(harness, ns="other") == ["r0", "r1"]


async def test_claims_at_the_same_time_never_admit_too_many(harness: Harness) -> None:
    await manage(harness, concurrency=5, key_concurrency=2)
    await start(harness, *(f"{key}{n}" for key in "abcd" for n in range(10)))
    claims = await asyncio.gather(*(harness.claim(f"W{n}", limit=3) for n in range(12)))
    taken = [run.id for claimed in claims for run in claimed.runs]
    assert len(taken) == len(set(taken)) == 5
    assert all(sum(id[0] == key for id in taken) <= 2 for key in "abcd")


@needs("shared")
async def test_stores_on_the_same_data_never_admit_too_many_together(harness: Harness) -> None:
    await manage(harness, concurrency=5)
    await start(harness, *(f"a{n}" for n in range(20)))
    stores = (harness.store, await harness.another())
    claims = await asyncio.gather(
        *(
            stores[n % 2].claim(Claim("default", f"W{n}", ("w",), limit=3, lease=LEASE))
            for n in range(8)
        )
    )
    taken = [run.id for claimed in claims for run in claimed.runs]
    assert len(taken) == len(set(taken)) == 5


@needs("durable")
async def test_lines_outlive_the_store(harness: Harness) -> None:
    await manage(harness, concurrency=1, rate_count=2, rate_per=SECOND)
    await start(harness, "a1", "b1", "b2")
    assert await take(harness) == ["a1"]
    await harness.reopen()
    assert await take(harness) == []
    await close(harness, "a1")
    assert await take(harness) == ["b1"]
    await close(harness, "b1")
    assert await take(harness) == []
    harness.clock.advance(SECOND)
    assert await take(harness) == ["b2"]
