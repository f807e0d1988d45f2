"""Which Pythons replayed which histories, told at the end."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests counted, also when they ran in other processes."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    lines = [
        str(value)
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "replay" and getattr(report, "when", "") == "call"
    ]
    if lines:
        terminalreporter.section("histories")
        for line in sorted(lines):
            terminalreporter.line(line)
