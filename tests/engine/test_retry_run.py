"""Retry of a failed run: what is recorded stays, what failed runs again, in a new generation."""

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

import holdfast as hf
from holdfast.hosts.worker import Worker
from tests.engine.places import Place, kinds, status_of, until, within, worker_of

ONCE = hf.Retry(max_attempts=1)


async def test_a_failing_body_fails_the_run(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        raise ValueError("of the body")

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed, match="ValueError: of the body") as caught:
            await within(run.result())
        assert caught.value.type == "ValueError"
        assert 'raise ValueError("of the body")' in caught.value.traceback
        assert (await run.describe()).status == "failed"


async def test_a_result_that_cannot_be_stored_fails_the_run(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> int:
        return "text"  # type: ignore[return-value]

    async with place.open(app) as client:
        with pytest.raises(hf.RunFailed, match="result of the workflow"):
            await within((await client.start(flow.bind())).result())


async def test_retry_runs_only_what_failed(place: Place, app: hf.App) -> None:
    calls: list[str] = []
    keys: list[str] = []
    broken = True

    @app.step
    async def first() -> int:
        calls.append("first")
        return 1

    @app.step(retry=hf.Retry(max_attempts=2, initial=0.001))
    async def second(n: int) -> int:
        calls.append(f"second {hf.attempt()}")
        keys.append(hf.idempotency_key())
        if broken:
            raise ValueError("broken")
        return n + 1

    @app.workflow
    async def flow() -> int:
        return await second(await first())

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed, match="broken"):
            await within(run.result())
        broken = False
        await run.retry()
        assert await within(run.result()) == 2
        row = await run.describe()
        assert row.generation == 2
        assert await kinds(run) == [
            "run.started", "step.completed", "run.reopened", "step.completed", "run.completed",
        ]  # fmt: skip
    assert calls == ["first", "second 1", "second 2", "second 1"]
    assert keys[0] == keys[1] == f"default/{run.id}/1/second#1"
    assert keys[2] == f"default/{run.id}/2/second#1"


async def test_retry_after_a_restart(place: Place, app: hf.App) -> None:
    broken = True
    calls: list[str] = []

    @app.step
    async def first() -> int:
        calls.append("first")
        return 1

    @app.step(retry=ONCE)
    async def second() -> int:
        calls.append("second")
        if broken:
            raise ValueError
        return 2

    @app.workflow
    async def flow() -> int:
        return await first() + await second()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "failed")
    broken = False
    async with place.open(app, worker=False) as client:
        await client.get(run.id).retry()
    async with place.open(app) as client:
        assert await within(client.get(run.id).result()) == 3
    assert calls == ["first", "second", "second"]


async def test_a_retry_runs_again_only_what_came_of_the_failure(place: Place, app: hf.App) -> None:
    broken = True
    calls: list[str] = []

    @app.step(retry=ONCE)
    async def fragile() -> int:
        calls.append("fragile")
        if broken:
            raise ValueError("broken")
        return 1

    @app.step
    async def note(what: str) -> str:
        calls.append(what)
        return what

    async def branch() -> list[str]:
        # Its second step is asked for after the failure, and has nothing to do with it.
        return [await note("one"), await note("two"), await note("three")]

    @app.workflow
    async def flow() -> list[str]:
        async def guarded() -> None:
            try:
                await fragile()
            except hf.StepFailed:
                await note("clean-up")
                raise

        failed, noted = await asyncio.gather(guarded(), branch(), return_exceptions=True)
        if isinstance(failed, BaseException):
            raise failed
        return cast("list[str]", noted)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed, match="broken"):
            await within(run.result())
        assert sorted(calls) == ["clean-up", "fragile", "one", "three", "two"]
        broken = False
        await run.retry()
        assert await within(run.result()) == ["one", "two", "three"]
        keys = [event.key for event in (await run.history()).events]
    assert sorted(calls) == ["clean-up", "fragile", "fragile", "one", "three", "two"]
    assert "guarded[1]/note#1" not in keys


async def test_a_second_failure_can_be_retried_too(place: Place, app: hf.App) -> None:
    failures = 3

    @app.step(retry=ONCE)
    async def flaky() -> int:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise ValueError
        return 1

    @app.workflow
    async def flow() -> int:
        return await flaky()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        for generation in (1, 2, 3):
            row = await status_of(run, "failed")
            assert row.generation == generation
            await run.retry()
        assert await within(run.result()) == 1


async def test_chance_drawn_before_the_failure_is_drawn_again(place: Place, app: hf.App) -> None:
    """Else the recorded answers, asked with the first draw, would not fit the replay."""
    broken = True

    @app.step
    async def charge(token: UUID, cents: int) -> UUID:
        return token

    @app.step(retry=ONCE)
    async def ship() -> None:
        if broken:
            raise ValueError

    @app.workflow
    async def flow() -> UUID:
        token = await charge(hf.uuid(), hf.random().randrange(1000))
        await ship()
        return token

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "failed")
        broken = False
        await run.retry()
        row = await status_of(run, "completed", "failed", "blocked")
        assert row.status == "completed", row.reason


