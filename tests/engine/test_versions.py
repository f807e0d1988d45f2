"""Versions of a workflow side by side, shapes that are kept, and blocked runs that go on."""

import asyncio
import json
import logging
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.hosts.worker import mending
from holdfast.testing import invariants
from tests.engine.places import Place, history_when, kinds, status_of, until, within

go = hf.Signal("go", int)


def release(*versions: str, calls: list[str] | None = None) -> hf.App:
    """Return a shop with these versions of `order`; each takes its own way."""
    app = hf.App("shop")
    told: list[str] = [] if calls is None else calls

    @app.step
    async def do(what: str) -> str:
        told.append(what)
        return what

    for version in versions:

        def body(version: str = version) -> Any:
            async def order() -> str:
                await do(f"begin {version}")
                await hf.wait_for(go)
                return await do(f"end {version}")

            return order

        app.workflow(name="order", version=version)(body())
    return app


async def begin(place: Place, app: hf.App, *ids: str) -> None:
    """Leave runs of the newest version waiting for the signal."""
    async with place.open(app) as client:
        for id in ids:
            await status_of(await client.start(app.workflows["order"].bind(), id=id), "waiting")


async def test_each_run_stays_with_its_version(place: Place) -> None:
    await begin(place, release("1"), "old")
    both = release("1", "2")
    await begin(place, both, "new")
    async with place.open(both) as client:
        for id, end in (("old", "end 1"), ("new", "end 2")):
            await client.get(id).signal(go, 1)
            assert await within(client.get(id).result()) == end


