"""What a worker says in its log about a body."""

from __future__ import annotations

import logging

from holdfast.machine import Machine
from holdfast.model.asks import Ended

log = logging.getLogger("holdfast.worker")


def tell_warnings(machine: Machine) -> None:
    """Say what the machine found odd, once."""
    for warning in machine.warnings:
        log.warning("run %s: %s", machine.run, warning)
    machine.warnings = ()


def tell_leftovers(machine: Machine, ended: Ended) -> None:
    """Say what a body left behind at its end."""
    for name in ended.leftovers:
        log.warning("run %s ended while task %s was unfinished", machine.run, name)
    for key in machine.unawaited:
        log.warning("run %s called %s and never awaited it", machine.run, key)
