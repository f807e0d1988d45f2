"""Observers, on every store: told after the commit, in order, once; never in a run's way."""

import asyncio
import logging
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import OutcomeUnknown
from holdfast.hosts.worker import observing
from holdfast.model.writes import Advance, Outcome
from holdfast.testing import virtual
from tests.engine.places import Place, event_of, status_of, until, within, worker_of


class Seen:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[hf.ObservedEvent] = []

    async def on_event(self, event: hf.ObservedEvent) -> None:
        self.events.append(event)

    def of(self, run: str) -> list[tuple[int, str]]:
        return [(each.seq, each.kind) for each in self.events if each.run == run]


async def told_all(seen: Seen, run: hf.RunHandle[Any]) -> None:
    """Wait until the observer has the run's whole history, and check that it is just that."""
    wanted = [(event.seq, event.kind) for event in (await run.history()).events]
    await until(lambda: len(seen.of(run.id)) >= len(wanted))
    assert seen.of(run.id) == wanted


class Shop:
    """Workflows to observe."""

    def __init__(self, app: hf.App) -> None:
        self.go = go = hf.Signal("go", int)
        self.hold: asyncio.Event | None = None

        @app.step(retry=hf.Retry(max_attempts=2, initial=0.001))
        async def work(n: int) -> int:
            if self.hold is not None:
                await self.hold.wait()
            if n == 13 and hf.attempt() == 1:
                raise ConnectionError("secret text")
            return n * 10

        @app.workflow
        async def chain(n: int) -> int:
            return await work(await work(n))

        @app.workflow
        async def waiter() -> int:
            await work(1)
            return await hf.wait_for(go)

        @app.workflow
        async def parent() -> int:
            child = await hf.start_child(waiter.bind(), id="the-child")
            await hf.wait_for(go)
            return len(child.id)

        self.chain, self.waiter, self.parent = chain, waiter, parent


@pytest.fixture
def shop(app: hf.App) -> Shop:
    return Shop(app)


@pytest.fixture
def seen(app: hf.App) -> Seen:
    seen = Seen()
    app.observe(seen)
    return seen


async def test_every_event_is_told_once_and_in_order(
    place: Place, app: hf.App, shop: Shop, seen: Seen
) -> None:
    async with place.open(app) as client:
        runs = [await client.start(shop.chain.bind(n)) for n in (1, 13, 3)]
        for run in runs:
            await within(run.result())
            await told_all(seen, run)
    assert [each.step for each in seen.events if each.kind == "step.retrying"] == ["work"]
    first = seen.events[0]
    assert (first.workflow, first.queue, first.namespace) == ("chain", "default", "default")
    assert (first.started_at, first.closes) == (first.at, False)


async def test_a_transaction_is_told_as_other_steps_are(
    place: Place, app: hf.App, seen: Seen
) -> None:
    @app.transaction
    def note(tx: hf.Transaction, n: int) -> int:
        return n

    @app.workflow
    async def flow() -> int:
        return await note(1) + await note(2)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == 3
        await told_all(seen, run)


async def test_what_is_told_is_stored(place: Place, app: hf.App, shop: Shop) -> None:
    stored: list[bool] = []

    class Looks:
        async def on_event(self, event: hf.ObservedEvent) -> None:
            history = await clients[0].get(event.run).history()
            stored.append(event.event in history.events)

    app.observe(Looks())
    clients: list[hf.Client] = []
    async with place.open(app) as client:
        clients.append(client)
        run = await client.start(shop.chain.bind(1))
        await within(run.result())
        await until(lambda: len(stored) == 4)
    assert all(stored)


async def test_what_is_replayed_is_not_told_again(
    place: Place, app: hf.App, shop: Shop, seen: Seen
) -> None:
    async with place.open(app, machines=0) as client:
        run = await client.start(shop.waiter.bind())
        await status_of(run, "waiting")
        await run.signal(shop.go, 5)
        assert await within(run.result()) == 5
        await told_all(seen, run)