async def test_what_the_body_did_after_the_failure_is_taken_back(place: Place, app: hf.App) -> None:
    broken = True
    notes: list[str] = []

    @app.step(retry=ONCE)
    async def work() -> str:
        if broken:
            raise ValueError
        return "done"

    @app.step
    async def tell(what: str) -> None:
        notes.append(what)

    @app.workflow
    async def flow() -> str:
        try:
            return await work()
        except hf.StepFailed:
            await hf.sleep(0.01)
            await tell("failed")
            raise

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "failed")
        broken = False
        await run.retry()
        row = await status_of(run, "completed", "failed", "blocked")
        assert row.status == "completed", row.reason
    assert notes == ["failed"]


async def test_time_for_a_step_counts_from_the_reopening(place: Place, app: hf.App) -> None:
    broken = True

    @app.step(retry=ONCE, total_timeout=0.4)
    async def work() -> str:
        if broken:
            raise ValueError
        return "done"

    @app.workflow
    async def flow() -> str:
        return await work()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "failed")
        await asyncio.sleep(0.45)  # longer than total_timeout: somebody mends the code
        broken = False
        await run.retry()
        assert await within(run.result()) == "done"


async def test_siblings_that_completed_are_kept(place: Place, app: hf.App) -> None:
    broken = True
    calls: list[int] = []

    @app.step(retry=ONCE)
    async def work(n: int) -> int:
        calls.append(n)
        if n == 2 and broken:
            raise ValueError
        return n

    @app.workflow
    async def flow() -> list[int]:
        results = await asyncio.gather(*(work(n) for n in range(4)), return_exceptions=True)
        for each in results:
            if isinstance(each, BaseException):
                raise each
        return [n for n in results if isinstance(n, int)]

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "failed")
        broken = False
        await run.retry()
        assert await within(run.result()) == [0, 1, 2, 3]
    assert sorted(calls) == [0, 1, 2, 2, 3]


async def test_a_failure_of_the_body_alone_is_retried_from_its_end(
    place: Place, app: hf.App
) -> None:
    calls: list[int] = []
    broken = True

    @app.step
    async def work() -> int:
        calls.append(1)
        return 1

    @app.workflow
    async def flow() -> int:
        result = await work()
        if broken:
            raise KeyError("bug in the body")
        return result

    # Not paranoid: the second machine would see another `broken` than the first.
    async with place.open(app, paranoid=False) as client:
        run = await client.start(flow.bind())
        await status_of(run, "failed")
        await run.retry()
        row = await status_of(run, "failed")
        assert row.generation == 2
        # Paranoia replays the turn once more after its commit: with the code that made it.
        await until(lambda: not worker_of(client).sessions)
        broken = False
        await run.retry()
        assert await within(run.result()) == 1
    assert calls == [1]


async def test_only_failed_or_blocked_runs_are_retried(place: Place, app: hf.App) -> None:
    go = hf.Signal("go", bool)

    @app.workflow
    async def flow(waits: bool) -> Any:
        if waits:
            await hf.wait_for(go)

    async with place.open(app) as client:
        done = await client.start(flow.bind(False))
        await within(done.result())
        open_run = await client.start(flow.bind(True))
        await status_of(open_run, "waiting")
        for run in (done, open_run):
            with pytest.raises(hf.IllegalMove, match="retry"):
                await run.retry()
        with pytest.raises(hf.RunNotFound):
            await client.get("nobody").retry()


async def test_a_retry_that_is_held_here_hides_the_old_result(place: Place, app: hf.App) -> None:
    tried, gate = asyncio.Event(), asyncio.Event()

    @app.step(retry=ONCE)
    async def work() -> int:
        if not tried.is_set():
            tried.set()
            raise ValueError
        await gate.wait()
        return 1

    @app.workflow
    async def flow() -> int:
        return await work()

    async with place.open(app) as client, place.open(app, worker=False) as other:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        await other.get(run.id).retry()
        await until(lambda: is_held(worker_of(client), run.id, 2))
        result = asyncio.create_task(within(run.result()))
        gate.set()
        assert await result == 1


async def test_the_result_of_another_processes_retry_is_not_the_old_one(
    place: Place, app: hf.App
) -> None:
    broken = True

    @app.step(retry=ONCE)
    async def work() -> int:
        if broken:
            raise ValueError
        return 1

    @app.workflow
    async def flow() -> int:
        return await work()

    async with place.open(app) as client, place.open(app, worker=False) as other:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        broken = False
        await other.get(run.id).retry()
        assert await within(run.result()) == 1


def is_held(worker: Worker, run: str, epoch: int) -> bool:
    held = worker.held(run)
    return held is not None and held.epoch >= epoch
