"""Forks: a run that shares another's history up to a point, and goes its own way from there."""

import asyncio
from functools import partial
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.commands import PruneRuns
from holdfast.model.run import SINCE_START
from tests.engine.places import Place, event_of, status_of, until, within

go = hf.Signal("go", int)
draw = hf.Update("draw", int)


class Shop:
    """An order of three steps that count their calls and keep their keys."""

    def __init__(self, app: hf.App) -> None:
        self.calls: list[str] = []
        self.keys: list[str] = []

        @app.step
        async def look(item: str) -> int:
            self.calls.append(f"look {item}")
            return len(item)

        @app.step
        async def charge(price: int) -> int:
            self.calls.append(f"charge {price}")
            self.keys.append(hf.idempotency_key())
            return price * 10

        @app.step
        async def ship(paid: int) -> str:
            self.calls.append(f"ship {paid}")
            return f"shipped for {paid}"

        @app.workflow
        async def order(item: str) -> str:
            paid = await charge(await look(item))
            return await ship(paid) if paid < 1_000 else "too dear"

        self.order = order


async def test_a_fork_runs_only_what_comes_after_its_point(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind("lamp"), id="first")
        assert await within(run.result()) == "shipped for 40"
        before = await client.engine.export("first")
        other = await run.fork("look#1", id="second")
        assert await within(other.result()) == "shipped for 40"
        assert shop.calls == [
            "look lamp", "charge 4", "ship 40", "charge 4", "ship 40",
        ]  # fmt: skip
        assert shop.keys == ["default/first/1/charge#1", "default/second/1/charge#1"]
        assert await client.engine.export("first") == before
        events = (await other.history()).events
        assert [each.key or each.kind for each in events] == [
            "run.started", "look#1", "run.forked", "charge#1", "ship#1", "run.completed",
        ]  # fmt: skip


async def test_a_recorded_result_may_be_edited(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind("lamp"))
        await within(run.result())
        shop.calls.clear()
        other = await run.fork(results={"charge#1": 70})
        assert await within(other.result()) == "shipped for 70"
        assert await within(run.result()) == "shipped for 40"
    assert shop.calls[0] == "ship 70"


async def test_answers_that_an_edited_result_leads_past_are_left_out(
    place: Place, app: hf.App
) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind("lamp"))
        await within(run.result())
        shop.calls.clear()
        other = await run.fork(4, results={"charge#1": 5_000})
        assert await within(other.result()) == "too dear"
        assert shop.calls == []
        events = (await client.engine.export(other.id)).events
        gone = [each.key for each in events if each.superseded_by is not None]
        assert gone == ["ship#1"]
        assert (await run.describe()).status == "completed"


async def test_a_changed_argument_runs_the_step_again(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind("lamp"))
        await within(run.result())
        shop.calls.clear()
        other = await run.fork(4, results={"look#1": 6})
        assert await within(other.result()) == "shipped for 60"
    assert shop.calls == ["charge 6", "ship 60"], "what was recorded was for another price"


async def test_another_input_begins_anew(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind("lamp"), tags=["vip"])
        await within(run.result())
        other = await run.fork(input=shop.order.bind("candle"))
        assert await within(other.result()) == "shipped for 60"
        assert (await other.labels()).tags == ("vip",)
        with pytest.raises(hf.BadDefinition, match="input of 'other', and the run is of 'order'"):
            await run.fork(input=app.workflow(name="other")(shop.order.plain).bind("x"))
        with pytest.raises(hf.InvalidValue, match="leaves nothing of the history"):
            await run.fork(3, input=shop.order.bind("candle"))


async def test_chance_is_the_origin_s_before_the_point_and_its_own_after(
    place: Place, app: hf.App
) -> None:
    @app.step
    async def keep(value: str) -> str:
        return value

    @app.workflow
    async def draws() -> list[str]:
        found = [await keep(hf.uuid().hex) for _ in range(3)]
        return [*found, str(hf.random().random())]

    async with place.open(app) as client:
        run = await client.start(draws.bind())
        first = await within(run.result())
        other = await run.fork("keep#2")
        second = await within(other.result())
        again = await within((await other.fork("keep#1")).result())
        third = await within((await other.fork("keep#3")).result())
        await other.rerun("keep#3")
        assert await within(other.result()) == second
    assert second[:2] == first[:2]
    assert not {*second[2:]} & {*first}, "no step that runs anew is given what another drew"
    assert again[0] == first[0]
    assert not {*again[1:]} & {*first, *second}
    assert third[:3] == second[:3]
    assert third[3] not in (first[3], second[3])


