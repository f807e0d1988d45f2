"""`holdfast.testing.compatibility`: what changed code would do with the runs that are open."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.compose import store_of
from holdfast.ports.inspection import InspectedStore, Readable
from holdfast.testing.compatibility import Compatibility, Group, compare
from tests.engine.places import Place, until

go = hf.Signal("go", int)
Define = Callable[[hf.App], None]


def make(define: Define, **options: Any) -> hf.App:
    """An app with four steps, whose workflow `order` is what `define` says."""
    app = hf.App("shop", **options)

    @app.step
    async def reserve(item: str, *, count: int = 1) -> str:
        return item

    @app.step
    async def charge(item: str) -> str:
        return item

    define(app)
    return app


def former(app: hf.App) -> None:
    reserve, charge = app.steps["reserve"], app.steps["charge"]

    @app.workflow
    async def order(item: str) -> str:
        await reserve(item)
        await charge(item)
        await hf.wait_for(go)
        return item


@asynccontextmanager
async def reading(place: Place) -> AsyncIterator[Readable]:
    if not isinstance(place.url, str):
        yield place.url
        return
    async with cast("InspectedStore", store_of(place.url)).reading() as store:
        yield store


async def compared(place: Place, define: Define, **chosen: Any) -> Compatibility:
    async with reading(place) as store:
        return await compare(make(define), store, **chosen)


async def started(place: Place, count: int = 2, define: Define = former) -> hf.App:
    """Have runs wait for `go` on the former code."""
    app = make(define)
    async with place.open(app) as client:
        runs = [
            await client.start(app.workflows["order"].bind("lamp"), id=f"o-{n}")
            for n in range(count)
        ]
        for run in runs:
            await until(lambda run=run: _is_at_rest(run))  # type: ignore[misc]
    return app


async def _is_at_rest(run: hf.RunHandle[Any]) -> bool:
    return (await run.describe()).status in ("waiting", "blocked")


async def broken(place: Place, define: Define) -> Group:
    """Start runs on the former code, and return the one way in which they break now."""
    await started(place)
    found = await compared(place, define)
    assert not found.compatible
    (group,) = found.broken
    assert (group.count, sorted(group.runs)) == (2, ["o-0", "o-1"])
    return group


def written(group: Group) -> str:
    assert group.found is not None
    return "\n".join(group.found.write)


async def test_runs_go_on_with_the_same_code(place: Place) -> None:
    await started(place)
    found = await compared(place, former)
    assert found.compatible == {"order": 2}
    assert (found.total, found.broken, found.unregistered, found.ending) == (2, [], [], {})


async def test_code_behind_the_wait_is_free(place: Place) -> None:
    def changed(app: hf.App) -> None:
        reserve, charge = app.steps["reserve"], app.steps["charge"]

        @app.workflow
        async def order(item: str) -> str:
            await reserve(item)
            await charge(item)
            await hf.wait_for(go)
            return await reserve("another")

    await started(place)
    assert (await compared(place, changed)).compatible == {"order": 2}


async def test_a_step_that_was_put_before_another_is_to_be_put_under_a_patch(place: Place) -> None:
    def changed(app: hf.App) -> None:
        reserve, charge = app.steps["reserve"], app.steps["charge"]

        @app.step
        async def inspect(item: str) -> str:
            return item

        @app.workflow
        async def order(item: str) -> str:
            await reserve(item)
            await inspect(item)
            await charge(item)
            await hf.wait_for(go)
            return item

    group = await broken(place, changed)
    assert group.found is not None
    assert (group.first, group.last, group.found.word) == (3, 3, "mismatch")
    assert group.found.recorded == "the result of step charge#1"
    assert group.found.asked == "waits for inspect#1"
    assert "test_compatibility.py:" in group.found.source
    assert '    if hf.patched("inspect before charge"):\n        await inspect(item)\n' in written(
        group
    )


async def test_the_advice_works(place: Place) -> None:
    """With what is proposed, every run goes on, and new ones take the change up."""

    def mended(app: hf.App) -> None:
        reserve, charge = app.steps["reserve"], app.steps["charge"]

        @app.workflow
        async def order(item: str) -> str:
            if hf.patched("charge before reserve"):
                await charge(item)
                await reserve(item)
            else:
                await reserve(item)
                await charge(item)
            await hf.wait_for(go)
            return item

    await started(place)
    assert (await compared(place, mended)).compatible == {"order": 2}


async def test_steps_that_changed_places(place: Place) -> None:
    def changed(app: hf.App) -> None:
        reserve, charge = app.steps["reserve"], app.steps["charge"]

        @app.workflow
        async def order(item: str) -> str:
            await charge(item)
            await reserve(item)
            await hf.wait_for(go)
            return item

    group = await broken(place, changed)
    assert "charge and reserve have changed places" in written(group)
    assert 'if hf.patched("charge before reserve"):\n        ' in written(group)


async def test_a_step_under_another_name(place: Place) -> None:
    def changed(app: hf.App) -> None:
        reserve = app.steps["reserve"]

        @app.step
        async def bill(item: str) -> str:
            return item

        @app.workflow
        async def order(item: str) -> str:
            await reserve(item)
            billed = await bill(item)
            await hf.wait_for(go)
            return billed

    group = await broken(place, changed)
    assert '@app.step(name="charge")' in written(group)
    assert 'if hf.patched("bill instead of charge"):\n        billed = await' in written(group)
    assert "    else:\n        ...  # as it was" in written(group)


async def test_other_arguments(place: Place) -> None:
    def changed(app: hf.App) -> None:
        reserve, charge = app.steps["reserve"], app.steps["charge"]

        @app.workflow
        async def order(item: str) -> str:
            await reserve(item)
            await charge(item + "s")
            await hf.wait_for(go)
            return item

    group = await broken(place, changed)
    assert "The arguments of charge have changed" in written(group)
    assert 'if hf.patched("arguments of charge"):' in written(group)


async def test_a_body_that_ends_too_soon(place: Place) -> None:
    def changed(app: hf.App) -> None:
        reserve = app.steps["reserve"]

        @app.workflow
        async def order(item: str) -> str:
            return await reserve(item)

    group = await broken(place, changed)
    assert 'if not hf.patched("without charge"):' in written(group)


async def test_a_step_that_moved_to_another_task(place: Place) -> None:
    def changed(app: hf.App) -> None:
        reserve, charge = app.steps["reserve"], app.steps["charge"]

        @app.workflow
        async def order(item: str) -> str:
            async def paying() -> None:
                await charge(item)

            await reserve(item)
            await asyncio.gather(paying(), hf.wait_for(go))
            return item

    group = await broken(place, changed)
    assert "it moved to another" in written(group)


async def test_a_note_that_nobody_asks_for(place: Place) -> None:
    def noted(app: hf.App) -> None:
        reserve = app.steps["reserve"]

        @app.workflow
        async def order(item: str) -> str:
            if hf.patched("greeting"):
                await reserve(item)
            await hf.wait_for(go)
            return item

    def changed(app: hf.App) -> None:
        reserve = app.steps["reserve"]

        @app.workflow
        async def order(item: str) -> str:
            await reserve(item)
            await hf.wait_for(go)
            return item

    await started(place, define=noted)
    (group,) = (await compared(place, changed)).broken
    assert "    hf.deprecate_patch('greeting')" in written(group)


async def test_what_a_body_may_not_do_breaks_it_too(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "orders.txt"

    def changed(app: hf.App) -> None:
        reserve, charge = app.steps["reserve"], app.steps["charge"]

        @app.workflow
        async def order(item: str) -> str:
            await reserve(item)
            await charge(item)
            file.write_text(item)
            await hf.wait_for(go)
            return item

    group = await broken(place, changed)
    assert group.found is not None
    assert group.found.word == "guard"
    assert "Put it in a step" in written(group)
    assert not file.exists()


async def test_a_body_that_would_fail_the_runs_is_found(place: Place) -> None:
    def changed(app: hf.App) -> None:
        reserve, charge = app.steps["reserve"], app.steps["charge"]

        @app.workflow
        async def order(item: str) -> str:
            await reserve(item)
            await charge(item)
            return item + cast("str", 1)

    group = await broken(place, changed)
    assert group.outcome == "fails"
    assert group.found is not None
    assert "TypeError" in group.found.message


async def test_an_input_that_cannot_be_read_any_more(place: Place) -> None:
    def changed(app: hf.App) -> None:
        @app.workflow
        async def order(item: int) -> int:
            await hf.wait_for(go)
            return item

    group = await broken(place, changed)
    assert group.found is not None
    assert (group.found.word, group.found.seq) == ("undecodable", 1)


async def test_changed_parameters_are_told_and_break_nothing(place: Place) -> None:
    await started(place)
    app = hf.App("shop")

    @app.step
    async def reserve(item: str, *, count: int = 1, gift: bool = False) -> str:
        return item

    @app.step
    async def charge(item: str) -> str:
        return item

    former(app)
    async with reading(place) as store:
        found = await compare(app, store)
    assert found.compatible == {"order": 2}
    assert found.reshaped == {"order": {"reserve"}}


async def test_runs_that_nobody_here_would_run(place: Place) -> None:
    def two(app: hf.App) -> None:
        former(app)

        @app.workflow(name="other", version="1")
        async def other() -> None:
            await hf.wait_for(go)

    def three(app: hf.App) -> None:
        @app.workflow(name="other", version="2")
        async def other() -> None:
            await hf.wait_for(go)

    app = await started(place, define=two)
    async with place.open(app, worker=False) as client:
        await client.start(app.workflows["other"].bind(), id="x")
    found = await compared(place, three)
    assert [(each.workflow, each.count) for each in found.unregistered] == [("order", 2)]
    (group,) = found.broken
    assert (group.outcome, group.workflow, group.version) == ("version missing", "other", "1")


async def test_a_blocked_run_is_told_whether_it_would_go_on(place: Place) -> None:
    def stuck(app: hf.App) -> None:
        reserve = app.steps["reserve"]

        @app.workflow
        async def order(item: str) -> str:
            await reserve(item)
            await asyncio.Event().wait()
            return item

    await started(place, 1, stuck)
    still = await compared(place, stuck)
    assert [(each.count, each.blocked) for each in still.broken] == [(1, 1)]
    assert still.freed_count == 0
    mended = await compared(place, former)
    assert (mended.freed, mended.freed_count) == (["o-0"], 1)


async def test_runs_are_chosen_by_workflow_and_limit(place: Place) -> None:
    await started(place, 3)
    found = await compared(place, former, limit=2)
    assert (found.total, found.is_cut) == (2, True)
    assert (await compared(place, former, limit=3)).is_cut is False
    assert (await compared(place, former, workflows=("order",))).total == 3
    assert (await compared(place, former, workflows=("nothing",))).total == 0


async def test_more_runs_than_a_page_are_all_seen(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.testing.compatibility.PAGE", 2)
    await started(place, 5)
    heard: list[int] = []
    assert (await compared(place, former, tell=heard.append)).total == 5
    assert heard == [1, 2, 3, 4, 5]


async def test_a_run_that_nobody_held_yet_takes_up_the_changes(place: Place) -> None:
    def noted(app: hf.App) -> None:
        reserve, charge = app.steps["reserve"], app.steps["charge"]

        @app.workflow
        async def order(item: str) -> str:
            if hf.patched("charge first"):
                await charge(item)
            return await reserve(item)

    app = make(noted)
    async with place.open(app, worker=False) as client:
        await client.start(app.workflows["order"].bind("lamp"), id="new")
    assert (await compared(place, noted)).compatible == {"order": 1}
