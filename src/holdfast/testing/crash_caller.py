"""A careful caller: repeats what may not have happened, under the same key, until it knows.

Its process may die at any moment and run its script again from the start. So every method may be
called again after it has succeeded, and then changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from holdfast.checkpoints import Checkpoints
from holdfast.errors import IllegalMove, RunClosed, RunConflict, RunFailed, RunNotFound
from holdfast.fronts.function.workflow import Bound
from holdfast.graph_running import resume, take_back
from holdfast.graph_streams import walked_by
from holdfast.machine.signals import Signal
from holdfast.model.commands import CancelRun, ImportRun, PauseRun, PruneRuns
from holdfast.model.dump import Sent
from holdfast.model.secrets import Secret
from holdfast.testing.crash_talker import Acknowledged, Ending
from holdfast.testing.crash_timekeeper import Timekeeper

__all__ = ["Acknowledged", "Caller", "Ending"]


class Caller(Timekeeper):
    """What a script talks to."""

    async def start(self, bound: Bound[Any], id: str, **options: Any) -> None:
        """Start a run, or find it; its id is also its tag."""
        await self._surely(lambda: self._client.start(bound, id=id, tags=[id], **options))
        self._started(bound, id)

    async def supply(self, run: str, name: str, secret: Secret) -> None:
        """Give the run a secret, if it is open."""
        with suppress(RunClosed):
            await self._surely(lambda: self._client.get(run).supply_secret(name, secret))

    async def copy(self, run: str, id: str) -> tuple[str, ...]:
        """Export a run and import it under another id, once; return the copy's tags."""
        engine = self._client.engine
        export = await self._surely(lambda: engine.export(run))
        command = ImportRun(engine.ns, id, export, engine.store.now())
        with suppress(RunConflict):
            await self._surely(lambda: engine.do(command))
        return (await self._surely(self._client.get(id).labels)).tags

    async def signal(self, run: str, signal: Signal[Any], value: Any, id: str) -> None:
        """Send a signal once."""
        await self._surely(lambda: self._client.get(run).signal(signal, value, id=id))
        self._told.signals.append(Sent(self._client.engine.ns, run, id))

    async def cancel(self, run: str) -> None:
        """Ask the run to stop, if it is open."""
        engine, id = self._client.engine, f"cancel-{run}"
        command = CancelRun(engine.ns, run, id, engine.store.now())
        try:
            await self._surely(lambda: engine.do(command))
        except RunClosed:
            return
        self._told.cancels.append(Sent(engine.ns, run, id))

    async def pause(self, run: str) -> None:
        """Have the run start nothing more."""
        engine = self._client.engine
        command = PauseRun(engine.ns, run, f"pause-{run}", engine.store.now())
        try:
            await self._surely(lambda: engine.do(command))
        except RunClosed:
            return

    async def resume(self, run: str, at: str = "", id: str = "") -> None:
        """Let a run go on that is paused, failed or stopped; leave one alone that goes on.

        With `at`, take a run of a graph back to where that node was done, once for each id.
        """
        handle = self._client.get(run)
        if at:
            workflow = walked_by(self._client.app, await self.row(run))
            await self._surely(lambda: take_back(handle, workflow, at, id=id))
            return
        with suppress(IllegalMove, RunClosed):
            await self._surely(lambda: resume(handle))

    async def terminate(self, run: str) -> None:
        """End the run, unless it has ended."""
        try:
            await self._surely(lambda: self._client.get(run).terminate("by design"))
        except RunClosed:
            return

    async def retry(self, run: str) -> None:
        """Let a failed run try again, once; a blocked one whenever it is blocked."""
        try:
            await self._surely(lambda: self._retry(run))
        except IllegalMove:
            row = await self.row(run)
            if row.generation == 1 and row.status in ("failed", "compensation_failed", "blocked"):
                raise  # it was not our own first try, of unknown outcome, that moved it

    async def _retry(self, run: str) -> None:
        # It may have been retried by a try of unknown outcome, and have failed again since.
        if (await self.row(run)).generation == 1:
            await self._client.get(run).retry()

    async def rerun(self, run: str, key: str | None, id: str) -> None:
        """Take a run back to a step, once for each id."""
        await self._surely(lambda: self._client.get(run).rerun(key, id=id))

    async def fork(self, run: str, id: str, *, state: Any = None, **edited: Any) -> None:
        """Fork a run, once; with a `state`, after the node of its graph that is named by `at`."""
        await self._surely(
            lambda: (
                self._client.get(run).fork(id=id, **edited)
                if state is None
                else Checkpoints(self._client, run).fork(edited["at"], state, id=id)
            )
        )

    async def forget(self, run: str) -> None:
        """Delete the run, which must be closed, and all the others that closed by then."""
        engine = self._client.engine
        with suppress(RunNotFound):
            closed_at = (await self.row(run)).closed_at or 0
            await self._surely(lambda: engine.do(PruneRuns(engine.ns, closed_at + 1)))
        self._told.starts = [start for start in self._told.starts if start.run != run]

    async def look_at_queues(self) -> None:
        """Read the queues that have limits."""
        await self._surely(self._client.queues.list)

    async def look_at_cache(self) -> None:
        """Read how much is kept for later calls of steps."""
        await self._surely(self._client.cache.list)

    async def result(self, run: str) -> Ending:
        """Return how the run ended, when it has; what is told must be stored by then."""
        await self._surely(lambda: self._client.engine.closing(run))
        if not self._is_closed(run):
            self._told.early.append(run)
        ending = await self._surely(lambda: self._ending(run))
        self._told.endings.append((run, ending))
        return ending

    async def _ending(self, run: str) -> Ending:
        try:
            return Ending("completed", await self._client.get(run).result())
        except RunFailed as error:
            return Ending(error.status, error.type)
