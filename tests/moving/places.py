"""Two stores and a mover between them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.hosts.mover import Moved, Mover
from holdfast.model.dump import Dump
from holdfast.model.moving import TABLES, Row
from holdfast.ports.moving import Side
from holdfast.testing.invariants import check
from tests.moving.shop import store_at

Urls = tuple[str, str]
WAYS = ["sqlite-postgres", "postgres-sqlite"]


@asynccontextmanager
async def sides(*urls: str) -> AsyncIterator[list[Side]]:
    """Open stores as a mover sees them."""
    opened: list[Side] = [store_at(url).side() for url in urls]
    for side in opened:
        await side.open()
    try:
        yield opened
    finally:
        for side in opened:
            await side.close()


def examine(dump: Dump) -> list[str]:
    return [str(violation) for violation in check(dump)]


async def move(source: str, target: str, id: str = "the-move", **more: Any) -> Moved:
    """Move everything, as the command does."""
    async with sides(source, target) as (here, there):
        return await Mover(here, there, id=id, examine=examine, **more).move()


async def rows_of(url: str) -> dict[str, list[Row]]:
    """Return every row that a move copies."""
    async with sides(url) as [side]:
        return {t.name: sorted(await side.read(t, (), 100_000), key=repr) for t in TABLES}
