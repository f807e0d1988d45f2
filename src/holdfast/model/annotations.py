"""What steps and bodies say while they work: log lines and heartbeats.

They are kept beside a run's history, not in it: no body is ever fed them, and a replay does not
say them again.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

MAX_DETAILS = 64 * 1024
"""Bytes of the details of one heartbeat."""

MAX_LINES = 1_000
"""Log lines that one attempt of a step, or one turn of a body, may leave."""

MAX_LINE = 16 * 1024
"""Characters of one log line."""


class Progress(NamedTuple):
    """The last heartbeat of a step that is not answered yet. `details` are JSON."""

    key: str
    generation: int
    attempt: int
    at: int
    details: bytes | None = None
    epoch: int = 0

    @property
    def value(self) -> Any:
        """The details, as JSON."""
        return None if self.details is None else json.loads(self.details)


class LogLine(NamedTuple):
    """One line of a run's log. `key` and `attempt` name the step; a body's are empty and 0.

    `at` is when it was said, made unique in its run: it is the line's place in the order. `level`
    is a number of the `logging` module; `fields` are what was given as `extra`, as JSON.
    """

    at: int
    level: int
    logger: str
    message: str
    key: str = ""
    attempt: int = 0
    generation: int = 1
    epoch: int = 0
    fields: bytes | None = None


class Annotations(NamedTuple):
    """What is to be written: new lines, last heartbeats, and keys whose heartbeat is over.

    A line that is stored already is left as it is, so that whoever is in doubt may repeat it.
    """

    lines: tuple[LogLine, ...] = ()
    progress: tuple[Progress, ...] = ()
    forgets: tuple[str, ...] = ()


class LogFilter(NamedTuple):
    """Which lines of a run to read, oldest first: those after `after`, at most `limit`.

    `step` is a key (`charge#2`) or a step's name, for all calls of it.
    """

    ns: str
    run: str
    step: str = ""
    attempt: int = 0
    after: int = 0
    limit: int = 1_000

    def fits(self, line: LogLine) -> bool:
        """Tell whether a line is wanted."""
        return (
            line.at > self.after
            and self.attempt in (0, line.attempt)
            and (self.step in ("", line.key) or f"/{self.step}#" in f"/{line.key}")
        )
