"""`holdfast workers`, on each store that processes share."""

import asyncio
import json
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.compose import store_of
from holdfast.model.writes import Renew
from tests.cli import sample
from tests.cli.conftest import Type


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'sample.db'}"
    return str(request.getfixturevalue("postgres_store"))


def test_workers_are_listed_with_what_they_say_of_themselves(
    typed: Type, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    async def look() -> dict[str, object]:
        settings = hf.Settings(poll=0.05, queues=["fast", "default"])
        async with sample.app.open(url, settings=settings) as client:
            await client.start(sample.app.workflows["greet"].bind("ada"), id="w")
            while True:
                result = await asyncio.to_thread(typed, "workers", "--json")
                found = [w for w in json.loads(result.stdout)["workers"] if w["state"] == "alive"]
                if found and found[0]["app"]:
                    person = await asyncio.to_thread(typed, "workers", person=True)
                    assert "fast, default" in person.stdout
                    return dict(found[0])

    worker = asyncio.run(asyncio.wait_for(look(), 20))
    assert worker["version"] == hf.__version__
    assert "greet" in str(worker["workflows"])
    assert worker["queues"] == ["fast", "default"]
    assert json.loads(typed("workers", "--json").stdout) == {"workers": []}
    assert "No worker is listening" in typed("workers", person=True).stdout


def test_a_worker_that_is_gone_is_said_to_be(typed: Type, url: str) -> None:
    async def die() -> None:
        store = store_of(url)
        await store.open()
        await store.write([Renew("ghost", 1, info='{"app": "shop"}')])
        await store.close()

    asyncio.run(die())
    [ghost] = json.loads(typed("workers", "--json").stdout)["workers"]
    told = [ghost[name] for name in ("id", "state", "runs", "jobs", "app", "queues")]
    assert told == ["ghost", "gone", 0, 0, "shop", None]
    assert typed("workers").stdout.startswith("ghost\tgone\t")
    assert "✗ gone" in typed("workers", person=True).stdout


def test_a_worker_is_listed_with_the_jobs_it_has_begun(typed: Type, url: str) -> None:
    app = hf.App("farm")

    async def look() -> list[int]:
        begun, door = asyncio.Event(), asyncio.Event()

        @app.step(queue="far")
        async def dig() -> None:
            begun.set()
            await door.wait()

        @app.workflow
        async def farm() -> None:
            await dig()

        near, far = (hf.Settings(poll=0.05, queues=[queue]) for queue in ("default", "far"))
        async with app.open(url, settings=near) as client, app.open(url, settings=far):
            run = await client.start(farm.bind())
            await begun.wait()
            told = await asyncio.to_thread(typed, "workers", "--json")
            door.set()
            await run.result()
        return [each["jobs"] for each in json.loads(told.stdout)["workers"]]

    assert sorted(asyncio.run(asyncio.wait_for(look(), 20))) == [0, 1]
