"""The log lines that a body left in the present turn.

A machine that `is_quiet` feeds its body what is stored: what the body says then was said before.
Not so the turn of the start, as long as nothing follows it: whoever starts a run does not run its
body.
"""

from __future__ import annotations

from logging import WARNING
from typing import TYPE_CHECKING

from holdfast.model.annotations import MAX_LINES, LogLine

if TYPE_CHECKING:
    from holdfast.machine.machine import Machine


class Lines(list[LogLine]):
    """At most `MAX_LINES`, and how many more there were."""

    __slots__ = ("unsaid",)

    def __init__(self) -> None:
        super().__init__()
        self.unsaid = 0

    def say(self, line: LogLine) -> None:
        """Leave a line, unless the turn has left too many."""
        if len(self) < MAX_LINES:
            self.append(line)
        else:
            self.unsaid += 1


def lines_of(machine: Machine) -> Lines:
    """Return where the machine's body leaves lines; most leave none and have none."""
    if machine.lines is None:
        machine.lines = Lines()
    return machine.lines


def take_lines(machine: Machine) -> list[LogLine]:
    """Return the lines since the last take."""
    lines, machine.lines = lines_of(machine), None
    if not lines.unsaid:
        return lines
    said = f"{lines.unsaid:,} more lines were left out: a turn keeps {MAX_LINES:,}"
    return [*lines, LogLine(0, WARNING, "holdfast", said)]
