"""AnswerRun: the first answer wins, and is stored with the message that wakes the run."""

from __future__ import annotations

from holdfast.kernel.refusal import not_open
from holdfast.model.commands import AnswerRun
from holdfast.model.run import Message
from holdfast.model.status import CLOSED
from holdfast.model.waits import Answer
from holdfast.model.writes import Outcome, Put


def decide(command: AnswerRun) -> Put:
    """Keep the answer where it is awaited, and tell the run."""
    message = Message(f"answer/{command.secret}", "answer", command.key, None, command.at)
    answer = Answer(command.key, command.secret, command.payload, command.by)
    return Put(command.ns, command.run, message, answers=answer)


def read(command: AnswerRun, outcome: Outcome) -> bool:
    """Tell whether this answer counts: nobody was faster, and it is still awaited.

    Raises `RunNotFound`, or `RunClosed` if the run has ended without any answer.
    """
    if outcome.applied:
        return True
    if outcome.run is None or (outcome.run.status in CLOSED and not outcome.total):
        raise not_open(command.run, outcome)
    return False
