"""What no single look at a store can show: that nothing changed which must not change.

A watcher is shown one store again and again, whole or a run at a time. It completes two invariants:

I1  an event, once stored, stays as it is; only `superseded_by` is ever written
I2  an epoch of a run has one owner
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from holdfast.model.dump import Dump
from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.testing.invariants import Violation

Life = tuple[str, str, int]
"""Namespace, id and birth of a run: an id may be given again to another, once a run is pruned."""


class Watcher:
    """Remembers owners and events. `violations` is what it complains of."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self._owners: dict[tuple[Life, int], str] = {}
        self._digests: dict[tuple[Life, int], bytes] = {}

    def see(self, dump: Dump) -> None:
        """Compare all that a store holds with what was seen before."""
        for run in dump.runs:
            self.see_run(run, dump.events.get((run.ns, run.id), ()))

    def see_run(self, run: Run, events: Iterable[Event] = ()) -> None:
        """Compare one run, and as many of its events as were read."""
        life = (run.ns, run.id, run.created_at)
        if run.owner is not None:
            known = self._owners.setdefault((life, run.epoch), run.owner)
            if known != run.owner:
                self._complain(
                    "I2", run, f"epoch {run.epoch} is of {run.owner}, and was of {known}"
                )
        for event in events:
            digest = _digest(event)
            if self._digests.setdefault((life, event.seq), digest) != digest:
                self._complain("I1", run, f"event {event.seq} is not what it was: {event}")

    def _complain(self, invariant: str, run: Run, text: str) -> None:
        self.violations.append(Violation(invariant, run.id, text))


def _digest(event: Event) -> bytes:
    """Return what stands for all columns of an event but the one that may be written later."""
    return hashlib.blake2b(
        repr(event._replace(superseded_by=None)).encode(), digest_size=16
    ).digest()
