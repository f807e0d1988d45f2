"""What a caller relies on: start, get, list, events and results."""

import asyncio
import time
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.run import Loaded
from tests.engine.places import Place, kinds, status_of, until, within

go = hf.Signal("go", bool)


def waiting(app: hf.App) -> hf.Workflow[[int], int]:
    @app.workflow
    async def waits(n: int) -> int:
        await hf.wait_for(go)
        return n

    return waits


def quick(app: hf.App) -> hf.Workflow[[int], int]:
    @app.workflow
    async def returns(n: int) -> int:
        return n

    return returns


@pytest.mark.parametrize("worker", [True, False], ids=["worker", "client"])
async def test_starting_twice_finds_the_same_run(place: Place, app: hf.App, worker: bool) -> None:
    flow, other = waiting(app), quick(app)
    async with place.open(app, worker=worker) as client:
        run = await client.start(flow.bind(1), id="order-42")
        again = await client.start(flow.bind(1), id="order-42")
        assert run.id == again.id == "order-42"
        with pytest.raises(hf.RunConflict, match="input"):
            await client.start(flow.bind(2), id="order-42")
        with pytest.raises(hf.RunConflict, match="workflow"):
            await client.start(other.bind(1), id="order-42")
        assert len((await client.list()).runs) == 1


async def test_many_starts_of_one_id_at_once_are_one_run(place: Place, app: hf.App) -> None:
    calls: list[int] = []

    @app.step
    async def work() -> int:
        calls.append(1)
        return 1

    @app.workflow
    async def flow() -> int:
        return await work()

    async with place.open(app) as client, place.open(app) as other:
        starts = [c.start(flow.bind(), id="one") for c in (client, other) * 10]
        runs = await asyncio.gather(*starts)
        assert await asyncio.gather(*(within(run.result()) for run in runs)) == [1] * 20
    assert calls == [1]


async def test_a_closed_run_is_found_by_its_id_too(place: Place, app: hf.App) -> None:
    flow = quick(app)
    async with place.open(app) as client:
        run = await client.start(flow.bind(7), id="done")
        assert await within(run.result()) == 7
        again = await client.start(flow.bind(7), id="done")
        assert await within(again.result()) == 7
        assert await kinds(again) == ["run.started", "run.completed"]


@pytest.mark.parametrize("id", ["", "a/", "../b", "/b", ".hidden", "line\nbreak", "x" * 256])
async def test_an_id_that_cannot_be_stored_is_refused(app: hf.App, id: str) -> None:
    flow = quick(app)
    async with app.open("memory://") as client:
        with pytest.raises(hf.InvalidName):
            await client.start(flow.bind(1), id=id)
        with pytest.raises(hf.InvalidName):
            client.get(id)


async def test_ids_are_sortable_and_unique(place: Place, app: hf.App) -> None:
    flow = quick(app)
    async with place.open(app) as client:
        ids = [(await client.start(flow.bind(n))).id for n in range(20)]
    assert len(set(ids)) == 20
    assert [i[:8] for i in ids] == sorted(i[:8] for i in ids)


