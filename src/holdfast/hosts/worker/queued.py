"""What a run asks other workers to do: its side of jobs.

A step with a queue never runs where its run is held: the commit that asks for it writes the job,
beside the row that its outcome will settle. Until then the run waits for it as for anything else
from outside, without a worker.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from holdfast.hosts.worker.attempts import options_of
from holdfast.model.asks import StepAsk
from holdfast.model.jobs import Job, Terms
from holdfast.model.waits import Wait

if TYPE_CHECKING:
    from holdfast.hosts.worker.attempts import Retrying
    from holdfast.hosts.worker.feeding import Feeding
    from holdfast.machine import Machine


def is_job(ask: StepAsk) -> bool:
    """Tell whether a step is done by whoever takes it from its queue."""
    return options_of(ask).queue is not None


def keys(machine: Machine) -> list[str]:
    """Return the keys of the jobs that a body waits for."""
    outside = machine.outside
    return [] if outside is None else [key for key in outside.steps() if is_job(machine.asks[key])]


def told(machine: Machine, deferred: Container[str]) -> list[str]:
    """Say which jobs a body waits for, and where they are."""
    asks = machine.asks
    waiting = [key for key in keys(machine) if key not in deferred]
    return [f"job {key} on queue {options_of(asks[key]).queue}" for key in waiting]


def start_by(ask: StepAsk, asked_at: int, wake_at: int) -> int | None:
    """Return by when a job that can be taken from `wake_at` on must have begun."""
    options = options_of(ask)
    times = [] if options.queue_timeout is None else [wake_at + options.queue_timeout]
    if options.total_timeout is not None:
        times.append(asked_at + options.total_timeout)
    return min(times, default=None)


def wake_at(retrying: Retrying | None, now: int) -> int:
    """Return from when on a job can be taken: at once, or after the wait before a new attempt."""
    return now if retrying is None else max(retrying.at, now)


def job_of(session: Feeding, ask: StepAsk, row: Wait, asked_at: int) -> Job:
    """Return the job whose outcome settles this row."""
    options, run, total = options_of(ask), session.run, options_of(ask).total_timeout
    terms = Terms(
        options.timeout, None if total is None else asked_at + total, options.heartbeat_timeout,
        options.at_most_once, ask.step.completes_later, session.keyed_as,
    )  # fmt: skip
    return Job(
        run.ns, run.id, ask.key, run.generation, row.attempt, row.secret, ask.step.name,
        options.queue or "", run.priority, ask.args, terms.encoded(), row.asked_at,
        wake_at(session.retrying(ask.key), row.asked_at), row.expires_at,
        queue_key=options.queue_key,
    )  # fmt: skip
