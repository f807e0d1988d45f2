"""One PostgreSQL for a whole test session, started by the first test that asks for it.

Under xdist the session is many processes. The controller makes the folder and holds the pipe
that keeps the server alive; the first worker in need starts the server, the others find it.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from holdfast.errors import StoreUnavailable
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.crash_database import EMPTIED
from holdfast.testing.inline import Elsewhere
from holdfast.testing.postgres import PostgresServer, folder_in_memory

FOLDER = pytest.StashKey[Path]()
HELD = pytest.StashKey[int]()
SERVER = pytest.StashKey[PostgresServer]()


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.stash[FOLDER] = Path(config.workerinput["postgres"])
        return
    folder = config.stash[FOLDER] = folder_in_memory()
    os.mkfifo(folder / "lifeline")
    config.stash[HELD] = os.open(folder / "lifeline", os.O_RDWR)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    node.workerinput["postgres"] = str(node.config.stash[FOLDER])  # type: ignore[attr-defined]


def pytest_unconfigure(config: pytest.Config) -> None:
    if HELD not in config.stash:
        return
    os.close(config.stash[HELD])
    if not (config.stash[FOLDER] / "url").exists():
        shutil.rmtree(config.stash[FOLDER], ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> PostgresServer:
    """The server of this session. Without one, CI fails; elsewhere the test is skipped."""
    folder = pytestconfig.stash[FOLDER]
    try:
        # In the stash: it outlives this fixture, as its keeper does.
        server = pytestconfig.stash[SERVER] = PostgresServer.join(folder, folder / "lifeline")
        return server
    except StoreUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"PostgreSQL is missing. {error}")


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The address of a new, empty database."""
    with postgres.database() as url:
        yield url


@pytest.fixture(scope="session")
def migrated(postgres: PostgresServer) -> Iterator[str]:
    """The address of this process's own database, which has our schema."""
    with postgres.database() as url:
        asyncio.run(_migrate(url))
        yield url


@pytest.fixture(scope="session")
def emptied(migrated: str) -> Iterator[Callable[[], None]]:
    """Deletes every row, on a connection that stays: quicker than `psql` by its start."""
    with Elsewhere() as elsewhere:
        connection = elsewhere.call(_connected(migrated))
        yield lambda: elsewhere.call(_emptied(connection))
        elsewhere.call(connection.close())


@pytest.fixture
def postgres_store(migrated: str, emptied: Callable[[], None]) -> str:
    """The address of a database with our schema and no rows: far quicker than a new one."""
    emptied()
    return migrated


async def _connected(url: str) -> "asyncpg.Connection":
    return await asyncpg.connect(url)


async def _emptied(connection: "asyncpg.Connection") -> None:
    await connection.execute(EMPTIED)


async def _migrate(url: str) -> None:
    store = PostgresStore(url, rings=False)
    await store.open()
    await store.close()
