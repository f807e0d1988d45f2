"""Says in pytest's summary how many points each sweep tried, and what caught each planted bug."""

import pytest

pytest.register_assert_rewrite("tests.crash.scenarios")


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
