"""Limits of queues on jobs, as a user meets them: over workers, by key, never against itself."""

import asyncio
import random
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import virtual
from tests.engine.places import Place, status_of, until, within


class Provider:
    """Jobs on the queue `calls`, and how many of them were under way at a time."""

    def __init__(self, app: hf.App) -> None:
        self.hold: asyncio.Event | None = None
        self.under_way: list[str] = []
        self.most = 0
        self.most_of_a_key = 0
        self.begun: list[str] = []

        @app.step(queue="calls")
        async def call(name: str) -> str:
            self.begun.append(name)
            self.under_way.append(name)
            self.most = max(self.most, len(self.under_way))
            keys = [each[0] for each in self.under_way]
            self.most_of_a_key = max(self.most_of_a_key, *map(keys.count, keys))
            try:
                await (asyncio.sleep(0.01) if self.hold is None else self.hold.wait())
            finally:
                self.under_way.remove(name)
            return name

        @app.workflow
        async def calling(*names: str) -> list[str]:
            calls = [call.options(queue_key=name[0])(name) for name in names]
            return [*await asyncio.gather(*calls)]

        @app.workflow(queue="calls")
        async def inside(*names: str) -> list[str]:
            return [*await asyncio.gather(*(call(name) for name in names))]

        self.call, self.calling, self.inside = call, calling, inside


@pytest.fixture
def provider(app: hf.App) -> Provider:
    return Provider(app)


async def test_two_workers_never_do_more_jobs_than_allowed(
    app: hf.App, provider: Provider, place: Place
) -> None:
    app.queue("calls", concurrency=3, key_concurrency=1)
    names = [f"{key}{n}" for key in "abcde" for n in range(4)]
    async with place.open(app, queues=["default"]) as client, place.open(app), place.open(app):
        run = await client.start(provider.calling.bind(*names))
        assert await within(run.result()) == names
    assert (provider.most, provider.most_of_a_key) == (3, 1)


async def test_a_quiet_key_does_not_wait_for_a_noisy_one(
    app: hf.App, provider: Provider, place: Place
) -> None:
    app.queue("calls", concurrency=1)
    names = [f"n{n}" for n in range(9)] + ["q"]
    async with place.open(app, queues=["default"]) as client:
        run = await client.start(provider.calling.bind(*names))
        async with place.open(app):
            assert await within(run.result()) == names
    assert provider.begun.index("q") <= 1


async def test_a_run_has_its_job_done_in_the_slot_it_holds(
    app: hf.App, provider: Provider, place: Place
) -> None:
    app.queue("calls", concurrency=1)
    async with place.open(app) as client, place.open(app):
        runs = [await client.start(provider.inside.bind(f"{n}1", f"{n}2")) for n in "ab"]
        for run, name in zip(runs, "ab", strict=True):
            assert await within(run.result()) == [f"{name}1", f"{name}2"]
        assert (await client.queues.get("calls")).held == 0
    assert provider.most == 1


async def test_a_paused_queue_holds_jobs_back(
    app: hf.App, provider: Provider, place: Place
) -> None:
    async with place.open(app) as client:
        await client.queues.pause("calls")
        run = await client.start(provider.calling.bind("a"))
        await status_of(run, "waiting")
        assert (await client.queues.get("calls")).waiting == 1
        assert provider.begun == []
        await client.queues.resume("calls")
        assert await within(run.result()) == ["a"]


async def test_whoever_waits_for_a_slot_begins_when_a_job_ends(
    app: hf.App, provider: Provider, place: Place
) -> None:
    app.queue("calls", concurrency=1)
    provider.hold = asyncio.Event()
    async with place.open(app, poll=60) as client:
        first = await client.start(provider.calling.bind("a"))
        await until(lambda: provider.begun == ["a"])
        second = await client.start(provider.inside.bind("b"))
        assert (await client.queues.get("calls")).waiting == 1
        provider.hold.set()
        assert await within(first.result()) == ["a"]
        assert await within(second.result()) == ["b"]
    assert provider.most == 1


async def test_a_rate_spreads_jobs_over_time(app: hf.App) -> None:
    app.queue("calls", rate=hf.Rate(2, per=60))
    begun: list[float] = []

    @app.step(queue="calls")
    async def ring() -> None:
        begun.append(asyncio.get_running_loop().time())

    @app.workflow
    async def ringing() -> None:
        await asyncio.gather(*(ring() for _ in range(5)))

    async def story(client: hf.Client) -> None:
        await (await client.start(ringing.bind())).result()

    await asyncio.to_thread(virtual.run, app, story)
    assert [round(at - begun[0]) for at in begun] == [0, 0, 60, 60, 120]


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"queue_key": ""}, hf.InvalidName, "queue key"),
        ({"queue_key": "a/b"}, hf.InvalidName, "slash"),
        ({"queue_key": "a", "queue": None}, hf.BadDefinition, "a step without a queue"),
        ({"queue_key": "a", "queue": "default"}, hf.InvalidValue, "has no line"),
    ],
)
def test_what_is_no_key_is_refused(
    provider: Provider, options: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        provider.call.options(**options)


async def test_names_of_any_width_that_is_allowed_fit_every_index(
    place: Place, app: hf.App
) -> None:
    def wide(seed: int) -> str:  # of marks that do not repeat: an index would fold those
        chance = random.Random(seed)
        return "".join(chr(chance.randrange(0x20000, 0x2A6D0)) for _ in range(128))

    queue, key, lane = wide(1), wide(2), wide(3)
    go = hf.Signal(wide(4), str)

    @app.step(queue=queue)
    async def work(name: str) -> str:
        return name

    @app.workflow(queue=lane)
    async def flow() -> str:
        return await work.options(queue_key=key)(await hf.wait_for(go))

    app.queue(queue, concurrency=1, key_concurrency=1)
    app.queue(lane, concurrency=1, key_concurrency=1)
    async with place.open(app) as client:
        run = await client.start(flow.bind(), id=wide(5), queue_key=key, tags=[wide(6)])
        await run.signal(go, "done", id=wide(7))
        assert await within(run.result()) == "done"


def test_a_key_goes_with_its_queue(provider: Provider) -> None:
    keyed = provider.call.options(queue_key="a")
    assert keyed.settings.queue_key == "a"
    assert keyed.options(timeout=1).settings.queue_key == "a"
    assert keyed.options(queue_key=None).settings.queue_key == ""
    assert keyed.options(queue=None).settings.queue_key == ""