async def test_another_worker_goes_on_where_the_first_one_ended(
    place: Place, app: hf.App, shop: Shop, seen: Seen
) -> None:
    async with place.open(app) as client:
        run = await client.start(shop.waiter.bind(), id="handed-over")
        await status_of(run, "waiting")
    before = list(seen.events)
    async with place.open(app, worker=False) as client:
        await client.get("handed-over").signal(shop.go, 5)
    async with place.open(app) as client:
        run = client.get("handed-over")
        await within(run.result())
        await told_all(seen, run)
    assert before == seen.events[: len(before)]
    assert [each.kind for each in before] == ["run.started", "step.completed"]


async def test_a_start_by_another_process_is_told_by_who_takes_the_run_up(
    place: Place, app: hf.App, shop: Shop, seen: Seen
) -> None:
    async with place.open(app, worker=False) as client:
        await client.start(shop.chain.bind(1), id="far")
    assert seen.events == []
    async with place.open(app) as client:
        run = client.get("far")
        await within(run.result())
        await told_all(seen, run)


async def test_a_refused_commit_is_not_told(
    place: Place, app: hf.App, shop: Shop, seen: Seen
) -> None:
    shop.hold = asyncio.Event()
    async with place.open(app) as client:
        run = await client.start(shop.chain.bind(1))
        await event_of(run, "step.started")
        await run.terminate("enough")
        shop.hold.set()
        await until(lambda: not worker_of(client).sessions)
        await told_all(seen, run)
    assert seen.events[-1].kind == "run.terminated"


async def test_the_end_of_a_parked_run_is_told(
    place: Place, app: hf.App, shop: Shop, seen: Seen
) -> None:
    async with place.open(app) as client:
        run = await client.start(shop.parent.bind())
        child = client.get("the-child")
        await status_of(run, "waiting")
        await until(lambda: ("the-child", "step.completed") in kinds_of(seen))
        await status_of(child, "waiting")
        await run.terminate("enough")
        await told_all(seen, run)
        await told_all(seen, child)
    assert ("the-child", "run.terminated") in kinds_of(seen)


def kinds_of(seen: Seen) -> list[tuple[str, str]]:
    return [(each.run, each.kind) for each in seen.events]


async def test_a_run_that_is_reopened_is_told_of_once(
    place: Place, app: hf.App, shop: Shop, seen: Seen
) -> None:
    async with place.open(app, machines=0) as client:
        run = await client.start(shop.waiter.bind())
        await status_of(run, "waiting")
        await run.terminate("too soon")
        await run.rerun("work#1")
        await status_of(run, "waiting")
        await run.pause()
        await status_of(run, "paused")
        await run.resume()
        await run.signal(shop.go, 1)
        await within(run.result())
        closing = (await run.history()).events[-1]
        await until(lambda: bool(seen.events) and seen.events[-1].event == closing)
    assert [each.seq for each in seen.events] == list(range(1, closing.seq + 1))


