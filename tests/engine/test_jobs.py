"""Steps that are done as jobs, on every store: by whoever serves their queue, fenced, once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.jobs import ClaimedJobs, Job, JobClaim, JobFilter
from holdfast.testing import crashtest
from tests.engine.places import Place, kinds, status_of, until, within, worker_of

QUICK = hf.Retry(max_attempts=3, initial=0.01, jitter=False)


class Studio:
    """A step that is done on queue gpu, as the test says."""

    def __init__(self, app: hf.App, **options: Any) -> None:
        self.does: Callable[[int], Any] = lambda n: n * 10
        self.hold: asyncio.Event | None = None
        self.began: list[int] = []
        self.keys: list[str] = []
        self.cancelled: list[int] = []

        @app.step(queue="gpu", **{"retry": QUICK, **options})
        async def render(n: int) -> int:
            self.began.append(n)
            self.keys.append(hf.idempotency_key())
            try:
                if self.hold is not None:
                    await self.hold.wait()
            except asyncio.CancelledError:
                self.cancelled.append(n)
                raise
            result: int = self.does(n)
            return result

        @app.workflow
        async def flow(n: int) -> int:
            return await render(n) + 1

        self.render, self.flow = render, flow


@pytest.fixture
def studio(app: hf.App) -> Studio:
    return Studio(app)


async def jobs_of(client: hf.Client) -> list[Job]:
    found: list[Job] = await client.engine.store.jobs.find(JobFilter("default"))
    return found


async def test_a_step_with_a_queue_is_done_by_a_worker_that_serves_it(
    place: Place, app: hf.App, studio: Studio
) -> None:
    async with place.open(app, queues=["default"]) as client:
        run = await client.start(studio.flow.bind(1), id="r")
        row = await status_of(run, "waiting")
        assert (row.owner, row.reason) == (None, "job render#1 on queue gpu")
        [job] = await jobs_of(client)
        assert (job.queue, job.priority, job.attempt, job.owner) == ("gpu", 3, 1, None)
        async with place.open(app, queues=["gpu"]):
            assert await within(run.result()) == 11
        assert await kinds(run) == ["run.started", "step.completed", "run.completed"]
        assert await jobs_of(client) == []
        assert studio.keys == ["default/r/1/render#1"]


async def test_a_worker_keeps_its_lease_from_before_its_first_job(
    place: Place, app: hf.App, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.hosts.worker.worker.SETTLED", 3_600)
    async with place.open(app, queues=["default"]) as client:
        run = await client.start(studio.flow.bind(4))
        async with place.open(app, queues=["gpu"]) as other:
            began: list[bool] = []

            def does(n: int) -> int:
                began.append(worker_of(other)._is_alive)
                return n

            studio.does = does
            assert await within(run.result()) == 5
    assert began == [True]


async def test_a_run_says_which_jobs_it_waits_for(
    place: Place, app: hf.App, studio: Studio
) -> None:
    @app.step
    async def first() -> int:
        return 2

    @app.workflow
    async def later() -> list[int]:
        return [*await asyncio.gather(*(studio.render(n) for n in range(await first())))]

    async with place.open(app, queues=["default"]) as client:
        run = await client.start(later.bind())
        row = await status_of(run, "waiting")
        assert row.reason == "job render#1 on queue gpu; job render#2 on queue gpu"


async def test_a_worker_without_queues_does_jobs_of_all_of_them(
    place: Place, app: hf.App, studio: Studio
) -> None:
    async with place.open(app) as client:
        run = await client.start(studio.flow.bind(2))
        assert await within(run.result()) == 21


async def test_one_call_may_name_a_queue_or_do_without(place: Place, app: hf.App) -> None:
    @app.step
    async def work(name: str) -> str:
        return name

    @app.step(queue="gpu")
    def queued(name: str) -> str:
        return name

    @app.workflow
    async def flow() -> list[str]:
        return [await work.options(queue="cpu")("a"), await queued.options(queue=None)("b")]

    async with place.open(app, queues=["default", "cpu"]) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == ["a", "b"]


async def test_an_attempt_that_fails_is_a_new_job_after_its_wait(
    place: Place, app: hf.App, studio: Studio
) -> None:
    def flaky(n: int) -> int:
        if len(studio.began) < 3:
            raise ConnectionError("not yet")
        return n

    studio.does = flaky
    async with place.open(app) as client:
        run = await client.start(studio.flow.bind(7))
        assert await within(run.result()) == 8
        assert [kind for kind in await kinds(run) if kind.startswith("step")] == [
            "step.retrying", "step.retrying", "step.completed",
        ]  # fmt: skip
        assert len(set(studio.keys)) == 1, "the idempotency key is the same on every attempt"


class Broken(Exception):
    """An error of the user's own."""


