"""The check that replay works, made after every turn: a second machine is fed from the start.

Slow by design. Our own tests run with it, and a host may for one run somebody distrusts.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import ReplayMismatch
from holdfast.machine.machine import Machine
from holdfast.model.events import Event


def twin_of(machine: Machine) -> Machine:
    """Return a machine of the same run that was fed nothing."""
    return Machine(
        machine.body,
        machine.signature,
        ns=machine.ns,
        run=machine.run,
        guard=machine.guard,
    )


def check_replay(machine: Machine, history: Sequence[Event]) -> None:
    """Make sure that `history`, fed from the start, leads where `machine` is now.

    Raises `ReplayMismatch`, also if only what the two wait for differs.
    """
    twin = twin_of(machine)
    try:
        twin.feed_all(history)
        lived, replayed = machine.fingerprint(), twin.fingerprint()
        if lived != replayed:
            raise ReplayMismatch(
                seq=machine.seq,
                recorded=f"followed by {_told(lived)}",
                asked=f"leads to {_told(replayed)} in a replay",
                source=twin.source(),
            )
    finally:
        twin.close()


def _told(fingerprint: tuple[object, ...]) -> str:
    asks, timers, signals, ended, changes, handlers, children, questions = fingerprint
    told = f"steps {asks}, timers {timers}, signals {signals}, end {ended}"
    told += f", changes {changes}" if changes else ""
    told += f", handlers {handlers}" if handlers else ""
    told += f", questions {questions}" if questions else ""
    return f"{told}, children {children}" if children else told