async def test_an_open_run_is_forked_and_both_go_on(place: Place, app: hf.App) -> None:
    @app.step
    async def first() -> int:
        return 1

    @app.workflow
    async def flow() -> list[int]:
        return [await first(), await hf.wait_for(go), await hf.wait_for(go)]

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await run.signal(go, 2, id="s2")
        await event_of(run, "signal.received")
        other = await run.fork()
        await other.signal(go, 30)
        await run.signal(go, 3)
        assert await within(run.result()) == [1, 2, 3]
        assert await within(other.result()) == [1, 2, 30]
        assert not await _accepts(client, other, "s2"), "the shared part has that message"


async def _accepts(client: hf.Client, run: hf.RunHandle[Any], id: str) -> bool:
    try:
        return await client.get(run.id).signal(go, 9, id=id)
    except hf.RunClosed:
        return False


async def test_a_fork_outlives_its_origin(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind("lamp"))
        await within(run.result())
        await client.engine.store.write([])
    async with place.open(app, worker=False) as client:
        other = await client.get(run.id).fork("look#1", id="fork")
        engine = client.engine
        assert await engine.do(PruneRuns(engine.ns, engine.store.now() + 1)) == 1
    async with place.open(app) as client:
        assert await within(client.get(other.id, shop.order).result()) == "shipped for 40"
        with pytest.raises(hf.RunNotFound):
            await run_of(client, run.id).describe()
    assert shop.calls == ["look lamp", "charge 4", "ship 40", "charge 4", "ship 40"]


def run_of(client: hf.Client, id: str) -> hf.RunHandle[Any]:
    return client.get(id)


def lottery(app: hf.App) -> hf.Workflow[[], list[int]]:
    """Return a workflow that draws the next number when it is told to, until it is told to end."""
    drawn = 0

    @app.step
    async def number() -> int:
        nonlocal drawn
        drawn += 1
        return drawn

    @app.workflow
    async def numbers() -> list[int]:
        found: list[int] = []

        async def take() -> int:
            found.append(await number())
            return found[-1]

        hf.handle(draw, take)
        await hf.wait_for(go)
        return found

    return numbers


async def test_a_fork_ends_the_updates_itself_that_were_under_way(
    place: Place, app: hf.App
) -> None:
    async with place.open(app) as client:
        run = await client.start(lottery(app).bind())
        assert await within(run.update(draw, id="u1")) == 1
        accepted = await event_of(run, "update.accepted")
        other = await run.fork(accepted.seq)
        assert await within(other.update(draw, id="u1")) == 2
        await other.signal(go, 1)
        assert await within(other.result()) == [2]
        assert await within(run.update(draw, id="u1")) == 1


async def test_a_fork_of_before_a_rerun_carries_no_update_out_twice(
    place: Place, app: hf.App
) -> None:
    async with place.open(app) as client:
        run = await client.start(lottery(app).bind())
        assert await within(run.update(draw, id="u1")) == 1
        ended = await event_of(run, "update.completed")
        await run.rerun()
        other = await run.fork(ended.seq)
        assert await within(other.update(draw, id="u1")) == 1
        await other.signal(go, 1)
        assert await within(other.result()) == [1]


async def test_a_fork_of_a_cancelled_run_may_leave_before_the_cancel(
    place: Place, app: hf.App
) -> None:
    @app.step
    async def first() -> int:
        return 1

    @app.workflow
    async def flow() -> int:
        return await first() + await hf.wait_for(go)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await event_of(run, "step.completed")
        await run.cancel()
        await status_of(run, "cancelled")
        alive = await run.fork("first#1")
        await alive.signal(go, 1)
        assert await within(alive.result()) == 2
        cancelled = await run.fork()
        with pytest.raises(hf.RunCancelled):
            await within(cancelled.result())


