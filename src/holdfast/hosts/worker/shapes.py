"""The shapes of workflows that a worker runs, kept in the store beside their runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.errors import StoreError
from holdfast.fronts.function.workflow import Workflow
from holdfast.kernel import dispatch
from holdfast.model.commands import DefineWorkflow
from holdfast.ports.store import Store

log = logging.getLogger("holdfast.worker")

SOON = 0.1
"""Seconds that chores wait, so that the first runs have the interpreter for themselves."""

Beside = Callable[[Coroutine[Any, Any, None]], None]


class Shapes:
    """Which of them this process has kept."""

    def __init__(self, store: Store, ns: str) -> None:
        self._store, self._ns = store, ns
        self._defined: set[Workflow[..., Any]] = set()

    def keep_later(self, workflows: set[Workflow[..., Any]], beside: Beside) -> None:
        """Have the shapes kept of workflows that this process claims for the first time."""
        if not workflows <= self._defined:
            new = workflows - self._defined
            self._defined |= new
            # The runs begin first: a shape is read from the source.
            asyncio.get_running_loop().call_later(SOON, lambda: beside(self._keep(new)))

    async def _keep(self, workflows: set[Workflow[..., Any]]) -> None:
        listed = sorted((each.name, each.version, each.shape) for each in workflows)
        commands = [DefineWorkflow(self._ns, *each) for each in listed]
        try:
            await self._store.write([dispatch.decide(command) for command in commands])
        except StoreError as error:
            log.warning("the shapes of workflows could not be kept: %s", error)
            self._defined -= workflows
