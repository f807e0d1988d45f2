"""A session that fails sets its run aside with the reason, and harms nobody else."""

import pytest

import holdfast as hf
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
