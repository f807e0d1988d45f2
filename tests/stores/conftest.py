"""What tests of stores share: a pooler, where there is one."""

import os
from collections.abc import Iterator

import pytest

from tests.stores.pooler import Pooler, found


@pytest.fixture(scope="session")
def pooler() -> Pooler:
    """The pooler of this machine. Without one, CI fails; elsewhere the test is skipped."""
    try:
        return found()
    except FileNotFoundError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def pooled(request: pytest.FixtureRequest, pooler: Pooler, migrated: str) -> Iterator[str]:
    """The address of `postgres_store` as it is reached through a pooler set up in one way."""
    with pooler.before(migrated, request.param) as url:
        yield url
