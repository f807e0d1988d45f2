"""The difference of two histories: what two runs, or two lives of one, did alike and otherwise.

Steps, timers, children and signals are aligned by their keys, and states that a fork was given by
the nodes that they follow; the input and the end stand for themselves. How long something took, and
how often it was tried, is told but is no difference: two runs that came to the same by other times
are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from holdfast.model.events import CLASS_OF, Event, EventKind
from holdfast.model.travel import as_of, edits_of, living

Verdict = Literal["same", "differs", "only in a", "only in b"]

INPUT, END = "input", "end"
"""What the first and the last of all items are called."""


class Side(NamedTuple):
    """What one history says under a key."""

    kind: EventKind
    seq: int
    payload: bytes | None = None
    digest: bytes | None = None
    attempts: int = 1
    took: int | None = None


class Item(NamedTuple):
    """One key in both histories."""

    key: str
    verdict: Verdict
    a: Side | None
    b: Side | None
    differs: tuple[str, ...] = ()
    """In what: kind, input, result, state, error or value; attempts and took if nothing else."""


class Diff(NamedTuple):
    """Two histories, key by key, in the order of the first and then of the second."""

    items: tuple[Item, ...]

    @property
    def first(self) -> Item | None:
        """Where they part: the first key under which they are not the same."""
        return next((item for item in self.items if item.verdict != "same"), None)

    @property
    def is_same(self) -> bool:
        """Tell whether they came to the same, by the same steps."""
        return self.first is None


def diff(a: Sequence[Event], b: Sequence[Event]) -> Diff:
    """Compare what counts of two histories."""
    left, right = _sides(living(a)), _sides(living(b))
    keys = sorted(left.keys() | right.keys(), key=lambda key: _place(key, left, right))
    return Diff(tuple(_compared(key, left.get(key), right.get(key)) for key in keys))


def generation_of(events: Sequence[Event], generation: int) -> tuple[Event, ...] | None:
    """Return a history as it was at the end of one of its generations; None if it had none such."""
    known = {event.generation for event in events}
    if generation not in known:
        return None
    last = max(event.seq for event in events if event.generation == generation)
    return as_of(events, last)


def generation_in(text: str) -> tuple[str, int | None]:
    """Return `RUN@2` as a run and its generation; what names none is a run."""
    run, at, number = text.rpartition("@")
    return (run, int(number)) if at and run and number.isdecimal() else (text, None)


def _place(
    key: str, left: dict[str, Side], right: dict[str, Side]
) -> tuple[bool, int, bool, int, str]:
    """Sort by the number in either history; a state that was given comes before what it led to.

    The end is last.
    """
    sides = [side for side in (left.get(key), right.get(key)) if side is not None]
    first = min(side.seq for side in sides)
    return key == END, first, sides[0].kind != "run.forked", len(sides), key


def _given(events: Sequence[Event]) -> dict[str, Side]:
    """Return the states that a fork was given, in the place of what nodes had left."""
    seq = max((event.seq for event in events if event.kind == "run.forked"), default=0)
    return {
        f"state after {edit.after}": Side("run.forked", seq, edit.change)
        for edit in edits_of(events)
    }


def _sides(events: Sequence[Event]) -> dict[str, Side]:
    found = _given(events)
    attempts: dict[str, int] = {}
    received: Counter[str] = Counter()
    parts = ""
    for event in events:
        group = CLASS_OF[event.kind]
        if event.kind == "run.continued":
            parts = f"{event.generation}:"
        if group == "start":
            found[f"{parts}{INPUT}"] = Side(event.kind, event.seq, event.payload)
        elif event.kind == "step.retrying":
            attempts[event.key] = attempts.get(event.key, 0) + 1
        elif group == "answer":
            tries = attempts.pop(event.key, 0) + 1
            found[parts + event.key] = Side(
                event.kind, event.seq, event.payload, event.digest, tries, event.ran_for
            )
        elif group == "message":
            name = parts + (event.key.partition("/")[0] if "/" in event.key else event.kind)
            received[name] += 1
            found[f"{name}/{received[name]}"] = Side(event.kind, event.seq, event.payload)
        elif group == "close":
            found[END] = Side(event.kind, event.seq, event.payload)
    return found


def _compared(key: str, a: Side | None, b: Side | None) -> Item:
    if a is None:
        return Item(key, "only in b", a, b)
    if b is None:
        return Item(key, "only in a", a, b)
    differs = tuple(_differences(a, b))
    beside = tuple(name for name in ("attempts", "took") if getattr(a, name) != getattr(b, name))
    return Item(key, "differs" if differs else "same", a, b, differs or beside)


def _differences(a: Side, b: Side) -> Iterable[str]:
    if a.kind != b.kind:
        yield "kind"
    if (a.digest or b"")[:8] != (b.digest or b"")[:8]:
        yield "input"
    if a.kind != "timer.fired" and a.payload != b.payload:
        yield _value_of(a) if a.kind == b.kind else "result"


def _value_of(side: Side) -> str:
    """Say what the payload of an event is."""
    if "failed" in side.kind:
        return "error"
    if side.kind == "run.forked":
        return "state"
    group = CLASS_OF[side.kind]
    return "input" if group == "start" else "value" if group == "message" else "result"
