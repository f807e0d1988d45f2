"""Fan-out on every store: order, limits, failures for each item, chunks."""

import asyncio
from collections.abc import Iterator

import pytest

import holdfast as hf
from holdfast.testing import crashtest
from tests.engine.places import Place, event_of, kinds, within

go = hf.Signal("go", int)
QUICK = hf.Retry(max_attempts=2, initial=0.001)


class Mill:
    """Steps that count what they do, and can be broken for some items."""

    def __init__(self, app: hf.App) -> None:
        self.done: list[int] = []
        self.keys: dict[int, set[str]] = {}
        self.broken: set[int] = set()
        self.now = self.most = 0

        @app.step(retry=QUICK)
        async def grind(n: int) -> int:
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await asyncio.sleep(0.001)
                self.done.append(n)
                self.keys.setdefault(n, set()).add(hf.idempotency_key())
                if n in self.broken:
                    raise ValueError(f"no {n}")
                return n * 10
            finally:
                self.now -= 1

        @app.step(retry=QUICK)
        def press(n: int) -> int:
            self.keys.setdefault(n, set()).add(hf.idempotency_key())
            if n in self.broken:
                raise ValueError(f"no {n}")
            return n * 10

        @app.workflow
        async def part(n: int) -> int:
            return await grind(n)

        self.grind, self.press, self.part = grind, press, part


@pytest.fixture
def mill(app: hf.App) -> Mill:
    return Mill(app)


async def test_results_stand_in_the_order_of_the_items(
    place: Place, app: hf.App, mill: Mill
) -> None:
    @app.workflow
    async def flow() -> list[int]:
        return await hf.map(mill.grind, range(20), limit=5)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == [n * 10 for n in range(20)]
        assert mill.most <= 5
        assert sorted(mill.done) == list(range(20))


async def test_items_are_taken_as_places_get_free(app: hf.App, mill: Mill) -> None:
    taken: list[int] = []

    @app.workflow
    async def flow() -> list[int]:
        def items() -> Iterator[int]:
            for n in range(6):
                taken.append(n)
                yield n

        call = hf.map(mill.grind, items(), limit=2)
        assert taken == []
        return await call

    async with app.open("memory://") as client:
        assert await within((await client.start(flow.bind())).result()) == [0, 10, 20, 30, 40, 50]


async def test_each_failure_is_told(place: Place, app: hf.App, mill: Mill) -> None:
    mill.broken = {2, 5}

    @app.workflow
    async def flow() -> list[str]:
        found = await hf.map(mill.grind, range(8), tolerate=2)
        return [str(item.value) if item.ok else type(item.error).__name__ for item in found]

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        told = await within(run.result())
        assert told == ["0", "10", "StepFailed", "30", "40", "StepFailed", "60", "70"]


async def test_too_many_failures_give_up_the_rest(place: Place, app: hf.App, mill: Mill) -> None:
    mill.broken = {0, 1}

    @app.workflow
    async def flow() -> tuple[list[int], int]:
        try:
            await hf.map(mill.grind, range(1_000), limit=4, tolerate=1)
        except hf.MapFailed as failed:
            return sorted(index for index, _ in failed.failed), failed.done
        return [], -1

    async with place.open(app) as client:
        failed, done = await within((await client.start(flow.bind())).result())
        assert failed == [0, 1]
        assert done < 100


async def test_a_retry_tries_only_what_failed(place: Place, app: hf.App, mill: Mill) -> None:
    mill.broken = {3}

    @app.workflow
    async def flow(chunk: int) -> list[int]:
        return await hf.map(mill.grind, range(6), chunk=chunk)

    async with place.open(app) as client:
        for chunk in (1, 2):
            mill.broken, mill.done = {3}, []
            run = await client.start(flow.bind(chunk), id=f"run-{chunk}")
            with pytest.raises(hf.RunFailed, match=r"item 3: Step .* failed"):
                await within(run.result())
            mill.broken, before = set(), len(mill.done)
            await run.retry()
            assert await within(run.result()) == [0, 10, 20, 30, 40, 50]
            assert set(mill.done[before:]) <= {3, 4, 5}


