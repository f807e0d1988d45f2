"""Code that changes while runs are open: `patched` and `get_version` on a real engine."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, history_when, kinds, status_of, within

go = hf.Signal("go", int)
ONCE = hf.Retry(max_attempts=1)


class Release:
    """One release of a shop: the steps are the same in each, the body is given."""

    def __init__(self, body: Callable[[Any], Any], calls: list[str]) -> None:
        self.app = hf.App("shop")

        @self.app.step(retry=ONCE)
        async def do(what: str) -> str:
            calls.append(what)
            if what.startswith("fail"):
                raise ValueError(what)
            return what

        self.flow: hf.Workflow[[], Any] = self.app.workflow(name="flow")(body(do))


def former(do: Any) -> Any:
    async def flow() -> str:
        await do("charge")
        await hf.wait_for(go)
        return await do("ship")

    return flow


def patched(do: Any) -> Any:
    async def flow() -> str:
        if hf.patched("check first"):
            await do("check")
        await do("charge")
        await hf.wait_for(go)
        if hf.patched("check first"):
            return await do("ship checked")
        return await do("ship")

    return flow


def patched_later(do: Any) -> Any:
    async def flow() -> str:
        await do("charge")
        await hf.wait_for(go)
        if hf.patched("pack"):
            await do("pack")
        return await do("ship")

    return flow


def deprecated(do: Any) -> Any:
    async def flow() -> str:
        hf.deprecate_patch("check first")
        await do("check")
        await do("charge")
        await hf.wait_for(go)
        return await do("ship checked")

    return flow


def of_version(minimum: int, maximum: int) -> Callable[[Any], Any]:
    def body(do: Any) -> Any:
        async def flow() -> int:
            await do("charge")
            version = hf.get_version("price", minimum, maximum)
            await hf.wait_for(go)
            return version

        return flow

    return body


async def open_run(place: Place, body: Any, calls: list[str]) -> None:
    """Leave run `order` waiting for the signal, on this release."""
    release = Release(body, calls)
    async with place.open(release.app) as client:
        await status_of(await client.start(release.flow.bind(), id="order"), "waiting")


async def finish(place: Place, body: Any, calls: list[str]) -> Any:
    """Let run `order` go on with this release, and return its result."""
    async with place.open(Release(body, calls).app) as client:
        await client.get("order").signal(go, 1)
        return await within(client.get("order").result())


async def test_a_new_run_takes_the_change_up(place: Place) -> None:
    calls: list[str] = []
    await open_run(place, patched, calls)
    assert await finish(place, patched, calls) == "ship checked"
    assert calls == ["check", "charge", "ship checked"]


async def test_an_open_run_goes_on_as_before(place: Place) -> None:
    calls: list[str] = []
    await open_run(place, former, calls)
    assert await finish(place, patched, calls) == "ship"
    assert calls == ["charge", "ship"]


async def test_an_open_run_takes_up_a_change_that_lies_ahead(place: Place) -> None:
    calls: list[str] = []
    await open_run(place, former, calls)
    assert await finish(place, patched_later, calls) == "ship"
    assert calls == ["charge", "pack", "ship"]


async def test_a_deprecated_patch_goes_on_with_runs_that_have_the_note(place: Place) -> None:
    calls: list[str] = []
    await open_run(place, patched, calls)
    assert await finish(place, deprecated, calls) == "ship checked"


async def test_a_run_claimed_for_the_first_time_takes_the_change_up(place: Place) -> None:
    """Its start comes from the store, and yet nobody has seen it."""
    calls: list[str] = []
    release = Release(patched, calls)
    async with place.open(release.app, worker=False) as client:
        await client.start(release.flow.bind(), id="order")
    assert await finish(place, patched, calls) == "ship checked"


async def test_the_note_follows_the_event_of_its_turn_and_is_stored_before_the_step_starts(
    place: Place, app: hf.App
) -> None:
    seen: list[list[str]] = []

    @app.step
    async def look() -> None:
        seen.append(await kinds(client.get("order")))

    @app.workflow
    async def flow() -> None:
        hf.patched("a")
        await look()
        hf.patched("b")
        await asyncio.gather(look(), hf.wait_for(go))

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="order")
        await history_when(run, lambda loaded: len(seen) == 2)
        await run.signal(go, 1)
        await within(run.result())
    assert seen[0] == ["run.started", "note.patched"]
    assert seen[1] == [*seen[0], "step.completed", "note.patched"]


async def test_a_turn_that_is_refused_notes_the_change_when_it_is_made_again(
    place: Place, app: hf.App
) -> None:
    """The signal meets the commit that parks; the cancel throws the whole turn away."""
    entered, leave = asyncio.Event(), asyncio.Event()

    @app.step
    async def hold() -> None:
        entered.set()
        await leave.wait()

    @app.step
    async def tidy(new: bool) -> bool:
        return new

    @app.workflow
    async def flow() -> bool:
        try:
            await hold()
            hf.patched("x")
            await hf.wait_for(go)
        except asyncio.CancelledError:
            return await tidy(hf.patched("x"))
        return False

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(entered.wait())
        leave.set()
        await run.cancel()
        assert await within(run.result()) is True
        notes = [e for e in (await run.history()).events if e.kind == "note.patched"]
        assert [note.key for note in notes] == ["x"]


async def test_versions_stay_with_the_run(place: Place) -> None:
    calls: list[str] = []
    await open_run(place, of_version(0, 2), calls)
    assert await finish(place, of_version(1, 5), calls) == 2


async def test_an_unknown_version_blocks_the_run_until_the_code_is_back(place: Place) -> None:
    calls: list[str] = []
    await open_run(place, former, calls)
    async with place.open(Release(of_version(1, 2), calls).app) as client:
        run = client.get("order")
        await run.signal(go, 1)
        row = await status_of(run, "blocked")
        assert row.reason.startswith("version: The run follows version 0 of change 'price'")
        assert row.reason.endswith("[HF505]")
    async with place.open(Release(former, calls).app, worker=False) as client:
        await client.get("order").retry()
    assert await finish(place, of_version(0, 2), calls) == 0
    assert calls == ["charge"]


async def test_a_turn_that_broke_the_guard_keeps_what_it_said(place: Place) -> None:
    """Else the mended code would take the answer of that turn for one of the code before."""

    def body_of(breaks: bool) -> Callable[[Any], Any]:
        def body(do: Any) -> Any:
            async def flow() -> list[int]:
                first = hf.get_version("first", 1, 2)
                await do("charge")
                second = hf.get_version("second", 1, 3)
                if breaks:
                    open("price list")  # noqa: SIM115 - what the guard is for
                await hf.wait_for(go)
                return [first, second]

            return flow

        return body

    calls: list[str] = []
    wrong = Release(body_of(True), calls)
    async with place.open(wrong.app) as client:
        row = await status_of(await client.start(wrong.flow.bind(), id="order"), "blocked")
        assert "HF504" in row.reason
    async with place.open(Release(body_of(False), calls).app, worker=False) as client:
        await client.get("order").retry()
    assert await finish(place, body_of(False), calls) == [2, 3]
    assert calls == ["charge"]


async def test_a_retry_keeps_the_changes_that_kept_answers_were_computed_with(
    place: Place, app: hf.App
) -> None:
    """The sibling's turn comes after the failure, its answer is kept, and so is its change."""
    calls: list[str] = []
    broken = True
    failed = asyncio.Event()

    @app.step(retry=ONCE)
    async def fails() -> str:
        if broken:
            raise ValueError("broken")
        return "mended"

    @app.step
    async def sibling() -> str:
        await failed.wait()
        calls.append("sibling")
        return "sibling"

    @app.step
    async def more(new: bool) -> str:
        calls.append(f"more {new}")
        return f"more {new}"

    async def branch() -> str:
        await sibling()
        return await more(hf.patched("x"))

    @app.workflow
    async def flow() -> list[Any]:
        beside = asyncio.ensure_future(branch())
        try:
            return [await fails(), await beside]
        except hf.StepFailed:
            hf.patched("on failure")
            await beside
            raise

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="order")
        await history_when(run, lambda h: any(e.kind == "step.failed" for e in h.events))
        failed.set()
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        broken = False
        await run.retry()
        assert await within(run.result()) == ["mended", "more True"]
    assert calls == ["sibling", "more True"], "what was recorded is not run again"
