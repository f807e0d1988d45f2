"""The check that what is stored replays to where a run is, made after every commit of a turn.

Slow by design: for tests (`Settings.paranoid`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import ReplayMismatch
from holdfast.machine import Machine
from holdfast.model.events import by_start
from holdfast.model.run import Run

if TYPE_CHECKING:
    from holdfast.hosts.worker.worker import Worker


async def check(worker: Worker, run: Run, seq: int, machine: Machine) -> None:
    """Replay the stored history on a second machine: both must want the same."""
    loaded = await worker.patiently(run, 0)
    if loaded is None or loaded.run.seq != seq:
        return
    *_, before, last = (), *by_start(loaded.events)
    # A body that has continued is compared with what it was before that.
    events = before if machine.ended and machine.ended.status == "continued" else last
    twin = worker.new_machine(loaded.run)
    try:
        twin.feed_all(events, run.generation)
        if twin.fingerprint() != machine.fingerprint():
            raise ReplayMismatch(
                seq=seq,
                recorded=f"live: {machine.fingerprint()}",
                asked=f"replays as {twin.fingerprint()}",
            )
    finally:
        twin.close()
