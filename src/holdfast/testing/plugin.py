"""The pytest plugin: fixtures for virtual time and crashes. It does nothing until one is used.

    def test_a_year(holdfast_world) -> None:
        assert holdfast_world.run(app, story) == "twelve months"

    def test_crashes(holdfast_crashtest) -> None:
        holdfast_crashtest(checkout.bind("lamp"), effects=lambda: sorted(bank))

`--holdfast-seed=SEED` sets what is drawn by chance; a test that fails prints its seed. What each
crash test tried is listed at the end.
"""

# Nothing of the engine is imported here: this module is loaded in every run of pytest.
from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.client import Client
    from holdfast.fronts.function.workflow import Bound
    from holdfast.model.settings import Settings
    from holdfast.testing.crash_sweep import Report
    from holdfast.testing.crashing import Story, Where

T = TypeVar("T")

OPTION = "--holdfast-seed"
FIXTURES = frozenset({"holdfast_seed", "holdfast_world", "holdfast_crashtest"})
TRIED = "holdfast_crashtest"
SEED = pytest.StashKey[int]()


class World:
    """Tells stories in virtual time, with the seed of this session."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def run(
        self,
        app: App,
        story: Callable[[Client], Awaitable[T]],
        *,
        settings: Settings | None = None,
        longest: float | None = None,
    ) -> T:
        """Tell `story` to an app, as `holdfast.testing.virtual.run` does."""
        from holdfast.testing import virtual

        chosen = virtual.LONGEST if longest is None else longest
        return virtual.run(app, story, settings=settings, seed=self.seed, longest=chosen)


class Crashtest:
    """Crashes workflows, with the seed of this session, and has the summary tell of it."""

    def __init__(self, seed: int, tell: Callable[[str], None]) -> None:
        self.seed, self._tell = seed, tell

    def __call__(  # noqa: PLR0913 - as of the function it stands for
        self,
        bound: Bound[Any],
        story: Story | None = None,
        *,
        before: Callable[[], object] = lambda: None,
        effects: Callable[[], object] | None = None,
        loose: Iterable[str] = (),
        store: Where = "memory",
        app: App | None = None,
        only: str = "",
    ) -> Report:
        """Crash a run at each of its commits, as `holdfast.testing.crashtest` does."""
        from holdfast.testing.crashing import crashtest

        report = crashtest(
            bound, story, before=before, effects=effects, loose=loose, store=store, app=app,
            seed=self.seed or None, only=only,
        )  # fmt: skip
        self._tell(str(report))
        return report


@pytest.fixture
def holdfast_seed(pytestconfig: pytest.Config) -> int:
    """What chance is drawn from: 0, or as `--holdfast-seed` says."""
    return pytestconfig.stash[SEED]


@pytest.fixture
def holdfast_world(holdfast_seed: int) -> World:
    """Virtual time: `holdfast_world.run(app, story)`."""
    return World(holdfast_seed)


@pytest.fixture
def holdfast_crashtest(request: pytest.FixtureRequest, holdfast_seed: int) -> Crashtest:
    """Crash a workflow at every commit: `holdfast_crashtest(order.bind(...))`."""

    def tell(tried: str) -> None:
        request.node.user_properties.append((TRIED, tried))

    return Crashtest(holdfast_seed, tell)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the seed."""
    parser.getgroup("holdfast").addoption(
        OPTION, default="0", metavar="SEED",
        help="What workflows under test draw chance from: a number, or 'random'.",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Read the seed once, or draw it."""
    given = str(config.getoption(OPTION))
    if given != "random" and not given.isdecimal():
        raise pytest.UsageError(f"{OPTION}={given}: give a number, or 'random'.")
    config.stash[SEED] = secrets.randbelow(1 << 32) if given == "random" else int(given)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have a test that fails say how to repeat it."""
    report = yield
    if report.failed and not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        seed = item.config.stash[SEED]
        report.sections.append(("holdfast", f"To draw the same chance again: {OPTION}={seed}"))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how many points the crash tests tried."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    told = sorted(
        f"{report.nodeid}: {value}"
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in getattr(report, "user_properties", ())
        if name == TRIED
    )
    if told:
        terminalreporter.section("holdfast crashtest")
        for line in told:
            terminalreporter.line(line)
