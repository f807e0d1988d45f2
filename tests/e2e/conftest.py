"""Tests with real processes: each in a folder of its own."""

from pathlib import Path

import pytest

from tests.e2e.processes import Yard


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)
