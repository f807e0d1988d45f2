"""Queues and priority: who takes a run, and which run goes first."""

import asyncio
import json
import logging

import pytest

import holdfast as hf
from holdfast.kernel import dispatch
from holdfast.model.commands import StartRun
from holdfast.model.queues import NEGLECTED
from holdfast.model.settings import Settings
from tests.engine.places import Place, status_of, until, within, worker_of

go = hf.Signal("go", int)


@pytest.fixture
def order(app: hf.App) -> list[int]:
    """The numbers of runs in the order in which they ran."""
    ran: list[int] = []

    @app.step
    async def note(n: int) -> int:
        ran.append(n)
        return n

    @app.workflow
    async def flow(n: int) -> int:
        return await note(n)

    return ran


async def test_a_run_waits_where_its_workflow_says_unless_the_start_says_otherwise(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def usual() -> None: ...

    @app.workflow(queue="gpu", priority=2)
    async def special() -> None: ...

    async with place.open(app, worker=False) as client:
        runs = [
            await client.start(usual.bind(), id="usual"),
            await client.start(special.bind(), id="special"),
            await client.start(special.bind(), id="other", queue="cpu", priority=5),
            await client.start(special.bind(), id="other", queue="tpu", priority=1),
            await client.start(special.bind(), id="half", priority=1),
        ]
        rows = [await run.describe() for run in runs]
    assert [(row.id, row.queue, row.priority) for row in rows] == [
        ("usual", "default", 3), ("special", "gpu", 2), ("other", "cpu", 5), ("other", "cpu", 5),
        ("half", "gpu", 1),
    ]  # fmt: skip


async def test_a_run_of_another_queue_is_not_born_in_our_hands(
    place: Place, app: hf.App, order: list[int]
) -> None:
    flow = app.workflows["flow"]
    async with place.open(app, queues=["here"]) as client:
        far = await client.start(flow.bind(1), id="far", queue="there")
        near = await client.start(flow.bind(2), id="near", queue="here")
        assert (await far.describe()).owner is None
        assert await within(near.result()) == 2
        assert (await far.describe()).status == "pending"
        assert worker_of(client).offer("there") is None
    async with place.open(app, queues=["elsewhere", "there"]) as client:
        assert await within(client.get("far", flow).result()) == 1
    assert order == [2, 1]


async def test_whoever_names_no_queue_serves_all(
    place: Place, app: hf.App, order: list[int]
) -> None:
    flow = app.workflows["flow"]
    async with place.open(app, worker=False) as client:
        await client.start(flow.bind(1), id="one", queue="a")
    async with place.open(app) as client:
        two = await client.start(flow.bind(2), queue="b")
        assert await within(two.result()) == 2
        assert await within(client.get("one", flow).result()) == 1


async def test_a_worker_with_little_room_goes_by_priority_then_by_age(
    place: Place, app: hf.App, order: list[int]
) -> None:
    flow = app.workflows["flow"]
    placed = [(1, "a", 3), (2, "b", 5), (3, "a", 1), (4, "b", 1), (5, "c", 1), (6, "a", 3)]
    async with place.open(app, worker=False) as client:
        for n, queue, priority in placed:
            await client.start(flow.bind(n), id=f"r{n}", queue=queue, priority=priority)
    async with place.open(app, runs=1, queues=["a", "b"]) as client:
        for n in (1, 2, 3, 4, 6):
            await within(client.get(f"r{n}", flow).result())
    assert order == [3, 4, 1, 6, 2]


async def test_a_run_that_is_started_here_does_not_go_before_those_that_wait(
    place: Place, app: hf.App, order: list[int]
) -> None:
    flow = app.workflows["flow"]
    async with place.open(app, worker=False) as client:
        for n in range(20):
            await client.start(flow.bind(n), id=f"urgent-{n}", priority=1)
    async with place.open(app, runs=1) as client:
        await until(lambda: bool(order))  # it has seen the queue
        last = client.get("urgent-19", flow)
        while (await last.describe()).status != "completed":
            await asyncio.gather(*(client.start(flow.bind(99), priority=5) for _ in range(5)))
    assert order[:20] == list(range(20))


async def test_a_run_keeps_its_place_when_it_wakes_and_when_it_is_retried(
    place: Place, app: hf.App
) -> None:
    tries: list[int] = []

    @app.step(retry=hf.Retry(max_attempts=1))
    async def fragile(n: int) -> int:
        tries.append(n)
        if len(tries) == 1:
            raise ValueError("not yet")
        return n

    @app.workflow(queue="gpu", priority=4)
    async def flow() -> int:
        return await fragile(await hf.wait_for(go))

    async with place.open(app, queues=["gpu"]) as client:
        run = await client.start(flow.bind(), id="r")
        await status_of(run, "waiting")
        await run.signal(go, 7)
        with pytest.raises(hf.RunFailed):
            await within(run.result())
    async with place.open(app, queues=["cpu"]) as client:
        await client.get("r").retry()
        row = await client.get("r").describe()
        assert (row.status, row.queue, row.priority) == ("pending", "gpu", 4)
    async with place.open(app, queues=["gpu"]) as client:
        assert await within(client.get("r", flow).result()) == 7


async def test_runs_that_nobody_takes_are_told_once(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.workflow
    async def flow() -> None: ...

    async with place.open(app, worker=False) as client:
        store, start = client.engine.store, flow.bind()
        at = store.now() - 2 * NEGLECTED
        for id, queue in (("left", "b c"), ("mine", "a")):
            command = StartRun(
                "default", id, "flow", "", start.input, b"d", at, shape=flow.shape, queue=queue
            )
            await store.write([dispatch.decide(command)])
    with caplog.at_level(logging.WARNING):
        async with place.open(app, queues=["a"]) as client:
            await within(client.get("mine", flow).result())
            await until(lambda: any("'b c'" in message for message in caplog.messages))
            await within((await client.start(flow.bind(), queue="a")).result())
            assert (await client.get("left").describe()).status == "pending"
    [told] = [message for message in caplog.messages if "'b c'" in message]
    assert "serves only 'a'" in told
    assert "--queue 'b c'" in told


async def test_a_worker_tells_which_queues_it_serves(place: Place, app: hf.App) -> None:
    def told(client: hf.Client) -> object:
        return json.loads(worker_of(client).lease.command.info)["queues"]

    async with place.open(app, queues=["b", "a", "b"]) as client:
        assert told(client) == ["b", "a"]
    async with place.open(app) as client:
        assert told(client) is None


@pytest.mark.parametrize(
    "queue", ["", "a/b", ".hidden", "x" * 256, "line\nbreak", "nul\0", 7, b"q"]
)
async def test_a_queue_that_cannot_be_named_is_refused(app: hf.App, queue: str) -> None:
    @app.workflow
    async def flow() -> None: ...

    with pytest.raises(hf.InvalidName, match="queue"):
        app.workflow(name="other", queue=queue)(flow.plain)
    with pytest.raises(hf.InvalidName, match="queue"):
        Settings(queues=["fine", queue])
    async with app.open("memory://") as client:
        with pytest.raises(hf.InvalidName, match="queue"):
            await client.start(flow.bind(), queue=queue)
        assert (await client.list()).runs == []


@pytest.mark.parametrize("priority", [0, 6, -1, 1.0, "1", True, 1 << 70, float("nan")])
async def test_a_priority_out_of_range_is_refused(app: hf.App, priority: int) -> None:
    @app.workflow
    async def flow() -> None: ...

    with pytest.raises(hf.InvalidValue, match="from 1, which goes first, to 5"):
        app.workflow(name="other", priority=priority)(flow.plain)
    async with app.open("memory://") as client:
        with pytest.raises(hf.InvalidValue, match="is no priority"):
            await client.start(flow.bind(), priority=priority)
        assert (await client.list()).runs == []


@pytest.mark.parametrize("queues", ["gpu", [], (), 7])
def test_what_is_no_list_of_queues_is_refused(queues: list[str]) -> None:
    with pytest.raises(hf.BadDefinition, match="queues"):
        Settings(queues=queues)
