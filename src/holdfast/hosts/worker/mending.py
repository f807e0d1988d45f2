"""Blocked runs go on after the fix: a worker with other code lets them try again by itself.

A block records the shape of the code it happened on. A worker whose code has another shape resumes
the run, which records that shape too, and no worker with it resumes the run again: also not if one
with other code was faster to take it. So each code tries each blocked run once.
"""

from __future__ import annotations

import asyncio
import logging

from holdfast.app import App
from holdfast.errors import UNREADABLE, StoreError
from holdfast.kernel import dispatch
from holdfast.model.commands import RetryRun
from holdfast.model.definitions import shown
from holdfast.model.run import Run
from holdfast.model.writes import Filter, Page
from holdfast.ports.store import Store

log = logging.getLogger("holdfast.worker")

EVERY = 60.0
"""Seconds between two looks: another worker, with other code, may block runs at any time."""
PAGE = 100
TRIED = ("run.blocked", "run.resumed")
"""Events that tell, by their digest, which code a run was tried on."""


class Mender:
    """Lets the blocked runs of an app try again, once for each shape of their code."""

    def __init__(self, app: App, store: Store) -> None:
        self._app, self._store = app, store
        self.judged: dict[str, int] = {}
        """The runs found blocked by the last look, and how long the history of each was then."""

    async def mend_for_life(self, every: float) -> None:
        """Look now, and then every so many seconds."""
        while True:
            try:
                await self.look()
            except StoreError as error:
                log.warning("cannot look for blocked runs: %s", error)
            await asyncio.sleep(every)

    async def look(self) -> None:
        """Resume every blocked run that the code here has not been tried on."""
        seen: dict[str, int] = {}
        page = Page(limit=PAGE)
        while True:
            runs = await self._store.find(Filter(self._app.namespace, statuses=("blocked",)), page)
            for run in runs:
                workflow = self._app.versions.of_run(run.workflow, run.version)
                if workflow is None:
                    continue
                seen[run.id] = run.seq
                if self.judged.get(run.id) != run.seq:
                    await self._try(run, workflow.shape)
            if len(runs) < PAGE:
                break
            page = Page(PAGE, runs[-1].created_at, runs[-1].id)
        self.judged = seen  # what is blocked no more is forgotten

    async def _try(self, run: Run, shape: bytes) -> None:
        try:
            loaded = await self._store.load(run.ns, run.id)
        except UNREADABLE:
            return  # no code mends that
        if loaded is None or loaded.run.status != "blocked":
            return
        if shape in [event.digest for event in loaded.events if event.kind in TRIED]:
            return
        reason = f"a worker has code of shape {shown(shape)}"
        command = RetryRun(
            run.ns, run.id, "blocked", loaded.events, self._store.now(), reason, shape=shape
        )
        (outcome,) = await self._store.write([dispatch.decide(command)])
        if outcome.applied:
            log.info("run %s is blocked no more: %s", run.id, reason)
