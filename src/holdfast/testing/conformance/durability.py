"""Durability: what was acknowledged is there when the store is opened again."""

from __future__ import annotations

from holdfast.model.commands import RenewLease
from holdfast.testing.clock import MINUTE, SECOND
from holdfast.testing.conformance.harness import LEASE, Harness, answer, event, ids, needs


@needs("durable")
async def test_everything_is_there_after_opening_again(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.commit(run, answer("a#1"))
    await harness.signal("s1", payload=b"\x00\xff")
    await harness.start("later", wake_at=harness.store.now() + MINUTE)
    before = [await harness.load("r"), await harness.load("later")]
    await harness.reopen()
    assert [await harness.load("r"), await harness.load("later")] == before


@needs("durable")
async def test_guards_hold_after_opening_again(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.signal("s1")
    await harness.reopen()
    assert not await harness.signal("s1")
    assert await harness.start("r") == await harness.row("r")
    assert await harness.commit(run._replace(epoch=0), answer()) == "lost"
    assert await harness.commit(run, status="waiting", inbox_seq=0) == "mail"
    received = event("signal.received", "go/s1")
    assert await harness.commit(run, received, inbox_read=1) == "applied"


@needs("durable")
async def test_leases_and_timers_survive(harness: Harness) -> None:
    await harness.held("held", worker="A")
    due = harness.store.now() + MINUTE
    await harness.park(await harness.held("timer", worker="B"), wake_at=due)
    await harness.reopen()
    seen = await harness.claim("C")
    assert (seen.runs, seen.dead, seen.next_wake_at) == ((), (), due)
    harness.clock.advance(LEASE)
    assert ("A", False) in (await harness.claim("C")).dead
    harness.clock.advance(MINUTE)
    assert ids((await harness.claim("C")).runs) == ["timer"]


@needs("durable")
async def test_strikes_and_generations_survive(harness: Harness) -> None:
    await harness.held("struck", worker="A")
    await harness.reap("A", known_dead=True)
    await harness.in_status("failed", id="reopened")
    await harness.retry("reopened")
    await harness.reopen()
    assert (await harness.row("struck")).strikes == 1
    assert (await harness.row("reopened")).generation == 2
    assert await harness.kinds("reopened") == ["run.started", "run.reopened"]


@needs("durable", "keeps_time")
async def test_the_clock_does_not_go_back_over_opening_again(harness: Harness) -> None:
    await harness.start("r")
    latest = harness.clock.advance(MINUTE)
    assert harness.store.now() == latest
    await harness.start("s")
    harness.clock.advance(-MINUTE)
    await harness.reopen()
    assert harness.store.now() >= latest
    await harness.renew("A")
    harness.clock.advance(-MINUTE)
    await harness.reopen()
    assert harness.store.now() >= latest


@needs("durable", "shared", "keeps_time")
async def test_a_store_whose_clock_is_behind_does_not_set_it_back(harness: Harness) -> None:
    behind = await harness.another()
    latest = harness.clock.advance(MINUTE)
    await harness.renew("A")
    harness.clock.advance(-MINUTE)
    await harness.send(RenewLease("B", LEASE), behind)
    await harness.reopen()
    assert harness.store.now() >= latest


@needs("durable")
async def test_opening_again_and_again_changes_nothing(harness: Harness) -> None:
    run = await harness.held("r")
    before = await harness.load("r")
    for _ in range(3):
        harness.clock.advance(SECOND)
        await harness.reopen()
    assert await harness.load("r") == before
    assert await harness.commit(run, answer()) == "applied"
