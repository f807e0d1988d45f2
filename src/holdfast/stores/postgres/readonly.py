"""A database that is only read, in transactions that refuse to write; nothing is migrated."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from holdfast.errors import StoreVersion
from holdfast.model.run import Loaded, Run
from holdfast.model.writes import Filter, Page
from holdfast.stores.postgres import reader
from holdfast.stores.postgres.connection import Line
from holdfast.stores.postgres.failures import reading
from holdfast.stores.postgres.filtering import statement_of
from holdfast.stores.postgres.statements import queries
from holdfast.stores.postgres.target import BY_KEY, Target

SQL = queries()
NAME: Mapping[str, str] = {"application_name": "holdfast check"}


class Readonly:
    """The two reads of a replay, in transactions that can do nothing else."""

    def __init__(self, target: Target) -> None:
        self.reads = Line(target, {**BY_KEY, **NAME})
        self.searches = Line(target, NAME)

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        """Return the run with its living events, as of one moment."""
        with reading():
            async with self.reads.transaction(reads=True) as ask:
                return await reader.load_shared(ask, ns, run, after)

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        """Return runs, newest first."""
        asked, binds = statement_of(filter, page)
        with reading():
            async with self.searches.transaction(reads=True) as ask:
                rows = await ask(asked, **binds)
        return list(map(Run._make, rows))[: page.limit]


@asynccontextmanager
async def only_read(target: Target, present: int, known: int) -> AsyncGenerator[Readonly]:
    """Open the database only to read. Raises `StoreVersion` if its schema is another one."""
    if present != known:
        raise StoreVersion(
            f"The database has schema version {present}, and this release reads {known}; nothing "
            f"was changed. Use the release that wrote it, or bring it here with `holdfast db "
            f"migrate` first."
        )
    opened = Readonly(target)
    try:
        yield opened
    finally:
        await opened.reads.close()
        await opened.searches.close()