async def test_a_share_may_fail(app: hf.App, mill: Mill) -> None:
    mill.broken = {1}

    @app.workflow
    async def flow(share: float) -> int:
        found = await hf.map(mill.grind, [0, 1, 2, 3], tolerate=share)
        return sum(item.ok for item in found)

    async with app.open("memory://") as client:
        assert await within((await client.start(flow.bind(0.25))).result()) == 3
        with pytest.raises(hf.RunFailed, match="MapFailed"):
            await within((await client.start(flow.bind(0.2))).result())


async def test_a_chunk_is_one_record(place: Place, app: hf.App, mill: Mill) -> None:
    mill.broken = {4}

    @app.workflow
    async def flow() -> list[str]:
        found = await hf.map(mill.grind, range(7), chunk=3, tolerate=1)
        pressed = await hf.map(mill.press, range(3), chunk=3)
        return [*(str(item.value) if item.ok else "failed" for item in found), str(pressed)]

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="o")
        told = await within(run.result())
        assert told == ["0", "10", "20", "30", "failed", "50", "60", "[0, 10, 20]"]
        keys = [event.key for event in (await run.history()).events if "chunk" in event.key]
        assert "chunk[1]/grind*#1" in keys
        assert "chunk[2]/grind#2" in keys
    assert mill.done.count(4) == 3
    assert all(len(keys) == 1 for n, keys in mill.keys.items() if n > 2)


def test_chunks_outlive_a_crash_at_every_commit(app: hf.App, mill: Mill) -> None:
    mill.broken = {1}

    @app.workflow
    async def flow() -> list[str]:
        found = await hf.map(mill.press, range(5), chunk=2, tolerate=1)
        return [str(item.value) if item.ok else "failed" for item in found]

    assert crashtest(flow.bind(), app=app).violations == []


async def test_children_are_mapped_too(place: Place, app: hf.App, mill: Mill) -> None:
    mill.broken = {1}

    @app.workflow
    async def flow() -> list[str]:
        found = await hf.map(mill.part.options(priority=1), range(4), limit=2, tolerate=1)
        return [str(item.value) if item.ok else type(item.error).__name__ for item in found]

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="o")
        assert await within(run.result()) == ["0", "ChildFailed", "20", "30"]
        assert (await kinds(run)).count("child.started") == 4


async def test_a_cancelled_fan_out_gives_up_all(place: Place, app: hf.App, mill: Mill) -> None:
    @app.workflow
    async def waits(n: int) -> int:
        return await hf.wait_for(go)

    @app.workflow
    async def flow() -> list[int]:
        return await hf.map(waits, range(3))

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="o")
        await event_of(run, "child.started")
        await run.cancel()
        with pytest.raises(hf.RunCancelled):
            await within(run.result())


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"limit": 0}, "limit=0"),
        ({"limit": 10_001}, "limit=10001"),
        ({"chunk": "2"}, "chunk='2'"),
        ({"tolerate": -1}, "tolerate=-1"),
        ({"tolerate": 1.5}, "tolerate=1.5"),
        ({"tolerate": True}, "tolerate=True"),
    ],
)
async def test_bad_settings_are_refused(
    app: hf.App, mill: Mill, settings: dict[str, object], told: str
) -> None:
    @app.workflow
    async def flow() -> str:
        try:
            await hf.map(mill.grind, [1], **settings)  # type: ignore[call-overload]
        except hf.BadDefinition as error:
            return str(error)
        return ""

    async with app.open("memory://") as client:
        assert told in await within((await client.start(flow.bind())).result())


async def test_only_steps_are_chunked(app: hf.App, mill: Mill) -> None:
    @app.step(completes_later=True)
    async def later(n: int) -> int:
        hf.complete_later()

    @app.workflow
    async def flow(waits: bool) -> list[int]:
        return await hf.map(later if waits else mill.part, [1], chunk=2)

    async with app.open("memory://") as client:
        for waits in (True, False):
            with pytest.raises(hf.RunFailed, match="which cannot be done in chunks"):
                await within((await client.start(flow.bind(waits))).result())
    with pytest.raises(hf.NotInBody):
        await hf.map(mill.grind, [1])
