"""RetryRun: nothing is destroyed; what led to the failure stops counting.

A blocked or quarantined run simply goes on. A failed one is reopened in a new generation: its
close, its passed deadline, the step failures that caused it with their attempts, and what the body
noted after the first of them are superseded; its time-out begins anew. Other answers stay. Those
that the body no longer asks for, because it came to them by way of the failure, are superseded by
whoever replays the run next, with what they had undone. Which changes of the code the run follows
stays too: answers that are kept were computed with them.

A run that could not undo all loses only its close: what led to it stays, and when its body has
ended again, what is owed runs once more.
"""

from __future__ import annotations

from holdfast.kernel.refusal import illegal
from holdfast.kernel.reopening import ATTEMPTS, deadline_of, length_of, told
from holdfast.model.commands import RetryRun
from holdfast.model.events import CLASS_OF, COMPENSATION, Event, EventKind, since_start
from holdfast.model.failures import decode_failure
from holdfast.model.family import policy_of
from holdfast.model.run import Run
from holdfast.model.status import RunStatus
from holdfast.model.writes import Move, Outcome

FAILURES = ("step.failed", "child.closed")
RESUMED: frozenset[RunStatus] = frozenset({"blocked", "quarantined"})
REOPENED: frozenset[RunStatus] = frozenset({"failed", "timed_out", "compensation_failed"})


def decide(command: RetryRun) -> Move:
    """Make the run pending, guarded by the history the decision was made on."""
    reopens = command.status in REOPENED
    kind: EventKind = "run.reopened" if reopens else "run.resumed"
    key = COMPENSATION if command.status == "compensation_failed" else ""
    return Move(
        ns=command.ns,
        run=command.run,
        origins=(REOPENED if reopens else RESUMED),
        status="pending",
        event=Event(kind, command.at, key, told(reason=command.reason), digest=command.shape),
        wake_at=command.at,
        seq=length_of(command.history),
        supersedes=superseded(command.history) if reopens else (),
        reopens=reopens,
        deadline=deadline_of(command.history, command.deadline, command.at),
    )


def superseded(history: tuple[Event, ...]) -> tuple[int, ...]:
    """Return the seqs of living events that a retry of this failed run takes back."""
    history = tuple(since_start(history))  # keys begin again with each continuation
    close = next(event for event in reversed(history) if CLASS_OF[event.kind] == "close")
    if close.kind == "run.compensation_failed":
        return (close.seq,)
    causes = set(decode_failure(close.payload).cause)
    failures = [e.seq for e in history if e.kind in FAILURES and e.key in causes]
    attempts = [e.seq for e in history if e.kind in ATTEMPTS and e.key in causes]
    cut = min(failures, default=close.seq)
    notes = [e.seq for e in history if _is_taken_back(e, cut)]
    starts = _starts_taken_back(history, causes)
    deadlines = [e.seq for e in history if e.kind == "deadline.passed"]
    return tuple(sorted({close.seq, *failures, *attempts, *notes, *starts, *deadlines}))


def _starts_taken_back(history: tuple[Event, ...], causes: set[str]) -> list[int]:
    """Return the starts of children that have to be started again.

    Those that failed, and those that were stopped when the run closed.
    """
    ended = {event.key for event in history if event.kind == "child.closed"}
    return [
        event.seq
        for event in history
        if event.kind == "child.started"
        and (event.key in causes or (event.key not in ended and policy_of(event) != "abandon"))
    ]


def _is_taken_back(event: Event, cut: int) -> bool:
    is_note = CLASS_OF[event.kind] == "note" and event.kind != "note.patched"
    return is_note and event.asked_seq >= cut


def read(command: RetryRun, outcome: Outcome) -> Run:
    """Return the reopened run. Raises `RunNotFound` or `IllegalMove`."""
    if not outcome.applied or outcome.run is None:
        raise illegal(command.run, outcome, command="retry", allowed=REOPENED | RESUMED)
    return outcome.run
