"""Logs: of steps with their attempt, of bodies once, whatever is replayed."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.annotations import MAX_LINE, MAX_LINES
from tests.engine.places import PATIENCE, Place, kinds, until, within, worker_of

AT_ONCE = hf.Retry(max_attempts=3, initial=0.001)
go = hf.Signal("go", int)
shop = logging.getLogger("tests.shop")


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    shop.setLevel(logging.DEBUG)
    yield
    shop.setLevel(logging.NOTSET)


async def lines_of(run: hf.RunHandle[Any], **wanted: Any) -> list[hf.LogLine]:
    return [line async for line in run.logs(**wanted)]


async def said(run: hf.RunHandle[Any], **wanted: Any) -> list[str]:
    return [line.message for line in await lines_of(run, **wanted)]


async def test_a_line_is_kept_with_its_step_and_attempt(place: Place, app: hf.App) -> None:
    @app.step(retry=AT_ONCE)
    async def charge(cents: int) -> None:
        hf.log.info("charging %d", cents, extra={"customer": "ada", "odd": object})
        if hf.attempt() == 1:
            try:
                raise ConnectionError("no bank")
            except ConnectionError:
                hf.log.warning("later", exc_info=True)
                raise

    @app.workflow
    async def flow() -> None:
        await charge(42)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.result())
        first, failed, second = await lines_of(run)
        assert (first.key, first.attempt, first.generation) == ("charge#1", 1, 1)
        assert (first.level, first.logger, first.message) == (20, "holdfast.log", "charging 42")
        assert b'"customer": "ada"' in (first.fields or b"")
        assert failed.message.startswith("later\nTraceback")
        assert failed.message.endswith("ConnectionError: no bank")
        assert (second.attempt, second.message) == (2, "charging 42")
        assert first.at < failed.at < second.at
        assert await said(run, attempt=2) == await said(run, after=failed.at) == ["charging 42"]
        assert await said(run, step="charge") == await said(run)
        assert await said(run, step="other") == []


async def test_logging_costs_no_event(place: Place, app: hf.App) -> None:
    @app.step
    async def work() -> None:
        for n in range(50):
            hf.log.info("%d", n)

    @app.workflow
    async def flow() -> None:
        hf.log.info("body")
        await work()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.result())
        assert await kinds(run) == ["run.started", "step.completed", "run.completed"]
        assert await said(run) == ["body", *map(str, range(50))]


async def test_lines_of_a_running_step_are_seen(place: Place, app: hf.App) -> None:
    done = asyncio.Event()

    @app.step
    async def work() -> None:
        hf.log.info("begun")
        await done.wait()
        hf.log.info("done")

    @app.workflow
    async def flow() -> None:
        await work()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        told: list[str] = []
        async with asyncio.timeout(PATIENCE):
            async for line in run.logs(follow=True):
                told.append(line.message)
                done.set()
        assert told == ["begun", "done"]


async def test_a_body_logs_once_however_often_it_is_replayed(place: Place, app: hf.App) -> None:
    @app.step
    async def work(n: int) -> int:
        return n

    @app.workflow
    async def flow() -> None:
        hf.log.info("begin")
        for n in range(3):
            await work(n)
            hf.log.info("after %d at %s", n, hf.now().year)
        await hf.wait_for(go)
        hf.log.info("end")

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await until_waiting(run)
    async with place.open(app) as client:
        run = client.get("r", flow)
        await run.signal(go, 1)
        await within(run.result())
        year = (await lines_of(run))[1].message[-4:]
        bodies = [(line.key, line.attempt, line.message) for line in await lines_of(run)]
    expected = ["begin", *(f"after {n} at {year}" for n in range(3)), "end"]
    assert bodies == [("", 0, message) for message in expected]


async def until_waiting(run: hf.RunHandle[Any]) -> None:
    async def waits() -> bool:
        return (await run.describe()).status == "waiting"

    await until(waits)


async def test_a_replay_is_silent_on_the_console_too(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.workflow
    async def flow() -> None:
        hf.log.info("begin")
        await hf.wait_for(go)
        hf.log.info("middle")
        await hf.wait_for(go)

    async with place.open(app, paranoid=False) as client:
        run = await client.start(flow.bind(), id="r")
        await run.signal(go, 1)
        await until_waiting(run)
    async with place.open(app, paranoid=False) as client:
        await client.get("r").signal(go, 2)
        await within(client.get("r", flow).result())
    told = [record.getMessage() for record in caplog.records if record.name == "holdfast.log"]
    assert told == ["begin", "middle"]


async def test_what_a_body_says_before_its_first_commit_is_kept(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        hf.log.info("one")
        hf.log.info("two")
        await hf.wait_for(go)

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await until_waiting(run)
        assert await said(run) == ["one", "two"]
    async with place.open(app) as client:
        await client.get("r").signal(go, 1)
        await within(client.get("r", flow).result())
        assert await said(client.get("r")) == ["one", "two"]


async def test_an_app_may_name_loggers_of_its_own(place: Place) -> None:
    app = hf.App("engine-tests", logs=["tests.shop", "", "tests.shop.till"])

    @app.step
    def work() -> None:
        shop.debug("from a thread")
        logging.getLogger("tests.shop.till").info("from a child")
        hf.log.info("ours")

    @app.workflow
    async def flow() -> None:
        shop.info("from a body")
        await work()

    shop.info("before any step")
    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.result())
        told = [(line.logger, line.message) for line in await lines_of(run)]
    assert told == [
        ("tests.shop", "from a body"),
        ("tests.shop", "from a thread"),
        ("tests.shop.till", "from a child"),
        ("holdfast.log", "ours"),
    ]
    assert all(not logging.getLogger(name).handlers for name in app.logs if name)


async def test_other_loggers_are_left_alone(place: Place, app: hf.App) -> None:
    @app.step
    async def work() -> None:
        shop.info("private")

    @app.workflow
    async def flow() -> None:
        await work()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.result())
        assert await said(run) == []
        assert not any(session.notebook for session in worker_of(client).sessions.values())


async def test_a_chatty_attempt_is_cut_and_says_so(place: Place, app: hf.App) -> None:
    @app.step(retry=AT_ONCE)
    def chatty() -> None:
        for n in range(MAX_LINES + 250):
            hf.log.info("%d", n)
        if hf.attempt() == 1:
            raise ConnectionError

    @app.workflow
    async def flow() -> None:
        await chatty()
        for n in range(MAX_LINES + 3):
            hf.log.info("%d", n)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.result())
        for attempt in (1, 2):
            told = await lines_of(run, attempt=attempt)
            assert len(told) == MAX_LINES + 1
            assert told[-1].message == "250 more lines were left out: an attempt keeps 1,000"
            assert told[-1].key == "chatty#1"
        body = [line.message for line in await lines_of(run) if not line.key]
        assert body[-1] == "3 more lines were left out: a turn keeps 1,000"
        assert len(body) == MAX_LINES + 1


async def test_no_record_can_hurt_a_step(
    place: Place, app: hf.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    monkeypatch.setattr(hf.log, "propagate", False)

    @app.step
    async def work() -> int:
        hf.log.info("x" * (MAX_LINE + 5))
        hf.log.info("a\0b \ud800")
        hf.log.info("%d", "no number")
        hf.log.info("wide", extra={"it": "x" * MAX_LINE})
        hf.log.log(10**30, "grave")
        return 1

    @app.workflow
    async def flow() -> int:
        return await work()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == 1
        long, odd, wide, grave = await lines_of(run)
        assert long.message.endswith("x… and 5 characters more")
        assert odd.message == "a\\0b \\ud800"
        assert (wide.message, wide.fields) == ("wide", None)
        assert (grave.message, grave.level) == ("grave", 1_000)


async def test_a_body_that_is_taken_apart_says_nothing(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.workflow
    async def flow() -> None:
        try:
            await hf.wait_for(go)
        finally:
            hf.log.info("clean-up")

    async with place.open(app, machines=0) as client:
        run = await client.start(flow.bind())
        await until_waiting(run)
        assert await said(run) == []
    assert "clean-up" not in caplog.text


async def test_a_run_that_is_not_there_has_no_log(place: Place, app: hf.App) -> None:
    async with place.open(app) as client:
        with pytest.raises(hf.RunNotFound):
            await lines_of(client.get("nobody"))
        with pytest.raises(hf.RunNotFound):
            await client.get("nobody").progress()


def test_loggers_are_given_by_name() -> None:
    wrong: Any
    for wrong in ("shop", [shop]):
        with pytest.raises(hf.BadDefinition, match="is no list of logger names"):
            hf.App("x", logs=wrong)


async def test_a_plain_step_has_no_notebook(place: Place, app: hf.App) -> None:
    @app.step
    async def work() -> None:
        seen.extend(session.notebook for session in worker_of(client).sessions.values())

    @app.workflow
    async def flow() -> None:
        await work()
        await work()

    seen: list[Any] = []
    async with place.open(app) as client:
        await within((await client.start(flow.bind())).result())
    assert seen == [None, None]
