"""The pytest plugin, in a pytest of its own, as users have it."""

from importlib.metadata import entry_points

import pytest

NAME = "holdfast.testing.plugin"
IS_INSTALLED = any(each.value == NAME for each in entry_points(group="pytest11"))

SHOP = """
import asyncio
from datetime import timedelta
import holdfast as hf
from holdfast.testing.plugin import Crashtest, World

app = hf.App("shop")
bank: list[str] = []

@app.step(retry=hf.Retry(max_attempts=3, initial=60))
async def charge(item: str) -> str:
    if hf.attempt() < 3:
        raise ConnectionError("no line")
    bank.append(item)
    return item

@app.workflow
async def order(item: str) -> float:
    began = hf.now()
    await charge(item)
    return (hf.now() - began).total_seconds()

async def story(client: hf.Client) -> float:
    return await (await client.start(order.bind("lamp"), id="o")).result()
"""


def pytest_of_a_user(pytester: pytest.Pytester, code: str, *words: str) -> pytest.RunResult:
    pytester.makepyfile(test_shop=SHOP + code)
    loaded = () if IS_INSTALLED else ("-p", NAME)
    return pytester.runpytest_subprocess(*loaded, "-p", "no:randomly", "-W", "error", *words)


WORLD = """
def test_it_takes_minutes(holdfast_world: World) -> None:
    took = holdfast_world.run(app, story)
    print("took", took)
    assert took == holdfast_world.run(app, story)
    assert took < 1
"""


def test_a_test_that_fails_says_its_seed(pytester: pytest.Pytester) -> None:
    result = pytest_of_a_user(pytester, WORLD)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*To draw the same chance again: --holdfast-seed=0"])


def test_the_seed_decides_what_is_drawn(pytester: pytest.Pytester) -> None:
    def drawn(*words: str) -> list[str]:
        lines = pytest_of_a_user(pytester, WORLD, *words).outlines
        return [line for line in lines if line.startswith(("took", "To draw"))]

    five = drawn("--holdfast-seed=5")
    assert five == drawn("--holdfast-seed=5")
    assert five != drawn("--holdfast-seed=6")
    chance, seed = drawn("--holdfast-seed=random")
    assert drawn(seed.rpartition(" ")[2])[0] == chance


def test_a_seed_that_is_none_is_refused(pytester: pytest.Pytester) -> None:
    result = pytest_of_a_user(pytester, "", "--holdfast-seed=lots")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--holdfast-seed=lots: give a number, or 'random'."])


CRASHES = """
def test_careful(holdfast_crashtest: Crashtest) -> None:
    holdfast_crashtest(order.bind("lamp"), loose=["order"])

def test_careless(holdfast_crashtest: Crashtest) -> None:
    holdfast_crashtest(order.bind("lamp"), loose=["order"], before=bank.clear,
                       effects=lambda: bank)
"""


def test_crash_tests_are_counted_in_the_summary(pytester: pytest.Pytester) -> None:
    result = pytest_of_a_user(pytester, CRASHES)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*order on memory ends otherwise if the process dies before the commit of "
            "step.completed charge#1*",
            "*- the effects are *'lamp', 'lamp'*, and should be *'lamp'*",
            "*holdfast crashtest*",
            "test_shop.py::test_careful: order on memory: * points *, 0 violations",
        ]
    )


def test_it_is_silent_and_light_for_those_who_do_not_use_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_other="""
        import sys

        def test_fails():
            assert not [name for name in sys.modules if name.startswith("holdfast.hosts")]
            assert "asyncpg" not in sys.modules
            assert False
        """
    )
    loaded = () if IS_INSTALLED else ("-p", NAME)
    result = pytester.runpytest_subprocess(*loaded, "-p", "no:randomly")
    result.assert_outcomes(failed=1)
    assert "holdfast" not in result.stdout.str().split("assert False", 1)[1]


def test_the_project_tells_pytest_of_it(pytestconfig: pytest.Config) -> None:
    text = (pytestconfig.rootpath / "pyproject.toml").read_text("utf-8")
    assert '[project.entry-points.pytest11]\nholdfast = "holdfast.testing.plugin"\n' in text
