"""What a turn says to updates, and what a worker keeps of talk while it holds a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.machine.looking import Look, Seen
from holdfast.model.events import Event, Failure
from holdfast.model.failures import encode_failure
from holdfast.model.run import ENDS_OF_UPDATES, Message, MessageState
from holdfast.model.writes import Replied

if TYPE_CHECKING:
    from holdfast.hosts.worker.turn import Draft


class Visitor(NamedTuple):
    """Somebody who waits for a moment at which all that the body has seen is stored."""

    look: Look
    seen: asyncio.Future[Seen | None]


def reason(told: str, taken: Sequence[str], waiting: Sequence[Message]) -> str:
    """Add to what a parked run waits for the updates it takes, and those it cannot decide on."""
    parts = [told] if told else []
    parts += [f"update {name}" for name in taken]
    names = dict.fromkeys(message.name for message in waiting)
    parts += [f"a handler for update {name}" for name in names]
    return "; ".join(parts)[:500]


def accept(draft: Draft, update: Message) -> Event:
    """Record that the body takes an update."""
    _reply(draft, update.id, "accepted")
    key = f"{update.name}/{update.id}"
    return draft.add(Event("update.accepted", draft.at, key, update.payload))


def reject(draft: Draft, update: Message, failure: Failure) -> None:
    """Say why the body refuses an update. The history is left alone."""
    _reply(draft, update.id, "rejected", encode_failure(failure))


def add_note(draft: Draft, note: Event) -> Event:
    """Record what the body said; the end of an update is told to its caller, too.

    What a replay said, and the history does not hold, is of an earlier turn: time does not go back.
    """
    if note.kind in ENDS_OF_UPDATES:
        _reply(draft, note.key.partition("/")[2], ENDS_OF_UPDATES[note.kind], note.payload)
    return draft.add(note if note.at >= draft.at else note._replace(at=draft.at))


def _reply(draft: Draft, id: str, state: MessageState, payload: bytes | None = None) -> None:
    """Say something to a message; what this turn said before does not count."""
    others = [told for told in draft.replies if told.message != id]
    draft.replies = (*others, Replied(id, state, payload))
