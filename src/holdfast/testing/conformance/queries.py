"""Reads: one run as of one moment, and lists in pages without gaps or doubles."""

from __future__ import annotations

from typing import Any

from holdfast.model.run import END_ONLY, Loaded, Run
from holdfast.model.writes import Filter, Page
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.harness import Harness, answer, ids

FAILURE = b'{"type": "ValueError", "message": "no"}'


async def find(harness: Harness, limit: int = 100, **fields: Any) -> list[str]:
    """Return the ids of the first page."""
    return ids(await harness.store.find(Filter()._replace(**fields), Page(limit)))


async def pages(harness: Harness, limit: int, between: str = "") -> list[str]:
    """Read all pages; start a run of that name, numbered, between any two."""
    seen: list[str] = []
    page = Page(limit)
    while True:
        runs = await harness.store.find(Filter(), page)
        seen += ids(runs)
        if len(runs) < limit:
            return seen
        last: Run = runs[-1]
        page = Page(limit, last.created_at, last.id)
        if between:
            harness.clock.advance()
            await harness.start(f"{between}{len(seen)}")


async def test_an_unknown_run_is_none(harness: Harness) -> None:
    assert await harness.store.load("default", "nobody") is None


async def test_a_history_is_read_from_any_position(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.commit(run, answer("a#1"), answer("b#1"), answer("c#1"))
    whole = await harness.load("r")
    assert [each.seq for each in whole.events] == [1, 2, 3, 4]
    for after in range(6):
        assert await harness.load("r", after=after) == whole._replace(events=whole.events[after:])


async def test_the_end_of_a_run_is_read_without_its_history(harness: Harness) -> None:
    assert await harness.store.load("default", "r", END_ONLY) is None
    run = await harness.held("r")
    assert await harness.commit(run, answer("a#1"), answer("b#1")) == "applied"
    await harness.signal("r")
    loaded = await harness.store.load("default", "r", END_ONLY)
    assert loaded == Loaded(await harness.row("r"), (), ())
    run = await harness.end(await harness.row("r"), "failed", FAILURE)
    for seq in (run.seq, run.seq + 2):
        loaded = await harness.store.load("default", "r", END_ONLY)
        assert loaded is not None
        assert [(each.kind, each.seq) for each in loaded.events] == [("run.failed", seq)]
        assert loaded == (await harness.row("r"), loaded.events, (), ())
        await harness.retry("r")
        [run] = (await harness.claim("B")).runs
        reopened = await harness.store.load("default", "r", END_ONLY)
        assert reopened == Loaded(run, (), ())
        await harness.end(run, "failed", FAILURE)


async def test_the_newest_run_comes_first(harness: Harness) -> None:
    for id in ("b", "a", "c"):
        await harness.start(id)
        harness.clock.advance()
    assert await find(harness) == ["c", "a", "b"]


async def test_runs_of_one_moment_have_an_order(harness: Harness) -> None:
    for id in ("b", "é", "a", "B", "c"):
        await harness.start(id)
    assert await find(harness) == ["é", "c", "b", "a", "B"]


async def test_rows_are_found_as_they_are(harness: Harness) -> None:
    run = await harness.park(await harness.held("r"))
    assert await harness.store.find(Filter(), Page()) == [run]


async def test_runs_are_found_by_status(harness: Harness) -> None:
    await harness.start("p")
    await harness.held("h")
    await harness.closed("c")
    assert await find(harness, statuses=("pending",)) == ["p"]
    assert await find(harness, statuses=("running", "completed")) == ["h", "c"]
    assert await find(harness, statuses=("failed",)) == []


async def test_runs_are_found_by_workflow(harness: Harness) -> None:
    await harness.start("a", workflow="x")
    await harness.start("b", workflow="y")
    await harness.start("c", workflow="xy")
    assert await find(harness, workflow="x") == ["a"]


async def test_runs_are_found_by_the_beginning_of_their_id(harness: Harness) -> None:
    for id in ("order-1", "order-2", "Order-3", "other", "o%", "o_x", "größe-1"):
        await harness.start(id)
    assert await find(harness, id_prefix="order-") == ["order-2", "order-1"]
    assert await find(harness, id_prefix="o%") == ["o%"]
    assert await find(harness, id_prefix="o_") == ["o_x"]
    assert await find(harness, id_prefix="grö") == ["größe-1"]


async def test_runs_are_found_by_id(harness: Harness) -> None:
    for id in ("a", "b", "c"):
        await harness.start(id)
    assert await find(harness, ids=("a", "c", "nobody")) == ["c", "a"]
    assert await find(harness, ids=("nobody",)) == []
    assert await find(harness, ids=("a", "b", "c"), limit=2) == ["c", "b"]


async def test_runs_are_found_by_the_time_of_their_start(harness: Harness) -> None:
    await harness.start("old")
    since = harness.clock.advance()
    await harness.start("new")
    assert await find(harness, created_after=since) == ["new"]
    assert await find(harness, created_after=since + 1) == []


async def test_all_filters_hold_together(harness: Harness) -> None:
    await harness.start("a-1", workflow="x")
    since = harness.clock.advance()
    for id, workflow in (("a-2", "x"), ("a-3", "y"), ("b-4", "x"), ("a-5", "x")):
        await harness.start(id, workflow=workflow)
    await harness.move("terminate", "a-5")
    fields: dict[str, Any] = {
        "workflow": "x",
        "id_prefix": "a-",
        "created_after": since,
        "statuses": ("pending",),
    }
    assert await find(harness, **fields) == ["a-2"]
    both = ("a-1", "a-2", "a-5")
    assert await find(harness, ids=both, created_after=since) == ["a-5", "a-2"]
    assert await find(harness, ids=both, statuses=("pending",)) == ["a-2", "a-1"]
    assert await find(harness, ids=both, workflow="y") == []
    assert await find(harness, ids=both, id_prefix="a-2") == ["a-2"]


async def test_pages_hold_every_run_once(harness: Harness) -> None:
    for n in range(23):
        await harness.start(f"r{n:02}")
        if n % 3 == 0:
            harness.clock.advance()
    everything = await find(harness)
    assert len(everything) == 23
    for limit in (1, 2, 5, 23, 24):
        assert await pages(harness, limit) == everything


async def test_runs_started_between_two_pages_shift_nothing(harness: Harness) -> None:
    for n in range(10):
        await harness.start(f"r{n}")
    before = await find(harness)
    assert await pages(harness, 3, between="new") == before


async def test_blocked_runs_are_found_page_by_page(harness: Harness) -> None:
    for n in range(5):
        await harness.in_status("blocked", f"b{n}")
        await harness.in_status("paused", f"p{n}")
        harness.clock.advance()
    wanted = Filter(statuses=("blocked",))
    [first, second] = await harness.store.find(wanted, Page(2))
    assert ids([first, second]) == ["b4", "b3"]
    rest = await harness.store.find(wanted, Page(9, second.created_at, second.id))
    assert ids(rest) == ["b2", "b1", "b0"]
    assert await find(harness, statuses=("blocked",), id_prefix="b1") == ["b1"]
    assert await find(harness, statuses=("blocked",), ns="other") == []


async def test_a_page_of_found_ids_goes_on_where_it_ended(harness: Harness) -> None:
    for id in ("a", "b", "c", "d"):
        await harness.start(id)
    wanted = Filter(ids=("a", "b", "d"))
    [first, second] = await harness.store.find(wanted, Page(2))
    assert ids([first, second]) == ["d", "b"]
    rest = await harness.store.find(wanted, Page(2, second.created_at, second.id))
    assert ids(rest) == ["a"]


async def test_a_run_keeps_its_place_when_it_changes(harness: Harness) -> None:
    run = await harness.held("old")
    harness.clock.advance(SECOND)
    await harness.start("new")
    harness.clock.advance(SECOND)
    await harness.commit(run, answer())
    assert await find(harness) == ["new", "old"]
