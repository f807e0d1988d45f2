"""Sharing: several stores on the same data, in one process or in several."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from holdfast.model.writes import Claim
from holdfast.testing.conformance.harness import LEASE, Harness, answer, ids, needs

LISTEN = """
import asyncio

async def main():
    await store.open()
    store.listen(lambda notices: None, worker="other")
    print("listening", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@asynccontextmanager
async def process(harness: Harness) -> AsyncGenerator[Process]:
    """Run another process that listens as the worker `other`, until it is killed."""
    source = f"{harness.remote}\n{LISTEN}"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", source, stdout=PIPE)
    assert child.stdout is not None
    try:
        assert await asyncio.wait_for(child.stdout.readline(), 20) == b"listening\n"
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


def claim(worker: str, limit: int = 100) -> Claim:
    """Return a claim of everything."""
    return Claim("default", worker, ("w",), limit, LEASE)


@needs("shared")
async def test_what_one_store_writes_the_other_reads(harness: Harness) -> None:
    other = await harness.another()
    started = await harness.start("r")
    loaded = await other.load("default", "r")
    assert loaded is not None
    assert loaded.run == started
    await harness.send(harness.signalling("s1"), other)
    assert [message.id for message in (await harness.load("r")).mail] == ["s1"]


@needs("shared")
async def test_a_start_is_idempotent_between_stores(harness: Harness) -> None:
    other = await harness.another()
    commands = [harness.starting("r")] * 2
    one, two = await asyncio.gather(harness.send(commands[0]), harness.send(commands[1], other))
    assert one == two
    assert await harness.kinds("r") == ["run.started"]


@needs("shared")
async def test_claims_of_two_stores_never_share_a_run(harness: Harness) -> None:
    other = await harness.another()
    for n in range(40):
        await harness.start(f"r{n:02}")
    taken: list[str] = []
    for _ in range(5):
        found = await asyncio.gather(
            harness.store.claim(claim("A", limit=5)), other.claim(claim("B", limit=5))
        )
        taken += [run.id for claimed in found for run in claimed.runs]
    assert sorted(taken) == sorted(set(taken))
    assert set(taken) == {f"r{n:02}" for n in range(40)}


@needs("shared")
async def test_a_holder_is_fenced_off_through_another_store(harness: Harness) -> None:
    other = await harness.another()
    run = await harness.held("r", worker="A")
    harness.clock.advance(LEASE)
    assert (await other.claim(claim("B"))).dead == (("A", False),)
    assert await harness.reap("A") == 1
    [taken] = (await other.claim(claim("B"))).runs
    assert await harness.commit(run, answer("late#1")) == "lost"
    assert await harness.send(harness.turn(taken, answer("a#1")), other) == "applied"


@needs("shared")
async def test_a_worker_of_another_store_lives_as_long_as_its_lease(harness: Harness) -> None:
    other = await harness.another()
    stop = other.listen(lambda notices: None, worker="A")
    await harness.held("r", worker="A")
    assert (await harness.claim("B")).dead == ()
    stop()
    assert (await harness.claim("B")).dead == ()


@needs("shared", "knows_dead")
async def test_a_killed_process_is_known_dead_at_once(harness: Harness) -> None:
    async with process(harness) as child:
        await harness.held("r", worker="other")
        assert (await harness.claim("B")).dead == ()
        child.kill()
        await child.wait()
        assert (await harness.claim("B")).dead == (("other", True),)
    assert await harness.reap("other", known_dead=True) == 1
    claimed = await harness.claim("B")
    assert (ids(claimed.runs), claimed.dead) == (["r"], ())


@needs("shared", "knows_dead")
async def test_an_eager_claim_takes_from_the_dead_in_one_commit(harness: Harness) -> None:
    async with process(harness) as child:
        await harness.held("r", worker="other")
        claimed = await harness.claim("B", eager=True)
        assert (claimed.runs, claimed.reaped) == ((), ())
        child.kill()
        await child.wait()
        claimed = await harness.claim("B", eager=True)
    assert (ids(claimed.runs), claimed.reaped) == (["r"], (("other", 1),))
    assert claimed.dead == ()


@needs("shared", "knows_dead")
async def test_a_frozen_process_keeps_its_bell_when_it_is_reaped(harness: Harness) -> None:
    async with process(harness) as child:
        await harness.held("r", worker="other")
        harness.clock.advance(LEASE)
        assert (await harness.claim("B")).dead == (("other", False),)
        assert await harness.reap("other") == 1
        await harness.held("s", worker="other")
        child.kill()
        await child.wait()
        assert (await harness.claim("B")).dead == (("other", True),)


@needs("shared", "rings")
async def test_a_process_that_listens_hears_another(harness: Harness) -> None:
    heard = asyncio.Event()
    stop = harness.store.listen(lambda notices: heard.set(), worker="A")
    source = f"{harness.remote}\n{WRITE}"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", source)
    await asyncio.wait_for(heard.wait(), 20)
    assert await child.wait() == 0
    assert ids((await harness.claim("A")).runs) == ["r"]
    stop()


WRITE = """
import asyncio
from holdfast.kernel.dispatch import decide
from holdfast.model.commands import StartRun

async def main():
    await store.open()
    start = StartRun("default", "r", "w", "1", b"{}", b"", at=1)
    await store.write([decide(start)])
    await store.close()

asyncio.run(main())
"""
