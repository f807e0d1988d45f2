"""The parent and the children of a run, as its history tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.cli.documents import compact, fields_of
from holdfast.cli.terminal import clean
from holdfast.model.events import Event, EventKind
from holdfast.model.failures import decode_failure, in_a_line
from holdfast.model.family import parent_in, report_of, started_id

LISTED = 3
"""How many open children one line names."""


class ChildRow(NamedTuple):
    """A child of a run: `status` is how it ended, or "open"."""

    key: str
    id: str
    workflow: str
    status: str = "open"


def parent_of(events: Sequence[Event]) -> str:
    """Return the id of a run's parent, or nothing."""
    return parent_in(events[0].key) if events and events[0].kind == "run.started" else ""


def children_in(events: Sequence[Event]) -> list[ChildRow]:
    """Return the children a run has started, in their order."""
    found: dict[str, ChildRow] = {}
    for event in events:
        if event.kind == "child.started":
            workflow = str(fields_of(event.payload).get("workflow", ""))
            found[event.key] = ChildRow(event.key, started_id(event), workflow)
        elif event.kind == "child.closed" and event.key in found:
            status = report_of(event.payload).status
            found[event.key] = found[event.key]._replace(status=status)
    return [*found.values()]


def facts_of(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Say who stands above a run and below it."""
    facts = [("parent", clean(parent))] if (parent := parent_of(events)) else []
    if children := children_in(events):
        still = [child for child in children if child.status == "open"]
        names = ", ".join(clean(child.id) for child in still[:LISTED])
        more = f" and {len(still) - LISTED} more" if len(still) > LISTED else ""
        told = f"; {len(still)} open: {names}{more}" if still else ""
        facts.append(("children", f"{len(children)}{told}"))
    return facts


def what(event: Event) -> str:
    """Say what an event about a child is."""
    did = "started" if event.kind == "child.started" else report_of(event.payload).status
    return f"child {clean(event.key)} {did.replace('_', ' ')}"


def looks_like(event: Event) -> EventKind:
    """Return the kind an event is drawn as: a child that did not complete, as a failed step."""
    if event.kind == "child.closed" and report_of(event.payload).status != "completed":
        return "step.failed"
    return event.kind


def detail(event: Event) -> str:
    """Say which child it is, or what came of it."""
    if event.kind == "child.started":
        return clean(started_id(event))
    status, payload = report_of(event.payload)
    if status == "completed":
        return clean(compact(payload))
    failure = decode_failure(payload)
    return clean(in_a_line(failure.type, failure.message)) if failure.type else ""


def documents_of(events: Sequence[Event]) -> dict[str, Any]:
    """Return parent and children as JSON has them."""
    children: list[dict[str, Any]] = [child._asdict() for child in children_in(events)]
    return {"parent": parent_of(events) or None, "children": children}
