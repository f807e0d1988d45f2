"""The stores under test, and what each of them can do."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.memory import MemoryStore
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.conformance import Capability

Clock = Callable[[], int]
AnyStore = MemoryStore | SqliteStore | PostgresStore
MakeStore = Callable[[Clock], AnyStore]


class Kind(NamedTuple):
    make: Callable[[str, Clock], AnyStore]
    """Given a place: a path of a file, or the address of a database."""
    capabilities: tuple[Capability, ...] = ()
    remote: str = ""
    needs_server: bool = False


SQLITE = "from holdfast.stores.sqlite import SqliteStore\nstore = SqliteStore({place!r})"
POSTGRES = "from holdfast.stores.postgres import PostgresStore\nstore = PostgresStore({place!r})"

STORES = {
    "memory": Kind(lambda _, clock: MemoryStore(clock), ("counts",)),
    "sqlite": Kind(
        lambda place, clock: SqliteStore(Path(place), clock=clock),
        ("durable", "shared", "rings", "knows_dead", "keeps_time", "counts"),
        SQLITE,
    ),
    "sqlite-inline": Kind(
        lambda place, clock: SqliteStore(Path(place), clock=clock, threaded=False),
        ("durable", "shared", "keeps_time", "counts"),
    ),
    "postgres": Kind(
        lambda place, clock: PostgresStore(place, clock=clock),
        ("durable", "shared", "rings", "counts"),
        POSTGRES,
        needs_server=True,
    ),
}