@pytest.mark.parametrize(
    ("policy", "attempts"),
    [
        (hf.Retry(max_attempts=3, initial=0.01, give_up_on=(Broken,)), 1),
        (hf.Retry(max_attempts=3, initial=0.01, retry_on=(OSError,)), 1),
        (hf.Retry(max_attempts=3, initial=0.01, retry_on=(Broken,)), 3),
    ],
)
async def test_a_policy_knows_the_error_of_another_worker(
    place: Place, app: hf.App, policy: hf.Retry, attempts: int
) -> None:
    @app.step(queue="gpu", retry=policy)
    async def breaks() -> None:
        raise Broken("in pieces")

    @app.workflow
    async def flow() -> str:
        try:
            await breaks()
        except hf.StepFailed as error:
            return f"{error.type}: {error.message}, {error.attempts}"
        return ""

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == f"Broken: in pieces, {attempts}"


async def test_declared_errors_cross_as_themselves(place: Place, app: hf.App) -> None:
    class Declined(Exception):
        def __init__(self, code: int) -> None:
            super().__init__(code)
            self.code = code

    @app.step(queue="gpu", raises=[Declined], retry=hf.Retry(max_attempts=1))
    def charge() -> None:
        raise Declined(51)

    @app.workflow
    async def flow() -> int:
        try:
            await charge()
        except Declined as error:
            return error.code
        return 0

    async with place.open(app) as client:
        assert await within((await client.start(flow.bind())).result()) == 51


async def test_a_job_that_its_run_gives_up_is_cancelled(
    place: Place, app: hf.App, studio: Studio
) -> None:
    studio.hold = asyncio.Event()

    @app.workflow
    async def impatient() -> str:
        try:
            async with asyncio.timeout(2):
                await studio.render(1)
        except TimeoutError:
            return "gave up"
        return "done"

    async with place.open(app) as client:
        run = await client.start(impatient.bind())
        assert await within(run.result()) == "gave up"
        await until(lambda: studio.cancelled == [1])
        assert await jobs_of(client) == []
        assert worker_of(client).refusals == 0, "a ghost hands nothing in"


async def test_a_cancel_reaches_the_worker_that_does_the_job(
    place: Place, app: hf.App, studio: Studio
) -> None:
    studio.hold = asyncio.Event()
    async with place.open(app, queues=["default"]) as client, place.open(app, queues=["gpu"]):
        run = await client.start(studio.flow.bind(1))
        await until(lambda: studio.began == [1])
        await run.cancel()
        await status_of(run, "cancelled")
        await until(lambda: studio.cancelled == [1])
        assert await jobs_of(client) == []


async def test_a_terminated_run_takes_its_jobs_with_it(
    place: Place, app: hf.App, studio: Studio
) -> None:
    studio.hold = asyncio.Event()
    async with place.open(app) as client:
        run = await client.start(studio.flow.bind(1))
        await until(lambda: studio.began == [1])
        await run.terminate()
        await until(lambda: studio.cancelled == [1])
        assert await jobs_of(client) == []


