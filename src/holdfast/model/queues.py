"""Named queues and priority: which workers take a run, and which run they take first.

A *lane* is a queue at one priority. Lanes go by priority, strictly; of equal ones that goes first
whose oldest run has been due longest. Within a lane runs go in the order in which they became due.
So a claim reads a few rows of an index, however many runs there are and however many queues.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from holdfast.errors import BadDefinition, InvalidValue
from holdfast.model.checks import checked_id

DEFAULT_QUEUE = "default"
PRIORITIES = (1, 2, 3, 4, 5)
"""The first goes first. Few, so that a claim can look at each."""
DEFAULT_PRIORITY = 3
IN_LINE = 253_402_300_799_000_000
"""The `wake_at` of a run that stands in line (`model/limits.py`): the end of the year 9999, so that
no time brings it forth."""
NEGLECTED = 60_000_000
"""Microseconds that a run may be due on a queue before a worker that does not serve it says so."""


def checked_queue(queue: str) -> str:
    """Return the name of a queue if it can be stored and shown. Raises `InvalidName`."""
    return checked_id(queue, field="queue")


def checked_priority(priority: int, where: str) -> int:
    """Return a priority. Raises `InvalidValue`."""
    if type(priority) is int and priority in PRIORITIES:
        return priority
    first, last = PRIORITIES[0], PRIORITIES[-1]
    hint = f"Give an int from {first}, which goes first, to {last}; {DEFAULT_PRIORITY} is usual."
    problem = f"{priority!r:.60} is no priority"
    raise InvalidValue(where=where, path="priority", problem=problem, hint=hint)


def checked_queues(queues: Iterable[str]) -> tuple[str, ...]:
    """Return the queues that a worker serves, each once. Raises `BadDefinition`, `InvalidName`."""
    if isinstance(queues, str) or not isinstance(cast("object", queues), Iterable):
        raise BadDefinition(what=f"queues={queues!r:.60} is no list", hint='Write ["default"].')
    listed = tuple(dict.fromkeys(checked_queue(queue) for queue in queues))
    if not listed:
        hint = "Name those it serves, or leave `queues` out to serve all of them."
        raise BadDefinition(what="queues is empty: such a worker would do nothing", hint=hint)
    return listed
