"""Statements that run all the time find their rows by an index, however many runs there are."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing

import pytest

from holdfast.model.writes import Filter, Page
from holdfast.stores.sqlite.filtering import statement_of
from holdfast.stores.sqlite.statements import migrations, queries

SQL = queries()
LANE = "runs USING INDEX runs_claim (ns=? AND queue=? AND priority=?"
BINDS = dict.fromkeys(
    ("ns", "queue", "priority", "now", "workflows", "suspects", "limit", "queues", "priorities",
     "before"),
    1,
)  # fmt: skip


def plan(filter: Filter, page: Page) -> list[str]:
    """Return the steps by which SQLite would find this page."""
    return steps_of(*statement_of(filter, page))


def steps_of(statement: str, binds: Mapping[str, object] | tuple[object, ...]) -> list[str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript("\n".join(migrations()))
        rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", binds)
        return [step for *_, step in rows]


@pytest.mark.parametrize("page", [Page(100), Page(100, before_at=7, before_id="r")])
def test_workers_find_blocked_runs_without_a_walk_through_all(page: Page) -> None:
    [step] = plan(Filter(statuses=("blocked",)), page)
    assert "USING INDEX runs_blocked" in step


def test_the_newest_runs_are_found_in_their_order() -> None:
    steps = plan(Filter(), Page(20))
    assert any("USING INDEX runs_listed" in step for step in steps)
    assert not any("B-TREE" in step for step in steps), "sorted, though the index has the order"


@pytest.mark.parametrize("name", ["claimable_runs", "next_wake_at", "unregistered_workflows"])
def test_a_lane_is_walked_in_its_order_and_never_sorted(name: str) -> None:
    steps = steps_of(getattr(SQL, name), BINDS)
    [walk] = [step for step in steps if " runs " in step]
    assert LANE in walk
    assert not any("ORDER BY" in step for step in steps)


@pytest.mark.parametrize(("name", "looks"), [("next_lane", 1), ("unserved_queues", 3)])
def test_lanes_are_found_by_hops(name: str, looks: int) -> None:
    steps = [step for step in steps_of(getattr(SQL, name), BINDS) if " runs " in step]
    assert len(steps) == looks
    assert all("SEARCH runs USING" in step and "INDEX runs_claim (ns=?" in step for step in steps)


def test_a_hop_leaves_a_whole_lane_behind() -> None:
    [step] = steps_of(SQL.next_lane, BINDS)
    assert "(ns=? AND (queue,priority)>(?,?))" in step
    [step] = steps_of(SQL.next_owner, ("A",))
    assert "USING COVERING INDEX runs_owner (owner>?)" in step
