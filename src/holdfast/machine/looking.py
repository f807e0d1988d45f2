"""A query, answered by a machine at hand, or by one that is fed the stored history for it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.errors import HoldfastError, QueryFailed, UnknownQuery
from holdfast.machine.machine import Body, Machine
from holdfast.machine.values import Signature
from holdfast.model.events import CLASS_OF, Event, since_start
from holdfast.model.run import Loaded, Run


class Seen(NamedTuple):
    """What a look gave: the reply, or why there is none."""

    payload: bytes | None = None
    error: HoldfastError | None = None
    is_spoilt: bool = False
    """The handler changed what the body waits for: this machine must not go on."""

    def reply(self) -> bytes:
        """Return the reply, or raise why there is none."""
        if self.error is not None:
            raise self.error
        return self.payload or b"null"


Look = Callable[[Machine], Seen]


def question(name: str, payload: bytes) -> Look:
    """Return the look that asks a query."""

    def look(machine: Machine) -> Seen:
        handlers = machine.handlers
        known = () if handlers is None else tuple(handlers.queries)
        if handlers is None or name not in handlers.queries:
            return Seen(error=UnknownQuery(run=machine.run, name=name, known=known))
        found = handlers.answer(name, payload)
        if not found.problem:
            return Seen(found.payload)
        error = QueryFailed(
            run=machine.run, query=name, problem=found.problem, traceback=found.traceback
        )
        return Seen(error=error, is_spoilt=found.is_spoilt)

    return look


def look_back(body: Body, signature: Signature, loaded: Loaded, look: Look) -> Seen:
    """Look at the body as its stored history leaves it; nothing runs and nothing is stored.

    Raises what would block the run.
    """
    machine = Machine(body, signature, ns=loaded.run.ns, run=loaded.run.id)
    with fed(machine, loaded.run, loaded.events):
        return look(machine)


@contextmanager
def fed(machine: Machine, run: Run, events: Sequence[Event]) -> Generator[Machine]:
    """Feed a machine the living events of a run; it is closed behind the block."""
    try:
        feed(machine, run, events)
        yield machine
    finally:
        machine.close()


def feed(machine: Machine, run: Run, events: Sequence[Event]) -> None:
    """Feed a machine the living events of a run but its close. Raises what would block the run."""
    open_events = [event for event in since_start(events) if CLASS_OF[event.kind] != "close"]
    # A run that nobody has held yet takes up every change of the code, as with a worker.
    is_new = run.seq == 1 and run.epoch == 0
    machine.feed_all(open_events, run.generation, is_new=is_new)
