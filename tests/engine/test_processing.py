"""`process_parallel`, `process_chain`, `process_conditional` in nodes of graphs, on every store."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, status_of, until, within

ONCE = hf.Retry(max_attempts=1)
COLLECT = hf.ParallelConfig(fail_fast=False)


@dataclass(frozen=True)
class Book:
    pages: list[int] = field(default_factory=list[int])
    texts: list[str] = field(default_factory=list[str])
    unread: list[int] = field(default_factory=list[int])
    total: int = 0


@pytest.fixture
def read(app: hf.App) -> list[int]:
    """Return which pages were read, in order; add the step that reads one."""
    done: list[int] = []

    @app.step(retry=ONCE)
    async def page(n: int) -> str:
        done.append(n)
        if n < 0:
            raise ValueError(f"no page {n}")
        return f"page {n}"

    return done


def step_of(app: hf.App, name: str) -> Any:
    return app.steps[name]


def one_node(app: hf.App, node: Any) -> hf.StateGraph[Book]:
    graph = app.graph("book", state=Book).add_node("read", node, body=True)
    return graph.add_edge(hf.START, "read").add_edge("read", hf.END)


async def test_a_node_reads_each_item_as_a_step_and_keeps_what_failed(
    place: Place, app: hf.App, read: list[int]
) -> None:
    told: list[tuple[int, int, str]] = []

    async def node(book: Book) -> Mapping[str, Any]:
        found = await hf.process_parallel(
            book.pages, step_of(app, "page"), COLLECT, lambda *args: told.append(args)
        )
        return {"texts": list(found.results), "unread": [each.item for each in found.errors]}

    graph = one_node(app, node)
    async with place.open(app) as client:
        run = await client.start(graph.bind(Book([3, -1, 1])))
        result = await within(run.result())
        keys = [each.key for each in (await run.history()).events if each.key.startswith("read[")]
    assert (result.texts, result.unread) == (["page 3", "page 1"], [-1])
    assert sorted(keys)[:3] == [f"read[1]/page#{n}" for n in (1, 2, 3)]
    assert sorted(read) == [-1, 1, 3]
    assert {(done, total) for done, total, _ in told} == {(1, 3), (2, 3)}


async def test_after_a_crash_only_items_without_a_record_run_again(place: Place) -> None:
    """The first worker records two of four, and is gone; so is what it told of them."""
    done, told = list[int](), list[int]()
    is_stuck = True

    def release() -> tuple[hf.App, hf.StateGraph[Book]]:
        app = hf.App("engine-tests")

        @app.step
        async def page(n: int) -> str:
            done.append(n)
            if n > 2 and is_stuck:
                await asyncio.Event().wait()
            return f"page {n}"

        async def node(book: Book) -> Mapping[str, Any]:
            found = await hf.process_parallel(
                book.pages, page, progress=lambda count, total, text: told.append(count)
            )
            return {"texts": list(found.results)}

        return app, one_node(app, node)

    app, graph = release()
    async with place.open(app) as client:
        await client.start(graph.bind(Book([1, 2, 3, 4])), id="book")
        await until(lambda: _is_told(told, 2))
    is_stuck = False
    app, _ = release()
    async with place.open(app) as client:
        result = await within(client.get("book").result())
    assert result.texts == ["page 1", "page 2", "page 3", "page 4"]
    assert (done.count(1), done.count(2)) == (1, 1)
    assert told == [1, 2, 3, 4]


async def _is_told(told: list[int], count: int) -> bool:
    return len(told) >= count


async def test_a_run_that_an_item_failed_goes_on_with_it_when_it_is_retried(
    place: Place, app: hf.App
) -> None:
    done: list[int] = []
    is_broken = True

    @app.step(retry=ONCE)
    async def page(n: int) -> str:
        done.append(n)
        if n == 2 and is_broken:
            raise ValueError("torn")
        return f"page {n}"

    async def node(book: Book) -> Mapping[str, Any]:
        config = hf.ParallelConfig(max_workers=1)
        return {"texts": list((await hf.process_parallel(book.pages, page, config)).results)}

    graph = one_node(app, node)
    async with place.open(app) as client:
        run = await client.start(graph.bind(Book([1, 2, 3])))
        with pytest.raises(hf.RunFailed, match=r"at node read: Parallel.*item 1: .*torn"):
            await within(run.result())
        is_broken = False
        await run.retry()
        assert (await within(run.result())).texts == ["page 1", "page 2", "page 3"]
    assert done == [1, 2, 2, 3]


async def test_the_first_error_ends_the_steps_beside_it(place: Place, app: hf.App) -> None:
    cancelled = asyncio.Event()

    @app.step(retry=ONCE)
    async def page(n: int) -> str:
        if n == 1:
            raise ValueError("torn")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    async def node(book: Book) -> Mapping[str, Any]:
        try:
            await hf.process_parallel(book.pages, page)
        except hf.ParallelError as error:
            return {"unread": [each.index for each in error.errors], "total": error.total}
        return {}

    graph = one_node(app, node)
    async with place.open(app) as client:
        result = await within((await client.start(graph.bind(Book([0, 1, 2])))).result())
        await within(cancelled.wait())
    assert (result.unread, result.total) == ([1], 3)


async def test_a_chain_goes_on_after_the_step_that_was_recorded_last(
    place: Place, app: hf.App
) -> None:
    done, told = list[int](), list[int]()
    go = hf.Signal("go", int)

    @app.step
    async def add(n: int, total: int) -> int:
        done.append(n)
        return total + n

    async def or_wait(n: int, total: int) -> int:
        return await add(n, total) if n else total + await hf.wait_for(go)

    async def node(book: Book) -> Mapping[str, Any]:
        captures = hf.ChainConfig(capture_intermediate_states=True)
        found = await hf.process_chain(
            book.pages, 0, or_wait, captures, lambda count, total, state: told.append(state)
        )
        return {"total": found.final, "unread": list(found.intermediate)}

    graph = one_node(app, node)
    async with place.open(app) as client:
        await client.start(graph.bind(Book([1, 2, 0, 4])), id="chain")
        await status_of(client.get("chain"), "waiting")
    async with place.open(app) as client:
        await client.get("chain").signal(go, 30)
        result = await within(client.get("chain").result())
    assert (result.total, result.unread) == (37, [0, 1, 3, 33, 37])
    assert done == [1, 2, 4]
    assert told == [1, 3, 33, 37]


async def test_a_route_of_a_node_may_be_steps(place: Place, app: hf.App) -> None:
    @app.step
    async def shorten(book: Book) -> Book:
        return Book(book.pages[:1])

    async def keep(book: Book) -> Book:
        return book

    async def node(book: Book) -> Book:
        routes: dict[str, Any] = {"long": shorten, "short": keep}
        return await hf.process_conditional(
            book, lambda b: "long" if len(b.pages) > 2 else "short", routes
        )

    graph = one_node(app, node)
    async with place.open(app) as client:
        run = await client.start(graph.bind(Book([1, 2, 3])))
        assert (await within(run.result())).pages == [1]
        run = await client.start(graph.bind(Book([1, 2])))
        assert (await within(run.result())).pages == [1, 2]


async def test_one_who_watches_badly_disturbs_no_run(
    place: Place, app: hf.App, read: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    def trips(*args: Any) -> None:
        raise RuntimeError("no screen")

    async def node(book: Book) -> Mapping[str, Any]:
        found = await hf.process_parallel(book.pages, step_of(app, "page"), progress=trips)
        return {"texts": list(found.results)}

    graph = one_node(app, node)
    async with place.open(app) as client:
        result = await within((await client.start(graph.bind(Book([1, 2])))).result())
    assert result.texts == ["page 1", "page 2"]
    assert "progress callback" in caplog.text


async def test_the_helpers_work_in_a_step_too(place: Place, app: hf.App) -> None:
    graph = app.graph("plain", state=Book)

    @graph.node
    async def inside(book: Book) -> Mapping[str, Any]:
        found = await hf.process_parallel(book.pages, lambda n: f"page {n}")
        return {"texts": list(found.results)}

    graph.add_edge(hf.START, inside).add_edge(inside, hf.END)
    async with place.open(app) as client:
        result = await within((await client.start(graph.bind(Book([1, 2])))).result())
    assert result.texts == ["page 1", "page 2"]
