"""Logs: what steps and bodies give to `logging` is kept with the run.

`hf.log` is a logger of the standard library. One handler, without state of its own, stands on it
and on the loggers that an app names; it finds by its context who is speaking. A record that comes
from neither a step nor a body is not ours.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.errors import BadDefinition
from holdfast.fronts.function.context import CURRENT
from holdfast.machine import Machine, current
from holdfast.machine.lines import lines_of
from holdfast.model.annotations import MAX_LINE, LogLine
from holdfast.model.redacting import mask_secrets, redact

log = logging.getLogger("holdfast.log")
"""A logger for steps and bodies. In a replay it is silent: what was said once is not said again."""

STANDARD = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
MAX_LEVEL = 1_000


class Keeper(logging.Handler):
    """Takes records of steps and bodies to the log of their run."""

    def __init__(self) -> None:
        super().__init__()
        self._seen = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record, once, whichever loggers it passes. Never raises."""
        attempt = CURRENT.get(None)
        machine = current() if attempt is None else None
        if machine is None and attempt is None:
            return
        if self._was_here(record) or (machine is not None and _is_quiet(machine)):
            return
        try:
            line = _line_of(record)
            if attempt is not None:
                attempt.say(line)
            elif machine is not None:
                lines_of(machine).say(line)
        except Exception:
            self.handleError(record)

    def _was_here(self, record: logging.LogRecord) -> bool:
        """Tell whether this record came by from another logger. A mark on it would be seen."""
        before, this = getattr(self._seen, "last", None), (id(record), record.created)
        self._seen.last = this
        return before == this


def _is_quiet(machine: Machine) -> bool:
    """Tell whether the body only repeats itself, or is being taken apart."""
    return machine.is_quiet or machine.loop.dead


def _line_of(record: logging.LogRecord) -> LogLine:
    message = record.getMessage()
    if record.exc_info:
        message += "\n" + logging.Formatter().formatException(record.exc_info)
    extra = {k: v for k, v in record.__dict__.items() if k not in STANDARD}
    fields = redact(json.dumps(extra, default=repr, skipkeys=True)) if extra else ""
    return LogLine(
        0,
        min(max(record.levelno, 0), MAX_LEVEL),
        _text(record.name),
        _text(redact(message)),
        # Half a JSON object is none: too many fields are left out as a whole.
        fields=fields.encode() if 0 < len(fields) <= MAX_LINE else None,
    )


def _text(text: str) -> str:
    """Return a text that every store can keep."""
    if len(text) > MAX_LINE:
        text = f"{text[:MAX_LINE]}… and {len(text) - MAX_LINE:,} characters more"
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def is_heard(record: logging.LogRecord) -> bool:
    """Tell whether a record is new, and not that of a turn that is replayed."""
    machine = current()
    return machine is None or not _is_quiet(machine)


KEEPER = Keeper()
log.setLevel(logging.INFO)
log.addHandler(KEEPER)
log.addFilter(is_heard)

_captured: Counter[str] = Counter()


def capture(names: Iterable[str]) -> Callable[[], None]:
    """Keep what these loggers get from steps and bodies, until the returned function is called."""
    listed = tuple(names)
    for name in listed:
        _captured[name] += 1
        logging.getLogger(name).addHandler(KEEPER)
        logging.getLogger(name).addFilter(mask_secrets)

    def stop() -> None:
        for name in listed:
            _captured[name] -= 1
            if not _captured[name]:
                logging.getLogger(name).removeHandler(KEEPER)
                logging.getLogger(name).removeFilter(mask_secrets)

    return stop


def captured() -> list[str]:
    """Return the loggers that are listened to now, beside our own."""
    return [name for name, count in _captured.items() if count]


def checked_loggers(names: Any) -> tuple[str, ...]:
    """Return the names of loggers as a tuple. Raises `BadDefinition`."""
    listed = () if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in listed):
        raise BadDefinition(
            what=f"logs={names!r} is no list of logger names", hint='Write logs=["shop"].'
        )
    return listed
