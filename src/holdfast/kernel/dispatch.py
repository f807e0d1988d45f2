"""The one door for commands: which write a command becomes, and what its outcome means.

The kernel never waits. A host asks `decide`, has its store carry the write out, and hands the
outcome to `read`, which returns the reply or raises the error that tells the caller what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.kernel import (
    annotate,
    answer,
    cancel,
    change_queue,
    commit,
    define,
    expire,
    forget,
    fork,
    importing,
    job,
    pause,
    prune,
    quarantine,
    reap,
    renew,
    rerun,
    resume,
    retire,
    retry,
    schedule,
    signal,
    start,
    supply,
    terminate,
    update,
)
from holdfast.model import commands
from holdfast.model.commands import Command
from holdfast.model.writes import Outcome, Write


class Rule(NamedTuple):
    """The two halves of a command."""

    decide: Callable[[Any], Write]
    read: Callable[[Any, Outcome], Any]


RULES: Mapping[type[Any], Rule] = {
    commands.StartRun: Rule(start.decide, start.read),
    commands.ImportRun: Rule(importing.decide, importing.read),
    commands.SignalRun: Rule(signal.decide, signal.read),
    commands.UpdateRun: Rule(update.decide, update.read),
    commands.SupplySecrets: Rule(supply.decide, supply.read),
    commands.AnswerRun: Rule(answer.decide, answer.read),
    commands.CancelRun: Rule(cancel.decide, cancel.read),
    commands.TerminateRun: Rule(terminate.decide, terminate.read),
    commands.PauseRun: Rule(pause.decide, pause.read),
    commands.ResumeRun: Rule(resume.decide, resume.read),
    commands.RetryRun: Rule(retry.decide, retry.read),
    commands.RerunRun: Rule(rerun.decide, rerun.read),
    commands.ForkRun: Rule(fork.decide, fork.read),
    commands.CommitTurn: Rule(commit.decide, commit.read),
    commands.AnnotateRun: Rule(annotate.decide, annotate.read),
    commands.EndJob: Rule(job.decide_end, job.read_end),
    commands.ReportJob: Rule(job.decide_report, job.read_report),
    commands.RenewLease: Rule(renew.decide, renew.read),
    commands.ReapLeases: Rule(reap.decide, reap.read),
    commands.RetireWorker: Rule(retire.decide, retire.read),
    commands.QuarantineRun: Rule(quarantine.decide, quarantine.read),
    commands.PruneRuns: Rule(prune.decide, prune.read),
    commands.ForgetResults: Rule(forget.decide, forget.read),
    commands.DefineWorkflow: Rule(define.decide, define.read),
    commands.ExpireRun: Rule(expire.decide, expire.read),
    commands.ChangeQueue: Rule(change_queue.decide, change_queue.read),
    commands.CreateSchedule: Rule(schedule.create, schedule.read),
    commands.FireSchedule: Rule(schedule.fire, schedule.read),
    commands.UpdateSchedule: Rule(schedule.update, schedule.read),
    commands.PauseSchedule: Rule(schedule.pause, schedule.read),
    commands.ResumeSchedule: Rule(schedule.resume, schedule.read),
    commands.TriggerSchedule: Rule(schedule.trigger, schedule.read),
    commands.BackfillSchedule: Rule(schedule.backfill, schedule.read),
    commands.DeleteSchedule: Rule(schedule.delete, schedule.read),
}


def decide(command: Command) -> Write:
    """Return the guarded write that carries `command` out."""
    return RULES[type(command)].decide(command)


def read(command: Command, outcome: Outcome) -> Any:
    """Return the reply to `command`, or raise why it was refused."""
    return RULES[type(command)].read(command, outcome)
