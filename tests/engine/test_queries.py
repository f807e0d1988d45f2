"""Queries: answered from what is stored, by a body at hand or by a replay; nothing is recorded."""

import asyncio
from collections.abc import Sequence

import pytest
from pydantic import BaseModel

import holdfast as hf
from holdfast.compose import open_client
from holdfast.model.writes import Advance, Outcome, Write
from holdfast.stores.memory import MemoryStore
from tests.engine.places import Place, kinds, status_of, until, within, worker_of


class Status(BaseModel):
    stage: str
    count: int = 0


status = hf.Query("status", Status)
item = hf.Query("item", str, int)
go = hf.Signal("go", int)


def counting(app: hf.App) -> hf.Workflow[[], int]:
    @app.step
    async def work(n: int) -> int:
        return n

    @app.workflow
    async def flow() -> int:
        count = 0
        items = {"lamp": 3}
        hf.handle(status, lambda: Status(stage="counting", count=count))
        hf.handle(item, lambda name: items[name])
        while (n := await hf.wait_for(go)) > 0:
            count += await work(n)
        return count

    return flow


async def test_a_parked_run_answers_from_the_body_that_is_kept(place: Place, app: hf.App) -> None:
    flow = counting(app)
    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await run.signal(go, 2)
        await until(lambda: has_count(run, 2))
        await status_of(run, "waiting")
        before = await kinds(run)
        assert await run.query(status) == Status(stage="counting", count=2)
        assert await run.query(item, "lamp") == 3
        assert await kinds(run) == before, "nothing is recorded"


async def has_count(run: hf.RunHandle[int], count: int) -> bool:
    return (await run.query(status)).count == count


async def test_a_client_without_a_worker_replays_the_history(place: Place, app: hf.App) -> None:
    flow = counting(app)
    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await run.signal(go, 2)
        await until(lambda: has_count(run, 2))
    async with place.open(app, worker=False) as client:
        other = client.get("r")
        assert await other.query(status) == Status(stage="counting", count=2)
        assert await other.query("item", "lamp") == 3


async def test_closed_and_paused_runs_answer(place: Place, app: hf.App) -> None:
    flow = counting(app)
    async with place.open(app) as client:
        done, still = await client.start(flow.bind()), await client.start(flow.bind())
        for n in (5, 0):
            await done.signal(go, n)
        assert await within(done.result()) == 5
        assert await done.query(status) == Status(stage="counting", count=5)
        await still.pause()
        await status_of(still, "paused")
        assert await still.query(status) == Status(stage="counting")
        await still.terminate()
        assert await still.query(status) == Status(stage="counting")


async def test_a_run_that_nobody_has_held_answers(place: Place, app: hf.App) -> None:
    flow = counting(app)
    async with place.open(app, worker=False) as client:
        run = await client.start(flow.bind())
        assert (await run.query(status)).count == 0
        assert (await run.describe()).status == "pending"


async def test_while_a_step_runs_the_body_answers_what_is_stored(place: Place, app: hf.App) -> None:
    running = asyncio.Event()
    over = asyncio.Event()

    @app.step
    async def slow() -> None:
        running.set()
        await over.wait()

    @app.workflow
    async def flow() -> None:
        stage = "before"
        hf.handle(status, lambda: Status(stage=stage))
        await slow()
        stage = "after"
        await slow()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(running.wait())
        assert (await within(run.query(status))).stage == "before"
        over.set()
        await within(run.result())
        assert (await run.query(status)).stage == "after"


async def test_an_unknown_query_names_the_known_ones(place: Place, app: hf.App) -> None:
    flow = counting(app)
    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.UnknownQuery, match=r"Did you mean 'status'\? It answers: item, st"):
            await run.query("statsu")


async def test_a_query_of_another_type_is_told_why(place: Place, app: hf.App) -> None:
    flow = counting(app)
    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.QueryFailed, match="query item"):
            await run.query("item", 7)
        with pytest.raises(hf.QueryFailed, match="KeyError: 'desk'"):
            await run.query(item, "desk")
        with pytest.raises(hf.RunNotFound):
            await client.get("nobody").query(status)


