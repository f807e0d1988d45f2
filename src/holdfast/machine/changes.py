"""Changes of the code under open runs: whether a run takes one up, asked in its body.

A run gives one answer for its whole life. In a new turn it takes the change up, and a note beside
the event of that turn says so; the turn is committed before anything it asks for starts. In a turn
that is replayed the note decides: without one the run goes on as the code was before the change.
So nothing that a run has done is ever done differently.

Versions are numbers from 1 up; 0 is the code from before the change. `patched` knows 0 and 1.

A note is compared when its turn comes in a replay. One that the body no longer asks for is a
mismatch, unless `deprecate_patch` left it, or it is of a generation before a retry, which may have
taken back the turn in which it was said. Such a note still counts for whoever asks later.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from holdfast.errors import ReplayMismatch, UnsupportedVersion
from holdfast.model.events import Event

if TYPE_CHECKING:
    from holdfast.machine.machine import Machine


def changes_of(machine: Machine) -> Changes:
    """Return what the body of `machine` was told about changes."""
    if machine.changes is None:
        machine.changes = Changes(machine)
    return machine.changes


class Changes:
    """What one body was told about changes, and what its history says of them."""

    __slots__ = ("_ahead", "_machine", "_noted", "_versions")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._versions: dict[str, int] = {}
        self._noted: dict[str, int] = {}
        self._ahead: dict[str, Event] | None = None

    def version(self, change: str, newest: int, oldest: int = 0) -> int:
        """Return the version the run follows, taking up `newest` in a new turn."""
        known = self._versions.get(change)
        if known is None:
            known = self._recorded(change)
            if known is None:
                known = self._take_up(change, newest) if self._is_free(oldest) else 0
            self._versions[change] = known
        return known

    def deprecate(self, change: str) -> None:
        """Follow the change, whatever the history says."""
        if change not in self._versions:
            known = self._recorded(change)
            if known is None and self._machine.past is None:
                self._take_up(change, 1, deprecated=True)
            self._versions[change] = known or 1

    def supported(self, change: str, minimum: int, maximum: int) -> int:
        """Return the version the run follows, if it is in the range."""
        version = self.version(change, maximum, minimum)
        if minimum <= version <= maximum:
            return version
        machine = self._machine
        machine.violation = UnsupportedVersion(
            change=change, version=version, minimum=minimum, maximum=maximum,
            source=machine.source(),
        )  # fmt: skip
        raise machine.violation

    def compare(self, note: Event) -> None:
        """Hold what the body said in this turn against the recorded note."""
        change, (version, is_deprecated) = note.key, _read(note)
        said = self._versions.get(change)
        self._noted.setdefault(change, version)
        if said == version or note.generation < self._machine.generation:
            return
        if said is None and not is_deprecated:
            asked = f"does not ask about it (put hf.deprecate_patch({change!r}) where it did)"
            raise self._mismatch(f"the note of change {change!r}", asked)
        if said is not None:
            recorded = f"the note of change {change!r}, version {version}"
            raise self._mismatch(recorded, f"asked about it before, at version {said}")

    def told(self) -> tuple[tuple[str, int], ...]:
        """Return every answer given, for a comparison with a replay."""
        return tuple(sorted(self._versions.items()))

    def _mismatch(self, recorded: str, asked: str) -> ReplayMismatch:
        machine = self._machine
        source = machine.source()
        return ReplayMismatch(seq=machine.seq, recorded=recorded, asked=asked, source=source)

    def _recorded(self, change: str) -> int | None:
        """Return what the history says up to this turn, of which the notes are still ahead."""
        machine = self._machine
        if change in self._noted or machine.past is None:
            return self._noted.get(change)
        if self._ahead is None:
            self._ahead = {note.key: note for note in machine.past if note.kind == "note.patched"}
        note = self._ahead.get(change)
        return _read(note)[0] if note is not None and note.asked_seq <= machine.seq else None

    def _is_free(self, oldest: int) -> bool:
        """Tell whether the run may take up a change in this turn.

        Also in the replayed first turn of a run, if the code from before is gone: whoever held it
        left nothing behind that could differ, and its worker may have died before the note.
        """
        past = self._machine.past
        if past is None:
            return True
        return oldest > 0 and all(event.kind.startswith("run.") for event in past)

    def _take_up(self, change: str, version: int, *, deprecated: bool = False) -> int:
        machine = self._machine
        payload = b'{"version":%d%b}' % (version, b',"deprecated":true' if deprecated else b"")
        note = Event("note.patched", machine.now, change, payload, machine.seq)
        machine.notes = (*machine.notes, note)
        return version


def _read(note: Event) -> tuple[int, bool]:
    fields: dict[str, Any] = json.loads(note.payload or b"{}")
    return int(fields.get("version", 1)), bool(fields.get("deprecated", False))
