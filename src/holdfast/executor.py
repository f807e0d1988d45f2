"""The executor: workflows by name, with parameters; what they do comes as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from holdfast.errors import BadDefinition, IllegalMove, InvalidValue, RunClosed
from holdfast.factories import WorkflowInfo
from holdfast.fronts.graph.state import State
from holdfast.graph_running import resume, take_back
from holdfast.graph_streams import graph_events, walked_by
from holdfast.model.checks import known_id
from holdfast.model.run import Run
from holdfast.model.secrets import Secret
from holdfast.model.status import OPEN

if TYPE_CHECKING:
    from holdfast.client import Client, RunHandle
    from holdfast.model.executed import ExecutionEvent
    from holdfast.runtimes import Runtime

Stream = AsyncIterator["ExecutionEvent"]
NO_PARAMS: Mapping[str, Any] = MappingProxyType({})


class Executor:
    """Executes the factories of an app, through an open client of it.

    Runs are rows of the store: any process may find, cancel and resume them. `runtime` is what the
    factories are given; set it as `app.runtime` where a worker runs in this process.
    """

    def __init__(self, client: Client, runtime: Runtime | None = None) -> None:
        app = client.app
        if runtime is not None and app.runtime is not runtime:
            if client.engine.host is not None:
                raise BadDefinition(
                    what="Executor was given a runtime, and the app was opened without it",
                    hint="Write app.runtime = ... before app.open: runs that a former process left "
                    "go on at once.",
                )
            app.runtime = runtime
        self._client, self._factories = client, app.factories

    def workflows(self) -> list[WorkflowInfo]:
        """Return what can be executed, sorted by name."""
        return self._factories.list()

    async def create_run(
        self,
        name: str,
        params: Mapping[str, Any] = NO_PARAMS,
        token: str | Secret | None = None,
        *,
        id: str | None = None,
    ) -> RunHandle[State]:
        """Start a run and return once it is stored; nothing of the token is.

        The same id, name and parameters find the same run. Raises `WorkflowNotFound`,
        `InvalidValue` for parameters that cannot be stored, or a token that nobody could keep:
        that needs a worker in this process, or a key ring.
        """
        given: object = params
        if not isinstance(given, Mapping):
            raise InvalidValue(
                where="execute", path="params", problem=f"{type(given).__name__} is no mapping",
                hint='Give the parameters by name: {"document_id": "..."}.',
            )  # fmt: skip
        bound = self._factories.get(name).bind_with(params, _secrets(token))
        return await self._client.start(bound, id=id)

    async def find_run(self, run_id: str) -> Run:
        """Return the row of a run. Raises `RunNotFound`."""
        return await self._client.get(known_id(run_id)).describe()

    async def execute(
        self,
        name: str,
        params: Mapping[str, Any] = NO_PARAMS,
        token: str | Secret | None = None,
        *,
        id: str | None = None,
    ) -> tuple[Stream, RunHandle[State]]:
        """Start a run; return at once with its events, as they are recorded, and the run.

        The stream ends after the event that closes the run. `token` is the secret "token" of its
        state. Raises what `create_run` raises.
        """
        run = await self.create_run(name, params, token, id=id)
        return graph_events(self._client, run.id), run

    async def cancel(self, run_id: str, reason: str = "") -> bool:
        """Ask a run to stop, wherever it is; tell whether this was the first cancel.

        Raises `RunNotFound`, or `InvalidStatus` if it has ended.
        """
        run = self._client.get(run_id)
        try:
            return await run.cancel(reason)
        except RunClosed as error:
            status = (await run.describe()).status
            allowed = tuple(sorted(OPEN))
            refused = IllegalMove(run=run.id, status=status, command="cancel", allowed=allowed)
            raise refused from error

    async def resume(
        self, run_id: str, token: str | Secret | None = None, at: str | int | None = None
    ) -> tuple[Stream, RunHandle[State]]:
        """Go on with a run that failed or was stopped; return its new events, and the run.

        `at` takes it back first: to before a step, by its key (`read.count#1`), or to where a node
        was done, as for `graph.resume`; that works on runs that are complete, too. Raises
        `RunNotFound`, `UnknownKey`, or `InvalidStatus`.
        """
        run = self._client.get(run_id)
        row = await run.describe()
        if at is not None:
            if isinstance(at, str) and "#" not in at:
                await take_back(run, walked_by(self._client.app, row), at)
            else:
                await run.rerun(at)
        elif row.status in ("pending", "running", "waiting"):
            allowed = ("paused", "blocked", "failed", "cancelled", "terminated")
            raise IllegalMove(run=run.id, status=row.status, command="resume", allowed=allowed)
        else:
            await resume(run)
        for name, secret in _secrets(token).items():
            await run.supply_secret(name, secret)
        return graph_events(self._client, run.id, after=row.seq), run


def _secrets(token: str | Secret | None) -> dict[str, Secret]:
    if token is None:
        return {}
    return {"token": token if isinstance(token, Secret) else Secret(token)}
