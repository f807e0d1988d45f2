"""Steps that others complete, on every store: by token, once, with time-outs and retries."""

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.waits import token_of
from holdfast.testing import fake, virtual
from tests.engine.places import Place, kinds, status_of, until, within

QUICK = hf.Retry(max_attempts=3, initial=0.01, jitter=False)


class Jobs:
    """An outside service that is told a token for each job."""

    def __init__(self, app: hf.App, **options: Any) -> None:
        self.tokens: list[str] = []
        self.keys: list[str] = []
        self.hold: asyncio.Event | None = None

        @app.step(completes_later=True, retry=QUICK, **options)
        async def convert(n: int) -> int:
            self.tokens.append(hf.completion_token())
            self.keys.append(hf.idempotency_key())
            if self.hold is not None:
                await self.hold.wait()
            if n >= 0:
                hf.complete_later()
            return n

        @app.workflow
        async def flow(n: int) -> int:
            return await convert(n) + 1

        self.convert, self.flow = convert, flow


@pytest.fixture
def jobs(app: hf.App) -> Jobs:
    return Jobs(app)


async def test_the_outcome_comes_from_outside_while_the_run_waits_without_a_worker(
    place: Place, app: hf.App, jobs: Jobs
) -> None:
    async with place.open(app) as client:
        run = await client.start(jobs.flow.bind(1), id="r")
        row = await status_of(run, "waiting")
        assert (row.owner, row.reason) == (None, "somebody to complete convert#1")
        assert row.wake_at is None
        [token] = jobs.tokens
    async with place.open(app, worker=False) as client:
        assert await client.complete(token, 41, by="converter")
        assert not await client.complete(token, 41, by="converter"), "a repeat is harmless"
        with pytest.raises(hf.AnswerRefused, match="converter gave one at"):
            await client.complete(token, 42)
    async with place.open(app) as client:
        run = client.get("r", jobs.flow)
        assert await within(run.result()) == 42
        assert len(jobs.tokens) == 1, "its code ran once"
        assert await kinds(run) == [
            "run.started", "step.deferred", "step.completed", "run.completed",
        ]  # fmt: skip
        with pytest.raises(hf.AnswerRefused):
            await client.fail(token, "Late")


async def test_a_step_that_may_complete_later_may_as_well_return(
    place: Place, app: hf.App, jobs: Jobs
) -> None:
    async with place.open(app) as client:
        run = await client.start(jobs.flow.bind(-5), id="r")
        assert await within(run.result()) == -4
        with pytest.raises(hf.AnswerRefused, match="the run is completed at"):
            await client.complete(jobs.tokens[0], 1)


async def test_an_outcome_that_comes_before_the_code_has_ended_counts(
    place: Place, app: hf.App, jobs: Jobs
) -> None:
    jobs.hold = asyncio.Event()
    async with place.open(app) as client:
        run = await client.start(jobs.flow.bind(1), id="r")
        await until(lambda: bool(jobs.tokens))
        assert await client.complete(jobs.tokens[0], 1)
        assert await within(run.result()) == 2


async def test_what_does_not_fit_is_refused_at_the_door(
    place: Place, app: hf.App, jobs: Jobs
) -> None:
    async with place.open(app) as client:
        run = await client.start(jobs.flow.bind(1), id="r")
        await status_of(run, "waiting")
        with pytest.raises(hf.InvalidValue, match='result: "x" is not a whole number'):
            await client.complete(jobs.tokens[0], "x")
        for wrong in ("", "nonsense", "é", jobs.tokens[0][:-4], "W10"):
            with pytest.raises(hf.InvalidToken):
                await client.complete(wrong, 1)
        guessed = token_of(jobs.tokens[0])._replace(secret="guess").text()
        with pytest.raises(hf.AnswerRefused, match="another token"):
            await client.complete(guessed, 1)
        with pytest.raises(hf.RunNotFound):
            await client.complete(token_of(jobs.tokens[0])._replace(run="no").text(), 1)
        with pytest.raises(hf.AnswerRefused, match="does not know this token"):
            await client.complete(token_of(jobs.tokens[0])._replace(key="no#1").text(), 1)
        with pytest.raises(hf.InvalidToken):
            await client.complete(token_of(jobs.tokens[0])._replace(ns="other").text(), 1)
        with pytest.raises(hf.InvalidName):
            await client.fail(jobs.tokens[0], "no name")
        assert (await run.describe()).inbox_seq == 0
        await client.complete(jobs.tokens[0], 1)
        assert await within(run.result()) == 2


async def test_a_failure_is_tried_again_with_another_token(
    place: Place, app: hf.App, jobs: Jobs
) -> None:
    async with place.open(app) as client:
        run = await client.start(jobs.flow.bind(1), id="r")
        await until(lambda: len(jobs.tokens) == 1)
        assert await client.fail(jobs.tokens[0], "OutOfPaper", "tray 2")
        await until(lambda: len(jobs.tokens) == 2)
        assert jobs.keys[0] == jobs.keys[1]
        row = await status_of(run, "waiting")
        assert (row.wake_at, row.reason) == (None, "somebody to complete convert#1")
        with pytest.raises(hf.AnswerRefused, match="attempt 1 is over, and attempt 2 has another"):
            await client.complete(jobs.tokens[0], 1)
        assert await client.fail(jobs.tokens[1], "Broken", "for good", retry=False)
        with pytest.raises(hf.RunFailed, match="Broken: for good"):
            await within(run.result())
        told = [event.kind for event in (await run.history()).events if event.key == "convert#1"]
        assert [each for each in told if each != "step.deferred"] == [
            "step.retrying", "step.failed",
        ]  # fmt: skip