async def test_a_job_is_given_back_when_its_worker_leaves(
    place: Place, app: hf.App, studio: Studio
) -> None:
    studio.hold = asyncio.Event()
    async with place.open(app, queues=["default"]) as client:
        async with place.open(app, queues=["gpu"], drain=0.01):
            run = await client.start(studio.flow.bind(1))
            await until(lambda: studio.began == [1])
        [job] = await jobs_of(client)
        assert (job.owner, job.strikes) == (None, 0)
        studio.hold.set()
        async with place.open(app, queues=["gpu"]):
            assert await within(run.result()) == 11
    assert studio.began == [1, 1]


async def test_a_job_that_ends_during_a_look_is_not_begun_again(
    place: Place, app: hf.App, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio.hold = asyncio.Event()
    async with place.open(app) as client:
        worker = worker_of(client)
        claim, seen, ended = worker.store.jobs.claim, asyncio.Event(), asyncio.Event()

        async def slowly(wanted: JobClaim) -> ClaimedJobs:
            found = await claim(wanted)
            if found.held and not found.jobs:
                seen.set()
                await ended.wait()
            return found

        monkeypatch.setattr(worker.store.jobs, "claim", slowly)
        run = await client.start(studio.flow.bind(1))
        await until(lambda: studio.began == [1])
        worker.jobs.poke()
        await within(seen.wait())
        studio.hold.set()
        assert await within(run.result()) == 11
        ended.set()
        await asyncio.sleep(0)  # the look goes on
    assert studio.began == [1]


async def test_a_job_goes_on_from_its_last_heartbeat(place: Place, app: hf.App) -> None:
    seen = list[int | None]()
    hold = asyncio.Event()

    @app.step(queue="gpu")
    async def long() -> int:
        seen.append(hf.last_heartbeat(int))
        hf.heartbeat(7)
        if len(seen) == 1:
            await hold.wait()
        return 1

    @app.workflow
    async def flow() -> int:
        return await long()

    async with place.open(app, queues=["default"]) as client:
        run = await client.start(flow.bind())
        async with place.open(app, queues=["gpu"], drain=0.01):

            async def is_kept() -> bool:
                return bool((await run.history()).progress)

            await until(is_kept)
        async with place.open(app, queues=["gpu"]):
            assert await within(run.result()) == 1
        assert seen == [None, 7]
        assert (await run.history()).progress == ()


async def test_what_a_job_logs_is_in_the_log_of_its_run(place: Place, app: hf.App) -> None:
    @app.step(queue="gpu")
    async def talks(n: int) -> int:
        hf.log.info("line %d", n)
        return n

    @app.workflow
    async def flow() -> list[int]:
        return await asyncio.gather(*(talks(n) for n in range(5)))

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.result())
        said = [(line.key, line.message) async for line in run.logs()]
        assert sorted(said) == [(f"talks#{n + 1}", f"line {n}") for n in range(5)]


async def test_a_job_that_nobody_begins_in_time_fails(place: Place, app: hf.App) -> None:
    @app.step(queue="nobody", queue_timeout=0.05)
    async def waits() -> None:
        raise AssertionError("it must not begin")

    @app.workflow
    async def flow() -> str:
        try:
            await waits()
        except hf.StepTimedOut as error:
            return error.message
        return ""

    async with place.open(app, queues=["default"]) as client:
        told = await within((await client.start(flow.bind())).result())
        assert told.endswith("s on queue nobody, and nobody began it")
        assert await jobs_of(client) == []


async def test_a_time_out_of_the_queue_does_not_count_once_it_has_begun(
    place: Place, app: hf.App
) -> None:
    studio = Studio(app, queue_timeout=2)
    studio.hold = asyncio.Event()
    async with place.open(app) as client:
        run = await client.start(studio.flow.bind(1))
        await until(lambda: studio.began == [1])
        asyncio.get_running_loop().call_later(2.2, studio.hold.set)
        assert await within(run.result()) == 11
    assert studio.began == [1]


