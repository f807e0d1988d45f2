"""What a fork was told to find at places of its body, instead of what its origin did there.

It stands in the mark that begins the fork, behind the turns in which it counts. So a replay looks
ahead for it, and finds it each time; a body that goes on from there is past all of it. Once that
turn no longer counts, because the run was taken back, neither does the edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.model.events import Event
from holdfast.model.travel import Edit, edits_of

if TYPE_CHECKING:
    from holdfast.machine.machine import Machine


def has_edits(machine: Machine, past: Sequence[Event]) -> bool:
    """Tell whether anything is yet to be found; few runs are forks of that kind."""
    return bool(_ahead(machine, past) if machine.edits is None else machine.edits)


def take_edit(machine: Machine, past: Sequence[Event], name: str) -> Edit | None:
    """Return what the running task finds where its next key of that name would be, if it does."""
    ahead = _ahead(machine, past)
    if not ahead:
        return None
    return ahead.pop((machine.seq, machine.loop.scope().next(name)), None)


def is_before_edit(machine: Machine, past: Sequence[Event]) -> bool:
    """Tell whether something is to be found in this turn: so far it is that of the origin."""
    return any(seq == machine.seq for seq, _ in _ahead(machine, past))


def _ahead(machine: Machine, past: Sequence[Event]) -> dict[tuple[int, str], Edit]:
    """Return what is yet to be found."""
    if machine.edits is None:
        machine.edits = {(edit.seq, edit.key): edit for edit in edits_of(past)}
    return machine.edits
