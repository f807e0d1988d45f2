"""One line for each purpose: a connection that is opened when needed, and again when it was lost.

Each purpose has its own, so that a slow read cannot hold up a commit, nor a commit a heartbeat.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any

from holdfast.stores.postgres.failures import asking, expected, is_lost
from holdfast.stores.postgres.statements import Statement
from holdfast.stores.postgres.target import Connection, Level, Row, Target, inside

log = logging.getLogger("holdfast.store")

PATIENCE_SECONDS = 20.0
"""How long an answer may take before the connection counts as lost: longer than the server lets a
statement run."""


class Line:
    """One connection, for one purpose; one statement at a time."""

    def __init__(self, target: Target, settings: Mapping[str, str] | None = None) -> None:
        self._target, self._settings = target, settings or {}
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._asked_at = 0.0
        """When the question was sent that is being answered; 0 if there is none."""
        self._impatience: asyncio.TimerHandle | None = None
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
                if self._target.forgets:
                    return await self._together(connection, asked, bound)
                self._asked_at = monotonic()
                if self._impatience is None:
                    self._lose_patience_in(PATIENCE_SECONDS)
                rows: Any = await connection.fetch(asked.text, *bound)
            except BaseException as error:
                meant = expected(error)
                self._look_at(connection, meant)
                if meant is error:
                    raise
                raise meant from error
            finally:
                self._asked_at = 0.0
        return rows  # type: ignore[no-any-return]

    def _lose_patience_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._impatience = loop.call_later(seconds, self._lose_patience)

    def _lose_patience(self) -> None:
        """Hang up if the answer has not come for too long: whoever asked hears of a lost link.

        One timer for many questions: to set one for each, and to take it back, would cost more than
        all else that the event loop does for them.
        """
        self._impatience = None
        if self._asked_at:
            left = self._asked_at + PATIENCE_SECONDS - monotonic()
            if left > 0:
                self._lose_patience_in(left)
            elif self._connection is not None:
                self._connection.terminate()

    @contextlib.asynccontextmanager
    async def transaction(
        self, *, reads: bool = False, is_long: bool = False
    ) -> AsyncGenerator[Ask]:
        """Give several statements one transaction; `reads` sees all of it as of one moment.

        One that `is_long` may take as long as it takes: a migration, or statements of users.
        """
        level: Level = "repeatable_read" if reads else "read_committed"
        async with self._held() as connection:
            self.statements += 2
            async with (
                asyncio.timeout(None if is_long else PATIENCE_SECONDS),
                inside(connection, level, reads=reads),
            ):
                yield Ask(self, connection)

    async def meet(self, question: Statement) -> Row:
        """Connect, and return the one row of the answer to a question.

        On the way to a server of which nothing is known yet, it is also what is learned from; then
        it may be only what `link` asks for that is answered.
        """
        async with self._turn:
            if not self.is_connected:
                self._connection, answer = await self._target.meet(self._settings, question)
                if answer is not None:
                    self.statements += 1
                    return answer
        [row] = await self.fetch(question)
        return row

    async def dial(self) -> None:
        """Connect, if it is not connected. Raises `StoreUnavailable` or `StoreSettings`."""
        async with self._held():
            pass

    async def close(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        if self._impatience is not None:
            self._impatience.cancel()
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

    async def _together(
        self, connection: Connection, asked: Statement, bound: Sequence[object]
    ) -> list[Row]:
        """Ask in a transaction, for the sake of a pooler that forgets."""
        self.statements += 2
        async with asyncio.timeout(PATIENCE_SECONDS), self._target.together(connection):
            rows: Any = await connection.fetch(asked.text, *bound)
        return rows  # type: ignore[no-any-return]


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

    async def freely(self, text: str, bound: Sequence[object]) -> list[Row]:
        """Return the rows of a statement of the user's. Raises what the driver raises."""
        self._line.statements += 1
        rows: Any = await self._connection.fetch(text, *bound)
        return rows  # type: ignore[no-any-return]

    @property
    def is_open(self) -> bool:
        """Tell whether the transaction is."""
        return self._connection.is_in_transaction()

    async def many(self, asked: Statement, rows: Iterable[Mapping[str, object]]) -> None:
        """Carry out one statement for each of the rows, in few round trips."""
        self._line.statements += 1
        values = [asked.bound(row) for row in rows]
        with asking():
            await self._connection.executemany(asked.text, values)

    async def copy(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """Add rows to a table of ours, in the quickest way there is."""
        self._line.statements += 1
        with asking():
            await self._connection.copy_records_to_table(
                table, records=rows, columns=columns, schema_name="holdfast"
            )

    async def script(self, text: str) -> None:
        """Carry out several statements that bind nothing."""
        self._line.statements += 1
        with asking():
            await self._connection.execute(text)
