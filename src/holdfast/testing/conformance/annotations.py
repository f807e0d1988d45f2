"""Annotations: log lines and heartbeats, fenced like turns, gone with their run."""

from __future__ import annotations

from typing import Any

from holdfast.errors import StoreError
from holdfast.kernel.dispatch import decide
from holdfast.model.annotations import Annotations, LogFilter, LogLine, Progress
from holdfast.model.commands import AnnotateRun
from holdfast.model.run import Run
from holdfast.testing.conformance.batches import bad_turn
from holdfast.testing.conformance.harness import LEASE, Harness, answer, refused
from holdfast.testing.conformance.retention import prune


def beat(run: Run, key: str = "a#1", details: bytes | None = b"1", attempt: int = 1) -> Progress:
    """Return a heartbeat of a step of the held run."""
    return Progress(key, run.generation, attempt, run.updated_at, details, run.epoch)


def line(run: Run, at: int, message: str = "hello", **fields: Any) -> LogLine:
    """Return a line of the held run's log."""
    made = LogLine(at, 20, "shop", message, generation=run.generation, epoch=run.epoch)
    return made._replace(**fields)


async def say(harness: Harness, run: Run, **said: Any) -> bool:
    """Keep lines and heartbeats; tell whether the run was still held."""
    moves_on = said.pop("moves_on", False)
    command = AnnotateRun(
        run.ns, run.id, run.owner or "nobody", run.epoch, Annotations(**said), moves_on
    )
    return bool(await harness.send(command))


async def messages(harness: Harness, run: str = "r", **wanted: Any) -> list[str]:
    """Return the messages of a run's log."""
    lines = await harness.store.logs(LogFilter("default", run, **wanted))
    return [each.message for each in lines]


async def test_a_heartbeat_is_loaded_with_the_run(harness: Harness) -> None:
    run = await harness.held("r")
    assert (await harness.load("r")).progress == ()
    assert await say(harness, run, progress=(beat(run, "b#1"), beat(run, details=None)))
    loaded = await harness.load("r", after=99)
    assert loaded.progress == (beat(run, details=None), beat(run, "b#1"))
    assert loaded.run == run


async def test_the_last_heartbeat_of_a_step_counts(harness: Harness) -> None:
    run = await harness.held("r")
    await say(harness, run, progress=(beat(run),))
    await say(harness, run, progress=(beat(run, details=b"2", attempt=2),))
    assert (await harness.load("r")).progress == (beat(run, details=b"2", attempt=2),)


async def test_a_line_comes_back_as_it_was_said(harness: Harness) -> None:
    run = await harness.held("r")
    said = line(run, 7, "ok \u2713", key="a#1", attempt=2, fields=b'{"n":1}')
    assert await say(harness, run, lines=(said,))
    assert await harness.store.logs(LogFilter("default", "r")) == [said]


async def test_lines_are_read_in_order_in_pages_and_by_step(harness: Harness) -> None:
    run = await harness.held("r")
    said = (
        line(run, 5, "body"),
        line(run, 9, "a2", key="a#1", attempt=2),
        line(run, 7, "a1", key="a#1", attempt=1),
        line(run, 11, "nested", key="each[3]/a#1", attempt=1),
        line(run, 12, "other", key="ba#1", attempt=1),
    )
    await say(harness, run, lines=said)
    assert await messages(harness) == ["body", "a1", "a2", "nested", "other"]
    assert await messages(harness, after=7) == ["a2", "nested", "other"]
    assert await messages(harness, limit=2) == ["body", "a1"]
    assert await messages(harness, step="a#1") == ["a1", "a2"]
    assert await messages(harness, step="a") == ["a1", "a2", "nested"]
    assert await messages(harness, step="a", attempt=2) == ["a2"]
    assert await messages(harness, "nobody") == []


async def test_a_line_that_is_repeated_is_there_once(harness: Harness) -> None:
    run = await harness.held("r")
    await say(harness, run, lines=(line(run, 5),))
    assert await say(harness, run, lines=(line(run, 5), line(run, 6, "new")))
    assert await messages(harness) == ["hello", "new"]


