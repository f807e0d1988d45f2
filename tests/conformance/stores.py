"""The stores under test, and what each of them can do."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.conformance import Capability

Clock = Callable[[], int]
AnyStore = MemoryStore | SqliteStore
MakeStore = Callable[[Clock], AnyStore]


class Kind(NamedTuple):
    make: Callable[[Path, Clock], AnyStore]
    capabilities: tuple[Capability, ...] = ()
    remote: str = ""


SQLITE = "from holdfast.stores.sqlite import SqliteStore\nstore = SqliteStore({path!r})"

STORES = {
    "memory": Kind(lambda _, clock: MemoryStore(clock)),
    "sqlite": Kind(
        lambda folder, clock: SqliteStore(folder / "runs.db", clock=clock),
        ("durable", "shared", "rings", "knows_dead"),
        SQLITE,
    ),
    "sqlite-inline": Kind(
        lambda folder, clock: SqliteStore(folder / "runs.db", clock=clock, threaded=False),
        ("durable", "shared"),
    ),
}
