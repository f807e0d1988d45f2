"""Turns that are *plain*: they add events to the history of a run, and do nothing beside that.

Stores write these, which are nearly all, in ways of their own.
"""

from __future__ import annotations

from holdfast.model.writes import Advance

GUARDS = (None, None, 0, ())
"""What a plain turn says of the inbox it read, of parking, of timers, and of what it supersedes."""
BESIDE = (None, False, (), (), None, False, True)
"""And of annotations, a continuation, replies, sends, waits, a cancel; and that it is progress."""


def is_plain(turn: Advance) -> bool:
    """Tell whether a turn only adds events; its run goes on, closes or parks."""
    return turn.events != () and turn[10:14] == GUARDS and turn[16:] == BESIDE
