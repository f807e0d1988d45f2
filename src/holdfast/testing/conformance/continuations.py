"""Continuations: a turn that begins the run's next generation, and where replay begins then."""

from __future__ import annotations

from holdfast.model.commands import ImportRun, PruneRuns
from holdfast.model.events import Event
from holdfast.model.run import SINCE_START, Run
from holdfast.testing.conformance.harness import Harness, answer, event

FAILED = b'{"type":"E","message":"m"}'


async def continued(harness: Harness, id: str = "r", *before: Event) -> Run:
    """Continue a run: one answer, these events, and the start of its next generation."""
    run = await harness.held(id)
    assert await go_on(harness, run, answer(), *before) == "applied"
    return await harness.row(id)


async def go_on(harness: Harness, run: Run, *before: Event, **fields: object) -> str:
    """Commit a turn that continues the held `run`."""
    start = event("run.continued", payload=b'{"n":2}')
    turn = harness.turn(run, *before, start, continues=True, **fields)
    begun = turn.events[-1]._replace(generation=run.generation + 1)
    told = turn._replace(events=(*turn.events[:-1], begun))
    return str(await harness.send(told))


async def replayed(harness: Harness, id: str = "r") -> list[int]:
    """Return the numbers of what a worker would replay."""
    loaded = await harness.store.load("default", id, SINCE_START)
    assert loaded is not None
    return [each.seq for each in loaded.events]


async def test_a_continuation_begins_the_next_generation_under_the_same_lease(
    harness: Harness,
) -> None:
    before = await harness.held()
    assert await go_on(harness, before, answer()) == "applied"
    after = await harness.row("r")
    assert (after.generation, after.seq) == (2, 3)
    assert (after.status, after.epoch, after.owner) == (before.status, before.epoch, before.owner)
    assert (after.input_digest, after.created_at) == (before.input_digest, before.created_at)


async def test_replay_begins_at_the_last_continuation(harness: Harness) -> None:
    run = await continued(harness)
    assert await replayed(harness) == [3]
    assert await harness.commit(run, answer()) == "applied"
    assert await go_on(harness, await harness.row("r"), answer("b#1")) == "applied"
    run = await harness.row("r")
    assert await harness.commit(run, answer(), answer("b#1")) == "applied"
    assert await replayed(harness) == [6, 7, 8]
    assert [each.seq for each in (await harness.load("r")).events] == [*range(1, 9)]
    assert [each.seq for each in (await harness.load("r", after=4)).events] == [5, 6, 7, 8]


async def test_a_run_that_never_continued_is_replayed_whole(harness: Harness) -> None:
    run = await harness.held()
    assert await harness.commit(run, answer()) == "applied"
    assert await replayed(harness) == [1, 2]
    assert await harness.store.load("default", "nobody", SINCE_START) is None


async def test_a_reopened_run_is_replayed_from_its_last_continuation(harness: Harness) -> None:
    run = await continued(harness)
    await harness.end(run, "failed", FAILED)
    reopened = await harness.retry("r")
    assert reopened.generation == 3
    assert await replayed(harness) == [3, 5]
    await harness.end(await harness.held("plain"), "failed", FAILED)
    await harness.retry("plain")
    assert await replayed(harness, "plain") == [1, 3]


async def test_messages_stay_unread_in_the_inbox(harness: Harness) -> None:
    run = await harness.held()
    await harness.signal("one", name="go")
    await harness.signal("two", name="go")
    received = event("signal.received", "go/one", payload=b"1")
    assert await go_on(harness, run, received, inbox_read=1) == "applied"
    loaded = await harness.store.load("default", "r", SINCE_START)
    assert loaded is not None
    assert [message.id for message in loaded.mail] == ["two"]
    assert not await harness.signal("one", name="go")


async def test_a_continuation_may_supersede_what_it_adds(harness: Harness) -> None:
    run = await harness.held()
    await harness.signal("one", name="go")
    received = event("signal.received", "go/one", payload=b"1")
    start = event("run.continued", payload=b"{}")
    turn = harness.turn(
        run, received, start, received, continues=True, inbox_read=1, supersedes=(2,),
        superseded_by=3,
    )  # fmt: skip
    first, *others = turn.events
    begun = tuple(each._replace(generation=2) for each in others)
    assert await harness.send(turn._replace(events=(first, *begun))) == "applied"
    assert [each.seq for each in (await harness.load("r")).events] == [1, 3, 4]
    export = await harness.store.export("default", "r")
    assert export is not None
    assert [each.superseded_by for each in export.events] == [None, 3, None, None]


async def test_a_refused_continuation_changes_nothing(harness: Harness) -> None:
    run = await harness.held()
    assert await go_on(harness, run._replace(epoch=7), answer()) == "lost"
    assert await go_on(harness, run._replace(seq=0), answer()) == "moved"
    await harness.cancel("r")
    assert await go_on(harness, run, answer()) == "cancel"
    assert (await harness.row("r")).generation == 1
    assert await replayed(harness) == [1]


async def test_another_worker_goes_on_from_the_continuation(harness: Harness) -> None:
    run = await continued(harness)
    await harness.park(run, wake_at=harness.store.now())
    [claimed] = (await harness.claim("B")).runs
    assert (claimed.generation, claimed.seq) == (2, 3)
    assert await harness.commit(claimed, answer()) == "applied"
    assert await replayed(harness) == [3, 4]


async def test_an_imported_run_is_replayed_from_its_last_continuation(harness: Harness) -> None:
    await continued(harness)
    export = await harness.store.export("default", "r")
    assert export is not None
    await harness.send(ImportRun("default", "copy", export, harness.store.now()))
    assert await replayed(harness, "copy") == [3, 4]


async def test_nothing_of_a_forgotten_run_is_left(harness: Harness) -> None:
    await harness.end(await continued(harness))
    harness.clock.advance(10_000_000)
    assert await harness.send(PruneRuns("default", harness.store.now())) == 1
    await harness.held()
    assert await replayed(harness) == [1]
    run = await harness.row("r")
    assert await harness.commit(run, answer()) == "applied"
    assert await go_on(harness, await harness.row("r")) == "applied"
    assert await replayed(harness) == [3]


async def test_a_continuation_clears_the_strikes(harness: Harness) -> None:
    run = await harness.held()
    harness.clock.advance(60_000_000)
    await harness.reap("A")
    [claimed] = (await harness.claim("B")).runs
    assert claimed.strikes == 1
    assert claimed.epoch > run.epoch
    assert await go_on(harness, claimed) == "applied"
    assert (await harness.row("r")).strikes == 0
