"""Queues with limits, as a user meets them: slots, keys, rates, delays, time in line."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.errors import UnknownQueue
from holdfast.testing import virtual
from tests.engine.places import Place, until

go = hf.Signal("go", int)


class Bench:
    """An app whose runs wait on a queue, and what they left outside."""

    def __init__(self, app: hf.App) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []

        @app.step
        async def begin(name: str) -> str:
            self.begun.append(name)
            return name

        @app.workflow(queue="mail")
        async def held(name: str) -> str:
            await begin(name)
            await hf.wait_for(go)
            self.ended.append(name)
            return name

        self.held = held


@pytest.fixture
def bench(app: hf.App) -> Bench:
    return Bench(app)


async def test_a_slot_is_held_until_the_run_ends(app: hf.App, bench: Bench, place: Place) -> None:
    app.queue("mail", concurrency=2)
    async with place.open(app) as client:
        runs = [await client.start(bench.held.bind(name), id=name) for name in ("a", "b", "c")]
        await until(lambda: len(bench.begun) == 2)
        [state] = await client.queues.list()
        assert (state.queue.name, state.held, state.waiting) == ("mail", 2, 1)
        assert (await runs[2].describe()).status == "pending"
        await runs[0].signal(go, 1)
        assert await runs[0].result() == "a"
        await until(lambda: "c" in bench.begun)
        for run in runs[1:]:
            await run.signal(go, 1)
            await run.result()
        assert (await client.queues.get("mail")).held == 0


async def test_keys_take_turns(app: hf.App, place: Place) -> None:
    order: list[str] = []
    app.queue("mail", concurrency=1)

    @app.step
    async def note(name: str) -> None:
        order.append(name)

    @app.workflow(queue="mail")
    async def send(name: str) -> None:
        await note(name)

    async with place.open(app, worker=False) as client:
        for n in range(5):
            await client.start(send.bind(f"noisy{n}"), queue_key="noisy")
        quiet = await client.start(send.bind("quiet"), queue_key="quiet")
    async with place.open(app) as client:
        await client.get(quiet.id).result()
        assert order.index("quiet") <= 1
        for run in (await client.list()).runs:
            await client.get(run.id).result()
    assert len(order) == 6


async def test_only_so_many_begin_in_a_time(app: hf.App) -> None:
    app.queue("mail", rate=hf.Rate(2, per=timedelta(minutes=1)))
    begun: list[float] = []

    @app.step
    async def note() -> None:
        begun.append(asyncio.get_running_loop().time())

    @app.workflow(queue="mail")
    async def send() -> None:
        await note()

    async def story(client: hf.Client) -> None:
        runs = [await client.start(send.bind()) for _ in range(5)]
        for run in runs:
            await run.result()

    await asyncio.to_thread(virtual.run, app, story)
    assert [round(at - begun[0]) for at in begun] == [0, 0, 60, 60, 120]


async def test_a_run_begins_after_its_delay(app: hf.App) -> None:
    @app.workflow
    async def when() -> datetime:
        return hf.now()

    async def story(client: hf.Client) -> list[float]:
        now = client.engine.store.now() / 1e6
        tomorrow = datetime.fromtimestamp(now, UTC) + timedelta(days=1)
        runs = [
            await client.start(when.bind(), delay=timedelta(hours=1)),
            await client.start(when.bind(), start_at=tomorrow),
            await client.start(when.bind(), start_at=tomorrow - timedelta(days=9)),
        ]
        for run in runs:
            await run.result()
        return [(await run.describe()).updated_at / 1e6 - now for run in runs]

    told = await asyncio.to_thread(virtual.run, app, story)
    assert [round(seconds) for seconds in told] == [3_600, 86_400, 0]


async def test_a_run_that_does_not_begin_in_time_times_out(
    app: hf.App, bench: Bench, place: Place
) -> None:
    app.queue("mail", concurrency=1)
    async with place.open(app) as client:
        first = await client.start(bench.held.bind("first"), id="first")
        await until(lambda: bench.begun == ["first"])
        late = await client.start(bench.held.bind("late"), id="late", queue_timeout=0.05)
        with pytest.raises(hf.RunTimedOut, match="QueueTimeout: it did not begin on queue mail"):
            await late.result()
        await first.signal(go, 1)
        await first.result()
    assert bench.begun == ["first"]


async def test_a_run_in_line_is_cancelled_at_once(app: hf.App, bench: Bench, place: Place) -> None:
    app.queue("mail", concurrency=1)
    async with place.open(app) as client:
        first = await client.start(bench.held.bind("first"))
        await until(lambda: bench.begun == ["first"])
        second = await client.start(bench.held.bind("second"))
        assert await second.cancel()
        with pytest.raises(hf.RunCancelled):
            await second.result()
        assert (await client.queues.get("mail")).held == 1
        await first.signal(go, 1)
        await first.result()
    assert bench.begun == ["first"]


async def test_a_paused_queue_begins_nothing_and_goes_on_when_resumed(
    app: hf.App, bench: Bench, place: Place
) -> None:
    async with place.open(app) as client:
        assert await client.queues.pause("mail")
        assert not await client.queues.pause("mail")
        run = await client.start(bench.held.bind("a"))
        other = await client.start(bench.held.bind("b"), queue="other")
        await until(lambda: bench.begun == ["b"])
        assert (await run.describe()).status == "pending"
        assert await client.queues.resume("mail")
        await until(lambda: "a" in bench.begun)
        for each in (run, other):
            await each.signal(go, 1)
            await each.result()


async def test_children_stand_in_line_by_their_key(app: hf.App, place: Place) -> None:
    app.queue("mail", key_concurrency=1)
    live: list[str] = []
    most: list[int] = []

    @app.step
    async def work(name: str) -> str:
        live.append(name[0])
        most.append(max(map(live.count, live)))
        await asyncio.sleep(0.01)
        live.remove(name[0])
        return name

    @app.workflow(queue="mail")
    async def child(name: str) -> str:
        return await work(name)

    @app.workflow
    async def parent() -> list[str]:
        calls = [child.options(queue_key=name[0])(name) for name in ("a1", "a2", "b1")]
        started = await hf.start_child(child.bind("a3"), queue_key="a", queue_timeout=60)
        return [*await asyncio.gather(*calls), await started.result()]

    async with place.open(app) as client:
        run = await client.start(parent.bind())
        assert await run.result() == ["a1", "a2", "b1", "a3"]
    assert max(most) == 1


async def test_what_the_app_says_counts_again_when_it_is_opened(
    app: hf.App, bench: Bench, place: Place
) -> None:
    app.queue("mail", concurrency=1)
    async with place.open(app) as client:
        assert await client.queues.set("mail", concurrency=7, rate=hf.Rate(5, per=60))
        assert (await client.queues.get("mail")).queue.limits.told == "7 at once, 5 in 60 s"
    async with place.open(app) as client:
        assert (await client.queues.get("mail")).queue.limits.told == "1 at once"
        with pytest.raises(UnknownQueue, match="Did you mean 'mail'"):
            await client.queues.get("mial")


def test_limits_from_sync_code(app: hf.App, tmp_path: Path) -> None:
    with app.open_sync(f"sqlite:///{tmp_path}/sync.db") as client:
        assert client.queues.set("mail", concurrency=1)
        assert client.queues.pause("mail")
        assert client.queues.resume("mail")
        assert [state.queue.name for state in client.queues.list()] == ["mail"]
        assert client.queues.get("mail").queue.concurrency == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"concurrency": 0}, "concurrency=0 of queue 'mail' is no limit. Pause the queue"),
        ({"concurrency": -1}, "concurrency=-1 .* Give an int from 1 to 1,000,000"),
        ({"key_concurrency": True}, "key_concurrency=True"),
        ({"worker_concurrency": 1.5}, r"worker_concurrency=1\.5"),
        ({"rate": 5}, "rate=5 .* Write hf.Rate"),
        ({"rate": hf.Rate(0)}, "rate.count=0"),
        ({"rate": hf.Rate(5, per=0)}, "per no time"),
    ],
)
def test_what_is_no_limit_is_refused(app: hf.App, options: dict, told: str) -> None:
    with pytest.raises(hf.BadDefinition, match=told):
        app.queue("mail", **options)
    assert app.queues == {}


def test_the_usual_queue_has_no_line(app: hf.App) -> None:
    with pytest.raises(hf.InvalidValue, match="'default' has no line"):
        app.queue("default", concurrency=1)


def test_a_queue_has_its_limits_from_one_place(app: hf.App) -> None:
    assert app.queue("mail", concurrency=1) == "mail"
    assert app.queue("mail", concurrency=1) == "mail"
    with pytest.raises(hf.BadDefinition, match="other limits already"):
        app.queue("mail", concurrency=2)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"queue_key": ""}, hf.InvalidName, "queue key"),
        ({"queue_key": "a/b"}, hf.InvalidName, "slash"),
        ({"queue": "default", "queue_key": "a"}, hf.InvalidValue, "has no line"),
        ({"queue": "default", "queue_timeout": 1}, hf.InvalidValue, "has no line"),
        ({"queue_timeout": -1}, hf.InvalidDuration, "queue_timeout=-1"),
        ({"delay": float("nan")}, hf.InvalidDuration, "delay=nan"),
        ({"delay": 1, "start_at": datetime.now(UTC)}, hf.InvalidValue, "Give one of"),
        ({"start_at": datetime(2030, 1, 1)}, hf.InvalidValue, "no time in a zone"),  # noqa: DTZ001
        ({"start_at": datetime(9000, 1, 1, tzinfo=UTC)}, hf.InvalidValue, "100 years"),
        ({"start_at": "tomorrow"}, hf.InvalidValue, "no time in a zone"),
    ],
)
async def test_what_is_no_place_is_refused_and_nothing_is_stored(
    app: hf.App, bench: Bench, options: dict, error: type[Exception], told: str
) -> None:
    async with app.open("memory://") as client:
        with pytest.raises(error, match=told):
            await client.start(bench.held.bind("a"), id="a", **options)
        assert (await client.list()).runs == []
        assert await client.queues.list() == ()
