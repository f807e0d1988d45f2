"""Who waits for a result reads it once: when somebody has said that there is something to see."""

import asyncio

import pytest

import holdfast as hf
from holdfast.compose import open_client
from holdfast.model.run import Loaded
from holdfast.model.writes import Notice
from holdfast.stores.memory import MemoryStore
from holdfast.stores.postgres import PostgresStore
from tests.engine.places import until, within


class Reads(MemoryStore):
    """Counts how often a run is read, and the events that were."""

    count = events = 0

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        self.count += 1
        loaded = await super().load(ns, run, after)
        self.events += 0 if loaded is None else len(loaded.events)
        return loaded


def of(app: hf.App) -> hf.Workflow[[], int]:
    @app.workflow
    async def flow() -> int:
        return 1

    return flow


async def outcome_of(run: hf.RunHandle[int]) -> str:
    try:
        await within(run.result())
    except hf.RunTerminated:
        return "terminated"
    return "completed"


async def ended(client: hf.Client, run: hf.RunHandle[int]) -> str:
    """Wait for a run that is terminated once somebody waits for it."""
    outcome = asyncio.create_task(outcome_of(run))
    for _ in range(5):
        await asyncio.sleep(0)
    await client.get(run.id).terminate()
    return await outcome


async def test_a_run_that_was_just_started_is_not_looked_up(app: hf.App) -> None:
    flow, store = of(app), Reads()
    async with open_client(app, store, worker=False) as client:
        assert await ended(client, await client.start(flow.bind())) == "terminated"
        reads = store.count
        assert await ended(client, await client.start(flow.bind())) == "terminated"
        assert store.count == reads


async def test_a_run_that_ended_before_somebody_waits_is_looked_up(app: hf.App) -> None:
    flow, store = of(app), Reads()
    async with open_client(app, store, worker=False) as client:
        await ended(client, await client.start(flow.bind()))
        run = await client.start(flow.bind())
        await run.terminate()
        assert await outcome_of(run) == "terminated"


async def test_a_run_is_looked_up_after_others_have_rung(app: hf.App) -> None:
    flow, store = of(app), Reads()
    async with open_client(app, store, worker=False) as client:
        await ended(client, await client.start(flow.bind()))
        run = await client.start(flow.bind())
        client.engine._hub._hear([Notice()])
        reads = store.count
        assert await ended(client, run) == "terminated"
        assert store.count > reads


class Slow(PostgresStore):
    """Keeps whoever reads a run next waiting, and tells others nothing."""

    gate: asyncio.Event | None = None

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        gate, self.gate = self.gate, None
        if gate is not None:
            await gate.wait()
        return await super().load(ns, run, after)


async def test_who_waits_for_a_retry_is_not_told_the_end_of_before(
    app: hf.App, postgres_store: str
) -> None:
    broken = True

    @app.step(retry=hf.Retry(max_attempts=1))
    async def work() -> int:
        if broken:
            raise ValueError
        return 1

    @app.workflow
    async def flow() -> int:
        return await work()

    store, elsewhere = Slow(postgres_store, rings=False), Slow(postgres_store, rings=False)
    checked = store.gate = asyncio.Event()  # the last turn is stored, and replayed for a long time
    settings = hf.Settings(paranoid=True, poll=0.05)
    async with (
        open_client(app, store, settings=settings) as client,
        open_client(app, elsewhere, worker=False) as other,
    ):
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        await until(lambda: store.gate is None)
        broken = False
        await within(other.get(run.id).retry())
        result = asyncio.create_task(run.result())
        await asyncio.sleep(0)
        checked.set()
        assert await within(result) == 1


async def test_who_waits_reads_the_end_and_not_the_history(app: hf.App) -> None:
    @app.step
    async def one() -> int:
        return 1

    @app.workflow
    async def many() -> int:
        return sum([await one() for _ in range(20)])

    store = Reads()
    async with open_client(app, store), open_client(app, store, worker=False) as client:
        run = await client.start(many.bind())
        client.engine._hub._hear([Notice()])
        store.events = 0
        assert await within(run.result()) == 20
        assert await within(client.get(run.id, many).result()) == 20
    assert store.events <= 3
