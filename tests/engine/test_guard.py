"""A body that touches the world is blocked, and goes on when it is mended."""

import logging
from pathlib import Path

import pytest

import holdfast as hf
from tests.engine.places import Place, kinds, status_of, until, within

go = hf.Signal("go", bool)


def shop(calls: list[str], *, mended: bool) -> hf.App:
    app = hf.App("shop")

    @app.step
    async def work(n: int) -> int:
        calls.append(f"work {n}")
        return n

    @app.workflow
    async def flow() -> int:
        first = await work(1)
        await hf.wait_for(go)
        if not mended:
            try:
                Path(__file__).read_text("utf-8")
            except Exception:
                first = -1
        return first

    return app


async def test_a_violation_blocks_the_run_and_the_mended_code_goes_on(place: Place) -> None:
    calls: list[str] = []
    broken = shop(calls, mended=False)
    async with place.open(broken) as client:
        run = await client.start(broken.workflows["flow"].bind(), id="order")
        await run.signal(go, True)
        row = await status_of(run, "blocked")
        assert row.reason.startswith("guard: open('")
        for part in ("test_guard.py:", "in flow", "@app.step", "[HF504]"):
            assert part in row.reason
        assert (await kinds(run))[-1] == "run.blocked"
        await run.retry()
        assert (await status_of(run, "blocked")).generation == 1, "still the wrong code"
    mended = shop(calls, mended=True)
    async with place.open(mended) as client:
        await client.get("order").retry()
        assert await within(client.get("order").result()) == 1
    assert calls == ["work 1"]


async def test_a_guard_that_warns_names_the_run_and_lets_it_go_on(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    app = shop([], mended=False)
    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        async with place.open(app, guard="warn") as client:
            run = await client.start(app.workflows["flow"].bind(), id="order")
            await run.signal(go, True)
            assert await within(run.result()) == 1
    told = [record.getMessage() for record in caplog.records]
    assert any(text.startswith("run order: guard: open('") for text in told)


async def test_a_guard_that_is_off_says_nothing(place: Place) -> None:
    app = shop([], mended=False)
    async with place.open(app, guard="off") as client:
        run = await client.start(app.workflows["flow"].bind())
        await run.signal(go, True)
        assert await within(run.result()) == 1


@pytest.mark.parametrize(
    ("settings", "text"),
    [({"guard": "on"}, "Settings.guard is 'on'"), ({"slow_turn": -1}, "Settings.slow_turn is -1")],
)
def test_a_setting_that_means_nothing_is_refused(settings: dict[str, object], text: str) -> None:
    with pytest.raises(hf.BadDefinition, match=text):
        hf.Settings(**settings)  # type: ignore[arg-type]


async def test_a_worker_logs_what_the_lint_finds(
    place: Place,
    app: hf.App,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.hosts.worker.worker.LINT_AFTER", 0)
    monkeypatch.setattr("holdfast.fronts.function.lint._told", set())

    @app.workflow
    async def chatty() -> None:
        print("x")

    with caplog.at_level(logging.WARNING, "holdfast.lint"):
        async with place.open(app):
            await until(lambda: any(record.name == "holdfast.lint" for record in caplog.records))
    told = [record.getMessage() for record in caplog.records if record.name == "holdfast.lint"]
    assert len(told) == 1
    assert "in chatty: print() in a workflow body" in told[0]
