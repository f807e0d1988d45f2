"""A random sequence of operations goes through three stores: same outcomes, same data, each step.

A sequence ends only when every kind of operation has had each of its replies at least once.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random, SystemRandom
from typing import NamedTuple, Protocol

from holdfast.errors import HoldfastError
from holdfast.kernel.dispatch import decide, read
from holdfast.model.commands import Command
from holdfast.model.dump import Dump
from holdfast.model.jobs import ClaimedJobs, JobClaim
from holdfast.model.run import Run
from holdfast.model.writes import Claim, Claimed, Outcome
from holdfast.stores.memory import MemoryStore
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.clock import SECOND, ManualClock
from holdfast.testing.invariants import check

AnyStore = MemoryStore | SqliteStore | PostgresStore
Operation = Command | Claim | JobClaim
Result = Outcome | Claimed | ClaimedJobs
Replies = Mapping[str, set[str]]
Compare = Callable[[AnyStore, AnyStore, Dump], Awaitable[None]]


class Drawing(Protocol):
    """Draws operations that fit, or nearly fit, what the stores hold."""

    chance: Random

    @property
    def kinds(self) -> list[str]: ...

    def draw(self, dump: Dump) -> tuple[str, Operation]: ...


class Sequence(NamedTuple):
    """How long a sequence is, what it must have seen, and what is read beside it."""

    expected: Replies
    compare_reads: Compare
    at_least: int
    at_most: int
    every: int = 25
    """Steps between two reads."""

    def lacks(self, seen: Replies) -> Replies:
        """Return the replies that have not come yet."""
        lacking = {kind: replies - seen.get(kind, set()) for kind, replies in self.expected.items()}
        return {kind: replies for kind, replies in lacking.items() if replies}

    def is_over(self, step: int, seen: Replies) -> bool:
        """Tell whether it was long enough."""
        return step >= self.at_most or (step >= self.at_least and not self.lacks(seen))


async def agree(
    operations: Drawing, sequence: Sequence, seed: int, path: Path, url: str
) -> tuple[int, Replies]:
    """Go through a sequence; return how many steps it had, and all that was replied."""
    clock = ManualClock()
    oracle = MemoryStore(clock)
    stores: list[AnyStore] = [
        SqliteStore(path, clock=clock, threaded=False),
        PostgresStore(url, clock=clock, rings=False),
    ]
    for each in (oracle, *stores):
        await each.open()
    seen, step = dict[str, set[str]](), 0
    dump = await oracle.dump()
    while not sequence.is_over(step, seen):
        step += 1
        clock.advance(operations.chance.choice((0, 0, 1, SECOND, SECOND, 4 * SECOND)))
        kind, operation = operations.draw(dump._replace(now=oracle.now()))
        where = f"seed {seed}, step {step}: {operation}"
        expected = await carry_out(oracle, operation)
        for store in stores:
            assert await carry_out(store, operation) == expected, f"{type(store)}, {where}"
        seen.setdefault(kind, set()).add(reply_to(operation, expected))
        dump = await oracle.dump()
        for store in stores:
            assert await store.dump() == dump, f"{type(store)}, {where}"
            assert await store.buckets() == await oracle.buckets(), f"{type(store)}, {where}"
        assert check(dump) == [], where
        if step % sequence.every == 0:
            for store in stores:
                await sequence.compare_reads(oracle, store, dump)
    for store in stores:
        await store.close()
    return step, seen


async def hold_to_agree(
    draw: Callable[[int], Drawing], sequence: Sequence, seed: int | None, path: Path, url: str
) -> None:
    """Hold that the stores agree on the sequence of a seed, or of one that is drawn."""
    seed = SystemRandom().randrange(10**9) if seed is None else seed
    print(f"seed {seed}")
    steps, seen = await agree(draw(seed), sequence, seed, path, url)
    print(f"{steps} steps; replies: {seen}")
    assert sequence.lacks(seen) == {}, f"seed {seed}: after {steps} steps some replies never came"


async def carry_out(store: AnyStore, operation: Operation) -> Result:
    """Do it as a host does."""
    if isinstance(operation, JobClaim):
        return await store.jobs.claim(operation)
    if not isinstance(operation, Claim):
        [outcome] = await store.write([decide(operation)])
        return outcome
    claimed = taken = await store.claim(operation)
    if taken.held is None:  # the look at the rest is left to the next call
        claimed = await store.claim(operation._replace(limit=0, eager=False))
        claimed = claimed._replace(
            runs=taken.runs, first_events=taken.first_events, convicts=taken.convicts,
            ticketed=taken.ticketed,
        )  # fmt: skip
    # These are sets in meaning; their order is the store's own.
    return claimed._replace(mail=tuple(sorted(claimed.mail)), dead=tuple(sorted(claimed.dead)))


def reply_to(operation: Operation, result: Result) -> str:
    """Return in a word what came of it."""
    if isinstance(result, Claimed):
        return "some" if result.runs else "none"
    if isinstance(result, ClaimedJobs):
        return "some" if result.jobs else "none"
    assert not isinstance(operation, Claim | JobClaim)
    try:
        reply = read(operation, result)
    except HoldfastError as error:
        return type(error).__name__
    if isinstance(reply, Run):
        return "row"
    if isinstance(reply, bool | str):
        return str(reply)
    return "some" if reply else "none"