@pytest.mark.parametrize("has_worker", [True, False])
@pytest.mark.parametrize("deed", ["step", "key", "task", "sleep", "coroutine", "handle"])
async def test_a_handler_that_does_more_than_look_is_refused_and_the_run_goes_on(
    place: Place, app: hf.App, deed: str, has_worker: bool
) -> None:
    ran: list[str] = []

    @app.step
    async def effect() -> None:
        ran.append("effect")

    def meddle() -> int:
        match deed:
            case "step":
                _ = effect()
            case "key":
                hf.uuid()
            case "task":
                asyncio.get_running_loop().create_future()
            case "sleep":
                _ = hf.sleep(1)
            case "handle":
                hf.handle(hf.Query("more", int), lambda: 1)
            case _:
                return effect()  # type: ignore[return-value]
        return 1

    asked = hf.Query("meddle", int)

    @app.workflow
    async def flow() -> str:
        hf.handle(asked, meddle)
        await hf.wait_for(go)
        await effect()
        return str(hf.uuid())

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await status_of(run, "waiting")
        async with place.open(app, worker=has_worker) as asking:
            with pytest.raises(hf.QueryFailed, match="it only looks"):
                await (run if has_worker else asking.get("r")).query(asked)
        await run.signal(go, 1)
        result = await within(run.result())
        assert ran == ["effect"]
    async with place.open(app, worker=False) as client:
        assert await client.get("r", flow).result() == result


async def test_a_handler_that_wakes_the_body_changes_nothing(place: Place, app: hf.App) -> None:
    wake = hf.Query("wake", int)

    @app.workflow
    async def flow() -> str:
        woken = asyncio.Event()

        def meddle() -> int:
            woken.set()
            return 1

        hf.handle(wake, meddle)
        waking = asyncio.ensure_future(woken.wait())
        got = asyncio.ensure_future(hf.wait_for(go))
        done, _ = await hf.wait([waking, got], return_when=asyncio.FIRST_COMPLETED)
        return "signal" if got in done else "woken"

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "waiting")
        with pytest.raises(hf.QueryFailed, match="woke or cancelled something"):
            await run.query(wake)
        await run.signal(go, 1)
        assert await within(run.result()) == "signal"


async def test_an_asynchronous_handler_of_a_query_fails_the_body(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        async def answer() -> Status:
            return Status(stage="never")

        hf.handle(status, answer)  # type: ignore[arg-type]

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed, match=r"handler of Query\('status'\) is asynchronous"):
            await within(run.result())


async def test_two_handlers_of_one_name_fail_the_body(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        hf.handle(item, len)
        hf.handle(item, len)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed, match="query 'item' has a handler already"):
            await within(run.result())


async def test_a_query_waits_for_the_commit_under_way(app: hf.App) -> None:
    """Nobody sees a result before its commit: not a query either."""
    held = asyncio.Event()
    free = asyncio.Event()

    class Slow(MemoryStore):
        async def write(self, batch: Sequence[Write]) -> list[Outcome]:
            if (
                any(isinstance(write, Advance) and write.events for write in batch)
                and not free.is_set()
            ):
                held.set()
                await free.wait()
            return await super().write(batch)

    @app.step
    async def work() -> int:
        return 7

    @app.workflow
    async def flow() -> None:
        count = 0
        hf.handle(status, lambda: Status(stage="", count=count))
        count = await work()
        await hf.wait_for(go)

    async with open_client(app, Slow()) as client:
        run = await client.start(flow.bind())
        await within(held.wait())
        asking = asyncio.ensure_future(run.query(status))
        await asyncio.sleep(0)
        assert worker_of(client).sessions[run.id].machine.seq == 2
        assert not asking.done()
        free.set()
        assert (await within(asking)).count == 7
