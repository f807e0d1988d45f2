"""Statements that run all the time find their rows by an index, however many runs there are."""

import re
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager

import pytest

from holdfast.model.moving import named
from holdfast.model.writes import Claim, Filter, Page
from holdfast.stores.sqlite.filtering import statement_of
from holdfast.stores.sqlite.lanes import Lanes
from holdfast.stores.sqlite.statements import migrations, queries

SQL = queries()
LANE = "runs USING INDEX runs_claim (ns=? AND queue=? AND priority=?"
CREATE = """
INSERT INTO runs (
    ns, id, workflow, version, status, reason, generation, epoch, seq, wake_at, inbox_seq,
    inbox_read, cancel, strikes, input_digest, created_at, updated_at, queue, priority, number
)
VALUES ('n', ?, 'w', '', 'waiting', '', 1, 0, 1, ?, 0, 0, 0, 0, x'00', 0, 0, ?, ?, ?)
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


@pytest.mark.parametrize(
    "name", ["advance_run", "advance_run_by_two", "close_run", "settle_run", "is_held"]
)
def test_a_turn_finds_its_run_by_the_key_and_not_among_all_of_its_owner(name: str) -> None:
    statement: str = getattr(SQL, name)
    named = re.findall(r":(\w+)", statement)
    places = max([int(n) for n in re.findall(r"\?(\d+)", statement)], default=statement.count("?"))
    steps = steps_of(statement, dict.fromkeys(named, 1) or (1,) * places)
    assert any(step.endswith("USING PRIMARY KEY (ns=? AND id=?)") for step in steps), steps
    assert not any("runs_owner" in step for step in steps), steps


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
        connection.executemany(
            CREATE, [(f"r{n}", n, f"q{n % 2}", 1 + n % 3, n) for n in range(count)]
        )
        claim = Claim(ns="n", worker="A", workflows=("w",), limit=1, lease=1)
        with instructions(connection) as ticks:
            lanes = Lanes(connection, claim, count)
        assert len(vars(lanes)["_all"]) == min(count, 6)
        return len(ticks)


@contextmanager
def instructions(connection: sqlite3.Connection) -> Generator[list[None]]:
    """Yield a list that gets an entry for each instruction of SQLite's in the block."""
    ticks: list[None] = []
    # What is returned tells SQLite to go on.
    connection.set_progress_handler(lambda: ticks.append(None), 1)
    try:
        yield ticks
    finally:
        connection.set_progress_handler(None, 0)


BY_RUN = {"ns": "n", "run": "r"}


@pytest.mark.parametrize(
    ("name", "binds"),
    [
        ("living_events", ("n", "r", 0)),
        ("all_events", ("n", "r")),
        ("last_event_at", ("n", "r")),
        ("last_living_event", ("n", "r")),
        ("last_base", ("n", "r")),
        ("delete_events", ("n", "r")),
        ("supersede_events", {**BY_RUN, "by": 3, "seqs": "[1, 2]"}),
        ("named_blobs", ()),
        ("first_events", {"limit": 1}),
        ("next_events", {"k0": "n", "k1": "r", "k2": 1, "limit": 1}),
    ],
)
def test_events_are_found_by_their_place_and_never_sorted(
    name: str, binds: Mapping[str, object] | tuple[object, ...]
) -> None:
    steps = steps_of(named(getattr(SQL, name), columns="payload"), binds)
    [look] = [step for step in steps if step.split()[1] in ("run_events", "h")]
    assert look.startswith("SEARCH")
    assert not any("B-TREE" in step for step in steps), "sorted, though the table has the order"


def test_what_a_fork_shares_is_found_by_its_place() -> None:
    steps = steps_of(SQL.shared_events, {**BY_RUN, "after": 0})
    looks = [step for step in steps if step.startswith(("SEARCH h ", "SEARCH own "))]
    assert ["INTEGER PRIMARY KEY" in look for look in looks] == [True, True]


def test_all_events_are_read_page_by_page_in_one_walk() -> None:
    """Not from the beginning of the run again where it goes on within one."""
    walked = {count: _read_through(count) for count in (500, 2_000)}
    assert walked[2_000] < 5 * walked[500]


def _read_through(count: int) -> int:
    """Return how many instructions it takes to read so many events of one run, ten at a time."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript("\n".join(migrations()))
        connection.execute(CREATE, ("r", 1, "q", 1, 7))
        rows = [
            ("n", "r", n, 1, 0, "note.decided", "", 0, 1, None, None, 0, b"")
            for n in range(1, count + 1)
        ]
        connection.executemany(SQL.add_event, rows)
        with instructions(connection) as ticks:
            after: tuple[object, ...] = ("", "", 0)
            asked = named(SQL.next_events, columns="kind")
            while page := connection.execute(asked, _place(after)).fetchall():
                after = page[-1][:3]
        return len(ticks)


def _place(key: tuple[object, ...]) -> dict[str, object]:
    return {"limit": 10, **{f"k{n}": value for n, value in enumerate(key)}}
