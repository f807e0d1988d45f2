"""EndJob, ReportJob: what the holder of a job may write, and only as long as it holds it."""

from __future__ import annotations

from holdfast.model.commands import EndJob, ReportJob
from holdfast.model.run import Message
from holdfast.model.waits import Answer
from holdfast.model.writes import Outcome, Put, Report


def decide_end(command: EndJob) -> Put:
    """Keep the outcome where it is awaited, tell the run, and take the job off the list."""
    key, secret = command.job.key, command.secret
    if command.outcome is None:
        message = Message(f"deferred/{secret}", "answer", key, command.told, command.at)
        return Put(command.ns, command.run, message, ends=command.job)
    message = Message(f"answer/{secret}", "answer", key, command.told, command.at)
    answer = Answer(key, secret, command.outcome, command.by)
    return Put(command.ns, command.run, message, answers=answer, ends=command.job)


def read_end(command: EndJob, outcome: Outcome) -> bool:
    """Tell whether this outcome counts; False: the run went on without it, or was told before."""
    return outcome.applied


def decide_report(command: ReportJob) -> Report:
    """Keep it under the guard that the job is held as it was taken."""
    return Report(*command)


def read_report(command: ReportJob, outcome: Outcome) -> bool:
    """Tell whether the job is still held."""
    return outcome.applied
