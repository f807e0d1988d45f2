"""The engine suite runs on every store, by name in each test id, paranoid, with invariants."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from tests.engine.places import Place


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    url = request.getfixturevalue("postgres_store") if request.param == "postgres" else ""
    return Place(request.param, tmp_path, url)


@pytest.fixture
def app() -> hf.App:
    return hf.App("engine-tests")


@pytest.fixture(autouse=True)
def no_broken_sessions(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An error in the log is a bug of ours, even where the result happens to be right."""
    yield
    errors = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors] == []