async def test_a_start_that_was_given_up_still_runs(place: Place, app: hf.App) -> None:
    """The commit may have happened: then somebody must hold the run."""
    flow = quick(app)
    async with place.open(app) as client:
        tasks = [asyncio.create_task(client.start(flow.bind(n), id=f"run-{n}")) for n in range(8)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        stored = (await client.list(limit=100)).runs
        for row in stored:
            await within(client.get(row.id, flow).result())


async def test_the_result_of_an_unknown_run(place: Place, app: hf.App) -> None:
    async with place.open(app) as client:
        for call in (
            client.get("nobody").result(),
            client.get("nobody").describe(),
            client.get("nobody").history(),
            anext(aiter(client.get("nobody").events())),
        ):
            with pytest.raises(hf.RunNotFound, match="nobody"):
                await call


async def test_a_result_is_typed_by_the_registered_workflow(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> tuple[int, str]:
        return (1, "one")

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(client.get(run.id).result()) == (1, "one")
        assert await within(client.get(run.id, flow).result()) == (1, "one")
    async with place.open(hf.App("empty"), worker=False) as client:
        with pytest.raises(hf.UnknownWorkflow, match="flow"):
            await client.get(run.id).result()
        assert await client.get(run.id, flow).result() == (1, "one")


async def test_many_wait_for_one_result(place: Place, app: hf.App) -> None:
    flow = waiting(app)
    async with place.open(app) as client:
        run = await client.start(flow.bind(3))
        waits = [asyncio.create_task(client.get(run.id, flow).result()) for _ in range(10)]
        impatient = asyncio.create_task(run.result())
        await status_of(run, "waiting")
        impatient.cancel()
        await run.signal(go, True)
        assert await within(asyncio.gather(*waits)) == [3] * 10


async def test_a_client_of_another_process_hears_of_the_close(place: Place, app: hf.App) -> None:
    flow = waiting(app)
    async with place.open(app) as client, place.open(app, worker=False) as other:
        run = await client.start(flow.bind(3))
        result = asyncio.create_task(other.get(run.id, flow).result())
        await other.get(run.id).signal(go, True)
        assert await within(result) == 3


async def test_events_come_as_they_happen_and_end_with_the_run(place: Place, app: hf.App) -> None:
    flow = waiting(app)
    async with place.open(app) as client:
        run = await client.start(flow.bind(1))
        seen: list[tuple[int, str]] = []
        async with asyncio.timeout(10):
            async for event in run.events():
                seen.append((event.seq, event.kind))
                if event.kind == "run.started":
                    await run.signal(go, True)
    assert seen == [(1, "run.started"), (2, "signal.received"), (3, "run.completed")]


async def test_events_resume_after_a_seq(place: Place, app: hf.App) -> None:
    @app.step
    async def work(n: int) -> int:
        return n

    @app.workflow
    async def flow() -> None:
        for n in range(5):
            await work(n)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.result())
    async with place.open(app, worker=False) as client:
        every = [event async for event in client.get(run.id).events()]
        assert [event.seq for event in every] == [1, 2, 3, 4, 5, 6, 7]
        for after in range(8):
            rest = [event async for event in client.get(run.id).events(after=after)]
            assert rest == every[after:]


async def test_an_event_between_look_and_wait_is_not_missed(
    place: Place, app: hf.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = waiting(app)
    async with place.open(app) as client:
        run = await client.start(flow.bind(1))
        await status_of(run, "waiting")
        store = client.engine.store
        load = store.load
        sent = False

        async def slow_load(ns: str, id: str, after: int = 0) -> Loaded | None:
            nonlocal sent
            found = await load(ns, id, after)
            if after == 1 and not sent:
                sent = True
                await run.signal(go, True)
                await until(lambda: closed(ns, id))
            return found

        async def closed(ns: str, id: str) -> bool:
            row = await load(ns, id)
            return row is not None and row.run.status == "completed"

        monkeypatch.setattr(store, "load", slow_load)
        began = time.monotonic()
        assert [event.kind async for event in run.events()][-1] == "run.completed"
        assert time.monotonic() - began < 0.9, "it was found by polling only"


async def test_runs_are_listed_newest_first_by_filters_and_pages(place: Place, app: hf.App) -> None:
    done, open_flow = quick(app), waiting(app)
    async with place.open(app) as client:
        for n in range(7):
            run = await client.start(done.bind(n), id=f"done-{n}")
            await within(run.result())
        for n in range(3):
            await status_of(await client.start(open_flow.bind(n), id=f"open-{n}"), "waiting")
        every = (await client.list(limit=100)).runs
        assert [run.id for run in every] == [
            *(f"open-{n}" for n in (2, 1, 0)), *(f"done-{n}" for n in (6, 5, 4, 3, 2, 1, 0)),
        ]  # fmt: skip
        assert len((await client.list(status="completed")).runs) == 7
        assert len((await client.list(status=["waiting", "running"])).runs) == 3
        assert len((await client.list(workflow="waits")).runs) == 3
        assert (await client.list(workflow="waits", status="completed")).runs == []
        assert (await client.list(workflow="nothing")).runs == []


async def test_pages_hold_every_run_once_while_more_are_started(place: Place, app: hf.App) -> None:
    flow = quick(app)
    async with place.open(app) as client:
        for n in range(10):
            await client.start(flow.bind(n), id=f"run-{n}")
        seen: list[str] = []
        after: str | None = None
        for turn in range(20):
            page = await client.list(limit=3, after=after)
            seen += [run.id for run in page.runs]
            await client.start(flow.bind(turn), id=f"later-{turn}")
            if (after := page.next) is None:
                break
        assert sorted(seen) == [f"run-{n}" for n in range(10)]
        with pytest.raises(hf.InvalidName, match="cursor"):
            await client.list(after="nonsense")


async def test_a_page_of_nothing_is_empty(place: Place, app: hf.App) -> None:
    flow = quick(app)
    async with place.open(app) as client:
        assert await client.list() == ([], None)
        await client.start(flow.bind(1))
        assert await client.list(limit=0) == ([], None)


async def test_namespaces_are_apart(place: Place) -> None:
    one, two = hf.App("shop", namespace="one"), hf.App("shop", namespace="two")
    first, second = quick(one), quick(two)
    async with place.open(one) as client, place.open(two) as other:
        run = await client.start(first.bind(1), id="same")
        twin = await other.start(second.bind(2), id="same")
        assert await within(run.result()) == 1
        assert await within(twin.result()) == 2
        assert len((await client.list()).runs) == 1
        hidden = await client.start(first.bind(3), id="hidden")
        await within(hidden.result())
        with pytest.raises(hf.RunNotFound):
            await other.get("hidden").describe()


async def test_a_client_without_a_worker_runs_nothing(place: Place, app: hf.App) -> None:
    flow = quick(app)
    async with place.open(app, worker=False) as client:
        run: hf.RunHandle[Any] = await client.start(flow.bind(1))
        assert (await run.describe()).status == "pending"
        assert client.engine.host is None
    async with place.open(app) as client:
        assert await within(client.get(run.id).result()) == 1


async def test_a_client_is_not_used_after_its_block(place: Place, app: hf.App) -> None:
    flow, ended = waiting(app), quick(app)
    async with place.open(app) as client:
        run = await client.start(flow.bind(1), id="r")
        done = await client.start(ended.bind(1), id="done")
        assert await done.result() == 1
        events = run.events()
        await anext(events)

    async def told() -> None:
        async for _ in run.events():
            pass

    later = (
        lambda: client.start(flow.bind(2), id="s"),
        client.list,
        run.result,
        done.result,
        lambda: run.signal(go, True),
        run.cancel,
        run.describe,
        run.labels,
        run.history,
        lambda: anext(events),
        told,
        client.questions,
        client.schedules.list,
    )
    for use in later:
        with pytest.raises(hf.StoreUnavailable, match="This client is closed"):
            await within(use(), 5)


async def test_whoever_waits_when_the_block_ends_is_told_so(place: Place, app: hf.App) -> None:
    """Nobody has cancelled them: a group of tasks would take that for a quiet end."""
    flow = waiting(app)
    async with place.open(app) as client:
        run = await client.start(flow.bind(1), id="r")

        async def follow() -> None:
            async for _ in run.events():
                pass

        waits = [asyncio.create_task(run.result()), asyncio.create_task(follow())]
        hub = client.engine._hub
        await until(lambda: bool(hub._changes and hub._closings))
    for wait in waits:
        with pytest.raises(hf.StoreUnavailable, match="This client is closed"):
            await within(wait)