async def test_a_commit_in_doubt_is_told_when_it_is_known(
    place: Place, app: hf.App, shop: Shop, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.open(app) as client:
        store: Any = client.engine.store
        write = store.write
        doubted: list[Any] = []

        async def doubtful(batch: Any) -> list[Outcome]:
            outcomes = await write(batch)
            if len(doubted) < 4 and any(isinstance(each, Advance) for each in batch):
                doubted.append(batch)
                raise OutcomeUnknown("the connection was lost")
            return list(outcomes)

        monkeypatch.setattr(store, "write", doubtful)
        run = await client.start(shop.chain.bind(1))
        assert await within(run.result()) == 100
        await told_all(seen, run)
        assert doubted
        monkeypatch.undo()


async def test_a_failing_observer_fails_nothing_and_is_named_once(
    place: Place, app: hf.App, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    class Fails:
        async def on_event(self, event: hf.ObservedEvent) -> None:
            raise KeyError(event.seq)

    class Cancels:
        async def on_event(self, event: hf.ObservedEvent) -> None:
            raise asyncio.CancelledError

    seen = Seen()
    app.observe(Fails(), Cancels(), seen)
    with caplog.at_level(logging.WARNING, "holdfast.observers"):
        async with place.open(app) as client:
            run = await client.start(shop.chain.bind(1))
            assert await within(run.result()) == 100
            await told_all(seen, run)
    told = [record.getMessage() for record in caplog.records if "observer" in record.getMessage()]
    rest = f"failed on run.started of run {run.id}; more of its kind are only counted"
    assert told == [
        f"observer Fails {rest}",
        f"observer Cancels {rest}",
        "observer Fails failed 4 times with KeyError",
        "observer Cancels failed 4 times with CancelledError",
    ]


async def test_what_does_not_fit_is_read_from_the_history(
    place: Place, app: hf.App, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Held(Seen):
        async def on_event(self, event: hf.ObservedEvent) -> None:
            await opened.wait()
            await super().on_event(event)

    monkeypatch.setattr(observing, "BUFFER", 3)
    opened, held, quick = asyncio.Event(), Held(), Seen()
    app.observe(held, quick)
    async with place.open(app) as client:
        runs = [await client.start(shop.chain.bind(n)) for n in range(5)]
        for run in runs:
            await within(run.result())
            await told_all(quick, run)
        assert held.events == []
        opened.set()
        for run in runs:
            await told_all(held, run)


async def test_an_observer_that_never_comes_back_is_left_when_the_worker_stops(
    place: Place, app: hf.App, shop: Shop, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    class Hangs:
        async def on_event(self, event: hf.ObservedEvent) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(observing, "LEAVE", 0.01)
    app.observe(Hangs())
    async with place.open(app) as client:
        run = await client.start(shop.chain.bind(1))
        assert await within(run.result()) == 100
    assert "observer Hangs was left behind: the worker stops" in caplog.messages


async def test_what_waits_to_be_told_is_told_before_the_worker_leaves(
    place: Place, app: hf.App, shop: Shop
) -> None:
    class Lags(Seen):
        async def on_event(self, event: hf.ObservedEvent) -> None:
            await asyncio.sleep(0)
            await super().on_event(event)

    lags = Lags()
    app.observe(lags)
    async with place.open(app) as client:
        run = await client.start(shop.chain.bind(1))
        await within(run.result())
    assert [each.kind for each in lags.events][-1] == "run.completed"


async def test_a_session_that_breaks_leaves_no_gap(
    place: Place, app: hf.App, shop: Shop, seen: Seen, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    async def fail(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    async with place.open(app) as client:
        monkeypatch.setattr(worker_of(client), "check_replay", fail)
        run = await client.start(shop.chain.bind(1))
        await status_of(run, "blocked")
        await told_all(seen, run)
    assert [each.kind for each in seen.events] == ["run.started", "step.completed", "run.blocked"]
    caplog.clear()  # it was meant to


def test_an_observer_that_sleeps_delays_no_run(app: hf.App, shop: Shop) -> None:
    class Sleeps(Seen):
        async def on_event(self, event: hf.ObservedEvent) -> None:
            await asyncio.sleep(5)
            await super().on_event(event)

    async def story(client: hf.Client) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        runs = [await client.start(shop.chain.bind(n)) for n in range(10)]
        for run in runs:
            await run.result()
        took = loop.time() - began
        assert len(sleeps.events) < 2
        await asyncio.sleep(4 * 10 * 5 + 1)
        return took

    sleeps = Sleeps()
    app.observe(sleeps)
    assert virtual.run(app, story) < 0.1
    assert len(sleeps.events) == 4 * 10


async def test_an_observer_that_fails_beside_its_events_fails_nothing(
    place: Place, app: hf.App, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    class Fails(Seen):
        def enter_step(self, *of: object) -> None:
            raise KeyError(of)

        def carry(self) -> dict[str, str]:
            raise KeyError

    fails = Fails()
    app.observe(hf.MultiObserver(fails), Fails())
    async with place.open(app) as client:
        run = await client.start(shop.chain.bind(1))
        assert await within(run.result()) == 100
        await told_all(fails, run)
    told = [record.getMessage() for record in caplog.records if record.exc_info]
    assert told == [
        "observer Fails sent nothing along",
        "observer Fails sent nothing along",
        "observer MultiObserver failed to enter a step; it is not asked again",
        "observer Fails failed to enter a step; it is not asked again",
    ]


# --- streams


async def test_a_stream_gives_what_is_committed_until_the_worker_stops(
    place: Place, app: hf.App, shop: Shop
) -> None:
    streaming = hf.StreamingObserver(2)
    app.observe(hf.MultiObserver(streaming))
    async with place.open(app) as client:
        stream = streaming.events()
        run = await client.start(shop.chain.bind(1))
        await within(run.result())  # nobody reads, and the run ends all the same
        got = [await within(anext(stream)) for _ in range(4)]
    got += [each async for each in stream]
    wanted = ["run.started", "step.completed", "step.completed", "run.completed"]
    assert [each.kind for each in got] == wanted


async def test_a_stream_of_a_run_goes_on_after_the_last_seq_and_ends_with_the_run(
    place: Place, app: hf.App, shop: Shop
) -> None:
    streaming = hf.StreamingObserver()
    app.observe(streaming)
    async with place.open(app) as client:
        run = await client.start(shop.waiter.bind())
        stream = streaming.events(run.id)
        first = await within(anext(stream))
        await stream.aclose()  # type: ignore[attr-defined]
        rest = streaming.events(run.id, after=first.seq)
        second = await within(anext(rest))
        await run.signal(shop.go, 1)
        last = await within(anext(rest)), await within(anext(rest))
        with pytest.raises(StopAsyncIteration):
            await within(anext(rest))
        with pytest.raises(hf.RunNotFound):
            await within(anext(streaming.events("nobody")))
    kinds = [each.kind for each in (first, second, *last)]
    assert kinds == ["run.started", "step.completed", "signal.received", "run.completed"]
    assert [each.seq for each in (first, second, *last)] == [1, 2, 3, 4]


async def test_a_stream_knows_which_attempt_has_completed(
    place: Place, app: hf.App, shop: Shop
) -> None:
    streaming = hf.StreamingObserver()
    seen = Seen()
    app.observe(streaming, seen)
    async with place.open(app) as client:
        run = await client.start(shop.chain.bind(13))
        await within(run.result())
        await told_all(seen, run)
        whole = [each.attempt async for each in streaming.events(run.id)]
        rest = [each.attempt async for each in streaming.events(run.id, after=2)]
    assert whole == [0, 1, 2, 1, 0]
    assert rest == whole[2:]
    assert [each.attempt for each in seen.events] == whole


async def test_a_stream_that_is_left_holds_up_nobody(place: Place, app: hf.App, shop: Shop) -> None:
    streaming = hf.StreamingObserver(1)
    app.observe(streaming)
    async with place.open(app) as client:
        left, kept = streaming.events(), streaming.events()
        run = await client.start(shop.chain.bind(1))
        await within(anext(left))
        await left.aclose()  # type: ignore[attr-defined]
        got = [await within(anext(kept)) for _ in range(4)]
        await within(run.result())
    assert got[-1].closes


# --- logs


async def test_events_are_logged_without_payloads_and_messages(
    place: Place, app: hf.App, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app.observe(hf.LoggingObserver(), hf.LoggingObserver("shop.events", messages=True))
    with caplog.at_level(logging.INFO):
        async with place.open(app) as client:
            run = await client.start(shop.chain.bind(13))
            await within(run.result())
    records = [each for each in caplog.records if each.name == "holdfast.events"]
    assert [vars(each)["event"] for each in records][-1] == "run.completed"
    retrying = records[1]
    assert retrying.levelname == "WARNING"
    fields = vars(retrying)
    assert (fields["attempt"], fields["error"], fields["seq"]) == (1, "ConnectionError", 2)
    assert "secret text" not in "".join(each.getMessage() for each in records)
    told = [each.getMessage() for each in caplog.records if each.name == "shop.events"]
    assert "error=ConnectionError: secret text" in told[1]


# --- what is no observer


@pytest.mark.parametrize("given", [print, Seen, object(), None])
def test_what_is_no_observer_is_refused(app: hf.App, given: Any) -> None:
    with pytest.raises(hf.BadDefinition, match="is no observer"):
        app.observe(given)


def test_an_observer_that_would_block_is_refused(app: hf.App) -> None:
    class Blocks:
        def on_event(self, event: hf.ObservedEvent) -> None: ...

    with pytest.raises(hf.BadDefinition, match="on_event of Blocks is no async function"):
        app.observe(Blocks())  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, -1, True, "many"])
def test_a_stream_without_room_is_refused(size: Any) -> None:
    with pytest.raises(hf.BadDefinition, match="buffer_size is"):
        hf.StreamingObserver(size)
