"""What is decided on the whole history of a run: reruns, forks, and differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.engines.local.engine import LocalEngine
from holdfast.errors import IllegalMove, InvalidValue, RunNotFound
from holdfast.kernel.rerun import forgotten
from holdfast.machine.values import digest
from holdfast.model.commands import ForkRun, RerunRun
from holdfast.model.diffing import Diff, generation_in, generation_of
from holdfast.model.diffing import diff as compared
from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.model.status import CLOSED
from holdfast.model.travel import Edit, living, reopening

RERUNS = 100
"""How often a rerun is decided anew because the run went on meanwhile."""


class Edits(NamedTuple):
    """What is other in a fork: results of steps by their keys, the input, or states."""

    results: Mapping[str, bytes] = {}
    input: bytes | None = None
    states: tuple[Edit, ...] = ()


class Back(NamedTuple):
    """Where a run goes back to, and how: see `RerunRun`."""

    key: str | int | None
    reason: str
    keep_keys: bool
    exactly: bool
    id: str


async def rerun(engine: LocalEngine, run: str, back: Back) -> list[str]:
    """Take a run back to where it asked for a key, or to an event.

    Returns the keys whose outcome is gone. A run that goes on meanwhile is decided on again.
    Raises `UnknownKey`, `IllegalMove`.
    """
    key, reason, keep_keys, exactly, id = back
    for _ in range(RERUNS):
        row, events, *_ = await engine.load(run)
        if id and any(reopening(e).get("id") == id for e in events if e.kind == "run.reopened"):
            return []
        command = RerunRun(
            engine.ns, run, row.generation, events, engine.store.now(), key, keep_keys, reason,
            row.deadline, id, exactly,
        )  # fmt: skip
        if await engine.do(command) is not None:
            return forgotten(events, key, run, exactly=exactly)
    raise IllegalMove(
        run=run, status="running", command="rerun", allowed=("paused", *sorted(CLOSED))
    )


async def fork(
    engine: LocalEngine,
    run: str,
    id: str,
    point: int | str | None,
    edits: Edits,
    reason: str = "",
) -> Run:
    """Start a run that shares the history of another up to a point, or find it.

    Raises `RunNotFound`, `UnknownKey`, `InvalidValue` or `RunConflict`.
    """
    origin, now = await engine.export(run), engine.store.now()
    given = (run, point, sorted(edits.results.items()), edits.input)
    asked = repr((*given, edits.states) if edits.states else given).encode()
    command = ForkRun(engine.ns, id, origin, now, point, *edits, digest(asked), reason)
    made: Run = await engine.do(command)
    return made


async def diff(engine: LocalEngine, a: str, b: str) -> Diff:
    """Compare two runs, or two generations of one: `order-42@1`. Raises `RunNotFound`."""
    return compared(await _history(engine, a), await _history(engine, b))


async def _history(engine: LocalEngine, name: str) -> tuple[Event, ...]:
    """Return what counts of a run, or counted at the end of one of its generations."""
    try:
        return (await engine.export(name)).living
    except RunNotFound:
        run, generation = generation_in(name)  # an id may look like this, too
        if generation is None:
            raise
    events = (await engine.export(run)).events
    found = generation_of(events, generation)
    if found is None:
        last = max(event.generation for event in events)
        problem = f"run {run!r} has had no generation {generation}, but {last}"
        hint = f"Name it with one from 1 to {last}, or without for what counts now."
        raise InvalidValue(where="diff", path=name, problem=problem, hint=hint)
    return living(found)
