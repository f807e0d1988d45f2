"""Connections: how one is opened, what it must promise, and one line for each purpose.

A *line* is one connection that is opened when it is first needed and again when it was lost. Each
purpose has its own, so that a slow read cannot hold up a commit, nor a commit a heartbeat.

Nothing but transactions lives in a session, so a pooler that lends server sessions by transaction
may stand between. One that refuses our settings at the start gets none: then they are those of
the role (`docs/howto/postgres.md`), and nobody listens for notices.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from holdfast.errors import StoreSettings, StoreUnavailable
from holdfast.stores.postgres.failures import (
    FAILED,
    LOST,
    asking,
    code_of,
    expected,
    is_lost,
    told,
)
from holdfast.stores.postgres.statements import Statement
from holdfast.stores.postgres.types import teach

log = logging.getLogger("holdfast.store")

Connection = asyncpg.Connection
Row = Any
"""A row of the driver's: its values by place, by slice and by name."""

CONNECT_SECONDS = 5.0
PATIENCE_SECONDS = 20.0
"""How long an answer may take before the connection counts as lost: longer than the server lets a
statement run."""

SETTINGS: Mapping[str, str] = {
    "application_name": "holdfast",
    "statement_timeout": "15s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "10s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
    "jit": "off",
}
"""For every session. The server gives up on what hangs, also when we are gone and cannot."""

BY_INDEX: Mapping[str, str] = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
"""For statements that find their rows by an index, whatever the statistics say today of tables
that were empty a minute ago."""

BY_KEY: Mapping[str, str] = {**BY_INDEX, "plan_cache_mode": "force_generic_plan"}
"""For statements over arrays of keys: planned once, not again for every length."""

BY_ORDER: Mapping[str, str] = {**BY_KEY, "enable_bitmapscan": "off", "enable_sort": "off"}
"""For statements that take the first of a queue: they walk the index in its order and stop, and
never collect the whole queue to sort it. Planning them takes longer than carrying them out."""


