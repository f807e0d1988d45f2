"""Every case of the shipped suite, on every store."""

from pathlib import Path

import pytest

from holdfast.testing.conformance import Case, cases
from tests.conformance.stores import STORES, Kind


@pytest.fixture
def place(kind: Kind, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Where the store under test keeps its runs."""
    if kind.needs_server:
        return str(request.getfixturevalue("postgres_store"))
    return str(tmp_path / "runs.db")


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        pytest.param(kind, case, id=f"{name}-{case}")
        for name, kind in STORES.items()
        for case in cases(*kind.capabilities)
        if str(case) not in kind.lacks
    ],
)
async def test_store(kind: Kind, case: Case, place: str) -> None:
    remote = kind.remote.format(place=place)
    await case.run(lambda clock: kind.make(place, clock), remote=remote)


def test_cases_without_their_capability_are_left_out() -> None:
    assert len(cases()) < len(cases("durable")) < len(cases("durable", "shared"))
    assert len({str(case) for case in cases()}) == len(cases())
