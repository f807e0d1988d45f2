"""What every test may rely on: `async def test_*` runs on a fresh event loop."""

import asyncio
import inspect
import os
import re
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from holdfast.model import sizes
from holdfast.model.redacting import KNOWN
from holdfast.testing.postgres import MEMORY, is_roomy

# How long an example takes is the machine's affair. CI tries the same examples each time: it is to
# judge the change. Other runs explore.
settings.register_profile("untimed", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("untimed")

# In memory where there is room: a sync takes its time, and that there is one is audited.
if is_roomy():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# A shell's background jobs ignore Ctrl-C, and so would all that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

COUNTED = {"crash": "crash sweep", "e2e": "real processes", "replay": "histories"}
"""What tests count for the reader (`record_property`), and under which title it is shown."""
POINTS = re.compile(r": (\d+) of \d+ points")
"""What a sweep says of itself, to be added up."""

pytest_plugins = ["pytester", "tests.postgres", "tests.s3"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Use three processes for two cores: many tests wait, for a process or a moment."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    return (3 * (os.cpu_count() or 1) + 1) // 2


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}
    asyncio.run(pyfuncitem.obj(**arguments), debug=False)
    return True


@pytest.fixture(autouse=True)
def _nothing_of_another_test() -> Iterator[None]:
    """Forget what a whole process knows: what is masked, and which stores have blobs."""
    KNOWN.clear()
    sizes._keepers.clear()  # pyright: ignore[reportPrivateUsage]
    yield
    KNOWN.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what was counted: how many points, kills, refusals.

    Here, because what spreads tests over processes never reads the `conftest.py` of a folder.
    """
    reports = [report for found in terminalreporter.stats.values() for report in found]
    properties = [
        (name, str(value))
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if getattr(report, "when", "") == "call"
    ]
    for name, title in COUNTED.items():
        if lines := sorted(value for other, value in properties if other == name):
            terminalreporter.section(title)
            for line in lines:
                terminalreporter.line(line)
            if points := [int(found[1]) for line in lines if (found := POINTS.search(line))]:
                terminalreporter.line(f"{sum(points):,} points in {len(points)} sweeps")
