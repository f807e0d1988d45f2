"""Statements that run all the time find their rows by an index, however many runs there are."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing

import pytest

from holdfast.model.writes import Claim, Filter, Page
from holdfast.stores.sqlite.filtering import statement_of
from holdfast.stores.sqlite.lanes import Lanes
from holdfast.stores.sqlite.statements import migrations, queries

SQL = queries()
LANE = "runs USING INDEX runs_claim (ns=? AND queue=? AND priority=?"
CREATE = """
INSERT INTO runs (
    ns, id, workflow, version, status, reason, generation, epoch, seq, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, queue, priority
)
VALUES ('n', ?, 'w', '', 'waiting', '', 1, 0, 1, ?, 0, 0, 0, 0, x'00', 0, 0, ?, ?)
"""
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


@pytest.mark.parametrize(("name", "looks"), [("unserved_queues", 3)])
def test_lanes_are_found_by_hops(name: str, looks: int) -> None:
    steps = [step for step in steps_of(getattr(SQL, name), BINDS) if " runs " in step]
    assert len(steps) == looks
    assert all("SEARCH runs USING" in step and "INDEX runs_claim (ns=?" in step for step in steps)


@pytest.mark.parametrize(
    ("name", "place", "search"),
    [
        ("next_lane", ("n", "q", 1), "runs_claim (ns=? AND queue=? AND priority>?)"),
        ("next_queue", ("n", "q"), "runs_claim (ns=? AND queue>?)"),
        ("next_owner", ("A",), "runs_owner (owner>?)"),
    ],
)
def test_a_hop_leaves_all_runs_of_a_lane_or_an_owner_behind(
    name: str, place: tuple[object, ...], search: str
) -> None:
    assert steps_of(getattr(SQL, name), place) == [f"SEARCH runs USING COVERING INDEX {search}"]


def test_hops_take_as_long_in_a_long_lane_as_in_a_short_one() -> None:
    """A plan may look alike and walk all the same."""
    walked = {count: _walked(count) for count in (10, 5_000)}
    assert walked[5_000] < 2 * walked[10]


def _walked(count: int) -> int:
    """Return how many instructions a walk over the lanes takes, with so many runs in each."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript("\n".join(migrations()))
        connection.executemany(CREATE, [(f"r{n}", n, f"q{n % 2}", 1 + n % 3) for n in range(count)])
        ticks = 0

        def tick() -> int:
            nonlocal ticks
            ticks += 1
            return 0

        connection.set_progress_handler(tick, 1)
        claim = Claim(ns="n", worker="A", workflows=("w",), limit=1, lease=1)
        lanes = Lanes(connection, claim, count)
        assert len(vars(lanes)["_all"]) == min(count, 6)
        return ticks
