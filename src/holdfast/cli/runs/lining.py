"""What `holdfast runs why` says of runs that stand in line at a queue, and of what keeps them."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.cli.proposing import typed
from holdfast.cli.terminal import clean
from holdfast.cli.words import SECOND, ahead, count, moment, span
from holdfast.model.limits import QueueState, Ticket


class Standing(NamedTuple):
    """A run's ticket, and its queue as it is."""

    ticket: Ticket
    state: QueueState

    def told(self, now: int) -> list[str]:
        """Say what keeps it from beginning."""
        queue, ticket, name = self.state.queue, self.ticket, clean(self.ticket.queue)
        waited = now - ticket.due_at
        since = f" It has stood there for {span(waited)}." if waited > SECOND else ""
        key = f" under key {clean(ticket.key)!r}" if ticket.key else ""
        why = kept_by(self.state, ticket.key, now)
        told = [f"It stands in line on queue {name}{key}, {why}.{since}"]
        others = self.state.waiting - 1
        if others:
            told.append(f"{count(others, 'other')} in line there; keys take turns.")
        if queue.limits.told:
            told.append(f"The queue allows {queue.limits.told}.")
        if ticket.expires_at is not None:
            until = f"{moment(ticket.expires_at)} ({ahead(ticket.expires_at, now)})"
            told.append(f"If it has not begun by {until}, it times out.")
        return told

    @property
    def commands(self) -> list[tuple[str, str]]:
        """What to type next."""
        return commands_for(self.state)


def kept_by(state: QueueState, key: str, now: int) -> str:
    """Say what keeps a run or a job of a key from beginning, as the end of a sentence."""
    queue, held = state.queue, state.held
    if queue.paused:
        return "which is paused"
    if queue.concurrency is not None and held >= queue.concurrency:
        return f"waiting for a slot ({held} of {queue.concurrency} held)"
    if state.next_at is not None:
        return f"whose rate lets the next one begin {ahead(state.next_at, now)}"
    if queue.key_concurrency is not None and key:
        return "waiting for its key's turn, or a slot of its key"
    return "and may begin when a worker that serves it has room"


def commands_for(state: QueueState) -> list[tuple[str, str]]:
    """Return what to type to have more of a queue begin."""
    name = clean(state.queue.name)
    shows = (typed("queues show", name), "what it allows, who holds it")
    if state.queue.paused:
        return [(typed("queues resume", name), "let what waits there begin"), shows]
    return [shows, (typed("queues set", name, options=("--concurrency", "N")), "allow more")]
