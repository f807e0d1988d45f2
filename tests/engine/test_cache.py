"""Steps with a cache, on every store: results of former calls, recorded as answers of this one."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.cache import CachedResult, CacheKey
from holdfast.model.events import CACHED
from holdfast.model.jobs import JobFilter
from holdfast.testing import crashtest, invariants
from tests.engine.places import Place, kinds, status_of, until, within, worker_of
from tests.engine.test_payloads import CANARY, LONG, NEW, OLD, RING, Sealed

QUICK = hf.Retry(max_attempts=3, initial=0.01, jitter=False)
FOR_LONG = hf.Cache(3_600)
isolating = hf.App("cache-isolated")


class Shop:
    """A step with a cache that counts its calls, and a workflow that calls it for each number."""

    def __init__(self, app: hf.App, cache: hf.Cache = FOR_LONG, **options: Any) -> None:
        self.calls: list[int] = []
        self.fails = 0
        self.hold: asyncio.Event | None = None

        @app.step(cache=cache, **{"retry": QUICK, **options})
        async def price(n: int, currency: str = "EUR") -> str:
            self.calls.append(n)
            if self.hold is not None:
                await self.hold.wait()
            if self.fails:
                self.fails -= 1
                raise ConnectionError("no such shop")
            return f"{n} {currency} for the {len(self.calls)}th"

        @app.workflow
        async def quote(numbers: list[int]) -> list[str]:
            return list(await asyncio.gather(*map(price, numbers)))

        self.price, self.quote = price, quote


@pytest.fixture
def shop(app: hf.App) -> Shop:
    return Shop(app)


async def answers(run: hf.RunHandle[Any]) -> list[hf.Event]:
    events = (await run.history()).events
    return [event for event in events if event.kind == "step.completed"]


async def quoted(client: hf.Client, shop: Shop, id: str, *numbers: int) -> list[str]:
    run = await client.start(shop.quote.bind(list(numbers)), id=id)
    result: list[str] = await within(run.result())
    return result


async def test_a_later_call_uses_the_result_and_does_not_run(
    place: Place, app: hf.App, shop: Shop
) -> None:
    async with place.open(app) as client:
        first = await quoted(client, shop, "a", 1)
        assert await quoted(client, shop, "b", 1, 2) == [*first, "2 EUR for the 2th"]
        assert shop.calls == [1, 2]
        run = client.get("b")
        assert [(e.key, e.is_cached) for e in await answers(run)] == [
            ("price#1", True),
            ("price#2", False),
        ]
        assert await kinds(run) == ["run.started", "step.completed", "step.completed",
                                    "run.completed"]  # fmt: skip
        [kept] = await client.cache.list()
        assert (kept.step, kept.version, kept.results, kept.expired) == ("price", "", 2, 0)
    async with place.open(app) as client:
        assert await quoted(client, shop, "c", 1) == first
        assert shop.calls == [1, 2]


async def test_a_replay_needs_nothing_of_the_cache(place: Place, app: hf.App) -> None:
    shop, go = Shop(app), hf.Signal("go", int)

    @app.workflow
    async def waits() -> list[str]:
        first = await shop.price(1)
        await hf.wait_for(go)
        return [first, await shop.price(1)]

    async with place.open(app) as client:
        await quoted(client, shop, "a", 1)
        run = await client.start(waits.bind(), id="w")
        await status_of(run, "waiting")
        assert await client.cache.forget("price") == 1
    async with place.open(app) as client:
        run = client.get("w", waits)
        await run.signal(go, 1)
        assert await within(run.result()) == ["1 EUR for the 1th", "1 EUR for the 2th"]
        assert [event.is_cached for event in await answers(run)] == [True, False]


async def test_arguments_count_however_they_are_given(place: Place, app: hf.App) -> None:
    shop = Shop(app)

    @app.workflow
    async def flow() -> list[str]:
        return [
            await shop.price(1), await shop.price(n=1), await shop.price(1, currency="EUR"),
            await shop.price(1, "USD"),
        ]  # fmt: skip

    async with place.open(app) as client:
        found = await within((await client.start(flow.bind())).result())
        assert found == ["1 EUR for the 1th"] * 3 + ["1 USD for the 2th"]


async def test_an_expired_result_is_made_anew(place: Place, app: hf.App) -> None:
    shop = Shop(app, hf.Cache(0.02))
    async with place.open(app) as client:

        async def ran_again() -> bool:
            await quoted(client, shop, f"r{len(shop.calls)}-{client.engine.store.now()}", 1)
            return len(shop.calls) > 1

        await until(ran_again)


async def test_a_worker_forgets_expired_results(place: Place, app: hf.App) -> None:
    shop = Shop(app, hf.Cache(0.001))
    async with place.open(app) as client:
        await quoted(client, shop, "a", 1, 2, 3)
        now, kept = client.engine.store.now, client.engine.store.now() + 1_000
        await until(lambda: now() > kept)  # the next worker looks once at its start
    async with place.open(app) as client:

        async def is_empty() -> bool:
            return await client.cache.list() == ()

        await until(is_empty)


async def test_the_function_of_a_cache_gives_the_key(place: Place, app: hf.App) -> None:
    shop = Shop(app, hf.Cache(None, key=lambda n, currency: f"even {currency}" if n % 2 else "odd"))
    async with place.open(app) as client:
        assert await quoted(client, shop, "a", 1) == await quoted(client, shop, "b", 3)
        await quoted(client, shop, "c", 2)
        assert shop.calls == [1, 2]
        assert await client.cache.forget("price", key="even USD") == 0
        assert await client.cache.forget("price", key="even EUR") == 1
        await quoted(client, shop, "d", 3, 4)
        assert shop.calls == [1, 2, 3]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (lambda n, currency: n, "is no text, it is int"),
        (lambda n, currency: "", "has 0 characters"),
        (lambda n, currency: "x" * 256, "has 256 characters, and may have 1 to 255"),
        (lambda n, currency: "\n", "cannot be printed"),
        (lambda n: "x", "cannot be made: TypeError"),
        (lambda n, currency: str(1 // 0), "cannot be made: ZeroDivisionError"),
    ],
)
async def test_a_key_that_is_none_fails_the_step_before_it_begins(
    place: Place, app: hf.App, key: Any, told: str
) -> None:
    shop = Shop(app, hf.Cache(60, key=key))
    async with place.open(app) as client:
        run = await client.start(shop.quote.bind([1]))
        with pytest.raises(hf.RunFailed, match="BadCacheKey") as caught:
            await within(run.result())
        assert told in str(caught.value)
        assert shop.calls == []
        assert await kinds(run) == ["run.started", "step.failed", "run.failed"]


async def test_another_version_begins_anew(place: Place, app: hf.App) -> None:
    shop, newer = Shop(app), hf.App("newer")
    changed = Shop(newer, hf.Cache(3_600, version="2"))
    async with place.open(app) as client:
        await quoted(client, shop, "a", 1)
    async with place.open(newer) as client:
        await quoted(client, changed, "b", 1)
        await quoted(client, changed, "c", 1)
        assert (shop.calls, changed.calls) == ([1], [1])
        assert [each.version for each in await client.cache.list("price")] == ["", "2"]
        assert await client.cache.forget("price") == 2


async def test_a_call_may_have_a_cache_of_its_own_or_none(place: Place, app: hf.App) -> None:
    shop, calls = Shop(app), list[int]()

    @app.step
    def plain(n: int) -> int:
        calls.append(n)
        return n

    @app.workflow
    async def flow() -> None:
        await shop.price(1)
        await shop.price.options(cache=None)(1)
        await shop.price.options(cache=hf.Cache(60, version="2"))(1)
        await shop.price.options(timeout=5)(1)
        await plain.options(cache=hf.Cache(60))(1)
        await plain.options(cache=hf.Cache(60))(1)
        await plain(1)

    async with place.open(app) as client:
        await within((await client.start(flow.bind())).result())
        assert (shop.calls, calls) == ([1, 1, 1], [1, 1])


async def test_only_results_are_kept_and_those_of_any_attempt(
    place: Place, app: hf.App, shop: Shop
) -> None:
    async with place.open(app) as client:
        shop.fails = 3
        run = await client.start(shop.quote.bind([1]), id="fails")
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        assert await client.cache.list() == ()
        shop.fails = 1
        await quoted(client, shop, "a", 1)
        assert await quoted(client, shop, "b", 1) == ["1 EUR for the 5th"]
        await run.retry()
        assert await within(run.result()) == ["1 EUR for the 5th"]
        assert len(shop.calls) == 5


async def test_a_rerun_really_runs_unless_it_keeps_its_keys(
    place: Place, app: hf.App, shop: Shop
) -> None:
    async with place.open(app) as client:
        await quoted(client, shop, "a", 1)
        run = client.get("a", shop.quote)
        assert await run.rerun() == ["price#1"]
        assert await within(run.result()) == ["1 EUR for the 2th"]
        assert await quoted(client, shop, "b", 1) == ["1 EUR for the 2th"]
        await run.rerun("price#1", keep_keys=True)
        assert await within(run.result()) == ["1 EUR for the 2th"]
        assert len(shop.calls) == 2


class Counting:
    """Counts what is looked up."""

    def __init__(self, client: hf.Client) -> None:
        self.looks: list[int] = []
        store: Any = client.engine.store
        self._recall = store.recall
        store.recall = self.recall

    async def recall(self, ns: str, wanted: Sequence[CacheKey]) -> Mapping[CacheKey, CachedResult]:
        self.looks.append(len(wanted))
        found: Mapping[CacheKey, CachedResult] = await self._recall(ns, wanted)
        return found


async def test_a_fan_out_is_looked_up_together(place: Place, app: hf.App, shop: Shop) -> None:
    async with place.open(app) as client:
        numbers = list(range(700))
        first = await quoted(client, shop, "a", *numbers)
        counting = Counting(client)
        assert await quoted(client, shop, "b", *numbers) == first
        assert counting.looks == [500, 200]
        assert len(shop.calls) == 700


async def test_a_step_without_a_cache_is_not_looked_up(place: Place, app: hf.App) -> None:
    @app.step
    async def plain() -> int:
        return 1

    @app.workflow
    async def flow() -> int:
        return await plain()

    async with place.open(app) as client:
        counting = Counting(client)
        assert await within((await client.start(flow.bind())).result()) == 1
        assert counting.looks == []


async def test_what_no_longer_fits_is_made_anew_and_said_once(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    newer, name = hf.App("newer"), f"sized-{place.kind}"

    @app.step(name=name, cache=FOR_LONG)
    async def old(n: int) -> str:
        return str(n)

    @app.workflow(name="flow")
    async def before() -> list[str]:
        return [await old(1), await old(2)]

    @newer.step(name=name, cache=FOR_LONG)
    async def new(n: int) -> int:
        return n

    @newer.workflow(name="flow")
    async def after() -> list[int]:
        return [await new(1), await new(2)]

    async with place.open(app) as client:
        assert await within((await client.start(before.bind())).result()) == ["1", "2"]
    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        async with place.open(newer) as client:
            assert await within((await client.start(after.bind(), id="a")).result()) == [1, 2]
            assert await within((await client.start(after.bind(), id="b")).result()) == [1, 2]
            assert all(event.is_cached for event in await answers(client.get("b")))
    told = [record for record in caplog.records if "does not fit it any more" in record.message]
    assert len(told) == 1
    assert name in told[0].message


async def test_a_job_is_not_made_if_its_result_is_there(place: Place, app: hf.App) -> None:
    shop = Shop(app, queue="gpu")
    async with place.open(app, queues=["default", "gpu"]) as client:
        first = await quoted(client, shop, "a", 1)
    async with place.open(app, queues=["default"]) as client:
        assert await quoted(client, shop, "b", 1) == first
        run = await client.start(shop.quote.bind([1, 2]), id="c")
        row = await status_of(run, "waiting")
        assert row.reason == "job price#2 on queue gpu"
        jobs = await client.engine.store.jobs.find(JobFilter("default"))
        assert [job.key for job in jobs] == ["price#2"]
    async with place.open(app, queues=["gpu", "default"]) as client:
        assert await within(client.get("c", shop.quote).result()) == [*first, "2 EUR for the 2th"]
        assert await quoted(client, shop, "d", 2) == ["2 EUR for the 2th"]
        assert shop.calls == [1, 2]


async def test_a_paused_run_begins_nothing_after_its_look(
    place: Place, app: hf.App, shop: Shop
) -> None:
    async with place.open(app) as client:
        held = Counting(client)
        go = asyncio.Event()
        recall = held.recall

        async def slowly(ns: str, wanted: Sequence[CacheKey]) -> Mapping[CacheKey, CachedResult]:
            found = await recall(ns, wanted)
            await go.wait()
            return found

        store: Any = client.engine.store
        store.recall = slowly
        run = await client.start(shop.quote.bind([1]), id="a")
        await until(lambda: held.looks == [1])
        await run.pause()
        go.set()
        await status_of(run, "paused")
        assert shop.calls == []
        await run.resume()
        assert await within(run.result()) == ["1 EUR for the 1th"]


async def test_a_cancelled_run_does_not_wait_for_its_look(
    place: Place, app: hf.App, shop: Shop
) -> None:
    async with place.open(app) as client:
        looks = list[int]()

        async def never(ns: str, wanted: Sequence[CacheKey]) -> Mapping[CacheKey, CachedResult]:
            looks.append(len(wanted))
            await asyncio.Event().wait()
            return {}

        store: Any = client.engine.store
        store.recall = never
        run = await client.start(shop.quote.bind([1]), id="a")
        await until(lambda: looks == [1])
        await run.cancel()
        await status_of(run, "cancelled")
        await until(lambda: worker_of(client).sessions == {})


async def test_two_runs_at_once_may_both_run_and_the_last_stays(
    place: Place, app: hf.App, shop: Shop
) -> None:
    shop.hold = asyncio.Event()
    async with place.open(app) as client:
        runs = [await client.start(shop.quote.bind([1]), id=id) for id in ("a", "b")]
        await until(lambda: len(shop.calls) == 2)
        shop.hold.set()
        for run in runs:
            await within(run.result())
        [kept] = await client.cache.list()
        assert kept.results == 1
        assert (await quoted(client, shop, "c", 1))[0].startswith("1 EUR")
        assert len(shop.calls) == 2


@isolating.step(isolate="process", cache=FOR_LONG)
def squared(n: int) -> int:
    import os

    return os.getpid() * n * n


@isolating.workflow
async def square(n: int) -> int:
    return await squared(n)


async def test_an_isolated_step_has_a_cache(place: Place) -> None:
    async with place.open(isolating) as client:
        first = await within((await client.start(square.bind(3))).result(), 30)
        assert await within((await client.start(square.bind(3))).result()) == first


async def test_observers_hear_that_a_result_is_cached(
    place: Place, app: hf.App, shop: Shop
) -> None:
    heard: list[tuple[str, bool, int]] = []

    class Hears:
        async def on_event(self, event: hf.ObservedEvent) -> None:
            if event.kind == "step.completed":
                heard.append((event.run, event.cached, event.attempt))

    app.observe(Hears())
    async with place.open(app) as client:
        await quoted(client, shop, "a", 1)
        await quoted(client, shop, "b", 1)
    assert heard == [("a", False, 1), ("b", True, 0)]


async def test_a_cached_step_is_not_done_in_chunks(place: Place, app: hf.App, shop: Shop) -> None:
    @app.workflow
    async def flow() -> list[str]:
        return await hf.map(shop.price, [1, 2, 1], chunk=2)

    @app.workflow
    async def one_by_one() -> list[str]:
        return await hf.map(shop.price, [1, 2, 1], limit=1)

    async with place.open(app) as client:
        with pytest.raises(hf.RunFailed, match=r"chunk=2.*has no cache"):
            await within((await client.start(flow.bind())).result())
        await within((await client.start(one_by_one.bind())).result())
        assert shop.calls == [1, 2]


async def test_an_encrypted_store_tells_nothing_of_results_nor_of_their_keys(
    place: Place, app: hf.App
) -> None:
    sealed, calls = Sealed(place), list[str]()

    @app.step(cache=hf.Cache(3_600, key=lambda text: f"key of {text[:20]}"))
    async def shout(text: str) -> str:
        calls.append(text)
        return text * 2

    @app.workflow
    async def flow(text: str) -> str:
        return await shout(text)

    async def said(client: hf.Client, text: str) -> str:
        result: str = await within((await client.start(flow.bind(text))).result())
        return result

    async with sealed.open(app, RING) as client:
        for text in (CANARY, LONG, CANARY, LONG):  # in its row, and as a blob
            assert await said(client, text) == text * 2
        assert calls == [CANARY, LONG]
        assert CANARY not in await sealed.raw(client)
        store: Any = client.engine.store
        kept = await store.inner.dump()
        assert all(str(each.key).isalnum() and len(each.key) == 32 for each in kept.cache)
        assert invariants.check(await store.dump()) == []
        assert (await store.collect(grace=-1)).collected == 0
        assert await client.cache.forget("shout", key=f"key of {CANARY}") == 1
        assert await said(client, CANARY) == CANARY * 2
        assert len(calls) == 3
    rotated = hf.KeyRing({"old": OLD, "new": NEW, "next": bytes([7] * 32)}, current="next")
    async with sealed.open(app, rotated) as client:
        assert await said(client, LONG) == LONG * 2
        assert len(calls) == 4


def test_a_cached_step_survives_crashes(app: hf.App, shop: Shop) -> None:
    report = crashtest(shop.quote.bind([1, 1]), app=app, loose=["price", "quote"])
    assert report.points


def test_an_event_from_the_cache_took_nothing() -> None:
    event = hf.Event("step.completed", 1, "a#1", took=CACHED)
    assert (event.is_cached, event.ran_for) == (True, None)
    assert event._replace(took=5).ran_for == 5