async def test_a_turn_brings_what_was_said_in_its_commit(harness: Harness) -> None:
    run = await harness.held("r")
    await say(harness, run, progress=(beat(run), beat(run, "b#1")))
    said = Annotations((line(run, 5),), (beat(run, "c#1"),), ("a#1",))
    assert await harness.commit(run, answer(), annotations=said) == "applied"
    loaded = await harness.load("r")
    assert loaded.progress == (beat(run, "b#1"), beat(run, "c#1"))
    assert await messages(harness) == ["hello"]
    assert (loaded.run.status, loaded.run.seq, loaded.run.owner) == ("running", 2, "A")


async def test_a_refused_turn_says_nothing(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.cancel()
    said = Annotations((line(run, 5),), (beat(run),))
    assert await harness.commit(run, answer(), annotations=said) == "cancel"
    assert (await harness.load("r")).progress == ()
    assert await messages(harness) == []


async def test_a_batch_that_fails_says_nothing(harness: Harness) -> None:
    run = await harness.held("r")
    await say(harness, run, progress=(beat(run),), lines=(line(run, 5),))
    changed = Annotations((line(run, 6),), (beat(run, details=b"2"),), ("b#1",))
    saying = decide(AnnotateRun(run.ns, run.id, run.owner or "nobody", run.epoch, changed))
    with refused(StoreError):
        await harness.store.write([saying, bad_turn(harness, run)])
    assert (await harness.load("r")).progress == (beat(run),)
    assert await messages(harness) == ["hello"]


async def test_a_zombie_is_not_heard(harness: Harness) -> None:
    run = await harness.held("r")
    harness.clock.advance(LEASE + 1)
    await harness.reap("A")
    assert not await say(harness, run, progress=(beat(run),), lines=(line(run, 5),))
    [taken] = (await harness.claim("B")).runs
    assert not await say(harness, run, progress=(beat(run),), lines=(line(run, 5),))
    assert await say(harness, taken, progress=(beat(taken),))
    assert (await harness.load("r")).progress == (beat(taken),)
    assert await messages(harness) == []


async def test_a_heartbeat_survives_its_worker(harness: Harness) -> None:
    run = await harness.held("r")
    await say(harness, run, progress=(beat(run, details=b"7"),))
    harness.clock.advance(LEASE + 1)
    await harness.reap("A")
    await harness.claim("B")
    assert (await harness.load("r")).progress == (beat(run, details=b"7"),)


async def test_a_heartbeat_with_news_clears_the_strikes(harness: Harness) -> None:
    run = await harness.held("r")
    for worker in ("B", "C"):
        harness.clock.advance(LEASE + 1)
        await harness.reap(str((await harness.row("r")).owner))
        [run] = (await harness.claim(worker)).runs
    await say(harness, run, progress=(beat(run),), lines=(line(run, 5),))
    assert (await harness.row("r")).strikes == 2
    await say(harness, run, progress=(beat(run),), moves_on=True)
    assert (await harness.row("r")).strikes == 0


async def test_a_cancel_does_not_silence_a_run(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.cancel()
    assert await say(harness, run, lines=(line(run, 5),))


async def test_a_run_that_is_not_held_says_nothing(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.park(run)
    assert not await say(harness, run, lines=(line(run, 5),))
    assert not await say(harness, run._replace(id="nobody"), lines=(line(run, 5),))


async def test_a_terminated_run_has_no_heartbeat_left(harness: Harness) -> None:
    run = await harness.held("r")
    await say(harness, run, progress=(beat(run),), lines=(line(run, 5),))
    await harness.move("terminate", "r")
    assert (await harness.load("r")).progress == ()
    assert await messages(harness) == ["hello"]


async def test_what_was_said_is_pruned_with_the_run(harness: Harness) -> None:
    run = await harness.held("r")
    await say(harness, run, lines=(line(run, 5),))
    await harness.end(run)
    await prune(harness, harness.clock.advance())
    await harness.start("r", input=b"other")
    assert (await harness.load("r")).progress == ()
    assert await messages(harness) == []


async def test_namespaces_do_not_hear_each_other(harness: Harness) -> None:
    here, there = await harness.held("r"), await harness.held("r", ns="other")
    await say(harness, here, lines=(line(here, 5),), progress=(beat(here),))
    assert await harness.store.logs(LogFilter("other", "r")) == []
    assert (await harness.load("r", "other")).progress == ()
    assert there.ns == "other"
