"""Statements that run all the time find their rows by an index, however many runs there are."""

import sqlite3
from contextlib import closing

import pytest

from holdfast.model.writes import Filter, Page
from holdfast.stores.sqlite.filtering import statement_of
from holdfast.stores.sqlite.statements import migrations


def plan(filter: Filter, page: Page) -> list[str]:
    """Return the steps by which SQLite would find this page."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript("\n".join(migrations()))
        statement, binds = statement_of(filter, page)
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