async def test_a_run_whose_version_is_gone_stays_in_the_queue_with_a_warning(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    await begin(place, release("1"), "old")
    caplog.set_level(logging.WARNING, "holdfast.worker")
    async with place.open(release("2")) as client:
        run = client.get("old")
        await run.signal(go, 1)
        await until(lambda: "'order/1'" in caplog.text)
        assert (await run.describe()).status == "waiting"
        await run.terminate()


async def test_code_without_a_version_takes_runs_of_every_version(place: Place) -> None:
    """The steps have the same keys here, so the replay agrees on all but the arguments."""
    await begin(place, release("1"), "old")
    async with place.open(release("")) as client:
        await client.get("old").signal(go, 1)
        assert "with other arguments" in (await status_of(client.get("old"), "blocked")).reason
    async with place.open(release("", "1")) as client:
        assert await within(client.get("old").result()) == "end 1"


async def definitions(client: hf.Client) -> list[tuple[str, str, bytes]]:
    dump = await invariants.dump(cast("Any", client.engine.store))
    return [(each.workflow, each.version, each.shape) for each in dump.definitions]


async def test_shapes_are_kept_by_who_starts_runs_and_who_runs_them(place: Place) -> None:
    old, new = release("1"), release("1", "2")
    shapes = {version: new.versions.of_run("order", version) for version in ("1", "2")}
    one, two = (("order", v, w.shape) for v, w in shapes.items() if w is not None)
    async with place.open(old, worker=False) as client:
        run = await client.start(old.workflows["order"].bind(), id="old")
        assert await definitions(client) == [one]
        (first,) = (await run.history()).events
        assert first.digest == one[2]
    async with place.open(new) as client:
        await client.start(new.workflows["order"].bind(), id="new")
        assert sorted(await definitions(client)) == sorted([one, two])
        for id in ("old", "new"):
            await status_of(client.get(id), "waiting")


async def test_a_claim_keeps_the_shape_of_code_that_is_new_here(place: Place) -> None:
    app = hf.App("shop")

    @app.workflow
    async def order() -> None:
        await hf.wait_for(go)

    await begin(place, app, "run")
    changed = hf.App("shop")

    @changed.workflow(name="order")
    async def otherwise() -> None:
        await hf.wait_for(go)

    async with place.open(changed) as client:
        await client.get("run").signal(go, 1)
        await within(client.get("run").result())

        async def are_kept() -> bool:
            return {s for *_, s in await definitions(client)} == {order.shape, otherwise.shape}

        await until(are_kept)


def shop(first: str) -> hf.App:
    """Return a release whose body asks for this step first, then waits."""
    app = hf.App("shop")

    async def do() -> None:
        return None

    step = app.step(name=first)(do)

    @app.workflow
    async def order() -> int:
        await step()
        return await hf.wait_for(go)

    return app


async def marks(run: hf.RunHandle[Any]) -> list[str]:
    return [kind for kind in await kinds(run) if kind in ("run.blocked", "run.resumed")]


async def test_a_blocked_run_goes_on_by_itself_when_the_code_is_mended(place: Place) -> None:
    await begin(place, shop("charge"), "run")
    async with place.open(shop("check")) as client:
        await client.get("run").signal(go, 7)
        await status_of(client.get("run"), "blocked")
    async with place.open(shop("charge")) as client:
        run = client.get("run")
        assert await within(run.result()) == 7
        resumed = next(e for e in (await run.history()).events if e.kind == "run.resumed")
        assert "a worker has code of shape" in json.loads(resumed.payload or b"{}")["reason"]


async def test_each_shape_tries_a_blocked_run_once(place: Place) -> None:
    await begin(place, shop("charge"), "run")
    wrong = [shop("check"), shop("pack")]
    shapes = [app.workflows["order"].shape for app in wrong]
    assert shapes[0] != shapes[1]
    for app in (*wrong, *wrong, wrong[0]):
        async with place.open(app) as client:
            run = client.get("run")
            if app is wrong[0] and not await marks(run):
                await run.signal(go, 7)
            await status_of(run, "blocked")
            store = client.engine.store
            await mending.Mender(app, store).look()
            await history_when(run, lambda loaded: loaded.run.status == "blocked")
    async with place.open(shop("charge")) as client:
        assert await within(client.get("run").result()) == 7
        events = (await client.get("run").history()).events
    blocked = [event.digest for event in events if event.kind == "run.blocked"]
    assert blocked == shapes, "each was tried once, however often it was started"


async def test_two_releases_side_by_side_do_not_pass_a_blocked_run_to_and_fro(place: Place) -> None:
    """The one resumes it, the other takes it and blocks it again: once is enough."""
    await begin(place, shop("charge"), "run")
    here, elsewhere = shop("check"), shop("pack")
    async with place.open(here) as client:
        run = client.get("run")
        await run.signal(go, 7)
        await status_of(run, "blocked")
        for _ in range(3):  # as one worker does each minute, or one after another once
            await mending.Mender(elsewhere, client.engine.store).look()
            await status_of(run, "blocked")
        assert await marks(run) == ["run.blocked", "run.resumed", "run.blocked"]


async def test_a_blocked_run_of_another_workflow_or_version_is_left_alone(place: Place) -> None:
    await begin(place, release(""), "run")
    async with place.open(release("1")) as client:
        await client.get("run").signal(go, 1)
        await status_of(client.get("run"), "blocked")
    stranger = hf.App("shop")
    async with place.open(stranger) as client:
        await mending.Mender(stranger, client.engine.store).look()
        assert (await client.get("run").describe()).status == "blocked"


async def test_a_run_that_is_blocked_no_more_is_forgotten(place: Place) -> None:
    """A worker looks every minute for months: it must not remember each run that it ever judged."""
    await begin(place, shop("charge"), "run")
    wrong = shop("check")
    async with place.open(wrong) as client:
        run = client.get("run")
        await run.signal(go, 7)
        row = await status_of(run, "blocked")
        mender = mending.Mender(wrong, client.engine.store)
        await mender.look()
        assert mender.judged == {"run": row.seq}
        await run.terminate("enough")
        await mender.look()
        assert mender.judged == {}


async def test_many_blocked_runs_are_found_page_by_page(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mending, "PAGE", 2)
    ids = [f"run {n}" for n in range(5)]
    await begin(place, shop("charge"), *ids)
    async with place.open(shop("check")) as client:
        for id in ids:
            await client.get(id).signal(go, 7)
        await asyncio.gather(*(status_of(client.get(id), "blocked") for id in ids))
    async with place.open(shop("charge")) as client:
        assert [await within(client.get(id).result()) for id in ids] == [7] * 5