async def test_time_outs_hold_where_the_job_is_done(place: Place, app: hf.App) -> None:
    studio = Studio(app, timeout=0.05, retry=hf.Retry(max_attempts=2, initial=0.01))
    studio.hold = asyncio.Event()

    @app.workflow
    async def told() -> str:
        try:
            await studio.render(1)
        except hf.StepTimedOut as error:
            return f"{error.message}, {error.attempts}"
        return ""

    async with place.open(app) as client:
        assert await within((await client.start(told.bind())).result()) == (
            "took longer than 0.05 s, 2"
        )


async def test_all_attempts_of_a_job_share_its_total_time(place: Place, app: hf.App) -> None:
    studio = Studio(app, total_timeout=0.2, retry=hf.Retry(max_attempts=99, initial=0.05))

    def breaks(n: int) -> int:
        raise ConnectionError("no")

    studio.does = breaks

    @app.workflow
    async def told() -> str:
        try:
            await studio.render(1)
        except hf.StepFailed as error:
            return error.type
        return ""

    async with place.open(app) as client:
        found = await within((await client.start(told.bind())).result())
        assert found in ("ConnectionError", "StepTimedOut")


async def test_the_total_time_of_a_job_counts_from_the_reopening(place: Place, app: hf.App) -> None:
    wait = 0.05
    often = hf.Retry(max_attempts=999, initial=wait, factor=1)
    studio = Studio(app, total_timeout=2, retry=often)
    good_from = 10**9

    def breaks_at_first(n: int) -> int:
        if len(studio.began) < good_from:
            raise ConnectionError("no")
        return n

    studio.does = breaks_at_first
    async with place.open(app) as client:
        run = await client.start(studio.flow.bind(1))
        await status_of(run, "failed")
        await asyncio.sleep(wait)  # the wait that would have led beyond the end
        good_from = len(studio.began) + 3
        await run.retry()
        assert await within(run.result()) == 2


async def test_so_does_that_of_a_job_whose_outcome_comes_by_its_token(
    place: Place, app: hf.App
) -> None:
    tokens = list[str]()

    @app.step(queue="gpu", completes_later=True, total_timeout=2)
    async def convert() -> int:
        tokens.append(hf.completion_token())
        hf.complete_later()

    @app.workflow
    async def flow() -> int:
        return await convert() + 1

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "failed")  # its time is over
        await run.retry()

        async def is_deferred() -> bool:
            return len(tokens) == 2 and "step.deferred" in await kinds(run)

        await until(is_deferred)
        assert await client.complete(tokens[1], 41)
        assert await within(run.result()) == 42


async def test_a_job_may_leave_its_outcome_to_a_token(place: Place, app: hf.App) -> None:
    tokens = list[str]()

    @app.step(queue="gpu", completes_later=True)
    async def convert() -> int:
        tokens.append(hf.completion_token())
        hf.complete_later()

    @app.workflow
    async def flow() -> int:
        return await convert() + 1

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        row = await status_of(run, "waiting")

        async def is_deferred() -> bool:
            return "step.deferred" in await kinds(run)

        await until(is_deferred)
        row = await status_of(run, "waiting")
        assert row.reason == "somebody to complete convert#1"
        assert await jobs_of(client) == []
        assert await client.complete(tokens[0], 41)
        assert await within(run.result()) == 42


async def test_a_token_may_settle_a_job_that_is_still_being_done(place: Place, app: hf.App) -> None:
    tokens, cancelled, hold = list[str](), list[int](), asyncio.Event()

    @app.step(queue="gpu", completes_later=True)
    async def convert() -> int:
        tokens.append(hf.completion_token())
        try:
            await hold.wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise
        return 0

    @app.workflow
    async def flow() -> int:
        return await convert()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await until(lambda: bool(tokens))
        assert await client.complete(tokens[0], 41)
        assert await within(run.result()) == 41
        await until(lambda: cancelled == [1])
        assert await jobs_of(client) == []


