"""StartRun: the id is the key of the run and its idempotency key."""

from __future__ import annotations

from holdfast.errors import RunConflict, StoreError
from holdfast.model.commands import StartRun
from holdfast.model.events import Event
from holdfast.model.family import descent
from holdfast.model.run import Run
from holdfast.model.writes import Create, Define, Outcome


def decide(command: StartRun) -> Create:
    """Insert the run and its first event, unless the id is taken."""
    epoch = 1 if command.owner else 0
    link = command.link
    key = command.slot if link is None else descent(command.depth, link.parent)
    event = Event(
        "run.started", command.at, key, command.input, digest=command.shape, seq=1, epoch=epoch
    )
    return Create(
        ns=command.ns,
        id=command.id,
        workflow=command.workflow,
        version=command.version,
        input_digest=command.input_digest,
        event=event,
        wake_at=max(command.wake_at, command.at),
        owner=command.owner,
        labels=command.labels,
        deadline=None if command.timeout is None else command.at + command.timeout,
        defines=_definition(command) if command.defines else None,
        queue=command.queue,
        priority=command.priority,
        message=command.message and command.message._replace(n=1),
        link=command.link,
        place=command.place,
        secrets=command.secrets,
    )


def _definition(command: StartRun) -> Define:
    return Define(command.ns, command.workflow, command.version, command.shape or b"")


def read(command: StartRun, outcome: Outcome) -> Run:
    """Return the run, new or found. Raises `RunConflict` if the found one is of other work."""
    run = outcome.run
    if run is None:
        raise StoreError("A store answered a start without the run's row. Report this as a bug.")
    if run.workflow != command.workflow:
        raise RunConflict(run=command.id, differs=f"workflow ({run.workflow})")
    if run.input_digest != command.input_digest:
        raise RunConflict(run=command.id, differs="input")
    return run
