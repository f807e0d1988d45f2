"""The stores under test, and what each of them can do."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.blobs.files import FileBlobs
from holdfast.blobs.memory import MemoryBlobs
from holdfast.codecs.keyring import KeyRing
from holdfast.ports.blobs import BlobStore
from holdfast.stores.memory import MemoryStore
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sealed import SealedStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.conformance import Capability

Clock = Callable[[], int]
AnyStore = MemoryStore | SqliteStore | PostgresStore | SealedStore
MakeStore = Callable[[Clock], AnyStore]


class Kind(NamedTuple):
    make: Callable[[str, Clock], AnyStore]
    """Given a place: a path of a file, or the address of a database."""
    capabilities: tuple[Capability, ...] = ()
    remote: str = ""
    needs_server: bool = False
    lacks: tuple[str, ...] = ()
    """Cases that cannot hold for it."""


SQLITE = "from holdfast.stores.sqlite import SqliteStore\nstore = SqliteStore({place!r})"
POSTGRES = "from holdfast.stores.postgres import PostgresStore\nstore = PostgresStore({place!r})"

RING = KeyRing({"old": bytes(32), "new": bytes(range(32))}, current="new")


UNSEARCHED = ("filters.rows",)
"""What is encrypted cannot be searched: the words of a reason."""


def sealed(inner: AnyStore, clock: Clock, blobs: BlobStore | None = None) -> SealedStore:
    """Around any store: everything is encrypted, and more than a few bytes are a blob."""
    return SealedStore(inner, keys=RING, blobs=blobs or MemoryBlobs(clock), inline=120)


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
    "sealed": Kind(lambda _, clock: sealed(MemoryStore(clock), clock), lacks=UNSEARCHED),
    "sealed-sqlite": Kind(
        lambda place, clock: sealed(
            SqliteStore(Path(place), clock=clock, threaded=False),
            clock,
            FileBlobs(place + "-blobs"),
        ),
        ("durable", "shared", "keeps_time"),
        lacks=UNSEARCHED,
    ),
    "postgres": Kind(
        lambda place, clock: PostgresStore(place, clock=clock),
        ("durable", "shared", "rings", "counts"),
        POSTGRES,
        needs_server=True,
    ),
}
