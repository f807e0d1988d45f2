"""The databases, each with a way in for every host and one for the driver."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from chaos.proxy import Gate
from holdfast.testing.postgres import VARIABLE, PostgresServer

STORES = ("sqlite", "postgres")
FILE = "chaos.db"
TABLE = "CREATE TABLE chaos_bookings (place TEXT, mark TEXT)"
ROWS = "SELECT place, mark FROM chaos_bookings"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a round happens."""

    store: str
    version: str
    url: str
    """The straight way: for the driver's last look, and for the verdict."""
    hosts: tuple[str, ...]
    driver: str
    gates: tuple[Gate, ...] = ()
    """The ways of the hosts, in their order, and last that of the driver."""
    server: PostgresServer | None = field(default=None, repr=False)
    lock: Path | None = None
    """What a process of SQLite's holds while it writes; a frozen one holds up everybody."""
    is_ours: bool = False
    """The server may be crashed."""

    async def bookings(self) -> tuple[tuple[str, str], ...]:
        """Return what transactions have written to their own table."""
        if self.server is None:
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as connection:
                return tuple(connection.execute(ROWS))
        connected = await asyncpg.connect(self.url)
        try:
            return tuple((row[0], row[1]) for row in await connected.fetch(ROWS))
        finally:
            await connected.close()


@asynccontextmanager
async def opened(store: str, folder: Path, hosts: int) -> AsyncGenerator[Place]:
    """Lend an empty database."""
    if store == "sqlite":
        with closing(sqlite3.connect(folder / FILE)) as connection:
            connection.execute(TABLE)
        url, version = f"sqlite:///{folder / FILE}", f"SQLite {sqlite3.sqlite_version}"
        yield Place(store, version, url, (url,) * hosts, url, lock=folder / f"{FILE}-lock")
        return
    with PostgresServer.start() as server, server.database() as url:
        parts = urlsplit(url)
        version = server.execute("SHOW server_version").split()[0]
        server.execute(TABLE, url=url)
        async with AsyncExitStack() as stack:
            gates = [
                await stack.enter_async_context(Gate(parts.hostname or "", parts.port or 5432))
                for _ in range(hosts + 1)
            ]
            *ways, driver = [through(url, gate) for gate in gates]
            yield Place(
                store=store,
                version=f"PostgreSQL {version}",
                url=url,
                hosts=tuple(ways),
                driver=driver,
                gates=tuple(gates),
                server=server,
                is_ours=VARIABLE not in os.environ,
            )


def through(url: str, gate: Gate) -> str:
    """Return the same address by way of the gate, which cannot read what is encrypted."""
    parts = urlsplit(url)
    user = f"{parts.username}:{parts.password}" if parts.password else parts.username
    query = "&".join(filter(None, (parts.query, "sslmode=disable")))
    return parts._replace(netloc=f"{user}@127.0.0.1:{gate.port}", query=query).geturl()
