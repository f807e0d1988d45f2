"""Users' tables in our database: a function and the turn that records it, in one transaction.

Each is on a line of its own, so that no other commit waits for it. The run's row is locked only by
the turn, at the end: until then messages to the run pass. The function is a plain one; it runs in
a thread, and its statements in the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from random import random
from typing import Any

import asyncpg

from holdfast.errors import BadStatement, StoreError
from holdfast.model.writes import Advance, Notice, Outcome
from holdfast.ports.transaction import Overdue, Work, WorkFailed
from holdfast.stores.business import LATE, asked_by
from holdfast.stores.notices import notices_of
from holdfast.stores.postgres.alone import write_alone
from holdfast.stores.postgres.connection import Ask, Line
from holdfast.stores.postgres.failures import AGAIN, Conflict, code_of, is_lost, of_a_write
from holdfast.stores.postgres.target import LIMIT, Target

LINES = 8
"""How many transactions of users a process has open at once; others wait."""

TRIES = 5
PAUSE = 0.01
"""How often one is tried that others come in the way of, and seconds before the second try."""

STOP_SECONDS = 1.0
"""How long a server may take to give up a statement whose time is over."""

OURS = re.compile(r"\bholdfast\s*\.", re.IGNORECASE)

Told = Callable[[list[Notice]], None]


class OnPostgres:
    """A transaction, as a thread has it while the loop serves it."""

    def __init__(self, ask: Ask) -> None:
        self._ask, self._loop = ask, asyncio.get_running_loop()
        self._asking: asyncio.Task[Any] | None = None
        self.is_over = False
        self.lost: Exception | None = None

    def execute(self, sql: str, /, **values: Any) -> list[dict[str, Any]]:
        """Carry out one statement and return its rows."""
        asked = asked_by(sql)
        bound = asked.bound(values)
        if OURS.search(sql) and not sql.lstrip().lower().startswith("select"):
            what, hint = "would change a table of Holdfast's", "Use tables of your own"
            raise BadStatement(sql=sql, what=what, hint=hint)
        self._refuse_late(sql)
        call = self._fetch(asked.numbered, bound)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def _refuse_late(self, sql: str) -> None:
        if self.is_over:
            raise BadStatement(sql=sql, what="comes after the end of the transaction", hint=LATE)

    async def stop(self) -> None:
        """Have the server give up the statement under way, and all before it.

        To hang up would not do: a server at work notices only when it answers, and a pooler may
        have been given no limit for it.
        """
        self.is_over = True  # what comes now would be outside of any transaction
        if self._asking is None or self._asking.done():
            return
        self._asking.cancel()  # the driver tells the server, and has the next statement wait for it
        with contextlib.suppress(Exception):
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.wait((self._asking,))
                await self._ask.freely("ROLLBACK", ())

    async def _fetch(self, text: str, bound: list[Any]) -> list[dict[str, Any]]:
        self._refuse_late(text)
        self._asking = asyncio.current_task()
        try:
            rows = await self._ask.freely(text, bound)
        except asyncpg.DataError:
            raise  # a value of the wrong type; the driver counts it among failures of the link
        except Exception as error:
            self.lost = error if is_lost(error) or code_of(error) in AGAIN else self.lost
            raise
        return [dict(row) for row in rows]


class Business:
    """Transactions of users, each on a line that is free."""

    def __init__(self, target: Target, clock: Callable[[], int | None], tell: Told) -> None:
        self._target, self._clock, self._tell = target, clock, tell
        self._free: list[Line] = []
        self._lines: list[Line] = []
        self._room = asyncio.Semaphore(LINES)
        self._threads: ThreadPoolExecutor | None = None
        self.commits = 0
        """How many transactions were committed."""

    @property
    def statements(self) -> int:
        """How many round trips were made."""
        return sum(line.statements for line in self._lines)

    async def close(self) -> None:
        """Hang up. A function that is still at work finds its transaction over."""
        for line in self._lines:
            await line.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def transact(self, work: Work, seconds: float | None) -> Outcome:
        """Do the work and write its turn; once more if other writers come in the way."""
        for tried in range(TRIES):
            try:
                return await self._attempt(work, seconds)
            except Conflict as conflict:
                if tried == TRIES - 1:
                    # A failure of this step, not of the store: others may well be written.
                    raise WorkFailed(conflict.__cause__ or conflict) from conflict
            await asyncio.sleep(PAUSE * 2**tried * (1 + random()))
        raise AssertionError("the last try returns or raises")

    async def _attempt(self, work: Work, seconds: float | None) -> Outcome:
        async with self._line() as line:
            try:
                turn, outcome = await self._carry_out(line, work, seconds)
            except (StoreError, WorkFailed):
                raise
            except _Refused as refused:
                return refused.outcome
            except Exception as error:
                raise of_a_write(error) from error
        self.commits += 1
        self._tell(notices_of([turn], [outcome]))
        return outcome

    async def _carry_out(
        self, line: Line, work: Work, seconds: float | None
    ) -> tuple[Advance, Outcome]:
        limit = asyncio.timeout(seconds)
        try:
            async with limit, line.transaction(is_long=True) as ask:
                turn = await self._do(OnPostgres(ask), work)
                limit.reschedule(None)  # from here on it may have happened
                if not ask.is_open:
                    raise WorkFailed(RuntimeError("the transaction was ended"))
                [outcome] = await write_alone(ask, [turn], self._clock())
                if not outcome.applied:
                    raise _Refused(outcome)
                return turn, outcome
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise WorkFailed(Overdue()) from error

    async def _do(self, given: OnPostgres, work: Work) -> Advance:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(LINES, thread_name_prefix="holdfast-business")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, _held, work, given)
        except asyncio.CancelledError:
            await given.stop()
            raise
        except _Raised as raised:
            if given.lost is None:
                raise WorkFailed(raised.error) from raised.error
            raise given.lost from None
        finally:
            given.is_over = True

    @asynccontextmanager
    async def _line(self) -> AsyncGenerator[Line]:
        async with self._room:
            line = self._free.pop() if self._free else self._new()
            try:
                yield line
            finally:
                self._free.append(line)

    def _new(self) -> Line:
        # How long those of users take is their affair.
        line = Line(self._target, {"application_name": "holdfast transactions", LIMIT: "0"})
        self._lines.append(line)
        return line


class Transacting:
    """The part of the store that users' functions work on."""

    _business: Business

    async def transact(self, work: Work, seconds: float | None = None) -> Outcome:
        """Do a user's work and write its turn, in one transaction."""
        return await self._business.transact(work, seconds)


class _Refused(Exception):
    """Has the transaction rolled back whose turn is refused."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class _Raised(Exception):
    """Carries what the function raised past the loop, which takes some errors for its own."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def _held(work: Work, given: OnPostgres) -> Advance:
    try:
        return work(given)
    except BaseException as error:
        raise _Raised(error) from error
