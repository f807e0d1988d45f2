"""The lease of a worker process, renewed by a thread of its own.

One row says that the process lives, however many runs it holds; a blocked event loop does not stop
it. A worker that holds no run does not renew, so an idle worker writes nothing.
"""

from __future__ import annotations

import _thread
import asyncio
import logging
import threading
from collections.abc import Callable

from holdfast.errors import StoreError
from holdfast.kernel import dispatch
from holdfast.model.commands import RenewLease
from holdfast.ports.store import Store

log = logging.getLogger("holdfast.worker")

HEAD_START = 0.05
"""Seconds until the thread begins: the first runs need the interpreter more."""


class Lease:
    """Keeps the worker's row alive for as long as it holds runs.

    With `threaded=False` it renews by a task of the running loop, for tests on a virtual clock.
    """

    def __init__(
        self,
        store: Store,
        command: RenewLease,
        *,
        renew: float,
        is_needed: Callable[[], bool],
        threaded: bool = True,
    ) -> None:
        self._store, self._renew, self._is_needed = store, renew, is_needed
        self._command = command
        self._fresh_for = command.lease / 1e6 - renew
        self._renewed_at = float("-inf")
        self._threaded = threaded
        self._failing = False
        self._stopped = threading.Event()
        self._began = threading.Event()
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, first: Callable[[], None] | None = None) -> None:
        """Begin to renew. `first` is called in the thread that does it, a moment later."""
        if self._threaded:
            self._thread = threading.Thread(
                target=self._serve, args=(first,), name="holdfast-lease", daemon=True
            )
            # Not here: `Thread.start` waits until the thread runs, and the first runs go on before.
            _thread.start_new_thread(self._begin, (self._thread,))
        else:
            self._task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Renew no more."""
        self._stopped.set()
        if self._thread is not None:
            await asyncio.to_thread(self._began.wait)
            if self._thread.ident is not None:
                await asyncio.to_thread(self._thread.join)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def note(self) -> None:
        """Remember that a write just now renewed the lease too."""
        self._renewed_at = asyncio.get_running_loop().time()

    @property
    def is_fresh(self) -> bool:
        """Tell whether a new run may be held without renewing first."""
        return asyncio.get_running_loop().time() - self._renewed_at < self._fresh_for / 2

    @property
    def command(self) -> RenewLease:
        """The renewal, to be written together with something else."""
        return self._command

    def introduce(self, info: str) -> None:
        """Say this of the worker from the next renewal on."""
        self._command = self._command._replace(info=info)

    def _begin(self, thread: threading.Thread) -> None:
        try:
            if not self._stopped.wait(min(HEAD_START, self._renew)):
                thread.start()
        finally:
            self._began.set()  # also if there can be no more threads: who stops waits for this

    def _serve(self, first: Callable[[], None] | None) -> None:
        if first is not None:
            first()
        pause = self._renew - min(HEAD_START, self._renew)
        while not self._stopped.wait(pause):
            pause = self._renew
            if self._is_needed():
                self._try()

    def _try(self) -> None:
        """Renew in a loop of its own, for which there may be no file left: then next time."""
        renewal = self._once()
        try:
            asyncio.run(renewal)
        except Exception as error:  # whatever it is: a thread that ends renews never again
            renewal.close()
            self._missed(error)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._renew)
            if self._is_needed():
                await self._once()

    async def renew(self) -> None:
        """Renew now. Raises `StoreError`."""
        await self._store.write([dispatch.decide(self._command)])

    async def _once(self) -> None:
        try:
            await self.renew()
        except StoreError as error:
            self._missed(error)
        else:
            self._failing = False

    def _missed(self, error: Exception) -> None:
        if not self._failing:  # told once: it is tried again all the time
            log.warning("the lease could not be renewed: %s", error)
        self._failing = True
