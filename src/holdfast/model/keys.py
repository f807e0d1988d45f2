"""What a key tells: which call a step undoes, which message an event brought.

A key is `path/name#n`; the parts of the path are branches (`ship[3]`) or undos (`undo(charge#1)`).
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.model.events import Event

NAMED = frozenset({"signal.received", "update.accepted"})
"""Events that brought a message of a name: their key is `name/id`."""


def undone_by(key: str) -> Iterator[str]:
    """Yield the key of the call that a step with this key undoes, if it undoes one."""
    parts = key.split("/")
    for place in reversed(range(len(parts) - 1)):
        part = parts[place]
        if part.startswith("undo(") and part.endswith(")"):
            yield "/".join([*parts[:place], part[5:-1]])
            return


def is_of(key: str, call: str) -> bool:
    """Tell whether a key is that of `call`, or of something asked for inside it."""
    return key == call or key.startswith(f"{call}/")


def message_of(event: Event) -> str:
    """Return the id of the message that brought this event: the key is `name/id`, or the id."""
    return event.key.partition("/")[2] if event.kind in NAMED else event.key
