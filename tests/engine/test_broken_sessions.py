"""A session that fails sets its run aside with the reason, and harms nobody else; nor does a look
for work that fails."""

import pytest

import holdfast as hf
from holdfast.model.jobs import ClaimedJobs, JobClaim
from holdfast.model.writes import Claim, Claimed
from tests.engine.places import Place, status_of, within


async def test_a_body_that_replays_otherwise_is_found_and_blocked(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    bodies: list[int] = []

    @app.step
    async def one() -> int:
        return 1

    @app.step
    async def other() -> int:
        return 2

    @app.workflow
    async def fickle() -> int:
        await one()
        bodies.append(1)  # holdfast: allow(globals)
        return await (one() if len(bodies) == 1 else other())

    @app.workflow
    async def steady() -> int:
        return await one()

    async with place.open(app, paranoid=True) as client:
        run = await client.start(fickle.bind())
        await status_of(run, "blocked")
        assert "live: " in (await run.describe()).reason
        assert await within((await client.start(steady.bind())).result()) == 1
    [told] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert told == f"run {run.id} broke its session"
    caplog.clear()  # it was meant to


async def test_a_look_for_work_that_fails_is_not_the_last(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.workflow
    async def steady() -> int:
        return 1

    async with place.open(app, poll=0.01) as client:
        store, failed = client.engine.store, list[Claim]()
        claims = store.claim

        async def claim(wanted: Claim) -> Claimed:
            if len(failed) < 2:
                failed.append(wanted)
                raise OSError("Too many open files")
            return await claims(wanted)

        monkeypatch.setattr(store, "claim", claim)
        await status_of(await client.start(steady.bind(), delay=0.1), "completed")
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == len(failed) == 2
    assert all("failed at its look for work" in line for line in told)
    caplog.clear()  # it was meant to


async def test_a_look_for_jobs_that_fails_is_not_the_last(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.step(queue="far")
    async def far() -> int:
        return 1

    @app.workflow
    async def steady() -> int:
        return await far()

    async with place.open(app, poll=0.01) as client:
        jobs, failed = client.engine.store.jobs, list[JobClaim]()
        claims = jobs.claim

        async def claim(wanted: JobClaim) -> ClaimedJobs:
            if len(failed) < 2:
                failed.append(wanted)
                raise OSError("Too many open files")
            return await claims(wanted)

        monkeypatch.setattr(jobs, "claim", claim)
        assert await within((await client.start(steady.bind())).result()) == 1
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == len(failed) == 2
    assert all("failed at its look for jobs" in line for line in told)
    caplog.clear()  # it was meant to
