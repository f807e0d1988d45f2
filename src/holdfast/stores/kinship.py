"""Parents and children in a store whose statements need not be waited for.

What a turn sends to other runs is carried out after its own write, in the same transaction. What
follows from a link is said in `model/departing.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from holdfast.model.cache import CachedResult
from holdfast.model.departing import is_same, told, treated
from holdfast.model.events import Event
from holdfast.model.family import Kin, Link
from holdfast.model.run import Run
from holdfast.model.status import CLOSED
from holdfast.model.writes import Create, Depart, Free, Notice, Outcome, Remember, Send, Write
from holdfast.stores.notices import notices_of


class Family(Protocol):
    """What is asked of the tables, inside the open transaction."""

    def run(self, ns: str, id: str) -> Run | None:
        """Return a run's row."""
        ...

    def link(self, ns: str, run: str) -> Link | None:
        """Return what ties a run to its parent, if it has one."""
        ...

    def children(self, ns: str, parent: str) -> list[Kin]:
        """Return the open children of a run, in the order of their ids."""
        ...

    def tie(self, ns: str, run: str, link: Link) -> None:
        """Keep a link, in the place of the one there is."""
        ...

    def closing(self, ns: str, run: str) -> Event:
        """Return the event that closed a run."""
        ...

    def rouse(self, ns: str, schedule: str) -> bool:
        """Have a schedule looked at if slots of it wait; tell whether they do.

        Its row changes whenever slots of it may wait: who decided that one does, while the run was
        still open, must decide again.
        """
        ...

    def apply(self, write: Write) -> Outcome:
        """Carry out one write."""
        ...

    def free(self, write: Free) -> list[Notice]:
        """Give back what a run has at its queue."""
        ...

    def remember(self, kept: CachedResult) -> None:
        """Keep a result for later calls."""
        ...


def taken(family: Family, sends: Iterable[Send]) -> str:
    """Return the id of a new child that other work has already; nothing, if there is none."""
    for send in sends:
        found = family.run(send.ns, send.id) if isinstance(send, Create) else None
        if found is None or not isinstance(send, Create):
            continue
        if not is_same(found, family.link(send.ns, send.id), send):
            return send.id
    return ""


def carry_out(family: Family, sends: Iterable[Send]) -> tuple[Notice, ...]:
    """Do what a turn sends; return what listeners should hear of."""
    heard: list[Notice] = []
    for send in sends:
        if isinstance(send, Depart):
            heard += depart(family, send)
        elif isinstance(send, Create):
            heard += _create(family, send)
        elif isinstance(send, Free):
            heard += family.free(send)
        elif isinstance(send, Remember):
            family.remember(send.kept)
        else:
            heard += _apply(family, send)
    return tuple(heard)


def depart(family: Family, departs: Depart) -> list[Notice]:
    """Tell the parent of a run that closes, and treat its children."""
    link = family.link(departs.ns, departs.run) if departs.is_child else None
    heard = [] if link is None else _apply(family, told(link, departs))
    children = family.children(departs.ns, departs.run) if departs.is_parent else ()
    for child in children:
        write = treated(child, departs)
        if write is not None:
            heard += _apply(family, write)
    if departs.schedule and family.rouse(departs.ns, departs.schedule):
        heard.append(Notice(departs.ns, "", "schedule"))
    return heard


def _create(family: Family, asked: Create) -> list[Notice]:
    """Create a child, or take up the one there is: what it has to tell is told again."""
    if asked.link is None:
        return _apply(family, asked)
    found = family.run(asked.ns, asked.id)
    family.tie(asked.ns, asked.id, asked.link)
    if found is None:
        return _apply(family, asked)
    if found.status not in CLOSED:
        return []
    closing = family.closing(asked.ns, asked.id)
    return _apply(family, told(asked.link, Depart(found.ns, found.id, found.generation, closing)))


def _apply(family: Family, write: Write) -> list[Notice]:
    return notices_of([write], [family.apply(write)])
