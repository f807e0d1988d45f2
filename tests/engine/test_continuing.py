"""Continue-as-new: a run begins again with other input, and nothing is lost on the way."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.run import SINCE_START
from holdfast.testing import replay
from tests.engine.places import Place, history_when, kinds, status_of, until, within

add = hf.Signal("add", int)
other = hf.Signal("other", str)


class Counter:
    """A workflow that adds up signals, and continues after every second one."""

    def __init__(self, app: hf.App, every: int = 2) -> None:
        self.keys: list[str] = []

        @app.step
        async def note(n: int) -> int:
            self.keys.append(hf.idempotency_key())
            return n

        @app.workflow
        async def counter(total: int, until: int) -> int:
            for _ in range(every):
                total += await note(await hf.wait_for(add))
                if total >= until:
                    return total
            return hf.continue_as_new(counter.bind(total, until))

        self.flow = counter


async def test_a_run_continues_in_its_next_generation_under_its_id(
    place: Place, app: hf.App
) -> None:
    counter = Counter(app)
    async with place.open(app) as client:
        run = await client.start(counter.flow.bind(0, 15), id="c")
        for n in range(1, 6):
            await run.signal(add, n)
        assert await within(run.result()) == 15
        row, loaded = await run.describe(), await run.history()
        again = await client.start(counter.flow.bind(0, 15), id="c")
        assert again.id == "c"
    assert (row.status, row.generation, row.inbox_seq, row.inbox_read) == ("completed", 3, 5, 5)
    starts = [event for event in loaded.events if event.kind == "run.continued"]
    assert [(event.payload, event.generation) for event in starts] == [
        (b'{"total":3,"until":15}', 2),
        (b'{"total":10,"until":15}', 3),
    ]
    assert counter.keys == [f"default/c/{g}/note#{n}" for g, n in
                            [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]]  # fmt: skip
    assert replay(counter.flow, loaded).result == 15


async def test_what_came_before_is_neither_read_nor_replayed(place: Place, app: hf.App) -> None:
    counter = Counter(app)
    async with place.open(app) as client:
        run = await client.start(counter.flow.bind(0, 100), id="c")
        for n in range(5):
            await run.signal(add, n)
        await history_when(run, lambda loaded: loaded.run.generation == 3)
        await status_of(run, "waiting")
        replayed = await client.engine.store.load("default", "c", SINCE_START)
        whole = await run.history()
    assert replayed is not None
    assert replayed.events == whole.events[-len(replayed.events) :]
    assert replayed.events[0].kind == "run.continued"
    assert len(replayed.events) == 3 < len(whole.events)
    # Another process goes on from there, and needs nothing else.
    async with place.open(app) as client:
        run = client.get("c", counter.flow)
        await run.signal(add, 100)
        assert await within(run.result()) == 110


async def test_signals_that_nobody_took_go_over_in_their_order(place: Place, app: hf.App) -> None:
    taken: list[str] = []

    @app.workflow
    async def picky(turn: int) -> list[str]:
        await hf.wait_for(add)
        if turn < 2:
            return hf.continue_as_new(picky.bind(turn + 1))
        return [await hf.wait_for(other) for _ in range(3)]

    async with place.open(app, worker=False) as client:
        run = await client.start(picky.bind(0), id="p")
        for text in ("a", "b"):
            await run.signal(other, text, id=text)
        await run.signal(add, 1, id="go")
        await run.signal(other, "c", id="c")
        for n in (2, 3):
            await run.signal(add, n)
    async with place.open(app) as client:
        run = client.get("p", picky)
        assert await within(run.result()) == ["a", "b", "c"]
        assert not await _is_new(run, "a")
        loaded = await run.history()
    received = [event for event in loaded.events if event.kind == "signal.received"]
    assert [event.key for event in received if event.key.startswith("other")] == [
        "other/a", "other/b", "other/c",
    ]  # fmt: skip
    assert taken == []


async def _is_new(run: hf.RunHandle[Any], id: str) -> bool:
    try:
        return await run.signal(other, "again", id=id)
    except hf.RunClosed:
        return False


async def test_a_message_is_known_by_its_id_across_generations(place: Place, app: hf.App) -> None:
    counter = Counter(app, every=1)
    async with place.open(app) as client:
        run = await client.start(counter.flow.bind(0, 10), id="c")
        assert await run.signal(add, 5, id="five")
        await history_when(run, lambda loaded: loaded.run.generation == 2)
        assert not await run.signal(add, 5, id="five")
        assert await run.signal(add, 6, id="six")
        assert await within(run.result()) == 11


async def test_steps_under_way_are_stopped_and_tasks_are_named(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    begun, ended = list[str](), list[str]()

    @app.step
    async def slow(text: str) -> str:
        begun.append(text)
        if text == "first":
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(text)
        return text

    @app.workflow
    async def leaves(text: str) -> str:
        if text == "second":
            return await slow(text)
        task = asyncio.ensure_future(slow(text))
        await hf.wait_for(add)
        assert not task.done()
        return hf.continue_as_new(leaves.bind("second"))

    with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
        async with place.open(app) as client:
            run = await client.start(leaves.bind("first"), id="l")
            await until(lambda: begun == ["first"])
            await run.signal(add, 1)
            # The key is the same, and what the former step would give is not taken for it.
            assert await within(run.result()) == "second"
            await until(lambda: ended == ["first"])
    told = [record.getMessage() for record in caplog.records]
    assert any("was unfinished" in each for each in told), told


async def test_a_cancelled_run_ends_instead(place: Place, app: hf.App) -> None:
    @app.workflow
    async def stubborn(turn: int) -> None:
        try:
            await hf.wait_for(add)
        except asyncio.CancelledError:
            hf.continue_as_new(stubborn.bind(turn + 1))

    async with place.open(app) as client:
        run = await client.start(stubborn.bind(1), id="s")
        await status_of(run, "waiting")
        await run.cancel()
        with pytest.raises(hf.RunCancelled):
            await within(run.result())
        assert (await run.describe()).generation == 1


async def test_the_time_of_a_run_goes_on_counting(place: Place, app: hf.App) -> None:
    @app.workflow(timeout=timedelta(milliseconds=300))
    async def endless(turn: int) -> None:
        await hf.sleep(0.05)
        hf.continue_as_new(endless.bind(turn + 1))

    async with place.open(app) as client:
        run = await client.start(endless.bind(1), id="e")
        with pytest.raises(hf.RunTimedOut):
            await within(run.result())
        row = await run.describe()
    assert row.generation > 1
    assert row.deadline == row.created_at + 300_000


async def test_a_pause_holds_on(place: Place, app: hf.App) -> None:
    begun, release = list[int](), asyncio.Event()

    @app.step
    async def slow(n: int) -> int:
        begun.append(n)
        if n == 1:
            await release.wait()
        return n

    @app.workflow
    async def goes_on(n: int) -> int:
        await slow(n)
        if n == 2:
            return n
        return hf.continue_as_new(goes_on.bind(n + 1))

    async with place.open(app) as client:
        run = await client.start(goes_on.bind(1), id="g")
        await until(lambda: begun == [1])
        await run.pause()
        await history_when(run, lambda loaded: _has(loaded.events, "run.paused"))
        release.set()
        row = await status_of(run, "paused")
        assert (row.generation, begun) == (2, [1])
        await run.resume()
        assert await within(run.result()) == 2


def _has(events: Sequence[hf.Event], kind: str) -> bool:
    return any(event.kind == kind for event in events)


async def test_a_failed_generation_is_retried_and_the_former_ones_are_left_alone(
    place: Place, app: hf.App
) -> None:
    broken = [True]

    @app.step(retry=hf.Retry(max_attempts=1))
    async def charge(n: int) -> int:
        if n == 1 or (n == 2 and broken[0]):
            raise ValueError(f"no {n}")
        return n

    @app.workflow
    async def shop(n: int) -> int:
        if n == 1:
            with pytest.raises(hf.StepFailed):
                await charge(n)
            return hf.continue_as_new(shop.bind(2))
        return await charge(n)

    async with place.open(app) as client:
        run = await client.start(shop.bind(1), id="s")
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        broken.clear()
        broken.append(False)
        await run.retry()
        assert await within(run.result()) == 2
        assert (await run.describe()).generation == 3
        # The failure that the first generation caught is still in its history.
        assert (await kinds(run)) == [
            "run.started", "step.failed", "run.continued", "run.reopened", "step.completed",
            "run.completed",
        ]  # fmt: skip


async def test_a_new_generation_takes_up_changes_of_the_code(place: Place, app: hf.App) -> None:
    @app.workflow
    async def former(n: int) -> int:
        await hf.wait_for(add)
        if n < 1:
            return hf.continue_as_new(former.bind(n + 1))
        return n

    later = hf.App(app.name)

    @later.workflow(name="former")
    async def changed(n: int) -> int:
        is_new = hf.patched("faster")
        await hf.wait_for(add)
        if n < 1:
            return hf.continue_as_new(changed.bind(n + 1))
        return 100 if is_new else n

    async with place.open(app) as client:
        run = await client.start(former.bind(0), id="r")
        await status_of(run, "waiting")
    async with place.open(later) as client:
        run = client.get("r", changed)
        await run.signal(add, 1)
        await run.signal(add, 2)
        assert await within(run.result()) == 100


async def test_chance_differs_from_one_generation_to_the_next(place: Place, app: hf.App) -> None:
    @app.workflow
    async def drawing(drawn: list[str]) -> list[str]:
        drawn.append(hf.uuid().hex)
        await hf.sleep(0.001)
        if len(drawn) < 3:
            return hf.continue_as_new(drawing.bind(drawn))
        return drawn

    async with place.open(app) as client:
        run = await client.start(drawing.bind([]))
        assert len(set(await within(run.result()))) == 3


async def test_the_limit_of_a_history_counts_one_generation(place: Place, app: hf.App) -> None:
    counter = Counter(app)
    async with place.open(app, history=8) as client:
        run = await client.start(counter.flow.bind(0, 20), id="c")
        for n in range(20):
            await run.signal(add, 1, id=str(n))
            await history_when(run, lambda loaded: not loaded.run.has_mail)
        assert await within(run.result()) == 20
        assert (await run.describe()).seq > 40


async def test_lines_of_a_first_turn_do_not_hide_those_of_the_turn_before(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def talks(n: int) -> None:
        hf.log.info("begin %d", n)
        await hf.sleep(0.001)
        for _ in range(3):
            hf.log.info("end %d", n)
        if n < 3:
            hf.continue_as_new(talks.bind(n + 1))

    async with place.open(app) as client:
        run = await client.start(talks.bind(1), id="t")
        await within(run.result())
        lines = [line.message async for line in run.logs()]
    assert lines == [text for n in (1, 2, 3) for text in (f"begin {n}", *[f"end {n}"] * 3)]


async def test_an_export_of_a_continued_run_goes_on_elsewhere(place: Place, app: hf.App) -> None:
    counter = Counter(app)
    async with place.open(app) as client:
        run = await client.start(counter.flow.bind(0, 10), id="c")
        for n in (1, 2, 3):
            await run.signal(add, n)
        await history_when(run, lambda loaded: loaded.run.generation == 2)
        await status_of(run, "waiting")
        export = await client.engine.export("c")
        assert export is not None
        assert replay(counter.flow, export).signals == ("add",)


async def test_a_rerun_goes_back_within_its_generation(place: Place, app: hf.App) -> None:
    counter = Counter(app)
    async with place.open(app) as client:
        run = await client.start(counter.flow.bind(0, 10), id="c")
        for n in (1, 2, 3, 4):
            await run.signal(add, n)
        assert await within(run.result()) == 10
        await run.rerun("note#1")  # of the second generation; its signals come again
        assert await within(run.result()) == 10
        await run.rerun()
        assert await within(run.result()) == 10
        row = await run.describe()
    assert row.generation == 4
    assert [key.split("/", 2)[2] for key in counter.keys] == [
        "1/note#1", "1/note#2", "2/note#1", "2/note#2", "3/note#1", "3/note#2", "4/note#1",
        "4/note#2",
    ]  # fmt: skip
