"""Quarantine: a run that is lost with its worker again and again is set apart, with the reason."""

import asyncio

import pytest

import holdfast as hf
from holdfast.model.commands import ReapLeases
from holdfast.model.writes import Claim
from tests.engine.places import Place, event_of, kinds, status_of, until, within


async def lose(client: hf.Client, times: int, first: int = 0) -> None:
    """Have workers claim what there is and die, one after another."""
    for n in range(first, first + times):
        claim = Claim("default", f"w{n}", ("flow",), 100, 30_000_000)
        assert (await client.engine.store.claim(claim)).runs
        await client.engine.do(ReapLeases(f"w{n}", known_dead=True))


async def test_five_strikes_convict_and_a_retry_gives_another_chance(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def flow() -> int:
        return 7

    async with place.open(app, worker=False) as client:
        run = await client.start(flow.bind(), id="killer")
        await lose(client, 5)
        assert (await run.describe()).strikes == 5
    async with place.open(app) as client:
        run = client.get("killer", flow)
        row = await status_of(run, "quarantined")
        assert "5 times in a row" in row.reason
        assert "worker w4 is gone" in row.reason
        assert "last step known to run: unknown" in row.reason
        assert "`holdfast runs retry killer`" in row.reason
        await run.retry()
        assert await within(run.result()) == 7


async def test_four_strikes_do_not(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> int:
        return 7

    async with place.open(app, worker=False) as client:
        await client.start(flow.bind(), id="unlucky")
        await lose(client, 4)
    async with place.open(app) as client:
        assert await within(client.get("unlucky", flow).result()) == 7


async def test_the_verdict_names_the_step_that_ran(place: Place, app: hf.App) -> None:
    @app.step
    async def crush() -> None:
        await asyncio.Event().wait()

    @app.workflow
    async def flow() -> None:
        await crush()

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="killer")
        await event_of(run, "step.started")
    async with place.open(app, worker=False) as client:
        assert (await client.get("killer").describe()).strikes == 0, "it was given back in order"
        await lose(client, 2)
    async with place.open(app, strikes=2) as client:
        row = await status_of(client.get("killer"), "quarantined")
        assert "last step known to run: crush#1" in row.reason


async def test_suspects_come_one_after_another_without_a_pause(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow(n: int) -> int:
        return n

    async with place.open(app, worker=False) as client:
        for n in range(30):
            await client.start(flow.bind(n), id=f"r{n}")
        await lose(client, 2)
    async with place.open(app, poll=30) as client:
        for n in range(30):
            assert await within(client.get(f"r{n}", flow).result()) == n


async def test_a_suspect_that_got_somewhere_makes_room_for_the_next(
    place: Place, app: hf.App
) -> None:
    began: list[int] = []
    release = asyncio.Event()

    @app.step
    async def quick(n: int) -> int:
        return n

    @app.step
    async def long(n: int) -> int:
        began.append(n)
        await release.wait()
        return n

    @app.workflow
    async def flow(n: int) -> int:
        return await long(await quick(n))

    async with place.open(app, worker=False) as client:
        for n in range(3):
            await client.start(flow.bind(n), id=f"r{n}")
        await lose(client, 2)
    async with place.open(app, poll=30) as client:

        async def all_began() -> bool:
            return sorted(began) == [0, 1, 2]

        await until(all_began)
        release.set()
        for n in range(3):
            assert await within(client.get(f"r{n}", flow).result()) == n


async def test_too_few_strikes_are_refused() -> None:
    with pytest.raises(hf.BadDefinition, match=r"Settings\.strikes is 1"):
        hf.Settings(strikes=1)


async def test_workers_forget_old_runs(place: Place, app: hf.App) -> None:
    go = hf.Signal("go", int)

    @app.workflow
    async def flow() -> int:
        return await hf.wait_for(go)

    async with place.open(app) as client:
        done, waiting = await client.start(flow.bind()), await client.start(flow.bind())
        await done.signal(go, 1)
        await within(done.result())
    async with place.open(app, retention=3600) as client:
        assert (await kinds(client.get(done.id)))[-1] == "run.completed"
    async with place.open(app, retention=0) as client:

        async def is_gone() -> bool:
            return [run.id for run in (await client.list()).runs] == [waiting.id]

        await until(is_gone)
        with pytest.raises(hf.RunNotFound):
            await client.get(done.id).describe()


async def test_a_client_forgets_old_runs(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> int:
        return 1

    async with place.open(app) as client:
        for n in range(150):
            await within((await client.start(flow.bind(), id=f"r{n}")).result())
        assert await client.prune(older_than=3600) == 0
        assert await client.prune(older_than=0) == 150
        assert (await client.list()).runs == []
        with pytest.raises(hf.InvalidDuration, match="older_than"):
            await client.prune(older_than=-1)
