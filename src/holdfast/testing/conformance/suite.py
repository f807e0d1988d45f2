"""Which cases there are, and how one is run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import NamedTuple

from holdfast.testing.conformance.harness import Capability, Harness, Make, needed_by
from holdfast.testing.invariants import check

TOPICS = (
    "starts", "messages", "updates", "cancels", "commits", "batches", "claims", "queues", "backlog",
    "limits", "lines",
    "versions", "leases", "queries", "labels", "filters", "exports", "moves", "deadlines",
    "retries", "reruns", "forks", "continuations", "retention", "annotations", "children", "waits",
    "transactions", "jobs", "job_limits", "schedules", "secrets", "cache",
    "isolation", "notices", "durability", "sharing",
)  # fmt: skip


class Case(NamedTuple):
    """One rule: an async function that gets a harness around a fresh store."""

    topic: str
    name: str
    function: Callable[[Harness], Awaitable[None]]

    async def run(self, make: Make, *, remote: str = "") -> None:
        """Check the rule on a store made by `make`, and the invariants of all that is left.

        `remote` is needed by stores that know dead processes: Python source that binds `store` to
        a store on the same data, for another process to run.
        """
        async with Harness(make, remote=remote) as harness:
            await self.function(harness)
            await _hold_invariants(harness)

    def __str__(self) -> str:
        return f"{self.topic}.{self.name}"


def cases(*capabilities: Capability) -> list[Case]:
    """Return every case that a store with these capabilities must pass, topic by topic."""
    return [case for topic in TOPICS for case in _of(topic) if _fits(case, capabilities)]


def _of(topic: str) -> list[Case]:
    module = import_module(f"holdfast.testing.conformance.{topic}")
    return [
        Case(topic, name.removeprefix("test_"), function)
        for name, function in vars(module).items()
        if name.startswith("test_")
    ]


async def _hold_invariants(harness: Harness) -> None:
    """Whatever a case did, a store that can give all it holds must hold it soundly."""
    dump = getattr(harness.store, "dump", None)
    if dump is not None:
        broken = check(await dump())
        assert not broken, "\n".join(map(str, broken))


def _fits(case: Case, capabilities: tuple[Capability, ...]) -> bool:
    return needed_by(case.function) <= set(capabilities)
