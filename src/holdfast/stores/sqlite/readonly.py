"""A file that is only read: nothing is made, migrated, checkpointed or written."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from holdfast.errors import StoreUnavailable, StoreVersion
from holdfast.model.run import Loaded, Run
from holdfast.model.writes import Filter, Page
from holdfast.stores.sqlite import reader
from holdfast.stores.sqlite.connection import is_ours, unusable
from holdfast.stores.sqlite.statements import migrations


class Readonly:
    """The two reads of a replay, on a connection that can do nothing else."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._reads = connection

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        """Return the run with its living events, as of one moment."""
        with _reading():
            return reader.load(self._reads, ns, run, after)

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        """Return runs, newest first."""
        with _reading():
            return reader.find(self._reads, filter, page)


@contextmanager
def only_read(path: Path) -> Generator[Readonly]:
    """Open the file only to read. Raises `StoreUnavailable` or `StoreVersion`."""
    if not path.is_file():
        raise StoreUnavailable(
            f"There is no database at {str(path)!r}. Name the one your workers use, such as "
            f"sqlite:///shop.db."
        )
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path.resolve()))}?mode=ro", uri=True, isolation_level=None
        )
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    with closing(connection):
        _must_fit(connection, path)
        yield Readonly(connection)


def _must_fit(connection: sqlite3.Connection, path: Path) -> None:
    try:
        is_there = is_ours(connection)
        present = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    if not is_there:
        raise StoreUnavailable(
            f"There is no schema of ours in {str(path)!r}. Name the one your workers use."
        )
    if present != len(migrations()):
        raise StoreVersion(
            f"The database has schema version {present}, and this release reads "
            f"{len(migrations())}; nothing was changed. Use the release that wrote it, or bring "
            f"it here with `holdfast db migrate` first."
        )


@contextmanager
def _reading() -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailable(f"The read failed: {error}. Try again.") from error
