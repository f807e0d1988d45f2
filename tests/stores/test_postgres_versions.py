"""The oldest server that comes with the wheel; all other tests run on the newest."""

from collections.abc import Iterator
from typing import get_args

import pytest
from _pytest.mark import ParameterSet

from holdfast.stores.postgres import PostgresStore
from holdfast.testing.conformance import Case, cases
from holdfast.testing.crash_database import EMPTIED
from holdfast.testing.postgres import VARIABLE, PostgresServer, Version
from tests.conformance.stores import POSTGRES

OLDEST: Version = min(get_args(Version))
CASES = cases("durable", "shared", "rings")
AT_ONCE = {"claims", "sharing"}
"""Topics that are not left to `make test-all`."""


def at_once_or_later(case: Case) -> ParameterSet:
    marks = [] if case.topic in AT_ONCE else [pytest.mark.slow]
    return pytest.param(case, id=str(case), marks=marks)


@pytest.fixture(scope="module")
def older() -> Iterator[str]:
    """A database of ours on a server of the older version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        server = PostgresServer.start(version=OLDEST)
    with server, server.database() as url:
        yield url


@pytest.mark.parametrize("case", [at_once_or_later(case) for case in CASES])
async def test_store(case: Case, older: str) -> None:
    store = PostgresStore(older)
    await store.open()
    async with store._writes.transaction() as ask:
        await ask.script(EMPTIED)
    await store.close()
    remote = POSTGRES.format(place=older)
    await case.run(lambda clock: PostgresStore(older, clock=clock), remote=remote)