class Target:
    """Where the database is, and what was learned of the way to it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_pooled = False
        """A pooler stands between that takes no settings."""

    async def connect(self, settings: Mapping[str, str]) -> Connection:
        """Return a new connection. Raises `StoreUnavailable` or `StoreSettings`."""
        try:
            return await self._connect({} if self.is_pooled else {**SETTINGS, **settings})
        except asyncpg.PostgresError as error:
            if code_of(error) == "08P01" and "startup parameter" in str(error):
                self.is_pooled = True
                return await self.connect({})
            raise self._refused(error) from error
        except ValueError as error:  # of a URL that cannot be read
            raise StoreSettings(
                f"The address of PostgreSQL cannot be used: {told(error)}. Write "
                f"postgresql://user@host:5432/database."
            ) from None
        except LOST as error:
            raise StoreUnavailable(
                f"Cannot reach PostgreSQL at {self.place}: {told(error)}. Try again."
            ) from error

    async def _connect(self, settings: Mapping[str, str]) -> Connection:
        with asking():
            connection = await asyncpg.connect(
                self.url,
                timeout=CONNECT_SECONDS,
                server_settings=dict(settings),
                max_cached_statement_lifetime=0,
                max_cacheable_statement_size=0,
                target_session_attrs=SessionAttribute.read_write,
            )
            teach(connection)
            return connection

    async def release(self, connection: Connection) -> None:
        """Take back a connection that nobody uses any more."""
        try:
            with asking():
                await connection.close(timeout=1.0)
        except FAILED:
            connection.terminate()

    @property
    def place(self) -> str:
        """Where it is, without the password."""
        parts = urlsplit(self.url)
        return f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"

    def _refused(self, error: asyncpg.PostgresError) -> Exception:
        code, why = code_of(error), told(error)
        if code.startswith(("28", "42", "22")) or code == "3D000":
            return StoreSettings(
                f"PostgreSQL at {self.place} does not let us in: {why}. "
                f"Check user, password, database and options of the URL."
            )
        return StoreUnavailable(f"PostgreSQL at {self.place} is not ready: {why}. Try again.")


class Line:
    """One connection, for one purpose; one statement at a time."""

    def __init__(self, target: Target, settings: Mapping[str, str] | None = None) -> None:
        self._target, self._settings = target, settings or {}
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self.statements = 0
        """How many round trips this line has made."""

    @property
    def is_connected(self) -> bool:
        """Tell whether a statement could be sent now, or after the one on its way."""
        return self._connection is not None and not self._connection.is_closed()

    @property
    def is_idle(self) -> bool:
        """Tell whether a statement could be sent now."""
        return self.is_connected and not self._turn.locked()

    async def fetch(self, asked: Statement, **values: object) -> list[Row]:
        """Return the rows of one statement, which is a transaction of its own.

        Raises what the driver raises, and `StoreUnavailable` if there is no connection: then
        nothing was sent.
        """
        return await self.run(asked, asked.bound(values))

    async def run(self, asked: Statement, bound: Sequence[object]) -> list[Row]:
        """As `fetch`, with the values in the order of their places."""
        # As with `_held`, written out: this is every step's way, and a context costs as much as
        # the rest of it.
        async with self._turn:
            connection = self._connection
            if connection is None or connection.is_closed():
                connection = self._connection = await self._target.connect(self._settings)
            self.statements += 1
            try:
                rows: Any = await connection.fetch(asked.text, *bound, timeout=PATIENCE_SECONDS)
            except BaseException as error:
                meant = expected(error)
                self._look_at(connection, meant)
                if meant is error:
                    raise
                raise meant from error
        return rows  # type: ignore[no-any-return]

    @contextlib.asynccontextmanager
    async def transaction(self, *, reads: bool = False) -> AsyncGenerator[Ask]:
        """Give several statements one transaction; `reads` sees all of it as of one moment."""
        level: Literal["repeatable_read", "read_committed"]
        level = "repeatable_read" if reads else "read_committed"
        async with self._held() as connection:
            self.statements += 2
            async with asyncio.timeout(PATIENCE_SECONDS):
                opened = connection.transaction(isolation=level, readonly=reads)
                with asking():
                    await opened.start()
                try:
                    yield Ask(self, connection)
                except BaseException:
                    with asking():
                        await opened.rollback()
                    raise
                with asking():
                    await opened.commit()

    async def dial(self) -> None:
        """Connect, if it is not connected. Raises `StoreUnavailable` or `StoreSettings`."""
        async with self._held():
            pass

    async def close(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            await self._target.release(connection)

    @contextlib.asynccontextmanager
    async def _held(self) -> AsyncGenerator[Connection]:
        async with self._turn:
            connection = self._connection
            if connection is None or connection.is_closed():
                connection = self._connection = await self._target.connect(self._settings)
            try:
                yield connection
            except BaseException as error:
                self._look_at(connection, error)
                raise

    def _look_at(self, connection: Connection, error: BaseException) -> None:
        """Hang up if the connection is of no more use."""
        # Also when our task was cancelled in the middle: what comes back is not for us.
        if is_lost(error) or not isinstance(error, Exception):
            self._connection = None
            connection.terminate()


class Ask:
    """Statements inside one transaction."""

    def __init__(self, line: Line, connection: Connection) -> None:
        self._line, self._connection = line, connection

    async def __call__(self, asked: Statement, **values: object) -> list[Row]:
        """Return the rows of one statement."""
        return await self.run(asked, asked.bound(values))

    async def run(self, asked: Statement, bound: Sequence[object]) -> list[Row]:
        """As a call, with the values in the order of their places."""
        self._line.statements += 1
        with asking():
            rows: Any = await self._connection.fetch(asked.text, *bound)
        return rows  # type: ignore[no-any-return]

    async def many(self, asked: Statement, rows: Iterable[Mapping[str, object]]) -> None:
        """Carry out one statement for each of the rows, in few round trips."""
        self._line.statements += 1
        values = [asked.bound(row) for row in rows]
        with asking():
            await self._connection.executemany(asked.text, values)

    async def script(self, text: str) -> None:
        """Carry out several statements that bind nothing."""
        self._line.statements += 1
        with asking():
            await self._connection.execute(text)
