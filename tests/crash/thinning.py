"""Which sweeps the gate makes whole, and which at some of their points; `make test-all` makes all.

A world in a file takes 10 to 70 ms, in a real database twice that, and a sweep is hundreds of them.
What is too long to be whole is thinned: one point in so many, beginning elsewhere for each scenario
and store. The steps are odd, else a call with an even number of flavours would lose half of them.
"""

from typing import NamedTuple
from zlib import crc32

STREAMS = (
    "stream-cancel", "stream-chain", "stream-cycle", "stream-failure", "stream-fork",
    "stream-interrupt", "stream-items", "stream-marked", "stream-resume",
)  # fmt: skip
AT_ONCE = ("chain", "race")
"""Scenarios that `make test` sweeps already, on every store."""
ON_POSTGRES = (*AT_ONCE, "signals", *STREAMS)
"""Scenarios whose sweep on PostgreSQL is whole in the gate."""
LARGE = (
    "back-off", "blobs", "cancel-below", "cancel-paused", "cancelled-storm", "child-conflict",
    "child-talk", "children", "completion", "continue", "crowd", "deploy", "encrypted", "entity",
    "eviction", "fork", "fork-forgotten", "graph", "graph-edited", "heartbeat", "heartbeat-deploy",
    "job-cancelled", "job-deploy", "job-ghost", "job-once", "job-zombie", "jobs", "limits",
    "observers", "overdue", "parent-closes", "parent-retried", "pause", "question-cancelled",
    "questions", "queues", "rerun", "rerun-open", "saga-cancelled", "saga-owed", "saga-retried",
    "schedule-replaces", "schedule-steered", "secrets-sealed", "slots", "storm", "timer",
    "transaction-cancelled", "transaction-zombie", "update-deploy", "updates", "with-start",
    "witness",
)  # fmt: skip
"""Scenarios of so many points that their sweep on SQLite is thinned in the gate."""
STEPS = {"graph": 5, "graph-edited": 15, "zombie": 5}
"""One point in so many is tried, of what matters most."""
REST = 61
"""One in so many, of all others."""


class Thinned(NamedTuple):
    """A sweep at each `step`-th of its points."""

    name: str
    store: str
    step: int

    def __str__(self) -> str:
        return f"{self.store}-{self.name}"

    @property
    def points(self) -> slice:
        """The points that are tried; on two stores others, and of two scenarios too."""
        first = crc32(self.name.encode()) + (self.store == "postgres")
        return slice(first % self.step, None, self.step)


def is_whole(name: str | None, store: str) -> bool:
    """Tell whether the gate makes a whole sweep of a scenario; of what has no name, it does."""
    if name is None or store == "memory":
        return True
    return name in ON_POSTGRES if store == "postgres" else name not in LARGE


def thinned(names: list[str], rest: int = REST) -> list[Thinned]:
    """Return the sweeps of these scenarios that are not whole in the gate."""
    stores = ("sqlite", "postgres")
    return [
        Thinned(name, store, STEPS.get(name, rest))
        for store in stores
        for name in names
        if not is_whole(name, store)
    ]
