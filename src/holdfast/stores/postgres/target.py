"""Where the database is, and the way to it.

Several servers may be named, as in `postgresql://db1,db2/shop`: the first that can be written to is
used, and asked first from then on. After a failover the old primary may come back and know nothing
of it. Its timeline is older than one we have seen, and so it is refused; whoever starts looks at
all servers once.

A *pooler* may stand between that lends server sessions by transaction. Nothing of ours lives in a
session but transactions and prepared statements. It takes no settings, so those are the role's
(`docs/howto/postgres.md`), and nobody listens for notices. A pooler that *forgets* passes prepared
statements on under the names we give: in another session another process's statement may have that
name. Then every statement is unnamed, and inside a transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
from asyncpg import connect_utils
from asyncpg.connect_utils import SessionAttribute

from holdfast.errors import StoreError, StoreSettings, StoreUnavailable
from holdfast.stores.postgres.failures import FAILED, HOMELESS, LOST, asking, code_of, is_lost, told
from holdfast.stores.postgres.statements import Statement, queries
from holdfast.stores.postgres.types import is_encrypted, teach

SQL = queries()
Connection = asyncpg.Connection
Row = Any
"""A row of the driver's: its values by place, by slice and by name."""

CONNECT_SECONDS = 5.0
PORT = 5432
NO_PORT = "its port is no number (in a password, write %2F for a slash and %23 for a hash)"
Level = Literal["repeatable_read", "read_committed"]
PREPARED = 100
"""How many statements the driver keeps prepared in a session."""

