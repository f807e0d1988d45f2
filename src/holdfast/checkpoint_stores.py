"""Stores of checkpoints: the last state of each run, kept in a place of the user's own.

A store of one's own is never what a run goes on from: that is the history. It is fed after the
commit, by an observer, so it holds up nobody and fails nobody. It is fed at least once and in
order: what a process did not come to tell, the next tells that holds the run; what closed runs left
behind is mended when a worker starts.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from holdfast.errors import UnknownKey
from holdfast.fronts.graph.shapes import Shape
from holdfast.fronts.graph.state import State
from holdfast.model.executed import ExecutionEvent
from holdfast.model.status import CLOSED

if TYPE_CHECKING:
    from holdfast.ports.observer import Source

T = TypeVar("T")
log = logging.getLogger("holdfast.checkpoints")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PATIENCE = (0.05, 5.0)
"""First and longest wait between two tries at a store that fails, in seconds."""
METHODS = ("save", "load", "delete", "list")


class CheckpointStore(Protocol):
    """Where the last checkpoint of each run is kept, besides its history.

    A state is an `hf.State`, whatever the type of the graph's own: its fields, as JSON has them,
    with `run_id`, `checkpoint_node` and `timestamp`. It has no secrets.
    """

    async def save(self, state: State) -> None:
        """Keep the state of its run, in the place of a former one."""
        ...

    async def load(self, run_id: str) -> State:
        """Return the state of a run. Raises if there is none."""
        ...

    async def delete(self, run_id: str) -> None:
        """Forget the state of a run, if there is one."""
        ...

    async def list(self) -> Sequence[str]:
        """Return the ids of the runs that have one."""
        ...


class MemoryCheckpointStore:
    """Keeps checkpoints in memory, each as a copy."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[bytes, State]] = {}

    async def save(self, state: State) -> None:
        """Keep the state of its run, in the place of a former one."""
        self._states[state.run_id] = (json.dumps(dict(state)).encode(), state.holding({}))

    async def load(self, run_id: str) -> State:
        """Return the state of a run. Raises `UnknownKey` if there is none."""
        if run_id not in self._states:
            raise UnknownKey(run=run_id, key="checkpoint", known=())
        written, kept = self._states[run_id]
        return kept.updated(json.loads(written))

    async def delete(self, run_id: str) -> None:
        """Forget the state of a run, if there is one."""
        self._states.pop(run_id, None)

    async def list(self) -> list[str]:
        """Return the ids of the runs that have one, in the order in which they came."""
        return [*self._states]


def is_checkpoint_store(given: object) -> bool:
    """Tell whether something can keep checkpoints."""
    return all(callable(getattr(given, name, None)) for name in METHODS)


class CheckpointFeed:
    """Puts the checkpoints of the runs of one workflow into a store. It observes graphs."""

    def __init__(self, store: CheckpointStore, workflow: str, shape: Shape, preserve: bool) -> None:
        self._store, self._workflow, self._shape = store, workflow, shape
        self._preserve = preserve
        self._done: ExecutionEvent | None = None

    async def on_event(self, event: ExecutionEvent) -> None:
        """Take what a run did; return when the store has what it should have."""
        if event.type == "node.complete":
            self._done = event
        elif event.type == "checkpoint.save" and self._done is not None:
            await self._save(self._done)
        elif event.type == "graph.complete" and event.closes and not self._preserve:
            await self._patiently(lambda: self._store.delete(event.run_id))

    def follow(self, source: Source) -> Callable[[], None]:
        """Mend, from what is stored, what was not told of runs that are closed."""
        task = asyncio.get_running_loop().create_task(self._mend(cast("Any", source)))

        def unfollow() -> None:
            task.cancel()

        return unfollow

    async def _mend(self, source: Any) -> None:
        for run in await self._patiently(self._store.list):
            whole = await source.whole(run)
            if (
                whole is None
                or whole[0].workflow != self._workflow
                or whole[0].status not in CLOSED
            ):
                continue
            if whole[0].status == "completed" and not self._preserve:
                await self._patiently(lambda run=run: self._store.delete(run))  # type: ignore[misc]
            elif (done := _last_saved(await source.history(run, 0) or ())) is not None:
                await self._save(done)

    async def _save(self, done: ExecutionEvent) -> None:
        state = self._state(done)
        await self._patiently(lambda: self._store.save(state))

    def _state(self, done: ExecutionEvent) -> State:
        """Return the state after a node, as JSON has it."""
        values = json.loads(self._shape.told_change({"set": done.data["output_snapshot"]}))
        at = (done.timestamp - EPOCH) // timedelta(microseconds=1)
        return State().updated(values["set"]).placed(done.run_id, done.data["node"], at)

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        delay = PATIENCE[0]
        while True:
            try:
                return await call()
            except Exception:
                if delay == PATIENCE[0]:
                    told = "checkpoint store %s failed; it is tried again, and its runs go on"
                    log.warning(told, type(self._store).__name__, exc_info=True)
                await asyncio.sleep(delay)
                delay = min(delay * 2, PATIENCE[1])


def _last_saved(told: Sequence[ExecutionEvent]) -> ExecutionEvent | None:
    """Return the end of the last node that left a checkpoint."""
    places = [place for place, each in enumerate(told) if each.type == "checkpoint.save"]
    return told[places[-1] - 1] if places else None
