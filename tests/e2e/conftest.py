"""Tests with real processes: each in a folder of its own."""

from pathlib import Path

import pytest

from tests.e2e.processes import Yard


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def any_yard(request: pytest.FixtureRequest, tmp_path: Path) -> Yard:
    """A yard on each store that processes can share, by name in the test's id."""
    if request.param == "sqlite":
        return Yard(tmp_path)
    return Yard(tmp_path, request.getfixturevalue("postgres_store"))
