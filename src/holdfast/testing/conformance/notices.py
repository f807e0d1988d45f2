"""Notices: hints after a commit, never before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from holdfast.model.commands import UpdateRun
from holdfast.model.writes import Notice, Replied
from holdfast.testing.conformance.harness import Harness, answer, event, needs


class Ear:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[Notice] = []
        self._came = asyncio.Event()

    def __call__(self, notices: Sequence[Notice]) -> None:
        self.heard += notices
        if notices:
            self._came.set()

    async def wait(self) -> None:
        """Return once something was heard since the last call."""
        await asyncio.wait_for(self._came.wait(), 5)
        self._came.clear()

    @property
    def news(self) -> list[Notice]:
        """What was heard since the last `told`, without the mere hints to look."""
        return [notice for notice in self.heard if notice.what != "unknown"]

    def told(self) -> list[tuple[str, str]]:
        """Return run and kind of the news, once."""
        told = [(notice.run, notice.what) for notice in self.news]
        self.heard.clear()
        return told


async def test_changes_are_heard(harness: Harness) -> None:
    ear = Ear()
    stop = harness.store.listen(ear)
    await harness.start("r")
    assert ear.told() == [("r", "ready")]
    run = await harness.held("h")
    assert ear.told() == [("h", "events")]
    await harness.signal("s1", run="h")
    assert ear.told() == [("h", "mail")]
    await harness.commit(run, answer())
    assert ear.told() == [("h", "events")]
    await harness.move("terminate", "r")
    assert [notice.event is not None for notice in ear.news] == [True]
    assert ear.told() == [("r", "moved")]
    await harness.reap("A", known_dead=True)
    assert ear.told() == [("", "ready")]
    stop()


async def test_who_listens_near_hears_its_own_store(harness: Harness) -> None:
    ear = Ear()
    stop = harness.store.listen(ear, near=True)
    await harness.start("r")
    assert ear.told() == [("r", "ready")]
    stop()
    await harness.start("s")
    assert ear.told() == []


async def test_who_does_not_care_for_turns_hears_all_else(harness: Harness) -> None:
    ear = Ear()
    stop = harness.store.listen(ear, near=True, turns=False)
    runs = [await harness.held(f"r{n}") for n in range(12)]
    ear.told()
    await asyncio.gather(*(harness.commit(run, answer()) for run in runs))
    assert {what for _, what in ear.told()} <= {"events"}, "which may be left out"
    for run in runs:
        await harness.end(run._replace(seq=2))
        assert ear.told() == [(run.id, "closed")]
    await harness.start("after")
    assert ear.told() == [("after", "ready")]
    stop()


async def test_a_close_is_heard_with_its_event(harness: Harness) -> None:
    ear = Ear()
    stop = harness.store.listen(ear)
    run = await harness.held("r")
    ear.told()
    closing = event("run.completed", payload=b"42")
    assert await harness.commit(run, answer(), closing, status="completed") == "applied"
    [notice] = ear.news
    assert (notice.ns, notice.run, notice.what, notice.seq) == ("default", "r", "closed", 3)
    assert notice.event is not None
    assert (notice.event.kind, notice.event.payload) == ("run.completed", b"42")
    stop()


async def test_a_parked_run_is_heard_as_ready_when_it_has_a_wake_up(harness: Harness) -> None:
    ear = Ear()
    run = await harness.held("r")
    stop = harness.store.listen(ear)
    await harness.park(run, wake_at=harness.store.now() + 5)
    assert ear.told() == [("r", "ready")]
    stop()


async def test_what_was_refused_is_not_heard(harness: Harness) -> None:
    run = await harness.held("r")
    ear = Ear()
    stop = harness.store.listen(ear)
    await harness.commit(run._replace(epoch=0), answer())
    await harness.start("r")
    await harness.signal("s1", run="r")
    await harness.signal("s1", run="r")
    assert ear.told() == [("r", "mail")]
    stop()


async def test_a_notice_comes_after_its_commit_and_before_the_reply(harness: Harness) -> None:
    order: list[str] = []

    def hear(notices: Sequence[Notice]) -> None:
        order.extend("heard" for notice in notices if notice.run == "r")

    stop = harness.store.listen(hear)
    await harness.start("r")
    order.append("replied")
    assert order == ["heard", "replied"]
    stop()


async def test_who_stopped_listening_hears_nothing(harness: Harness) -> None:
    ear, other = Ear(), Ear()
    stop, stop_other = harness.store.listen(ear), harness.store.listen(other, worker="A")
    stop()
    stop()
    await harness.start("r")
    assert (ear.told(), other.told()) == ([], [("r", "ready")])
    stop_other()


@needs("shared", "rings")
async def test_a_worker_hears_of_work_that_another_store_took_in(harness: Harness) -> None:
    ear, other = Ear(), await harness.another()
    stop = other.listen(ear, worker="A")
    await harness.start("r")
    await ear.wait()
    # Some stores say which run it is.
    assert {(each.run, each.what) for each in ear.heard} <= {("", "unknown"), ("r", "ready")}
    await harness.signal("s1")
    await ear.wait()
    stop()


async def test_whoever_waits_for_a_reply_hears_of_it(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.send(UpdateRun("default", "r", "add", b"1", "u1", harness.store.now()))
    ear = Ear()
    stop = harness.store.listen(ear)
    told = (Replied("u1", "rejected", b"{}"),)
    assert await harness.commit(run, inbox_read=1, replies=told) == "applied"
    assert ear.told() == [("r", "replied")]
    stop()


@needs("shared", "rings")
async def test_a_client_hears_of_every_change_of_another_store(harness: Harness) -> None:
    run = await harness.held("r")
    ear, other = Ear(), await harness.another()
    stop = other.listen(ear)
    await harness.commit(run, answer())
    await ear.wait()
    await harness.end(await harness.row("r"))
    await ear.wait()
    stop()


@needs("shared", "rings")
async def test_who_listens_near_is_not_rung_by_others(harness: Harness) -> None:
    near, far, other = Ear(), Ear(), await harness.another()
    stops = other.listen(near, near=True), other.listen(far)
    await harness.start("r")
    await far.wait()
    assert near.heard == []
    for stop in stops:
        stop()


@needs("shared", "rings")
async def test_bells_hung_at_the_same_moment_all_ring(harness: Harness) -> None:
    ears = [Ear() for _ in range(4)]
    stops: list[Callable[[], None]] = []
    for n, ear in enumerate(ears):
        other = await harness.another()
        stops.append(other.listen(ear, worker=f"W{n}"))
        await harness.start(f"r{n}")
        await ear.wait()
    for stop in stops:
        stop()