SETTINGS: Mapping[str, str] = {
    "application_name": "holdfast",
    "default_transaction_isolation": "read committed",
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

LIMIT = "transaction_timeout"
LIMITED: Mapping[str, str] = {LIMIT: "30s"}
"""As SETTINGS, for servers that know it, and but for transactions of users."""
LIMITS_FROM = 17

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


class _Upgrade(connect_utils.TLSUpgradeProto):
    """The driver's own, which complains in the log of a dial that was cancelled in mid-air."""

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait for an answer. Whoever waits is told; if nobody does, nothing is wrong."""
        super().connection_lost(exc)
        if not self.on_data.cancelled():
            self.on_data.exception()


connect_utils.TLSUpgradeProto = _Upgrade  # type: ignore[misc]


class Met(NamedTuple):
    """A new connection, and the server's answer if it was asked who it is."""

    connection: Connection
    answer: Row | None


class Target:
    """Where the database is, and what was learned of the way to it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_pooled = False
        """A pooler stands between: it takes no settings, and nobody can listen."""
        self.forgets = False
        """The pooler knows nothing of prepared statements."""
        self._servers = servers_of(url)
        self._unencrypted = frozenset(filter(_is_near, self._servers))
        """Servers that are not asked for TLS, as the URL allows: they had none, or are near."""
        self._limiting = frozenset[str]()
        """Servers that are known to know `LIMIT`."""
        self._is_learned = self._has_seen_all = False
        self._learning, self._seeing = asyncio.Lock(), asyncio.Lock()
        self._timeline = 0

    async def connect(self, settings: Mapping[str, str]) -> Connection:
        """Return a new connection. Raises `StoreUnavailable` or `StoreSettings`."""
        return (await self.meet(settings, SQL.link)).connection

    async def meet(self, settings: Mapping[str, str], question: Statement) -> Met:
        """As `connect`, and what the server answered, if it had to be asked who it is.

        The question is all that `link` asks, and more.
        """
        refused: list[StoreError] = []
        if len(self._servers) > 1 and not self._has_seen_all:
            await self._see_all()
        for server in self._servers:
            try:
                met = await self._reach(server, settings, question)
            except StoreError as error:
                refused.append(error)
                continue
            # A new list: the thread of the heartbeat may be walking over the old one.
            self._servers = sorted(self._servers, key=lambda each: each != server)
            return met
        raise _none_of(refused)

    async def _see_all(self) -> None:
        """Learn the timeline of each server that can be written to, once for all lines."""
        async with self._seeing:
            if not self._has_seen_all:
                await asyncio.gather(*map(self._see, self._servers))
                self._has_seen_all = True

    async def _see(self, server: str) -> None:
        with contextlib.suppress(StoreError):
            await self.release((await self._reach(server, {}, SQL.link)).connection)

    async def _reach(self, server: str, settings: Mapping[str, str], question: Statement) -> Met:
        try:
            with asking():
                return await self._found(server, settings, question)
        except asyncpg.TargetServerAttributeNotMatched as error:
            raise _read_only(server) from error
        except asyncpg.PostgresError as error:
            if code_of(error) == "08P01" and "startup parameter" in str(error):
                self.is_pooled = True
                return await self._reach(server, {}, question)
            if server in self._unencrypted and code_of(error).startswith("28"):  # it wants TLS now
                self._unencrypted -= {server}
                return await self._reach(server, settings, question)
            raise _refused(server, error) from error
        except LOST as error:
            raise _unreached(server, error) from error

    async def _found(self, server: str, settings: Mapping[str, str], question: Statement) -> Met:
        """Connect. Who comes first finds out who answers; the others wait for that, connected."""
        if self._is_learned or self._learning.locked():
            return await self._usable(server, settings, question)
        async with self._learning:
            return await self._usable(server, settings, question, leads=True)

    async def _usable(
        self, server: str, settings: Mapping[str, str], question: Statement, *, leads: bool = False
    ) -> Met:
        """Connect, learn what is not known yet of the way, and refuse who cannot be written to."""
        was_learned, was_pooled = self._is_learned, self.is_pooled
        row = answer = None
        connection = await self._dial(server, settings)
        try:
            if not (self._is_learned or leads):
                async with self._learning:
                    pass  # should the first one fail, each asks for itself
            async with asyncio.timeout(CONNECT_SECONDS):
                if not self._is_learned:
                    row = await self._learn(connection, question)
                    answer = None if self.is_pooled else row  # else it was asked less
                elif self.is_pooled or not (was_learned or _is_primary(connection)):
                    row = await self._ask(connection, SQL.link)
                # Else the driver has seen to it, or the server has said so unasked.
                if row is not None and row["reads_only"]:
                    raise _read_only(server)
                if len(self._servers) > 1:
                    await self._compare(connection, server)
                await self._limit(connection, server, settings)
        except BaseException:
            connection.terminate()
            raise
        if not was_learned and (self.forgets or self.is_pooled != was_pooled):
            connection.terminate()  # it was opened in another way than this one needs
            return await self._usable(server, settings, question, leads=leads)
        return Met(connection, answer)

    async def _limit(
        self, connection: Connection, server: str, settings: Mapping[str, str]
    ) -> None:
        """Limit transactions where the first connection shows that the server can."""
        version = connection.get_server_version().major
        if self.is_pooled or server in self._limiting or version < LIMITS_FROM:
            return
        self._limiting |= {server}
        if LIMIT not in settings:
            await connection.execute(SQL.limit_transactions.text)

    def _given(self, server: str, settings: Mapping[str, str]) -> dict[str, str]:
        """Return what a session is to be opened with."""
        given = {**SETTINGS, **LIMITED, **settings}
        if server not in self._limiting:
            del given[LIMIT]
        return {} if self.is_pooled else given

    async def _dial(self, server: str, settings: Mapping[str, str]) -> Connection:
        # What a pooler tells of the server may have been so a while ago: then we ask ourselves.
        is_plain = self._is_learned and not self.is_pooled
        wanted = SessionAttribute.read_write if is_plain else SessionAttribute.any
        try:
            connection = await asyncpg.connect(
                server,
                timeout=CONNECT_SECONDS,
                server_settings=self._given(server, settings),
                statement_cache_size=0 if self.forgets else PREPARED,
                max_cached_statement_lifetime=0,
                max_cacheable_statement_size=0,
                target_session_attrs=wanted,
                # Not to ask again spares the driver a context, and us a round trip.
                ssl=False if server in self._unencrypted else None,
            )
        except ValueError as error:  # of a URL that cannot be read
            # What is no error of the driver's own quotes what it took for the port.
            why = told(error) if isinstance(error, asyncpg.InterfaceError) else NO_PORT
            raise StoreSettings(
                f"The address of PostgreSQL cannot be used: {why}. Write "
                f"postgresql://user@host:5432/database."
            ) from None
        if not is_encrypted(connection):
            self._unencrypted |= {server}
        teach(connection)
        return connection

    async def _learn(self, connection: Connection, question: Statement) -> Row:
        """Find out who answers. A pooler's number of a session is not the server's."""
        row = None if self.is_pooled else await _introduced(connection, question)
        if row is None:
            async with inside(connection):
                name, row = await _named(connection, SQL.link)
            self.is_pooled, self.forgets = True, name in row["prepared"]
        self._is_learned = True
        return row

    async def _compare(self, connection: Connection, server: str) -> None:
        """Refuse the primary of a time before one that we have seen."""
        try:
            timeline: int = (await self._ask(connection, SQL.timeline))["timeline"]
        except asyncpg.PostgresError as error:
            if is_lost(error):
                raise
            return  # some services do not tell
        if timeline < self._timeline:
            raise StoreUnavailable(
                f"PostgreSQL at {place_of(server)} is a primary of before a failover (timeline "
                f"{timeline}, and {self._timeline} was seen). Stop it; another server is tried."
            )
        self._timeline = timeline

    async def _ask(self, connection: Connection, asked: Statement) -> Row:
        async with self.together(connection):
            return await connection.fetchrow(asked.text)

    def together(self, connection: Connection) -> contextlib.AbstractAsyncContextManager[None]:
        """Keep what is prepared and what is carried out in one session."""
        return inside(connection) if self.forgets else contextlib.nullcontext()

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
        return place_of(self.url)


@contextlib.asynccontextmanager
async def inside(
    connection: Connection, level: Level = "read_committed", *, reads: bool = False
) -> AsyncGenerator[None]:
    """Have a transaction around the block.

    Whoever is cancelled, or has lost the link, does not wait for the answer to a rollback: the
    connection must be given up, and then the server rolls back.
    """
    opened = connection.transaction(isolation=level, readonly=reads)
    with asking():
        await opened.start()
    try:
        yield
    except Exception as error:
        if not is_lost(error):
            with asking():
                await opened.rollback()
        raise
    with asking():
        await opened.commit()


def _is_primary(connection: Connection) -> bool:
    """Tell whether a server has said, when it was dialled, that it can be written to."""
    told: Any = connection.get_settings()
    said = [getattr(told, name, "") for name in ("in_hot_standby", "default_transaction_read_only")]
    return said == ["off", "off"]


async def _introduced(connection: Connection, question: Statement) -> Row | None:
    """Return what a server says of itself; None if somebody stands before it."""
    try:
        try:
            _, row = await _named(connection, question)
        except HOMELESS:
            _, row = await _named(connection, SQL.link)
    except asyncpg.InvalidSQLStatementNameError:  # it was prepared in another session
        return None
    return row if row["pid"] == connection.get_server_pid() else None


async def _named(connection: Connection, question: Statement) -> tuple[str, Row]:
    """Ask. In whatever session, nobody else has a statement of that name."""
    name = f"holdfast_{uuid4().hex}"
    asked = await connection.prepare(question.text, name=name)
    [row] = await asked.fetch()
    return name, row


def servers_of(url: str) -> Sequence[str]:
    """Return the address of each server that the URL names."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [url]
    return [parts._replace(netloc=user + at + host).geturl() for host in hosts.split(",")]


def _is_near(server: str) -> bool:
    """Tell whether what is sent there stays on this machine, and the user leaves it at that."""
    parts = urlsplit(server)
    is_left_open = "sslmode" not in parts.query and "PGSSLMODE" not in os.environ
    return parts.hostname in ("localhost", "127.0.0.1", "::1") and is_left_open


def place_of(url: str) -> str:
    """Return the hosts and the database of a URL, without user and password."""
    parts = urlsplit(url)
    hosts = (parts.netloc.rpartition("@")[2] or "localhost").split(",")
    # A colon after the bracket of an IPv6 address, or with no bracket, is that of a port.
    ported = (host if ":" in host.rpartition("]")[2] else f"{host}:{PORT}" for host in hosts)
    return f"{','.join(ported)}{parts.path}"


def _none_of(refused: Sequence[StoreError]) -> StoreError:
    """Return one error for all servers: as long as another try may mend one, it may mend all."""
    if len(refused) == 1:
        return refused[0]
    kinds = {type(error) for error in refused}
    kind = StoreSettings if kinds == {StoreSettings} else StoreUnavailable
    return kind("No server can be used. " + " ".join(str(error.args[0]) for error in refused))


def _read_only(server: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"PostgreSQL at {place_of(server)} cannot be written to: it is a standby, or "
        f"default_transaction_read_only is on. Name the primary, or all servers: "
        f"postgresql://user@host1,host2/database."
    )


def _unreached(server: str, error: Exception) -> StoreError:
    if "rejected SSL upgrade" in str(error):
        return StoreSettings(
            f"PostgreSQL at {place_of(server)} speaks no TLS, and the URL (or PGSSLMODE) wants it. "
            f"Switch `ssl` on at the server, or write ?sslmode=prefer if the way to it is safe."
        )
    return StoreUnavailable(
        f"Cannot reach PostgreSQL at {place_of(server)}: {told(error)}. Try again."
    )


def _refused(server: str, error: asyncpg.PostgresError) -> StoreError:
    code, why = code_of(error), told(error)
    if code.startswith(("28", "42", "22")) or code == "3D000":
        return StoreSettings(
            f"PostgreSQL at {place_of(server)} does not let us in: {why}. "
            f"Check user, password, database and options of the URL."
        )
    return StoreUnavailable(f"PostgreSQL at {place_of(server)} is not ready: {why}. Try again.")
