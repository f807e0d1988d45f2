"""The sync door: the checkpoints for code without a loop. Written by `make docs`. Do not edit.

The thread and its loop are in `portal.py`; what each method does is in `holdfast/checkpoints.py`.
"""

from __future__ import annotations

from typing import Any

from holdfast.checkpoints import Checkpoint, Checkpoints, StateDiff
from holdfast.fronts.graph.rewinding import At
from holdfast.sync.client import SyncClient, SyncRunHandle


class SyncCheckpoints:
    """The checkpoints of one run of a graph, and its states, for sync code.

    Where a place in the run is asked for, give the key of a checkpoint, `write:3`; a node, for the
    last time it was done; or the number of an event, for the node that was done last by then.
    """

    def __init__(self, client: SyncClient, run: str) -> None:
        self._portal = client.portal
        self._inside = Checkpoints(client.portal.inside, run)

    def list(self) -> list[Checkpoint]:
        """Return those that the run has left, in order; of a completed run those to preserve."""
        return self._portal.call("list", self._inside.list())

    def state(self, at: At | None = None) -> Any:
        """Return the state after a node; without `at`, after the one that was done last.

        It is a copy, of the graph's type of state, and has no secrets. Raises `UnknownKey`.
        """
        return self._portal.call("state", self._inside.state(at))

    def diff(self, a: At, b: At | None = None) -> StateDiff:
        """Return what changed from the state at `a` to that at `b`, or to the last."""
        return self._portal.call("diff", self._inside.diff(a, b))

    def fork(
        self, at: At | None = None, state: Any = None, *, id: str | None = None, reason: str = ""
    ) -> SyncRunHandle[Any]:
        """Start a run that goes on from a node as this one did, or with another `state` after it.

        Any node that is done will do: a step, a body, a graph or a child, also in a branch or an
        inner graph. `state` is a whole one, or a dict of the fields that are other. This run is
        untouched. A fork has no secrets: supply them. Raises `UnknownKey`, `RunConflict`, and
        `InvalidValue` for what is no state of the graph, or if no node was done by then.
        """
        return SyncRunHandle(
            self._portal,
            self._portal.call("fork", self._inside.fork(at, state, id=id, reason=reason)),
        )