async def test_a_fork_follows_the_changes_that_were_noted(place: Place, app: hf.App) -> None:
    @app.step
    async def work(n: int) -> int:
        return n

    @app.workflow
    async def flow() -> list[bool | int]:
        first = await work(1)
        new = hf.patched("x")
        return [first, new, await work(2)]

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == [1, True, 2]
        assert await within((await run.fork(2)).result()) == [1, True, 2]


async def test_code_that_changed_blocks_a_fork_that_nobody_edited(
    place: Place, app: hf.App
) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind("lamp"))
        await within(run.result())
    changed = hf.App(app.name)

    @changed.step
    async def look(item: str) -> int:
        return 1

    @changed.workflow
    async def order(item: str) -> str:
        return str(await look("another"))

    async with place.open(changed) as client:
        other = await client.get(run.id).fork(3)
        row = await status_of(other, "blocked")
        assert "calls look#1 with other arguments" in row.reason


async def test_a_value_that_does_not_fit_the_step_is_refused(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind("lamp"))
        await within(run.result())
        with pytest.raises(hf.Unserialisable, match=r"result of charge#1"):
            await run.fork(results={"charge#1": "much"})
        with pytest.raises(hf.UnknownKey, match="It has look#1"):
            await run.fork(2, results={"charge#1": 5})
        assert len((await client.list()).runs) == 1


async def test_the_same_fork_again_is_the_same_run(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind("lamp"))
        await within(run.result())
        first = await run.fork(2, id="fork")
        await within(first.result())
        second = await run.fork(2, id="fork")
        assert (await second.describe()).status == "completed"
        with pytest.raises(hf.RunConflict):
            await run.fork(3, id="fork")


async def test_a_fork_of_parallel_steps_runs_those_that_had_not_ended(
    place: Place, app: hf.App
) -> None:
    calls: list[str] = []
    gate = asyncio.Event()

    @app.step
    async def work(name: str) -> str:
        calls.append(name)
        if name == "slow" and calls.count("slow") == 1:
            await gate.wait()
        return name

    @app.workflow
    async def flow() -> list[str]:
        return list(await asyncio.gather(work("quick"), work("slow")))

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await event_of(run, "step.completed")
        other = await run.fork("work#1")
        assert await within(other.result()) == ["quick", "slow"]
        gate.set()
        await within(run.result())
    assert calls == ["quick", "slow", "slow"]


async def test_a_fork_may_be_exported_and_taken_over_elsewhere(place: Place, app: hf.App) -> None:
    from holdfast.model.exports import document_of, export_of
    from holdfast.testing import replay

    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind("lamp"))
        await within(run.result())
        other = await run.fork(results={"charge#1": 70}, id="fork")
        await within(other.result())
        export = export_of(document_of(await client.engine.export("fork")))
        assert [event.seq for event in export.events] == [*range(1, 7)]
        assert replay(shop.order, export).ended == "completed"


async def test_a_continued_run_is_forked_in_any_of_its_parts(place: Place, app: hf.App) -> None:
    calls: list[str] = []

    @app.step
    async def work(part: int, n: int) -> str:
        calls.append(f"{part}.{n}")
        return f"{part}.{n}"

    @app.workflow
    async def parts(part: int = 1, before: str = "") -> str:
        first = await work(part, 1)
        told = f"{before} {first} {await work(part, 2)} {hf.uuid().hex[:6]}"
        return hf.continue_as_new(parts.bind(part + 1, told)) if part < 3 else told

    async with place.open(app) as client:
        run = await client.start(parts.bind())
        told = await within(run.result())
        starts = [e.seq for e in (await run.history()).events if e.kind == "run.continued"]
        calls.clear()
        last = await run.fork("work#1")
        assert (await within(last.result())).split()[:8] == told.split()[:8]
        assert calls == ["3.2"]
        calls.clear()
        middle = await run.fork(starts[0] + 1)
        assert (await within(middle.result())).split()[:5] == told.split()[:5]
        assert calls == ["2.2", "3.1", "3.2"]
        calls.clear()
        edited = await run.fork(results={"work#2": "x"})
        assert (await within(edited.result())).split()[7] == "x"
        assert calls == []
        await edited.rerun("work#2")
        assert (await within(edited.result())).split()[7] == "3.2"
    async with place.open(app, worker=False) as client:
        engine = client.engine
        for each in (last, middle, edited):
            before = await engine.load(each.id, SINCE_START)
            assert before.events[0].kind == "run.continued"
        gone = await run_of(client, run.id).fork("work#1", id="kept")
        await engine.do(PruneRuns(engine.ns, engine.store.now() + 1))
        assert (await engine.load(gone.id, SINCE_START)).events[0].kind == "run.continued"
    async with place.open(app) as client:
        assert (await within(client.get("kept", parts).result())).split()[:8] == told.split()[:8]


