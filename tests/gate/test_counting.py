"""What tests count is shown where they are spread over processes, too, as in CI."""

from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_only_the_conftest_of_all_tests_adds_to_the_summary() -> None:
    """Whoever spreads the tests over processes collects none, and so reads no other one."""
    speaking = [
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("conftest.py")
        if "def pytest_terminal_summary" in path.read_text("utf-8")
    ]
    assert speaking == ["conftest.py"]
