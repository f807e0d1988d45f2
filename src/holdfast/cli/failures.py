"""Why a run failed: the step that did it, and the user's own line in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from holdfast.cli.terminal import STDOUT, clean
from holdfast.cli.words import count
from holdfast.errors import Owed
from holdfast.model.events import CLASS_OF, Event, Failure
from holdfast.model.failures import decode_failure

FRAME = re.compile(r'  File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>.+)')
FAILED = frozenset({"run.failed", "run.timed_out", "run.compensation_failed", "run.blocked"})
OURS = str(Path(__file__).resolve().parents[1])
TAIL = 14


class Frame(NamedTuple):
    """One frame of a stored traceback, with the lines under it."""

    file: str
    line: int
    name: str
    lines: tuple[str, ...]

    @property
    def is_own(self) -> bool:
        """Tell whether it is the user's code, not ours nor a library's."""
        is_library = "site-packages" in self.file or re.search(r"lib/python3\.\d+/", self.file)
        is_engine = self.file.startswith(OURS) or "holdfast/" in self.file
        return not (is_library or is_engine or self.file.startswith("<frozen"))

    @property
    def place(self) -> str:
        """The place in short: a path from here, if it is below."""
        path = Path(self.file)
        here = Path.cwd()
        shown = path.relative_to(here) if path.is_relative_to(here) else path
        return f"{shown}:{self.line} in {self.name}"


class Told(NamedTuple):
    """A failure with the key of the step it came from, if it came from one."""

    key: str
    failure: Failure


def failure_in(events: Sequence[Event]) -> Told | None:
    """Return what the last event says went wrong: the failed step, or the body itself."""
    last = events[-1] if events else None
    if last is None or last.kind not in FAILED:
        return None
    failure = decode_failure(last.payload)
    for key in failure.cause:
        for event in reversed(events):
            if event.kind == "step.failed" and event.key == key:
                return Told(key, decode_failure(event.payload))
    return Told("", failure)


def owed_in(events: Sequence[Event]) -> tuple[Owed, ...]:
    """Return what a run that could not undo all it had done still owes, in order."""
    if not events or events[-1].kind != "run.compensation_failed":
        return ()
    details = decode_failure(events[-1].payload).details
    return tuple(Owed(**each) for each in cast("Any", details.get("owed", ())))


def say_failure(told: Told) -> None:
    """Print the error, and the user's own line it came from."""
    failure = told.failure
    name = STDOUT.style(told.key or "body", bold=True)
    tries = f"after {count(failure.attempts, 'attempt')}, " if told.key else ""
    error = clean(f"{tries}{failure.type}: {failure.message}")
    STDOUT.say(f"  {name}  {STDOUT.style(error, fg='red')}")
    frame = own_frame(failure.traceback)
    if frame is not None:
        code = STDOUT.dim("     " + clean(frame.lines[0].strip())) if frame.lines else ""
        STDOUT.say(f"    {STDOUT.dim(clean(frame.place))}{code}")


def say_traceback(failure: Failure) -> None:
    """Print the end of the traceback, from the user's own code on, if that is more than a line."""
    found = frames(failure.traceback)
    first = next((number for number, frame in enumerate(found) if frame.is_own), len(found))
    if len(found) - first < 2:
        return
    lines = [line for frame in found[first:] for line in _lines(frame)]
    STDOUT.say()
    for line in lines[-TAIL:]:
        STDOUT.say(STDOUT.dim(f"    {line}"))


def own_frame(traceback: str) -> Frame | None:
    """Return the innermost frame of the user's own code."""
    return next((frame for frame in reversed(frames(traceback)) if frame.is_own), None)


def frames(traceback: str) -> list[Frame]:
    """Return the frames of a stored traceback, outermost first."""
    found: list[Frame] = []
    for line in traceback.splitlines():
        if match := FRAME.fullmatch(line):
            found.append(Frame(match["file"], int(match["line"]), match["name"], ()))
        elif found and line.startswith("    "):
            found[-1] = found[-1]._replace(lines=(*found[-1].lines, line[4:]))
    return found


def _lines(frame: Frame) -> list[str]:
    marks = re.compile(r"[\s^~]*")
    code = [clean(line) for line in frame.lines if not marks.fullmatch(line)]
    return [clean(frame.place), *(f"  {line.strip()}" for line in code)]


def is_close(event: Event) -> bool:
    """Tell whether the event ended the run."""
    return CLASS_OF[event.kind] == "close"
