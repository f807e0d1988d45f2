"""Who waits for a result reads it once: when somebody has said that there is something to see."""

import asyncio

import holdfast as hf
from holdfast.compose import open_client
from holdfast.model.run import Loaded
from holdfast.model.writes import Notice
from holdfast.stores.memory import MemoryStore
from tests.engine.places import within


class Reads(MemoryStore):
    """Counts how often a run is read."""

    count = 0

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        self.count += 1
        return await super().load(ns, run, after)


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
