"""The log lines that a body left in the present turn."""

from __future__ import annotations

from logging import WARNING

from holdfast.model.annotations import MAX_LINES, LogLine


class Lines(list[LogLine]):
    """At most `MAX_LINES`, and how many more there were.

    `is_quiet` says that what the body says now was said before, in a turn that is stored. That of
    the start is not, as long as nothing follows it: whoever starts a run does not run its body.
    """

    __slots__ = ("is_quiet", "unsaid")

    def __init__(self) -> None:
        super().__init__()
        self.is_quiet = False
        self.unsaid = 0

    def say(self, line: LogLine) -> None:
        """Leave a line, unless the turn has left too many."""
        if len(self) < MAX_LINES:
            self.append(line)
        else:
            self.unsaid += 1

    def take(self) -> list[LogLine]:
        """Return the lines since the last take."""
        lines = [*self]
        self.clear()
        if self.unsaid:
            said = f"{self.unsaid:,} more lines were left out: a turn keeps {MAX_LINES:,}"
            lines.append(LogLine(0, WARNING, "holdfast", said))
            self.unsaid = 0
        return lines
