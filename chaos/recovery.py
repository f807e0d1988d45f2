"""How long runs stood still: from a fault that hit their holder to their next event.

A run is *hit* if one of its steps was under way on a host that was hit: the journal has its line,
and the history no record of it yet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chaos.evidence import Evidence, Fault
from chaos.journal import Line
from holdfast.model.events import Event

RECORDS = frozenset({"step.completed", "step.failed", "step.retrying"})
UNDER_WAY = 5_000_000
"""Microseconds: no step here takes longer, so an older line is of a step that was dropped."""


class Stop(NamedTuple):
    """A run that a fault held up, and for how long, in seconds."""

    kind: str
    run: str
    seconds: float


def stops(evidence: Evidence) -> list[Stop]:
    """Return every run that a fault hit."""
    lines = sorted(evidence.pages.lines, key=lambda line: line.at)
    times = [line.at for line in lines]
    events = {run: events for (_, run), events in evidence.dump.events.items()}
    found: list[Stop] = []
    for fault in evidence.faults:
        recent = lines[bisect_right(times, fault.at - UNDER_WAY) : bisect_right(times, fault.at)]
        for run in sorted(hit(fault, recent, events)):
            after = [event.at for event in events.get(run, ()) if event.at > fault.at]
            if after:
                found.append(Stop(fault.kind, run, (min(after) - fault.at) / 1e6))
    return found


def hit(fault: Fault, recent: Sequence[Line], events: Mapping[str, Sequence[Event]]) -> set[str]:
    """Return the runs with a step under way on a host that the fault hit."""
    last: dict[tuple[str, str], Line] = {}
    for line in recent:
        last[line.run, line.key] = line
    recorded: defaultdict[tuple[str, str], int] = defaultdict(int)
    for run, _ in last:
        for event in events.get(run, ()):
            if event.kind in RECORDS and event.at <= fault.at:
                recorded[run, event.key] = max(recorded[run, event.key], event.at)
    return {
        run
        for (run, key), line in last.items()
        if line.pid in fault.pids and recorded[run, key] < line.at
    }