async def test_a_child_that_gets_something_else_in_a_fork_is_created_once(
    place: Place, app: hf.App
) -> None:
    @app.step
    async def look() -> int:
        return 1

    @app.workflow
    async def below(n: int) -> int:
        return n * 10

    @app.workflow
    async def above() -> int:
        return await below(await look())

    async with place.open(app) as client:
        run = await client.start(above.bind(), id="one")
        assert await within(run.result()) == 10
        fork = await run.fork(results={"look#1": 2}, id="two")
        assert await within(fork.result()) == 20
        starts = [e for e in (await fork.history()).events if e.kind == "child.started"]
        assert [event.key for event in starts] == ["below#1"]


async def test_a_fork_has_children_of_its_own(place: Place, app: hf.App) -> None:
    calls: list[str] = []

    @app.step
    async def work(name: str) -> str:
        calls.append(name)
        return name

    @app.workflow
    async def below(name: str) -> str:
        heard = await hf.wait_for(go)
        return f"{await work(name)} {heard}"

    @app.workflow
    async def above() -> list[str]:
        first = await hf.start_child(below.bind("first"))
        between = await work("between")
        return [between, await first.result()]

    async with place.open(app) as client:
        run = await client.start(above.bind(), id="one")
        await event_of(run, "step.completed")
        other = await run.fork("work#1", id="two")
        await client.get("one/below#1").signal(go, 1)
        assert await within(run.result()) == ["between", "first 1"]
        child = client.get("two/below#1")
        await until(partial(_is_there, child))
        await child.signal(go, 2)
        assert await within(other.result()) == ["between", "first 2"]
        ended = await run.fork("below#1", id="three")
        assert await within(ended.result()) == ["between", "first 1"]
    assert calls == ["between", "first", "first"]


async def _is_there(run: hf.RunHandle[Any]) -> bool:
    try:
        return bool(await run.describe())
    except hf.RunNotFound:
        return False


async def test_a_fork_asks_its_own_questions(place: Place, app: hf.App) -> None:
    @app.step
    async def work() -> int:
        return 1

    @app.workflow
    async def flow() -> list[int]:
        return [await work(), await hf.ask("how many?", int)]

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="one")
        await status_of(run, "waiting")
        other = await run.fork(id="two")
        await status_of(other, "waiting")
        assert {each.run for each in (await client.questions()).questions} == {"one", "two"}
        await run.answer("ask#1", 1)
        await other.answer("ask#1", 2)
        assert await within(run.result()) == [1, 1]
        assert await within(other.result()) == [1, 2]


async def test_a_fork_and_its_origin_are_compared(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind("lamp"), id="one")
        await within(run.result())
        other = await run.fork(results={"charge#1": 70}, id="two")
        await within(other.result())
        compared = await client.diff("one", "two")
        assert [(item.key, item.verdict, item.differs) for item in compared.items] == [
            ("input", "same", ()),
            ("look#1", "same", ()),
            ("charge#1", "differs", ("result",)),
            ("ship#1", "differs", ("input", "result")),
            ("end", "differs", ("result",)),
        ]
        assert compared.first is not None
        assert compared.first.key == "charge#1"
        await run.rerun("ship#1")
        await within(run.result())
        assert (await client.diff("one@1", "one")).is_same
        assert (await client.diff("one@1", "one@2")).is_same
        with pytest.raises(hf.InvalidValue, match="no generation 3, but 2"):
            await client.diff("one@3", "one")
        with pytest.raises(hf.RunNotFound):
            await client.diff("nobody@1", "one")
