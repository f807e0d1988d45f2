"""Running a graph without opening its app: an engine inside this process, while somebody waits.

    await graph.execute(state)    opens the graph's store, starts a run, and waits for its end
    await graph.resume(run_id)    the same with a run that is there: after a failure, or a crash

Calls that overlap share one engine. The store "memory" is kept by the graph, so that its runs can
be found again as long as the graph is there.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from holdfast.errors import BadDefinition, ExecutionError, IllegalMove, RunFailed
from holdfast.fronts.graph.edges import END
from holdfast.fronts.graph.rewinding import At, Rewinding, visit_at
from holdfast.fronts.graph.settings import MEMORY
from holdfast.fronts.graph.state import State
from holdfast.machine.looking import fed
from holdfast.machine.machine import Machine
from holdfast.model.status import OPEN

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.client import Client, RunHandle
    from holdfast.fronts.function.workflow import Bound, Workflow
    from holdfast.model.events import Event
    from holdfast.model.run import Loaded
    from holdfast.ports.store import Store

S = TypeVar("S")

WAY = "note.decided"
RETRIED = frozenset({"failed", "timed_out", "compensation_failed", "blocked", "quarantined"})
STOPPED = frozenset({"cancelled", "terminated"})
STOPS = ("cancel.requested", "run.terminated")
RESUMABLE = tuple(sorted(RETRIED | STOPPED | OPEN))


class Executed(ABC, Generic[S]):
    """A graph that can be run by itself. `StateGraph` is one."""

    def __init__(self, workflow: Workflow[[S], S], engine: Inside) -> None:
        self._walked_by, self._engine = workflow, engine

    @abstractmethod
    def bind(self, state: S) -> Bound[S]: ...

    @abstractmethod
    def _entry(self) -> str: ...

    async def execute(self, state: S) -> S:
        """Run the graph from START to END, in this process; return the last state.

        The run's id is the state's `run_id`, if it has one: the same id and state find the same
        run. Who stops waiting leaves the run open, and `resume` goes on with it. Raises
        `InvalidGraph`, `ExecutionError` if the graph cannot go on, or `RunFailed` if the run
        ended otherwise.
        """
        bound = self.bind(state)
        id = state.run_id or None if isinstance(state, State) else None
        async with self._engine.client() as client:
            return await self._ended(await client.start(bound, id=id), state)

    async def resume(self, run_id: str, state: S | None = None, *, at: At | None = None) -> S:
        """Go on with a run that has failed, was stopped, or was left open; return the last state.

        No node that was recorded runs again, and its iterations go on counting. With `at` the run
        is taken back first, to where that node was done: the key of a checkpoint (`write:3`), a
        node, or the number of an event; also one that is complete. Secrets that the
        run has lost are taken from `state`, of which nothing else is used. Raises `RunNotFound`,
        `UnknownKey`, `InvalidStatus` if it is complete, and what `execute` raises.
        """
        async with self._engine.client() as client:
            run = client.get(run_id, self._walked_by)
            await (resume(run) if at is None else take_back(run, self._walked_by, at))
            if isinstance(state, State):
                for name, secret in state.secrets.items():
                    if secret is not None:
                        await run.supply_secret(name, secret)
            return await self._ended(run, state)

    async def _ended(self, run: RunHandle[S], given: S | None) -> S:
        try:
            result = await run.result()
        except RunFailed as error:
            found = failure_in(self._walked_by, await run.history())
            if found is None or type(error) is not RunFailed:
                raise
            raise found from found.__cause__
        if isinstance(result, State):
            placed = await self._placed(result, run)
            return cast("S", placed.holding(given.secrets) if isinstance(given, State) else placed)
        return result

    async def _placed(self, result: State, run: RunHandle[S]) -> State:
        """Return a last state with the place it came to."""
        row, events, *_ = await run.history()
        ways = (json.loads(e.payload or b"{}") for e in reversed(events) if e.kind == WAY)
        way = next((each for each in ways if "to" in each), None)
        node = self._entry() if way is None else way["from" if way["to"] == END else "to"]
        return result.placed(run.id, node, row.closed_at or row.updated_at)


async def resume(run: RunHandle[Any]) -> None:
    """Let a run go on from where it is. Raises `RunNotFound`, or `InvalidStatus` if it is done."""
    status = (await run.describe()).status
    if status == "paused":
        await run.resume()
    elif status in RETRIED:
        await run.retry()
    elif status in STOPPED:
        await run.rerun(_before_the_stop((await run.history()).events), keep_keys=True)
    elif status not in OPEN:
        raise IllegalMove(run=run.id, status=status, command="resume", allowed=RESUMABLE)


async def take_back(
    run: RunHandle[Any], workflow: Workflow[..., Any], at: At, *, id: str | None = None
) -> None:
    """Let a run go on from where a node was done, once for each id.

    Raises `RunNotFound` or `UnknownKey`.
    """
    visits = Rewinding().follow(workflow.function, workflow.signature, await run.history())
    await run.rerun(visit_at(visits, at, run.id).seq, exactly=True, id=id)


def _before_the_stop(events: Sequence[Event]) -> int:
    """Return the last event before a run was told to stop, or was ended."""
    stops = (event for event in events if event.kind in STOPS)
    return next(stops, events[-1]).seq - 1


def failure_in(workflow: Workflow[..., Any], loaded: Loaded) -> ExecutionError | None:
    """Return the error with which the walk of a failed run ended, by walking it once more."""
    found: list[ExecutionError] = []

    async def body(*args: Any, **kwargs: Any) -> Any:
        try:
            return await workflow.function(*args, **kwargs)
        except ExecutionError as error:
            found.append(error)
            raise

    machine = Machine(body, workflow.signature, ns=loaded.run.ns, run=loaded.run.id)
    with fed(machine, loaded.run, loaded.events):
        return found[0].with_traceback(None) if found else None


class Inside:
    """An engine inside this process: opened by the first who needs it, closed by the last."""

    def __init__(self, app: App, store: str | Store) -> None:
        self._app, self._store = app, store
        self._opened: dict[asyncio.AbstractEventLoop, Opened] = {}

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        """Give a client whose worker runs while the block is open."""
        loop = asyncio.get_running_loop()
        self._opened = {each: held for each, held in self._opened.items() if not each.is_closed()}
        opened = self._opened.get(loop)
        if opened is None or opened.users == 0:
            opened = self._opened[loop] = Opened(self._app, self._place(loop), opened)
        opened.users += 1
        try:
            yield await asyncio.shield(opened.ready)
        finally:
            opened.users -= 1
            if opened.users == 0:
                opened.leave.set()
                await asyncio.shield(opened.task)

    def _place(self, loop: asyncio.AbstractEventLoop) -> str | Store:
        if self._store == MEMORY:
            from holdfast.stores.memory import MemoryStore

            self._store = MemoryStore()
        if not isinstance(self._store, str) and any(each is not loop for each in self._opened):
            raise BadDefinition(
                what=f"A graph of app {self._app.name!r} is executed in another event loop, too",
                hint='Its runs are in memory: give a store that both can open, such as '
                '"sqlite:///papers.db".',
            )  # fmt: skip
        return self._store


class Opened:
    """A client and the task that holds it open; one that is about to close goes before."""

    def __init__(self, app: App, store: str | Store, former: Opened | None) -> None:
        loop = asyncio.get_running_loop()
        self.users = 0
        self.leave = asyncio.Event()
        self.ready: asyncio.Future[Client] = loop.create_future()
        self.task = loop.create_task(self._hold(app, store, former))

    async def _hold(self, app: App, store: str | Store, former: Opened | None) -> None:
        # Imported late: whoever only draws a graph need not pay for stores and hosts.
        from holdfast.compose import open_client

        try:
            if former is not None:
                await former.task
            async with open_client(app, store) as client:
                self.ready.set_result(client)
                await self.leave.wait()
        except BaseException as error:
            if self.ready.done():
                raise
            self.ready.set_exception(error)
