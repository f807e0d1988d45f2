"""What a worker says in its log: about a body, and about runs that it leaves to others."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence

from holdfast.machine import Machine
from holdfast.model.asks import Ended
from holdfast.model.writes import Claimed

log = logging.getLogger("holdfast.worker")

NAMED = 10
"""Tasks and calls that are named, of those a body has left behind."""


def tell_warnings(machine: Machine) -> None:
    """Say what the machine found odd, once."""
    for warning in machine.warnings:
        log.warning("run %s: %s", machine.run, warning)
    machine.warnings = ()


def tell_leftovers(machine: Machine, ended: Ended) -> None:
    """Say what a body left behind at its end."""
    for name in ended.leftovers[:NAMED]:
        log.warning("run %s ended while task %s was unfinished", machine.run, name)
    for key in machine.unawaited[:NAMED]:
        log.warning("run %s called %s and never awaited it", machine.run, key)
    more = sum(max(len(names) - NAMED, 0) for names in (ended.leftovers, machine.unawaited))
    if more:
        log.warning("run %s left %d more of these behind", machine.run, more)


class Leftovers:
    """Says which runs wait that this worker does not take, once for each workflow and queue."""

    def __init__(self, queues: Sequence[str] | None) -> None:
        self._served = ", ".join(map(repr, queues or ()))
        self._told: set[tuple[str, str]] = set()

    def tell(self, claimed: Claimed) -> None:
        """Say what was found for the first time."""
        for name in claimed.unregistered:
            if self._is_new("workflow", name):
                log.warning(
                    "runs of workflow %r are waiting, and this worker does not know it; they stay "
                    "in the queue. Import the module that defines it (after a slash: just this "
                    "version of it), or start a worker that does.",
                    name,
                )
        for queue in claimed.unserved:
            if self._is_new("queue", queue):
                log.warning(
                    "runs on queue %r have been due for more than a minute, and nobody takes "
                    "them; this worker serves only %s. Start a worker that serves it: "
                    "`holdfast worker APP --queue %s`.",
                    queue,
                    self._served,
                    shlex.quote(queue),
                )

    def _is_new(self, kind: str, name: str) -> bool:
        is_new = (kind, name) not in self._told
        self._told.add((kind, name))
        return is_new
