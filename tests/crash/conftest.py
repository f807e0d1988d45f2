"""Says in pytest's summary how many points each sweep tried, and what caught each planted bug."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.crash_database import Database
from holdfast.testing.crash_sweep import Kind
from holdfast.testing.inline import Elsewhere

pytest.register_assert_rewrite("tests.crash.scenarios", "tests.crash.asking", "tests.crash.graphs")
HERE = Path(__file__).parent
AT_ONCE = ("chain", "race")
"""Scenarios whose sweep on PostgreSQL is not left to `make test-all`."""
LARGE = (
    "back-off", "blobs", "cancel-below", "cancel-paused", "cancelled-storm", "child-conflict",
    "child-talk", "children", "completion", "continue", "crowd", "deploy", "encrypted", "entity",
    "eviction", "fork", "fork-forgotten", "graph", "graph-edited", "heartbeat", "heartbeat-deploy",
    "job-cancelled", "job-deploy", "job-ghost", "job-once", "job-zombie", "jobs", "limits",
    "observers", "overdue", "parent-closes", "parent-retried", "pause", "question-cancelled",
    "questions", "queues", "rerun", "rerun-open", "saga-cancelled", "saga-owed", "saga-retried",
    "schedule-replaces", "schedule-steered", "secrets-sealed", "slots", "storm", "stream-cancel",
    "stream-cycle", "stream-failure", "stream-fork", "stream-interrupt", "timer",
    "transaction-cancelled", "transaction-zombie", "update-deploy", "updates", "with-start",
    "witness", "zombie",
)  # fmt: skip
"""Scenarios of so many points that their sweep on SQLite is left to `make test-all`."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    told = [
        f"{value}"
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "crash"
    ]
    if told:
        terminalreporter.section("crash sweep")
        for line in sorted(told):
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def database(migrated: str) -> Iterator[Database]:
    with Elsewhere() as elsewhere:
        made = Database(migrated, elsewhere)
        yield made
        made.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Kind:
    """Where the worlds of a sweep keep their runs, by name in each test's id."""
    if request.param == "postgres":
        return request.getfixturevalue("database")
    kind: Kind = request.param
    return kind


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A world in a real database takes 50 ms, in a file 10: in the quick tests only some.

    A sweep is hundreds of worlds, and on a busy machine a minute is soon over. A time-out that
    strikes inside a world would be told as a fault of the code in it.
    """
    for item in items:
        if item.path.parent != HERE:
            continue
        item.add_marker(pytest.mark.timeout(600))
        params = getattr(getattr(item, "callspec", None), "params", {})
        store, name = params.get("store"), params.get("name")
        if (store == "postgres" and name not in (*AT_ONCE, None)) or (
            store == "sqlite" and name in LARGE
        ):
            item.add_marker(pytest.mark.slow)
        if "store" in params and (name not in AT_ONCE and (name or store != "memory")):
            item.add_marker(pytest.mark.proof)
