"""Which way a body went, where that is worth a record: the edge that a graph took.

A decision follows from what the body was fed, so a replay makes it again. The note is for people,
and a check: one that differs means that the code which decides has changed under the run. Only in
a run that was taken back, or forked with another result, it means that the run goes another way.

Marks of the places it came to are for people too. How many there are is a setting, so they are not
compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.model.events import Event
from holdfast.model.makers import maker

if TYPE_CHECKING:
    from holdfast.machine.machine import Machine


_new_event = maker(Event)

MEASURED = frozenset({"iteration", "began", "next"})
"""What a note tells beside the decision: not compared, and absent in older histories."""


class Decisions:
    """What one body has decided and its history does not hold yet."""

    __slots__ = ("_machine", "_marks", "_said")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._said: dict[str, Event] = {}
        self._marks: dict[str, Event] = {}

    def say(self, name: str, payload: bytes, took: int | None = None) -> None:
        """Record a decision, as `told` gives it, beside the event on which it was made."""
        machine = self._machine
        key = machine.take_key(name)
        if machine.past is not None and machine.has_heard(key, payload):
            return
        note = _new_event((
            "note.decided", machine.now, key, payload, machine.seq, None, took, 0, 0, 1, 0, None,
        ))  # fmt: skip
        self._said[key] = note
        if machine.past is None:
            machine.notes = (*machine.notes, note)

    def mark(self, place: str, payload: bytes) -> None:
        """Record that the running task has come to this place, which it comes to once."""
        machine = self._machine
        key = machine.loop.scope().path + place
        note = Event("note.checkpoint", machine.now, key, payload, machine.seq)
        if machine.past is None:
            machine.notes = (*machine.notes, note)
        else:
            self._marks[key] = note

    def hear(self, mark: Event) -> None:
        """Know that a mark is recorded, if the body would leave one there now."""
        self._marks.pop(mark.key, None)

    def has_said(self, note: Event) -> bool:
        """Tell whether the body decided what is recorded."""
        said = self._said.get(note.key)
        return said is not None and _agree(said, note)

    def compare(self, note: Event) -> None:
        """Hold the recorded note against what the body decided. Raises `ReplayMismatch`."""
        said = self._said.pop(note.key, None)
        if said is not None and _agree(said, note):
            return
        recorded = f"the decision {note.key}, {(note.payload or b'').decode()[:200]}"
        told = "makes none" if said is None else f"decides {(said.payload or b'').decode()[:200]}"
        raise self._machine.mismatch(recorded, told)

    def unrecorded(self) -> tuple[Event, ...]:
        """Return what the body decided in a replay that the history does not hold.

        With it come the marks since then. Others were not wanted when their turns were stored.
        """
        marks, self._marks = self._marks, {}
        decided = [note for note in self._said.values() if note not in self._machine.notes]
        first = min((note.asked_seq for note in decided), default=0)
        since = [mark for mark in marks.values() if decided and mark.asked_seq >= first]
        return tuple(sorted((*since, *decided), key=lambda note: note.asked_seq))


def told(fields: Mapping[str, Any]) -> bytes:
    """Return what is recorded of a decision."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _agree(said: Event, note: Event) -> bool:
    """Tell whether two notes tell of one decision, however it was measured."""
    return said.payload == note.payload or _decided(said) == _decided(note)


def _decided(note: Event) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(note.payload or b"{}")
    return {name: value for name, value in fields.items() if name not in MEASURED}


def decisions_of(machine: Machine) -> Decisions:
    """Return what the body of `machine` has decided; most record nothing and have none."""
    if machine.decisions is None:
        machine.decisions = Decisions(machine)
    return machine.decisions
