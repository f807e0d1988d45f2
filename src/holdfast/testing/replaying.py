"""Replay without effects: a recorded history, fed to the code there is now.

    from holdfast.testing import replay

    def test_orders_in_the_field_still_replay() -> None:
        replay(checkout, "tests/histories/order-42.json")

No step runs, nothing is stored and no clock is read: the body is fed what was recorded, and every
answer is checked against what it asks for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.errors import BodyStuck, InvalidExport, ReplayMismatch
from holdfast.fronts.function.workflow import Workflow
from holdfast.hosts.worker import guard
from holdfast.machine import Machine, looking
from holdfast.model.asks import Ended
from holdfast.model.events import CLASS_OF, Event, by_start
from holdfast.model.exports import Export, export_of
from holdfast.model.failures import decode_failure, in_a_line
from holdfast.model.run import Loaded, Run

R = TypeVar("R")

History = Loaded | Export | Mapping[str, Any] | str | os.PathLike[str]
"""What `await run.history()` gives, what `holdfast runs export` writes, or the file it is in."""

SHOWN = 200


class Replayed(NamedTuple, Generic[R]):
    """Where a replay led: to an end, or to what the body waits for now.

    `ended` is None, "completed", "failed", "cancelled" or "continued"; `result` is what the body
    returned.
    """

    ended: str | None
    result: R | None = None
    steps: tuple[str, ...] = ()
    timers: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.ended:
            return self.ended
        waits = [*self.steps, *self.timers, *(f"signal {name}" for name in self.signals)]
        waits += [f"update {name}" for name in self.updates]
        waits += [f"child {id}" for id in self.children]
        waits += [f"an answer to {key}" for key in self.questions]
        return f"waits for {', '.join(waits) or 'nothing'}"


def replay(workflow: Workflow[..., R], history: History) -> Replayed[R]:
    """Feed a recorded history to the workflow's code, and return where that leads.

    Raises `ReplayMismatch` if the code asks for something else than was recorded, or ends the run
    in another way; and what else would block the run: `Undecodable`, `GuardViolation`, `BodyStuck`
    or `UnsupportedVersion`.
    """
    run, events = _read(history)
    parts = [tuple(part) for part in by_start(events)]
    for part, following in pairwise(parts):
        _replay_part(workflow, run, part, following[0])
    events = parts[-1]
    with fed(workflow, run, events) as machine:
        found: Replayed[R] = whereabouts(machine)
        close = events[-1] if events and CLASS_OF[events[-1].kind] == "close" else None
        if close is not None:
            _compare_end(machine, close, found)
        return found


def _replay_part(
    workflow: Workflow[..., Any], run: Run, events: tuple[Event, ...], following: Event
) -> None:
    """Feed what came before a continuation: it must lead to just that one."""
    of_then = run._replace(generation=events[-1].generation, seq=events[-1].seq)
    with fed(workflow, of_then, events) as machine:
        ended = machine.ended
        if ended is None or (ended.status, ended.payload) != ("continued", following.payload):
            recorded = _shown(*_end(Ended("continued", following.payload)))
            told = str(whereabouts(machine)) if ended is None else f"ends as {_shown(*_end(ended))}"
            raise ReplayMismatch(
                seq=following.seq, recorded=f"the end of its body as {recorded}", asked=told,
                source=machine.source(),
            )  # fmt: skip


@contextmanager
def fed(workflow: Workflow[..., Any], run: Run, events: tuple[Event, ...]) -> Generator[Machine]:
    """Give a machine that was fed the living events; it is closed behind the block."""
    machine = machine_of(workflow, run)
    try:
        feed(machine, run, events)
        yield machine
    finally:
        machine.close()


def machine_of(workflow: Workflow[..., Any], run: Run) -> Machine:
    """Return a machine for the run, not yet fed; close it."""
    guard.install()
    return Machine(workflow.function, workflow.signature, ns=run.ns, run=run.id)


def feed(machine: Machine, run: Run, events: tuple[Event, ...]) -> None:
    """Feed a machine the living events of a run. Raises what would block the run."""
    looking.feed(machine, run, events)
    if machine.is_stuck():
        raise BodyStuck(source=machine.source())


def whereabouts(machine: Machine) -> Replayed[Any]:
    """Say how the body ended, or what it waits for."""
    ended = machine.ended
    if ended is not None:
        is_done = ended.status == "completed"
        decode = machine.signature.result.decode
        result = decode(ended.payload or b"null", where="result") if is_done else None
        return Replayed(ended.status, result)
    timers = tuple(timer.key for timer in machine.loop.timers)
    messages = (machine.awaited_signals(), machine.awaited_updates())
    others = (tuple(machine.awaited_children()), machine.awaited_answers())
    return Replayed(None, None, tuple(machine.asks), timers, *messages, *others)


def _read(history: History) -> tuple[Run, tuple[Event, ...]]:
    if isinstance(history, Loaded):
        return history.run, history.events
    export = history if isinstance(history, Export) else _export(history)
    return export.run, export.living


def _export(history: Mapping[str, Any] | str | os.PathLike[str]) -> Export:
    if isinstance(history, Mapping):
        return export_of(dict(history))
    path = Path(history)
    try:
        document: object = json.loads(path.read_text("utf-8"))
    except (ValueError, OSError) as error:
        problem = f"it cannot be read ({error})"
        raise InvalidExport(where=str(path), problem=problem) from error
    return export_of(document)


def _compare_end(machine: Machine, close: Event, found: Replayed[Any]) -> None:
    """Hold the recorded end against where the code leads; others than the body may end a run."""
    if close.kind not in ("run.completed", "run.failed"):
        return
    recorded, ended = _recorded_end(close), machine.ended
    led = (found.ended or "", "") if ended is None else _end(ended)
    if led == recorded:
        return
    told = f"ends as {_shown(*led)}" if ended is not None else str(found)
    raise ReplayMismatch(
        seq=close.seq, recorded=f"the end of the run as {_shown(*recorded)}", asked=told,
        source=machine.source(),
    )  # fmt: skip


def _recorded_end(close: Event) -> tuple[str, str]:
    if close.kind == "run.failed":
        return _end(Ended("failed", failure=decode_failure(close.payload)))
    return _end(Ended("completed", close.payload))


def _end(ended: Ended) -> tuple[str, str]:
    if ended.failure is not None:
        return ended.status, in_a_line(ended.failure.type, ended.failure.message)
    return ended.status, (ended.payload or b"null").decode("utf-8", "backslashreplace")


def _shown(status: str, text: str) -> str:
    return f"{status} with {text if len(text) <= SHOWN else f'{text[:SHOWN]}…'}"