def test_the_time_limit_of_an_attempt_goes_on_counting(app: hf.App) -> None:
    jobs = Jobs(app, timeout=3_600, total_timeout=5_000)

    async def story(client: hf.Client) -> str:
        run = await client.start(jobs.flow.bind(1), id="r")
        async for event in run.events():
            if event.kind == "step.retrying":
                break
        with pytest.raises(hf.AnswerRefused, match="attempt 1 is over"):
            await client.complete(jobs.tokens[0], 1)
        with pytest.raises(hf.RunFailed) as caught:
            await run.result()
        assert client.engine.store.now() - (await run.describe()).created_at == 5_000_000_000
        return caught.value.message

    told = virtual.run(app, story)
    assert told.startswith("Step convert#1 failed after 2 attempts: StepTimedOut: nobody completed")


def test_a_year_of_waiting_for_an_outcome_takes_no_time(app: hf.App) -> None:
    jobs = Jobs(app)

    async def story(client: hf.Client) -> int:
        run = await client.start(jobs.flow.bind(1), id="r")
        await asyncio.sleep(365 * 86_400)
        await client.complete(jobs.tokens[0], 1)
        return await run.result()

    assert virtual.run(app, story) == 2


async def test_a_worker_that_dies_before_the_code_has_ended_leaves_the_token_valid(
    place: Place, app: hf.App, jobs: Jobs
) -> None:
    jobs.hold = asyncio.Event()
    async with place.open(app) as client:
        await client.start(jobs.flow.bind(1), id="r")
        await until(lambda: len(jobs.tokens) == 1)
    jobs.hold = None
    async with place.open(app) as client:
        run = client.get("r", jobs.flow)
        await until(lambda: len(jobs.tokens) == 2)
        assert jobs.tokens[0] == jobs.tokens[1]
        assert jobs.keys[0] == jobs.keys[1]
        await client.complete(jobs.tokens[0], 1)
        assert await within(run.result()) == 2


async def test_an_outcome_that_nobody_waits_for_is_refused(
    place: Place, app: hf.App, jobs: Jobs
) -> None:
    enough = hf.Signal("enough", int)

    @app.workflow
    async def impatient() -> int:
        converting = asyncio.create_task(jobs.convert(1))
        await hf.wait_for(enough)
        converting.cancel()
        return await jobs.convert(2)

    async with place.open(app) as client:
        run = await client.start(impatient.bind(), id="r")
        await until(lambda: len(jobs.tokens) == 1)
        await run.signal(enough, 1)
        await until(lambda: len(jobs.tokens) == 2)
        with pytest.raises(hf.AnswerRefused, match="no longer waits for it"):
            await client.complete(jobs.tokens[0], 1)
        await client.complete(jobs.tokens[1], 2)
        assert await within(run.result()) == 2


async def test_a_retried_run_gives_out_another_token(place: Place, app: hf.App, jobs: Jobs) -> None:
    async with place.open(app) as client:
        run = await client.start(jobs.flow.bind(1), id="r")
        await until(lambda: len(jobs.tokens) == 1)
        await client.fail(jobs.tokens[0], "Broken", retry=False)
        await status_of(run, "failed")
        await run.retry()
        await until(lambda: len(jobs.tokens) == 2)
        with pytest.raises(hf.AnswerRefused, match="reopened since"):
            await client.complete(jobs.tokens[0], 1)
        await client.complete(jobs.tokens[1], 1)
        assert await within(run.result()) == 2


async def test_a_plain_function_may_complete_later_too(place: Place, app: hf.App) -> None:
    urls: list[str] = []

    @app.step(completes_later=True)
    def convert(n: int) -> str:
        urls.append(hf.callback_url())
        hf.complete_later()

    @app.workflow
    async def flow() -> str:
        return await convert(1)

    async with place.open(app, callbacks="https://shop.example/hf/") as client:
        run = await client.start(flow.bind(), id="r")
        await status_of(run, "waiting")
        base, _, token = urls[0].partition("/complete/")
        assert base == "https://shop.example/hf"
        await client.complete(token, "done")
        assert await within(run.result()) == "done"


async def test_what_is_missing_is_named(place: Place, app: hf.App) -> None:
    @app.step(retry=hf.Retry(max_attempts=1))
    async def plain() -> int:
        hf.complete_later()

    @app.step(retry=hf.Retry(max_attempts=1), completes_later=True)
    async def nowhere() -> str:
        return hf.callback_url()

    @app.workflow
    async def flow(which: str) -> None:
        await (plain() if which == "plain" else nowhere())

    async with place.open(app) as client:
        for which, told in (("plain", "completes_later=True"), ("nowhere", "callbacks=")):
            with pytest.raises(hf.RunFailed, match=told):
                await within((await client.start(flow.bind(which))).result())
    with pytest.raises(hf.NotInStep):
        hf.completion_token()
    with pytest.raises(hf.NotInStep):
        hf.complete_later()


async def test_a_fake_stands_for_a_step_that_completes_later(
    place: Place, app: hf.App, jobs: Jobs
) -> None:
    with fake(jobs.convert, returns=7):
        async with place.open(app) as client:
            assert await within((await client.start(jobs.flow.bind(1))).result()) == 8


async def test_a_paused_run_takes_an_outcome_when_it_goes_on(
    place: Place, app: hf.App, jobs: Jobs
) -> None:
    async with place.open(app) as client:
        run = await client.start(jobs.flow.bind(1), id="r")
        await status_of(run, "waiting")
        await run.pause()
        await status_of(run, "paused")
        await client.complete(jobs.tokens[0], 1)
        await run.resume()
        assert await within(run.result()) == 2
        assert len(jobs.tokens) == 1
