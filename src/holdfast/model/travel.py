"""A history at a moment: what counted then, and under which keys its steps were known outside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.model.events import CLASS_OF, Event
from holdfast.model.run import SINCE_START


class Edit(NamedTuple):
    """What the body of a fork finds at a place, instead of what it did there in its origin.

    `seq` is the event in whose turn it comes there, `key` the place; `after` is its name for
    people, and `change` what it finds, as JSON.
    """

    seq: int
    key: str
    after: str
    change: bytes


def living(events: Sequence[Event]) -> tuple[Event, ...]:
    """Return the events that count."""
    return tuple(event for event in events if event.superseded_by is None)


def as_of(events: Sequence[Event], length: int) -> tuple[Event, ...]:
    """Return a history as it was when it held `length` events."""
    return tuple(
        event
        if event.superseded_by is None or event.superseded_by <= length
        else event._replace(superseded_by=None)
        for event in events[:length]
    )


def shared(events: Sequence[Event], at: int, length: int) -> tuple[Event, ...]:
    """Return what a fork at `at` shares, of a history as it was when it held `length` events.

    What had been superseded by then is superseded by the event that begins the fork.
    """
    return tuple(
        event
        if event.superseded_by is None
        else event._replace(superseded_by=min(event.superseded_by, at + 1))
        for event in as_of(events, length)[:at]
    )


def is_partial(own: Sequence[Event], after: int) -> bool:
    """Tell whether the living events that are a run's own may not be all of those above `after`.

    The first of all is never superseded, and never a fork's own; elsewhere a gap may mean both.
    """
    if not own or after == SINCE_START:
        return not own or CLASS_OF[own[0].kind] != "start"
    return own[0].seq != after + 1 or (after > 0 and own[-1].seq - after != len(own))


def forking(event: Event) -> dict[str, Any]:
    """Return what a `run.forked` says of itself: of which run, at which event, with what edited."""
    return reopening(event)


def seeds_of(events: Sequence[Event]) -> tuple[tuple[int, str], ...]:
    """Return by which run's id chance was drawn, before which event: none for most runs."""
    last = next((event for event in reversed(events) if event.kind == "run.forked"), None)
    seeds = () if last is None else forking(last).get("seeds", ())
    return tuple((before, run) for run, before in seeds)


def edits_of(events: Sequence[Event]) -> tuple[Edit, ...]:
    """Return what the body of a fork finds otherwise than it was: nothing in most runs."""
    last = next((event for event in reversed(events) if event.kind == "run.forked"), None)
    states = () if last is None else forking(last).get("states", ())
    return tuple(
        Edit(each["seq"], each["key"], each["after"], json.dumps(each["change"]).encode())
        for each in states
    )


def told_edits(edits: Sequence[Edit]) -> list[dict[str, Any]]:
    """Return edits as a `run.forked` tells them."""
    return [{**edit._asdict(), "change": json.loads(edit.change)} for edit in edits]


def reopening(event: Event) -> dict[str, Any]:
    """Return what a `run.reopened` says of itself: from where, why, with which keys."""
    fields: dict[str, Any] = json.loads(event.payload or b"{}")
    return fields


def is_anew(events: Sequence[Event], generation: int) -> bool:
    """Tell whether the steps of a run really run, whatever is kept of former calls.

    So it is after a rerun, up to its next generation, unless the keys were kept.
    """
    last = next((event for event in reversed(events) if event.kind == "run.reopened"), None)
    if last is None or last.generation != generation:
        return False
    return bool(reopening(last).get("anew"))


def keyed_as(events: Sequence[Event], generation: int) -> int:
    """Return the generation that stands in the idempotency keys of a run.

    It is the run's own, unless its last reopening kept the keys of an earlier one.
    """
    last = next((event for event in reversed(events) if event.kind == "run.reopened"), None)
    if last is None or last.generation != generation:
        return generation
    kept: int = reopening(last).get("keys", generation)
    return kept
