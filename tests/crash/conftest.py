"""Which store a sweep works on, and which sweeps are for `make prove`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.crash_database import Database
from holdfast.testing.crash_sweep import Kind
from holdfast.testing.inline import Elsewhere
from tests.crash.thinning import AT_ONCE, is_whole

pytest.register_assert_rewrite("tests.crash.scenarios", "tests.crash.asking", "tests.crash.graphs")
HERE = Path(__file__).parent


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
    """What is thinned in `make prove` is whole in `make test-all`.

    A sweep is hundreds of worlds, and on a busy machine a minute is soon over. A time-out that
    strikes inside a world would be told as a fault of the code in it.
    """
    for item in items:
        if item.path.parent != HERE:
            continue
        item.add_marker(pytest.mark.timeout(600))
        params = getattr(getattr(item, "callspec", None), "params", {})
        store, name = params.get("store"), params.get("name")
        if store is not None and "thin" not in params and not is_whole(name, store):
            item.add_marker(pytest.mark.slow)
        if "store" in params and (name not in AT_ONCE and (name or store != "memory")):
            item.add_marker(pytest.mark.proof)
