"""What a body has called once its turn is stored: progress, told to those who want to see it.

It is no part of the history. A body that is replayed has told it before, and a turn that is not
stored never happened: neither is told. What a crash takes between the commit and the call is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.machine.machine import Machine

log = logging.getLogger("holdfast.worker")

Afterwards = tuple[Callable[..., object], tuple[Any, ...]]
"""A function to call, and its arguments."""


def afterwards(machine: Machine, function: Callable[..., object], *args: Any) -> None:
    """Have `function` called when the present turn is stored, unless it repeats an old one."""
    if machine.is_quiet or machine.loop.dead:
        return
    if machine.afterwards is None:
        machine.afterwards = []
    machine.afterwards.append((function, args))


def call_afterwards(machine: Machine) -> None:
    """Call what was to be called, in order. What one of them raises is logged and changes nothing.

    To be called by a host when the machine's last turn is stored.
    """
    calls, machine.afterwards = machine.afterwards, None
    for function, args in calls or ():
        call_safely(function, *args)


def call_safely(function: Callable[..., object], *args: Any) -> None:
    """Call somebody who only looks on: one that fails holds up nobody."""
    try:
        function(*args)
    except Exception:
        told = "progress callback %s failed; the work goes on"
        log.warning(told, getattr(function, "__qualname__", repr(function)), exc_info=True)
