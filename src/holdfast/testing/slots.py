"""I15: no queue admits more runs and jobs than it allows, and every slot comes back.

What was admitted before the limits of its queue were changed last may be more.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.model.dump import Dump, RunKey
from holdfast.model.holders import holders_of
from holdfast.model.limits import Queue, Ticket
from holdfast.model.queues import IN_LINE
from holdfast.model.run import Run
from holdfast.model.status import CLOSED

Broken = tuple[RunKey, str]


def broken_slots(dump: Dump) -> Iterator[Broken]:
    """Yield what does not hold, each with the run or the queue that shows it."""
    runs = {(run.ns, run.id): run for run in dump.runs}
    tickets = {(ticket.ns, ticket.run): ticket for ticket in dump.tickets}
    for key, ticket in tickets.items():
        run = runs.get(key)
        text = "it has a ticket and is not there" if run is None else _misplaced(run, ticket)
        if text:
            yield key, text
    for key, run in runs.items():
        if run.wake_at == IN_LINE and (key not in tickets or tickets[key].state != "waiting"):
            yield key, "it is due at no time, and stands in no line"
    for queue in dump.queues:
        yield from _crowded(queue, dump)


def _misplaced(run: Run, ticket: Ticket) -> str:
    if run.status in CLOSED and ticket.state != "done":
        what = "holds a slot" if ticket.state == "admitted" else "stands in line"
        return f"it is {run.status}, and {what} on queue {ticket.queue}"
    if run.status == "running" and ticket.state == "waiting":
        return f"it is running, and stands in line on queue {ticket.queue}"
    if ticket.queue != run.queue:
        return f"it is on queue {run.queue}, and has a ticket of queue {ticket.queue}"
    return ""


def _crowded(queue: Queue, dump: Dump) -> Iterator[Broken]:
    here = (queue.ns, queue.name)
    # One that was admitted before counts no more, and nor does the job that is done in its slot.
    before = holders_of(*here, dump.tickets, dump.jobs)
    found = holders_of(*here, dump.tickets, dump.jobs, since=queue.changed_at)
    old = {ticket.run for ticket in before.tickets} - {ticket.run for ticket in found.tickets}
    found = found._replace(jobs=[job for job in found.jobs if job.run not in old])
    if queue.concurrency is not None and found.slots > queue.concurrency:
        yield here, f"{found.slots} slots of this queue are held, which has {queue.concurrency}"
    most = queue.key_concurrency
    keys = {ticket.key for ticket in found.tickets} | {job.queue_key for job in found.jobs}
    for key in sorted(keys - {""}):
        held = found.of_key(key).slots
        if most is not None and held > most:
            yield here, f"{held} slots of this queue are held by key {key}, which has {most}"
