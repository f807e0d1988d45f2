"""I23: jobs and the runs that wait for them agree.

A job is there only as long as its run waits for it, under the same secret. What a run waits for as
a job is there to be done, or has left its outcome to a token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from holdfast.model.dump import Dump, RunKey
from holdfast.model.waits import Wait

Broken = tuple[RunKey, str]


def broken_jobs(dump: Dump) -> Iterator[Broken]:
    """Yield what does not hold, each with the run that shows it."""
    waits = {(wait.ns, wait.run, wait.key): wait for wait in dump.waits}
    for job in dump.jobs:
        wait = waits.get((job.ns, job.run, job.key))
        if wait is None or wait.state != "open" or wait.secret != job.secret:
            is_settled = wait is not None and wait.state == "answered"
            if not is_settled:  # by its token: the next turn calls it off
                yield (job.ns, job.run), f"job {job.key} is there, and nobody waits for it"
        elif (wait.attempt, wait.generation) != (job.attempt, job.generation):
            yield (job.ns, job.run), f"job {job.key} is attempt {job.attempt} of {wait.attempt}"
    there = {(job.ns, job.run, job.key) for job in dump.jobs}
    for place, wait in waits.items():
        is_awaited = wait.kind == "job" and wait.state == "open"
        if is_awaited and place not in there and not _is_deferred(wait, dump):
            yield (wait.ns, wait.run), f"it waits for job {wait.key}, which is not there"


def _is_deferred(wait: Wait, dump: Dump) -> bool:
    key = (wait.ns, wait.run)
    if any(each.id == f"deferred/{wait.secret}" for each in dump.inbox.get(key, ())):
        return True
    return any(
        event.kind == "step.deferred" and event.key == wait.key
        and json.loads(event.payload or b"{}").get("attempt") == wait.attempt
        for event in dump.events.get(key, ())
    )  # fmt: skip
