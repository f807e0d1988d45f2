"""Starts: the id is the key of a run and its idempotency key."""

from __future__ import annotations

import asyncio

from holdfast.errors import RunConflict
from holdfast.model.status import RUN_MOVES
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.harness import LEASE, Harness, answer, ids, refused


async def test_a_start_stores_the_run_and_its_first_event(harness: Harness) -> None:
    now = harness.store.now()
    started = await harness.start("r", workflow="w", version="7", input=b'{"x":1}')
    loaded = await harness.load("r")
    assert loaded.run == started
    assert (started.ns, started.id, started.workflow, started.version) == ("default", "r", "w", "7")
    assert (started.status, started.owner, started.epoch, started.seq) == ("pending", None, 0, 1)
    assert (started.generation, started.cancel, started.strikes) == (1, 0, 0)
    assert (started.wake_at, started.created_at, started.closed_at) == (now, now, None)
    assert started.input_digest == b'digest of {"x":1}'
    [first] = loaded.events
    assert (first.kind, first.seq, first.payload, first.at) == ("run.started", 1, b'{"x":1}', now)
    assert loaded.mail == ()


async def test_a_repeated_start_gives_the_same_run_and_changes_nothing(harness: Harness) -> None:
    first = await harness.start("r")
    harness.clock.advance()
    assert await harness.start("r") == first
    assert (await harness.load("r")).run == first
    assert await harness.kinds("r") == ["run.started"]


async def test_a_repeated_start_finds_the_run_in_any_status(harness: Harness) -> None:
    for status in RUN_MOVES:
        there = await harness.in_status(status, id=status)
        assert await harness.start(status) == there


async def test_another_version_is_not_a_conflict(harness: Harness) -> None:
    await harness.start("r", version="1")
    assert (await harness.start("r", version="2")).version == "1"


async def test_the_same_id_for_another_workflow_is_refused(harness: Harness) -> None:
    before = await harness.start("r", workflow="w")
    with refused(RunConflict):
        await harness.start("r", workflow="other")
    assert await harness.row("r") == before


async def test_the_same_id_with_another_input_is_refused(harness: Harness) -> None:
    before = await harness.start("r", input=b"1")
    with refused(RunConflict):
        await harness.start("r", input=b"2")
    assert await harness.row("r") == before
    assert (await harness.load("r")).events[0].payload == b"1"


async def test_a_closed_run_still_takes_its_id(harness: Harness) -> None:
    await harness.closed("r")
    with refused(RunConflict):
        await harness.start("r", input=b"another")


async def test_two_starts_of_one_id_in_one_batch_make_one_run(harness: Harness) -> None:
    first, second = await harness.send_all([harness.starting("r"), harness.starting("r")])
    assert first == second
    assert await harness.kinds("r") == ["run.started"]


async def test_starts_of_one_id_at_the_same_time_make_one_run(harness: Harness) -> None:
    started = await asyncio.gather(*(harness.start("r") for _ in range(20)))
    assert len(set(started)) == 1
    assert ids((await harness.claim()).runs) == ["r"]


async def test_a_start_with_an_owner_is_born_claimed(harness: Harness) -> None:
    run = await harness.held("r", worker="A")
    assert (run.status, run.owner, run.epoch, run.wake_at) == ("running", "A", 1, None)
    assert await harness.row("r") == run
    assert (await harness.load("r")).events[0].epoch == 1
    assert (await harness.claim("B")).runs == ()
    assert await harness.commit(run, answer()) == "applied"


async def test_a_start_that_finds_a_run_does_not_claim_it(harness: Harness) -> None:
    there = await harness.start("r")
    assert await harness.start("r", owner="A") == there
    assert await harness.row("r") == there


async def test_a_delayed_start_is_not_claimed_before_its_time(harness: Harness) -> None:
    later = harness.store.now() + LEASE
    await harness.start("r", wake_at=later)
    early = await harness.claim()
    assert (early.runs, early.next_wake_at) == ((), later)
    harness.clock.advance(LEASE - 1)
    assert (await harness.claim()).runs == ()
    harness.clock.advance(1)
    assert ids((await harness.claim()).runs) == ["r"]


async def test_a_wake_up_time_in_the_past_means_now(harness: Harness) -> None:
    assert (await harness.start("r", wake_at=5)).wake_at == harness.store.now()


async def test_ids_and_payloads_come_back_as_they_were(harness: Harness) -> None:
    for id in ("x" * 255, "order 42", "Ω-größe-💾", "a'b\"c;--", "%_\\", "A", "a"):
        payload = bytes(range(256)) + id.encode()
        assert (await harness.start(id, input=payload, workflow=f"w {id}")).id == id
        loaded = await harness.load(id)
        assert (loaded.run.id, loaded.run.workflow) == (id, f"w {id}")
        assert loaded.events[0].payload == payload


async def test_an_empty_input_is_not_a_missing_one(harness: Harness) -> None:
    await harness.start("r", input=b"")
    assert (await harness.load("r")).events[0].payload == b""


async def test_times_far_away_are_kept_to_the_microsecond(harness: Harness) -> None:
    far = harness.store.now() + 100 * 366 * 24 * 3600 * SECOND + 1
    assert (await harness.start("r", wake_at=far)).wake_at == far
    assert (await harness.row("r")).wake_at == far