async def test_a_job_that_runs_at_most_once_is_not_begun_again(place: Place, app: hf.App) -> None:
    studio = Studio(app, at_most_once=True, retry=hf.Retry(max_attempts=1))
    studio.hold = asyncio.Event()

    @app.workflow
    async def told() -> str:
        try:
            return str(await studio.render(1))
        except hf.StepOutcomeUnknown as error:
            return f"unknown: {error.step}"

    async with place.open(app, queues=["default"]) as client:
        run = await client.start(told.bind())
        async with place.open(app, queues=["gpu"], drain=0.01):
            await until(lambda: studio.began == [1])
        assert await within(run.result()) == "unknown: render#1"
    assert studio.began == [1]


async def test_a_paused_run_begins_no_job(place: Place, app: hf.App, studio: Studio) -> None:
    async with place.open(app, queues=["default"]) as client:
        run = await client.start(studio.flow.bind(1))
        await status_of(run, "waiting")
        await run.pause()
        await status_of(run, "paused")
        async with place.open(app, queues=["gpu"]):
            await run.resume()
            assert await within(run.result()) == 11
    assert studio.began == [1]


async def test_a_rerun_does_the_job_again_under_another_key(
    place: Place, app: hf.App, studio: Studio
) -> None:
    async with place.open(app) as client:
        run = await client.start(studio.flow.bind(1), id="r")
        assert await within(run.result()) == 11
        await run.rerun("render#1")
        assert await within(run.result()) == 11
    assert studio.keys == ["default/r/1/render#1", "default/r/2/render#1"]


async def test_the_priority_of_a_run_is_that_of_its_jobs(
    place: Place, app: hf.App, studio: Studio
) -> None:
    async with place.open(app, queues=["default"]) as client:
        for n, priority in ((1, 5), (2, 1)):
            run = await client.start(studio.flow.bind(n), priority=priority)
            await status_of(run, "waiting")
        assert [job.priority for job in await jobs_of(client)] == [1, 5]


async def test_many_jobs_of_one_run(place: Place, app: hf.App, studio: Studio) -> None:
    @app.workflow
    async def fan() -> int:
        return sum(await hf.map(studio.render, range(40), limit=20))

    async with place.open(app) as client:
        run = await client.start(fan.bind())
        assert await within(run.result(), 30) == sum(range(40)) * 10


def test_a_queue_time_out_needs_a_queue(app: hf.App) -> None:
    with pytest.raises(hf.BadDefinition, match="queue_timeout=5 was given to a step without"):

        @app.step(queue_timeout=5)
        async def work() -> None: ...


def test_the_name_of_a_queue_is_checked(app: hf.App) -> None:
    with pytest.raises(hf.InvalidName):

        @app.step(queue="")
        async def work() -> None: ...


def test_crashtest_does_jobs(app: hf.App, studio: Studio) -> None:
    report = crashtest(studio.flow.bind(1), app=app)
    assert report.executed == report.points


async def test_a_run_with_many_jobs_hears_of_each_as_it_ends(place: Place, app: hf.App) -> None:
    one_by_one, tried = asyncio.Lock(), set[int]()

    @app.step(queue="gpu", retry=QUICK)
    async def render(n: int) -> int:
        async with one_by_one:
            if n % 10 == 3 and n not in tried:
                tried.add(n)
                raise ConnectionError
        return n

    @app.workflow
    async def film(parts: int) -> tuple[int, int]:
        asked = [asyncio.ensure_future(render(n)) for n in range(parts)]
        first = await asked[-1]
        asked[0].cancel()
        return first, sum(await asyncio.gather(*asked[1:]))

    async with place.open(app) as client:
        run = await client.start(film.bind(60))
        assert await within(run.result()) == (59, sum(range(60)))
        await until(lambda: jobs_are_gone(client))


async def jobs_are_gone(client: hf.Client) -> bool:
    return not await jobs_of(client)
