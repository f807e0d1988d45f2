"""I9: parents and children agree.

A child is there if and only if its parent's history says that it was started. An open parent hears
of each end: it is in the history, or in the inbox. When a parent closes, none of its children goes
on that was to end with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.hosts.worker.family import is_import
from holdfast.model.dump import Dump, RunKey
from holdfast.model.events import Event
from holdfast.model.family import Link, started_id
from holdfast.model.run import NOT_CANCELLED, Message, Run
from holdfast.model.status import CLOSED

Broken = tuple[RunKey, str]


def broken_ties(dump: Dump) -> Iterator[Broken]:
    """Yield what does not hold, each with the run that shows it."""
    runs = {(run.ns, run.id): run for run in dump.runs}
    for key, link in dump.children.items():
        child, parent = runs.get(key), runs.get((key[0], link.parent))
        if child is None:
            yield key, f"it is tied to {link.parent} and is not there"
        elif parent is not None:
            events = dump.events.get((key[0], link.parent), ())
            yield from ((key, text) for text in _broken_tie(child, parent, link, events))
    for key, run in runs.items():
        if run.status not in CLOSED:
            starts = _unanswered(dump.events.get(key, ()))
            told = [_unheard(run, started, runs, dump) for started in starts]
            yield from ((key, text) for text in told if text)


def _broken_tie(child: Run, parent: Run, link: Link, events: Sequence[Event]) -> Iterator[str]:
    starts = [event for event in events if event.kind == "child.started"]
    if not any(event.key == link.key and started_id(event) == child.id for event in starts):
        yield f"it is a child of {parent.id}, whose history does not say that it was started"
    if parent.status in CLOSED and child.status not in CLOSED:
        if link.policy == "terminate":
            yield f"it is {child.status}, and its parent {parent.id} is {parent.status}"
        elif link.policy == "cancel" and child.cancel == NOT_CANCELLED:
            yield f"it was not asked to cancel, and its parent {parent.id} is {parent.status}"


def _unanswered(events: Sequence[Event]) -> list[Event]:
    """Return the starts of children whose end the run must hear of, or has yet to ask about."""
    open_: dict[str, Event] = {}
    for event in events:
        if event.superseded_by is not None:
            continue
        if event.kind == "child.started":
            open_[event.key] = event
        elif event.kind == "child.closed":
            open_.pop(event.key, None)
        elif event.kind in ("run.reopened", "run.continued", "run.forked") or is_import(event):
            # The children are asked for again, whose end was told while nobody listened; those of
            # a fork are created when it is first taken up.
            open_.clear()
    return list(open_.values())


def _unheard(run: Run, started: Event, runs: dict[RunKey, Run], dump: Dump) -> str:
    id = started_id(started)
    child = runs.get((run.ns, id))
    if child is not None and child.status not in CLOSED:
        return ""
    inbox = dump.inbox.get((run.ns, run.id), ())
    if any(_tells(message, started.key, id) and message.n > run.inbox_read for message in inbox):
        return ""
    ended = "is not there" if child is None else f"is {child.status}"
    return f"it waits for child {started.key}, which {ended}, and was told nothing"


def _tells(message: Message, key: str, child: str) -> bool:
    return message.kind == "child" and message.id.endswith(f"/{key}/{child}")
