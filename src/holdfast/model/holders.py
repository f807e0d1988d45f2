"""Who holds the slots of a queue: runs that were admitted, and jobs that are being done.

A job is done in the slot of its run, if that holds one of the same queue: one job at a time, others
need slots of their own. So no run waits for a slot that it holds itself. PostgreSQL counts in the
same way, in a function of its own (`holdfast.held`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.model.jobs import Job
from holdfast.model.limits import Ticket


class Holders(NamedTuple):
    """Those of one queue: tickets that were admitted, and jobs that somebody does."""

    tickets: Sequence[Ticket]
    jobs: Sequence[Job]

    def of_key(self, key: str) -> Holders:
        """Return those of one key."""
        tickets = [ticket for ticket in self.tickets if ticket.key == key]
        return Holders(tickets, [job for job in self.jobs if job.queue_key == key])

    @property
    def slots(self) -> int:
        """How many slots they hold."""
        runs = {ticket.run for ticket in self.tickets}
        return len(self.tickets) + len(self.jobs) - len(runs & {job.run for job in self.jobs})

    def rides(self, job: Job) -> bool:
        """Tell whether a job would be done in the slot of its run."""
        is_free = all(other.run != job.run for other in self.jobs)
        return is_free and any(ticket.run == job.run for ticket in self.tickets)


def holders_of(
    ns: str, queue: str, tickets: Iterable[Ticket], jobs: Iterable[Job], *, since: int = -1
) -> Holders:
    """Return who holds slots of a queue, of those who began after `since`."""
    here = (ns, queue)
    return Holders(
        [
            ticket
            for ticket in tickets
            if (ticket.ns, ticket.queue) == here
            and ticket.state == "admitted"
            and (ticket.admitted_at or 0) > since
        ],
        [
            job
            for job in jobs
            if (job.ns, job.queue) == here and job.owner is not None and (job.begun_at or 0) > since
        ],
    )
