"""The worker's own manners: what it keeps, what it writes, what it warns of, how it leaves."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.compose import open_client
from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.hosts.worker import Worker
from holdfast.model.writes import Advance, Claim, Claimed, Outcome, Write
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.threadless import ThreadlessLoop, without_threads
from tests.engine.places import Place, event_of, kinds, status_of, until, within, worker_of

go = hf.Signal("go", bool)


def parked(app: hf.App, refunds: list[int]) -> hf.Workflow[[], bool]:
    @app.step
    async def refund() -> None:
        refunds.append(1)

    @app.workflow
    async def waits() -> bool:
        try:
            return await hf.wait_for(go)
        finally:
            await refund()

    return waits


@pytest.mark.parametrize("machines", [0, 3])
async def test_machines_beyond_the_limit_are_closed_and_refund_nothing(
    place: Place, app: hf.App, machines: int
) -> None:
    refunds: list[int] = []
    flow = parked(app, refunds)
    async with place.open(app, machines=machines, paranoid=False) as client:
        worker = worker_of(client)
        runs = [await client.start(flow.bind()) for _ in range(30)]
        for run in runs:
            await status_of(run, "waiting")
        await until(lambda: not worker.sessions)
        assert len(worker.hands.parked) == machines
        assert all(
            session.machine.loop.main is not None for session in worker.hands.parked.values()
        )
        assert refunds == []
        for run in runs:
            await run.signal(go, True)
        for run in runs:
            assert await within(run.result())
    assert len(refunds) == 30


async def test_leaving_closes_every_machine(place: Place, app: hf.App) -> None:
    refunds: list[int] = []
    flow = parked(app, refunds)
    async with place.open(app) as client:
        for _ in range(5):
            await status_of(await client.start(flow.bind()), "waiting")
    assert refunds == []


async def test_a_kept_machine_is_only_used_if_nothing_happened_meanwhile(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def flow() -> list[bool]:
        return [await hf.wait_for(go) for _ in range(4)]

    async with place.open(app) as client, place.open(app) as other:
        run = await client.start(flow.bind())
        for n in range(4):
            await run.signal(go, n % 2 == 0)
            if n < 3:
                await until(lambda n=n: has_signals(run, n + 1))  # type: ignore[misc]
        assert await within(other.get(run.id, flow).result()) == [True, False, True, False]


async def has_signals(run: hf.RunHandle[Any], count: int) -> bool:
    return (await kinds(run)).count("signal.received") == count


async def test_an_idle_worker_writes_nothing(app: hf.App, tmp_path: Any) -> None:
    place = Place("sqlite", tmp_path)
    flow = parked(app, [])
    polls = 0
    async with place.open(app, poll=0.005, lease=0.06, renew=0.02) as client:
        for _ in range(3):
            await status_of(await client.start(flow.bind()), "waiting")
        await until(lambda: not worker_of(client).sessions)
        store = cast("SqliteStore", client.engine.store)
        claim = store.claim

        async def counted(*args: Any) -> Any:
            nonlocal polls
            polls += 1
            return await claim(*args)

        async def written() -> int:
            nonlocal polls
            before, polls = store.transactions, 0
            await until(lambda: polls >= 20)
            return store.transactions - before

        cast("Any", store).claim = counted
        # What was on its way when the last run was parked, such as a renewal, may come yet.
        assert 0 in [await written() for _ in range(3)]


async def test_an_unregistered_workflow_stays_pending_with_a_warning(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.workflow
    async def known() -> int:
        return 1

    @app.workflow
    async def unknown() -> int:
        return 2

    smaller = hf.App("smaller")
    smaller.workflow(known.plain)
    async with place.open(app, worker=False) as client:
        run = await client.start(unknown.bind(), id="later")
    with caplog.at_level(logging.WARNING):
        async with place.open(smaller) as client:
            await until(lambda: any("'unknown'" in message for message in caplog.messages))
            done = await client.start(smaller.workflows["known"].bind())
            assert await within(done.result()) == 1
            assert (await client.get("later").describe()).status == "pending"
    assert sum("'unknown'" in message for message in caplog.messages) == 1, "said once"
    async with place.open(app) as client:
        assert await within(client.get(run.id).result()) == 2


async def test_left_over_tasks_are_cancelled_and_named(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    stopped = asyncio.Event()

    @app.step
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @app.workflow
    async def flow() -> int:
        async def background() -> None:
            await slow()

        task = asyncio.create_task(background())
        await asyncio.sleep(0.2)
        assert not task.done()
        return 1

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == 1
        await within(stopped.wait())
    assert any(run.id in m and "background" in m for m in caplog.messages)


async def test_a_step_that_was_never_awaited_is_named(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.step
    async def forgotten() -> None:
        pass

    @app.workflow
    async def flow() -> int:
        forgotten()  # type: ignore[unused-coroutine]
        return 1

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == 1
    assert any(run.id in m and "forgotten#1" in m for m in caplog.messages)


class Crowd:
    """Runs that stay until they are released, and how many there were at most."""

    def __init__(self, app: hf.App) -> None:
        self.release = asyncio.Event()
        self.running: set[int] = set()
        self.most = 0

        @app.step
        async def work(n: int) -> int:
            self.running.add(n)
            self.most = max(self.most, len(self.running))
            await self.release.wait()
            self.running.discard(n)
            return n

        @app.workflow
        async def flow(n: int) -> int:
            return await work(n)

        self.flow = flow


async def test_only_so_many_runs_are_held_at_once(place: Place, app: hf.App) -> None:
    crowd = Crowd(app)
    async with place.open(app, runs=3) as client:
        runs = [await client.start(crowd.flow.bind(n)) for n in range(10)]
        await until(lambda: len(crowd.running) >= 3)
        assert len(worker_of(client).sessions) == 3
        crowd.release.set()
        assert [await within(run.result()) for run in runs] == list(range(10))
    assert crowd.most == 3


async def test_runs_that_are_started_at_once_are_no_more_than_allowed(
    place: Place, app: hf.App
) -> None:
    crowd = Crowd(app)
    async with place.open(app, runs=3) as client:
        runs = await asyncio.gather(*(client.start(crowd.flow.bind(n)) for n in range(10)))
        assert len(worker_of(client).sessions) <= 3
        await until(lambda: len(crowd.running) >= 3)
        crowd.release.set()
        assert sorted([await within(run.result()) for run in runs]) == list(range(10))
    assert crowd.most == 3


async def test_a_claim_on_its_way_and_runs_that_start_meanwhile_are_no_more_than_allowed(
    app: hf.App,
) -> None:
    asked, door = [asyncio.Event(), asyncio.Event()], asyncio.Event()

    class Slow(MemoryStore):
        async def claim(self, claim: Claim) -> Claimed:
            asked[asked[0].is_set()].set()
            await door.wait()
            return await super().claim(claim)

    crowd = Crowd(app)
    async with open_client(app, Slow(), worker=True, settings=hf.Settings(runs=3)) as client:
        await asked[0].wait()
        runs = [await client.start(crowd.flow.bind(n)) for n in range(10)]
        door.set()
        await asked[1].wait()  # what the first one brought is in our hands
        assert len(worker_of(client).sessions) == 3
        crowd.release.set()
        assert [await within(run.result()) for run in runs] == list(range(10))
    assert crowd.most <= 3


async def test_two_workers_share_the_work(place: Place, app: hf.App) -> None:
    calls: list[int] = []

    @app.step
    async def work(n: int) -> int:
        calls.append(n)
        await asyncio.sleep(0)
        return n

    @app.workflow
    async def flow(n: int) -> int:
        return await work(n)

    async with (
        place.open(app, worker=False) as client,
        place.open(app, runs=5),
        place.open(app, runs=5),
    ):
        runs = [await client.start(flow.bind(n)) for n in range(40)]
        assert [await within(run.result()) for run in runs] == list(range(40))
    assert sorted(calls) == list(range(40)), "each step ran once"


async def test_leaving_lets_a_running_step_finish(place: Place, app: hf.App) -> None:
    began, release = asyncio.Event(), asyncio.Event()
    calls: list[str] = []

    @app.step
    async def slow() -> int:
        calls.append("slow")
        began.set()
        await release.wait()
        return 1

    @app.step
    async def after() -> int:
        calls.append("after")
        return 2

    @app.workflow
    async def flow() -> int:
        return await slow() + await after()

    async with place.open(app, drain=5) as client:
        run = await client.start(flow.bind())
        await within(began.wait())
        worker = worker_of(client)

        async def release_when_leaving() -> None:
            await until(lambda: worker.offer("default") is None)
            release.set()

        leaving = asyncio.create_task(release_when_leaving())
    await leaving
    assert calls == ["slow"], "recorded, and nothing new started"
    async with place.open(app) as client:
        assert await within(client.get(run.id).result()) == 3
        assert (await kinds(client.get(run.id))).count("step.completed") == 2
    assert calls == ["slow", "after"]


async def test_leaving_gives_a_step_up_that_does_not_finish(place: Place, app: hf.App) -> None:
    began = asyncio.Event()
    numbers: list[int] = []

    @app.step
    async def slow() -> int:
        numbers.append(hf.attempt())
        began.set()
        if len(numbers) == 1:
            await asyncio.Event().wait()
        return 1

    @app.workflow
    async def flow() -> int:
        return await slow()

    async with place.open(app, drain=0.02) as client:
        run = await client.start(flow.bind())
        await within(began.wait())
    async with place.open(app) as client:
        row = await client.get(run.id).describe()
        assert row.strikes == 0, "given back in good order"
        assert await within(client.get(run.id).result()) == 1
    assert numbers == [1, 1], "what was given up counts as not attempted"


async def test_leaving_does_not_wait_for_a_step_that_ignores_its_cancel(
    place: Place, app: hf.App
) -> None:
    began, release = asyncio.Event(), asyncio.Event()

    @app.step
    async def stubborn() -> None:
        began.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    @app.workflow
    async def flow() -> None:
        await stubborn()

    loop = asyncio.get_running_loop()
    async with place.open(app, drain=0.02, lease=0.5, renew=0.1) as client:
        await client.start(flow.bind())
        await within(began.wait())
        loop.call_later(5, release.set)
        left_at = loop.time()
    assert loop.time() - left_at < 3
    release.set()


class Faulty:
    """Makes the writes of turns fail for a while, before or after they happened."""

    def __init__(self, store: Any, error: Exception, times: int, *, happens: bool) -> None:
        self._write = store.write
        self.error, self.left, self.happens = error, times, happens
        self.seen = 0
        store.write = self.write

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        if not any(isinstance(write, Advance) for write in batch):
            return await self._write(batch)
        self.seen += 1
        if self.left <= 0:
            return await self._write(batch)
        self.left -= 1
        if self.happens:
            await self._write(batch)
        raise self.error


class Stalled:
    """Has the first turn that parks its run happen, and answers only when told to."""

    def __init__(self, store: Any) -> None:
        self._write = store.write
        self.happened, self.answer = asyncio.Event(), asyncio.Event()
        store.write = self.write

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        outcomes: list[Outcome] = await self._write(batch)
        parks = any(isinstance(write, Advance) and write.status == "waiting" for write in batch)
        if parks and not self.happened.is_set():
            self.happened.set()
            await self.answer.wait()
        return outcomes


async def test_who_is_given_a_run_anew_lets_go_of_what_it_had(place: Place, app: hf.App) -> None:
    """The run was parked, woken and claimed again before its worker heard that it was parked."""
    go = hf.Signal("go", int)

    @app.workflow
    async def flow() -> int:
        return await hf.wait_for(go) + await hf.wait_for(go)

    async with place.open(app) as client:
        worker = worker_of(client)
        stalled = Stalled(worker.store)
        run = await client.start(flow.bind())
        await within(stalled.happened.wait())
        former = worker.sessions[run.id]
        await run.signal(go, 3)
        await until(lambda: worker.sessions.get(run.id) is not former)
        assert former.machine.loop.dead
        stalled.answer.set()
        await asyncio.sleep(0)
        assert former not in worker.hands.parked.values()
        await run.signal(go, 4)
        assert await within(run.result()) == 7


FAULTS = [
    (StoreUnavailable("disk full"), False),
    (OutcomeUnknown("power cut"), False),
    (OutcomeUnknown("power cut"), True),
]


@pytest.mark.parametrize(("error", "happens"), FAULTS, ids=["away", "unknown-not", "unknown-did"])
async def test_a_commit_that_fails_loses_and_doubles_nothing(
    place: Place, app: hf.App, error: Exception, happens: bool
) -> None:
    calls: list[int] = []

    @app.step
    async def work(n: int) -> int:
        calls.append(n)
        return n

    @app.workflow
    async def flow() -> int:
        return sum([await work(n) for n in range(4)])

    async with place.open(app) as client:
        Faulty(client.engine.store, error, 3, happens=happens)
        run = await client.start(flow.bind())
        assert await within(run.result()) == 6
        events = (await run.history()).events
        assert [e.key for e in events if e.kind == "step.completed"] == [
            "work#1", "work#2", "work#3", "work#4",
        ]  # fmt: skip
    assert calls == [0, 1, 2, 3], "a result in hand is fed again, not run again"


async def test_a_store_that_refuses_writes_is_not_hammered(place: Place, app: hf.App) -> None:
    @app.step
    async def work() -> int:
        return 1

    @app.workflow
    async def flow() -> int:
        return await work()

    async with place.open(app) as client:
        faulty = Faulty(client.engine.store, StoreUnavailable("disk full"), 10**9, happens=False)
        run = await client.start(flow.bind())
        await asyncio.sleep(0.3)
        tried = faulty.seen
        faulty.left = 0
        assert await within(run.result()) == 1
    assert 1 < tried < 20


async def test_a_worker_whose_runs_were_taken_lets_go(place: Place, app: hf.App) -> None:
    """Its lease was reaped while it slept: what it commits then is refused."""
    began, release = asyncio.Event(), asyncio.Event()
    calls: list[int] = []

    @app.step
    async def work() -> int:
        calls.append(1)
        began.set()
        if len(calls) == 1:
            await release.wait()
        return len(calls)

    @app.workflow
    async def flow() -> int:
        return await work()

    async with place.open(app, poll=30) as client:
        worker = worker_of(client)
        run = await client.start(flow.bind())
        await within(began.wait())
        await steal(client, run.id)
        async with place.open(app) as other:
            assert await within(other.get(run.id, flow).result()) == 2
            release.set()
            await until(lambda: not worker.sessions)
            assert (await kinds(run)).count("step.completed") == 1
            assert worker.refusals <= 1


async def steal(client: hf.Client, run: str) -> None:
    """Take the runs from the client's worker, as if it were known dead."""
    from holdfast.kernel import dispatch
    from holdfast.model.commands import ReapLeases

    worker: Worker = worker_of(client)
    store = client.engine.store
    await store.write([dispatch.decide(ReapLeases(worker.id, known_dead=True))])
    loaded = await store.load("default", run)
    assert loaded is not None
    assert loaded.run.owner != worker.id or loaded.run.epoch > 1


