"""ImportRun: a run from elsewhere arrives whole and does nothing by itself.

What could go on is paused, with a mark in the history that says why; what was closed, blocked,
quarantined or paused already stays so. `resume` or `retry` is somebody's decision, made here.
"""

from __future__ import annotations

from holdfast.errors import RunConflict, StoreError
from holdfast.model.commands import ImportRun
from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.model.status import RunStatus
from holdfast.model.writes import Import, Outcome

LIVELY: frozenset[RunStatus] = frozenset({"pending", "running", "waiting"})
REASON = "imported"


def decide(command: ImportRun) -> Import:
    """Insert everything of the run, unless the id is taken."""
    run, events = command.export.run, command.export.events
    run = run._replace(ns=command.ns, id=command.id, owner=None, wake_at=None, strikes=0)
    if run.status in LIVELY:
        run = run._replace(status="paused", reason=REASON, seq=run.seq + 1, epoch=run.epoch + 1)
        at = max(command.at, *(event.at for event in events))
        mark = Event(
            "run.paused", at, payload=b'{"reason": "imported"}', seq=run.seq, epoch=run.epoch,
            generation=run.generation,
        )  # fmt: skip
        events = (*events, mark)
    return Import(command.export._replace(run=run, events=events))


def read(command: ImportRun, outcome: Outcome) -> Run:
    """Return the imported run. Raises `RunConflict` if the id is taken."""
    if outcome.run is None:
        raise StoreError("A store answered an import without the run's row. Report this as a bug.")
    if not outcome.applied:
        raise RunConflict(run=command.id, differs="history")
    return outcome.run
