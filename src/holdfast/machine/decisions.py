"""Which way a body went, where that is worth a record: the edge that a graph took.

A decision follows from what the body was fed, so a replay makes it again. The note is for people,
and a check: one that differs means that the code which decides has changed under the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.model.events import Event

if TYPE_CHECKING:
    from holdfast.machine.machine import Machine


class Decisions:
    """What one body has decided and its history does not hold yet."""

    __slots__ = ("_machine", "_said")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._said: dict[str, Event] = {}

    def say(self, name: str, payload: bytes) -> None:
        """Record a decision, as `told` gives it, beside the event on which it was made."""
        machine = self._machine
        key = machine.take_key(name)
        note = Event("note.decided", machine.now, key, payload, machine.seq)
        self._said[key] = note
        if machine.past is None:
            machine.notes = (*machine.notes, note)

    def compare(self, note: Event) -> None:
        """Hold the recorded note against what the body decided. Raises `ReplayMismatch`."""
        said = self._said.pop(note.key, None)
        if note.generation < self._machine.generation or (said and said.payload == note.payload):
            return
        recorded = f"the decision {note.key}, {(note.payload or b'').decode()[:200]}"
        told = "makes none" if said is None else f"decides {(said.payload or b'').decode()[:200]}"
        raise self._machine.mismatch(recorded, told)

    def unrecorded(self) -> tuple[Event, ...]:
        """Return what the body decided in a replay that the history does not hold."""
        return tuple(note for note in self._said.values() if note not in self._machine.notes)


def told(fields: Mapping[str, Any]) -> bytes:
    """Return what is recorded of a decision."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def decisions_of(machine: Machine) -> Decisions:
    """Return what the body of `machine` has decided; most record nothing and have none."""
    if machine.decisions is None:
        machine.decisions = Decisions(machine)
    return machine.decisions
