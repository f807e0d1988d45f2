"""ExpireRun: a run that stood in line for too long ends without having begun."""

from __future__ import annotations

from holdfast.kernel.refusal import illegal
from holdfast.model.commands import ExpireRun
from holdfast.model.events import Event, Failure
from holdfast.model.failures import encode_failure, in_a_line
from holdfast.model.run import Run
from holdfast.model.writes import Move, Outcome


def decide(command: ExpireRun) -> Move:
    """Close the run, if its start is all there is of it: one that was ever held is `waiting`."""
    told = f"it did not begin on queue {command.queue} in the time it had for that"
    failure = Failure("QueueTimeout", told)
    return Move(
        command.ns, command.run, origins=frozenset({"pending"}), status="timed_out",
        event=Event("run.timed_out", command.at, payload=encode_failure(failure)),
        reason=in_a_line(failure.type, failure.message), seq=1,
    )  # fmt: skip


def read(command: ExpireRun, outcome: Outcome) -> Run:
    """Return the run. Raises `RunNotFound`, `RunClosed` or `IllegalMove`."""
    if not outcome.applied or outcome.run is None:
        raise illegal(command.run, outcome, command="expire", allowed=("pending",))
    return outcome.run