async def test_strikes_are_forgotten_with_progress(place: Place, app: hf.App) -> None:
    began, release = asyncio.Event(), asyncio.Event()

    @app.step
    async def work() -> int:
        began.set()
        await release.wait()
        return 1

    @app.workflow
    async def flow() -> int:
        await work()
        await hf.wait_for(go)
        return 1

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(began.wait())
        await steal(client, run.id)
        await until(lambda: strikes_of(run, 1))
        release.set()
        await event_of(run, "step.completed")
        await status_of(run, "waiting")
        assert (await run.describe()).strikes == 0


async def strikes_of(run: hf.RunHandle[Any], count: int) -> bool:
    return (await run.describe()).strikes == count


def test_a_worker_that_is_stopped_at_once_has_nothing_to_wait_for(app: hf.App) -> None:
    loop = ThreadlessLoop()  # type: ignore[abstract]

    async def story() -> int:
        store = MemoryStore(clock=loop.clock)
        began = store.now()
        async with without_threads(Worker(app, store, id="w", threaded=False)):
            pass
        return store.now() - began

    try:
        assert loop.run(story()) == 0
    finally:
        loop.abandon()


async def test_of_many_tasks_that_are_left_over_a_few_are_named(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.workflow
    async def careless() -> int:
        tasks = [asyncio.ensure_future(hf.sleep(60)) for _ in range(100)]
        await hf.sleep(0.001)
        return len(tasks)

    with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
        async with place.open(app) as client:
            assert await within((await client.start(careless.bind(), id="c")).result()) == 100
    told = [record.getMessage() for record in caplog.records]
    assert sum("was unfinished" in each for each in told) == 10
    assert "run c left 90 more of these behind" in told
