"""I15: no queue admits more runs than it allows, and every slot comes back.

Runs that were admitted before the limits of their queue were changed last may be more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.model.dump import Dump, RunKey
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
        yield from _crowded(queue, dump.tickets)


def _misplaced(run: Run, ticket: Ticket) -> str:
    if run.status in CLOSED and ticket.state != "done":
        what = "holds a slot" if ticket.state == "admitted" else "stands in line"
        return f"it is {run.status}, and {what} on queue {ticket.queue}"
    if run.status == "running" and ticket.state == "waiting":
        return f"it is running, and stands in line on queue {ticket.queue}"
    if ticket.queue != run.queue:
        return f"it is on queue {run.queue}, and has a ticket of queue {ticket.queue}"
    return ""


def _crowded(queue: Queue, tickets: tuple[Ticket, ...]) -> Iterator[Broken]:
    here = (queue.ns, queue.name)
    keys = [
        ticket.key
        for ticket in tickets
        if (ticket.ns, ticket.queue) == here
        and ticket.state == "admitted"
        and (ticket.admitted_at or 0) > queue.changed_at
    ]
    if queue.concurrency is not None and len(keys) > queue.concurrency:
        yield here, f"{len(keys)} runs hold a slot of this queue, which has {queue.concurrency}"
    most = queue.key_concurrency
    for key, held in Counter(key for key in keys if key).items():
        if most is not None and held > most:
            yield here, f"{held} runs of key {key} hold a slot of this queue, which has {most}"
