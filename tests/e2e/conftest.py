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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests counted, also when they ran in other processes."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    lines = [
        str(value)
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "e2e" and getattr(report, "when", "") == "call"
    ]
    if lines:
        terminalreporter.section("real processes")
        for line in sorted(lines):
            terminalreporter.line(line)
