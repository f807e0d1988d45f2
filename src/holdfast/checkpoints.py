"""The checkpoints of a run of a graph: its state at any node, and another way from there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.engines.local import travel
from holdfast.errors import BadDefinition, UnknownKey
from holdfast.fronts.graph.rewinding import At, Rewinding, Visit, edited, visit_at
from holdfast.fronts.graph.state import State
from holdfast.graph_streams import walked_by
from holdfast.model.checks import checked_id, checked_reason
from holdfast.model.events import Event
from holdfast.model.run import Loaded, Run
from holdfast.talking import new_id

if TYPE_CHECKING:
    from holdfast.client import Client, RunHandle

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Checkpoint(NamedTuple):
    """A node that was done, and that left a checkpoint.

    `seq` is the number of the event with which it was done. `key` names it among those of the run:
    `write:3`, in a branch or an inner graph `left[1]/write:3`.
    """

    run_id: str
    node: str
    iteration: int
    seq: int
    timestamp: datetime
    key: str


class StateDiff(NamedTuple):
    """How two states differ: fields that changed, before and after; fields of only one of them."""

    changed: Mapping[str, tuple[Any, Any]]
    added: Mapping[str, Any]
    removed: Mapping[str, Any]


class Checkpoints:
    """The checkpoints of one run of a graph, and its states, read from the history.

    Where a place in the run is asked for, give the key of a checkpoint, `write:3`; a node, for the
    last time it was done; or the number of an event, for the node that was done last by then. Every
    node will do, whether it has left a checkpoint or not. Each method raises `RunNotFound`,
    `BadDefinition` if the run is of no graph, and what would block the run.
    """

    def __init__(self, client: Client, run: str) -> None:
        self._client, self._run = client, run

    async def list(self) -> list[Checkpoint]:
        """Return those that the run has left, in order; of a completed run those to preserve."""
        run, events, *_ = await self._client.get(self._run).history()
        found = [e for e in events if e.kind == "note.checkpoint"]
        if run.status == "completed":
            found = [event for event in found if _told(event).get("preserve")]
        return [_checkpoint(run.id, event) for event in found]

    async def state(self, at: At | None = None) -> Any:
        """Return the state after a node; without `at`, after the one that was done last.

        It is a copy, of the graph's type of state, and has no secrets. Raises `UnknownKey`.
        """
        return visit_at(await visits_of(self._client, self._run), at, self._run).state

    async def diff(self, a: At, b: At | None = None) -> StateDiff:
        """Return what changed from the state at `a` to that at `b`, or to the last."""
        visits = await visits_of(self._client, self._run)
        first, last = visit_at(visits, a, self._run), visit_at(visits, b, self._run)
        old = first.graph.shape.values(first.state)
        new = last.graph.shape.values(last.state)
        both = [name for name in old if name in new and old[name] != new[name]]
        return StateDiff(
            {name: (old[name], new[name]) for name in both},
            {name: new[name] for name in new if name not in old},
            {name: old[name] for name in old if name not in new},
        )

    async def fork(
        self, at: At | None = None, state: Any = None, *, id: str | None = None, reason: str = ""
    ) -> RunHandle[Any]:
        """Start a run that goes on from a node as this one did, or with another `state` after it.

        Any node that is done will do: a step, a body, a graph or a child, also in a branch or an
        inner graph. `state` is a whole one, or a dict of the fields that are other. This run is
        untouched. A fork has no secrets: supply them. Raises `UnknownKey`, `RunConflict`, and
        `InvalidValue` for what is no state of the graph, or if no node was done by then.
        """
        run = self._client.get(self._run)
        visit = visit_at(await visits_of(self._client, self._run), at, self._run)
        if state is None:
            return await run.fork(visit.seq, id=id, reason=reason)
        engine, edits = self._client.engine, travel.Edits(states=(edited(visit, state),))
        chosen = new_id(engine.store.now()) if id is None else checked_id(id)
        told = checked_reason(reason, "fork")
        fork = await travel.fork(engine, self._run, chosen, visit.seq, edits, told)
        return self._client.get(fork.id)


class HistoryCheckpoints:
    """The last checkpoint of each run of the app's graphs, read from the histories.

    It is a `CheckpointStore` that can only be read: runs keep their checkpoints themselves.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def load(self, run_id: str) -> State:
        """Return the state at the last checkpoint of a run. Raises `UnknownKey` if it has none."""
        found = await Checkpoints(self._client, run_id).list()
        if not found:
            raise UnknownKey(run=run_id, key="checkpoint", known=())
        visit = visit_at(await visits_of(self._client, run_id), found[-1].key, run_id)
        fields = json.loads(visit.graph.shape.told(visit.after))
        return State(fields).placed(run_id, visit.node, visit.at)

    async def list(self) -> Sequence[str]:
        """Return the ids of the runs that have one, newest first. It reads every history."""
        found = list[str]()
        names = {graph.name for graph in self._client.app.graphs}
        names |= {info.name for info in self._client.app.factories.list()}
        for run in [run async for run in self._runs() if run.workflow in names]:
            if await Checkpoints(self._client, run.id).list():
                found.append(run.id)
        return found

    async def save(self, state: State) -> None:
        """Refuse it. Raises `BadDefinition`."""
        raise _read_only(f"save a state of run {state.run_id!r}")

    async def delete(self, run_id: str) -> None:
        """Refuse it. Raises `BadDefinition`."""
        raise _read_only(f"delete what run {run_id!r} has")

    async def _runs(self) -> AsyncIterator[Run]:
        after: str | None = None
        while True:
            runs, after = await self._client.list(limit=100, after=after)
            for run in runs:
                yield run
            if after is None:
                return


def _read_only(what: str) -> BadDefinition:
    return BadDefinition(
        what=f"HistoryCheckpoints cannot {what}",
        hint="Runs record their checkpoints themselves, and lose them when they are pruned.",
    )


async def visits_of(client: Client, run: str) -> Sequence[Visit]:
    """Return each node that a run has done, in order, with its states. Raises as `Checkpoints`."""
    loaded: Loaded = await client.engine.load(run)
    workflow = walked_by(client.app, loaded.run)
    return Rewinding().follow(workflow.function, workflow.signature, loaded)


def _checkpoint(run: str, event: Event) -> Checkpoint:
    told, when = _told(event), EPOCH + timedelta(microseconds=event.at)
    return Checkpoint(run, told["node"], told["iteration"], event.asked_seq, when, event.key)


def _told(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(event.payload or b"{}")
    return fields
